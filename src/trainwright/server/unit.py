"""The systemd unit of a server, for one user or for the whole machine."""

import os
import shlex
from collections.abc import Sequence

_UNIT = """\
# {where}
[Unit]
Description=Trainwright: training jobs on this machine
After=network.target

[Service]
ExecStart={command}
# Pods end within their own grace, then the server does; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=90
Restart=on-failure
{more}
[Install]
WantedBy={target}
"""
_OF_ROOT = """\
# As root: systemctl enable --now trainwright, with this file in /etc/systemd/system/trainwright.service"""
_OF_USER = """\
# systemctl --user enable --now trainwright, with this file in ~/.config/systemd/user/trainwright.service
# To go on without anybody logged in: loginctl enable-linger"""


def unit(command: Sequence[str]) -> str:
    """Return the unit that runs a command: for everybody if we are root, else for this user."""
    root = os.getuid() == 0
    return _UNIT.format(
        where=(_OF_ROOT if root else _OF_USER).removeprefix("# "),
        command=shlex.join(command),
        more="RuntimeDirectory=trainwright\nDelegate=yes\n" if root else "",
        target="multi-user.target" if root else "default.target",
    )
