"""Run a command as a user without any privilege, when the tests themselves run as root.

    subprocess.run(plain_user_command(["tw", "run", "job.yaml"], home=tmp_path))

Nothing of the host is changed. In a mount namespace of its own, folders that only root may enter (`/root`, where the
interpreter and the caches may live) are covered by copies that everybody may enter, the entries themselves keeping
their own permissions; `/etc/passwd` gets a line for the user; then uid, gid and groups are dropped, and with them every
capability. Where the tests are not run by root, the command stays as it is.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainwright.node import linux, mounts

ROOT = Path(__file__).resolve().parent.parent
UID = 64321
NAME = "plain"


def plain_user_command(
    argv: Sequence[str], *, home: Path, reach: Iterable[Path] = (), mask: Iterable[str] = ()
) -> list[str]:
    """Return the command that runs `argv` as a plain user whose home folder is `home`.

    The user can enter the repository, this Python and the folders in `reach`, and can write only in `home`. Folders in
    `mask` look empty, as container runtimes do it with parts of /proc: the kernel then allows no fresh /proc.
    """
    if os.geteuid():
        return [*argv]
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, UID, UID)
    options = json.dumps({"home": str(home), "reach": [str(path) for path in reach], "mask": [*mask]})
    return [sys.executable, "-P", __file__, options, *argv]


def _main(arguments: str, argv: list[str]) -> None:
    options = json.loads(arguments)
    home = Path(options["home"])
    linux.unshare(linux.NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    python = [Path(sys.executable), Path(sys.executable).resolve(), Path(sys.prefix), Path(sys.base_prefix)]
    for path in (ROOT, home, *python, Path.home() / ".cache" / "x", *map(Path, options["reach"])):
        _open_way_to(path)
    for path in options["mask"]:
        linux.mount("tmpfs", path, "tmpfs", linux.MS_RDONLY)
    _add_to_passwd(home)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    os.execvpe(argv[0], argv, env | {"HOME": str(home), "USER": NAME, "LOGNAME": NAME})


def _open_way_to(path: Path) -> None:
    for folder in reversed(path.absolute().parents):
        if folder.exists() and not folder.stat().st_mode & 0o001:
            mounts.cover(str(folder), mode=0o755)


def _add_to_passwd(home: Path) -> None:
    copy = home / ".passwd"  # it stays: what is gone cannot be mounted again, as a pod does with all of /etc
    copy.write_text(Path("/etc/passwd").read_text() + f"{NAME}:x:{UID}:{UID}::{home}:/bin/sh\n")
    copy.chmod(0o644)
    linux.mount(str(copy), "/etc/passwd", flags=linux.MS_BIND)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
