"""Which isolation this machine allows: found out by doing it, because only a full trial tells.

Some machines refuse a namespace, others allow it and refuse what has to be done in it. The trial makes one pod for
real in a helper process that ends afterwards.
"""

import errno
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from trainwright.core.errors import HomeError
from trainwright.node.base import Isolation, IsolationName, Trial
from trainwright.node.channel import Channel, Message
from trainwright.node.net import NetIsolation
from trainwright.node.pods import launch
from trainwright.node.ports import PortsIsolation

_TRIAL_SECONDS = 20.0
_NO_PIDS = (
    "no pid namespace: /proc has masked paths here, so pods see the machine's processes "
    "(in Docker, --security-opt systempaths=unconfined lifts that)"
)
_SHARED = (
    "pods share 127.0.0.1 and have no host names of their own",
    "no volumes at other paths than their own, except an emptyDir at /dev/shm",
)

_LIMITS = {
    "user namespace": "user.max_user_namespaces",
    "network namespace": "user.max_net_namespaces",
    "mount namespace": "user.max_mnt_namespaces",
}
_SETTINGS = (
    ("kernel/unprivileged_userns_clone", "0", "as root: sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts it; as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


def trial() -> dict[IsolationName, Trial]:
    """Try every isolation and return what was found out."""
    return {"net": try_net(), "ports": Trial(True, limits=_SHARED)}


def choose(
    name: Literal["auto"] | IsolationName = "auto", attempt: Callable[[], Trial] | None = None
) -> tuple[Isolation, str]:
    """Return the isolation to use and one sentence about it; HomeError when the one asked for does not work."""
    if name == "ports":
        return PortsIsolation(), f"isolation ports, as asked: {'; '.join(_SHARED)}"
    found = (attempt or try_net)()
    if found.works:
        return NetIsolation(), "; ".join(
            ("isolation net: each pod has its own address, host name and files", *found.limits)
        )
    if name == "net":
        raise HomeError(f"isolation net does not work on this machine: {found.reason}; or use --isolation ports")
    return PortsIsolation(), f"isolation ports, because net does not work here ({found.reason}): {'; '.join(_SHARED)}"


def try_net() -> Trial:
    """Make one pod in namespaces and say how far that went."""
    with NetTrial() as attempt:
        return attempt.result()


class NetTrial:
    """One pod made in namespaces by a helper process; it begins at once, while the caller may do other things."""

    def __init__(self) -> None:
        self._answer: socket.socket | None = None
        if sys.platform.startswith("linux"):
            self._answer, theirs = socket.socketpair()
            with theirs:
                self._helper = launch(theirs, namespaces=True, trial=True)

    def __enter__(self) -> "NetTrial":
        return self

    def __exit__(self, *error: object) -> None:
        if self._answer is not None:
            self._answer.close()
            self._helper.kill()
            self._helper.wait()

    def result(self) -> Trial:
        """Wait for the end of the trial and say how far it went."""
        if self._answer is None:
            return Trial(False, f"namespaces are a feature of Linux, and this is {sys.platform}")
        self._answer.settimeout(_TRIAL_SECONDS)
        try:
            received = Channel(self._answer).receive()
        except TimeoutError:
            return Trial(False, f"the trial did not end within {_TRIAL_SECONDS:g} s")
        if not received:
            return Trial(False, "the trial ended without a word")
        return _judge(received[0].message)


def _judge(said: Message) -> Trial:
    if "error" not in said:
        return Trial(True, limits=() if said["pids"] else (_NO_PIDS,))
    cure = _cure(said.get("step", ""), said.get("errno", 0))
    return Trial(False, f"{said['error']} ({cure})" if cure else said["error"])


def _cure(step: str, number: int, proc: Path = Path("/proc"), root: Path = Path("/")) -> str:
    """Say what would help against a step that failed with an error number."""
    if number == errno.ENOSPC and step in _LIMITS:
        return f"the limit {_LIMITS[step]} is reached; as root: sysctl -w {_LIMITS[step]}=15000"
    if number in (errno.EOPNOTSUPP, errno.ENODEV, errno.EAFNOSUPPORT):
        return "the kernel module is missing; as root: modprobe -a bridge veth"
    if number == errno.EINVAL and step == "user namespace":
        return "the kernel was built without user namespaces; run as root"
    if number not in (errno.EPERM, errno.EACCES):
        return ""
    for setting, bad, cure in _SETTINGS:
        if _read(proc / "sys" / setting) == bad:
            return cure
    contained = any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
    if contained or "\nSeccomp:\t2" in _read(proc / "self/status"):
        return (
            "a container's seccomp or AppArmor profile refuses it; start that container with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        )
    return "a security policy of this machine refuses it; run as root"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
