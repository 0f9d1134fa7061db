"""Files and folders at the paths a manifest names, seen by one pod or container only.

A path that does not exist is the interesting case. Where the folder above it belongs to the system (`/etc/mpi`,
`/workspace`), nothing is made on the host: that folder is covered by a small file system in memory in which every entry
of the original is mounted again, and there the path can be made, also by a plain user. The root folder is no
different, except that the process has to move into the copy. Elsewhere (a home, a project, another volume) the path
is made in place, as a container runtime would.
"""

from __future__ import annotations

import os
import stat

from trainwright.node import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SYSTEM = frozenset(
    (
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "media",
        "mnt",
        "opt",
        "run",
        "sbin",
        "srv",
        "usr",
        "var",
    )
)
_KERNEL = frozenset(("proc", "sys"))
_KEPT = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC | linux.MS_NOATIME | linux.MS_NODIRATIME


class MountError(Exception):
    """A mount that could not be made, in words."""


def apply(mounts: Sequence[tuple[str, str, bool, bool]]) -> None:
    """Make mounts (source, target, read only, optional) in this mount namespace, outer folders first."""
    ordered = sorted(mounts, key=lambda mount: os.path.normpath(mount[1]).count("/"))
    for _, target, _, _ in ordered:
        if not os.path.isabs(target):
            raise MountError(f"volume at {target!r}: the path must be absolute")
    # Moving to a new root comes first: sources that are already open would stay behind in the old one.
    missing = {os.path.normpath(target).split("/")[1] for _, target, _, _ in ordered}
    if any(name and not os.path.lexists(f"/{name}") for name in missing):
        _copy_root()
    # Sources are opened before anything is mounted: a volume may cover the place another one comes from.
    sources = [_open(source, target, optional) for source, target, _, optional in ordered]
    placed: list[str] = []
    for fd, (source, target, read_only, optional) in zip(sources, ordered, strict=True):
        if fd is None:
            continue
        try:
            _place(fd, target, placed, read_only=read_only)
        except OSError as error:
            if not optional:
                raise MountError(f"volume at {target!r} (from {source}): {_words(error)}") from error
        finally:
            os.close(fd)


def _open(source: str, target: str, optional: bool) -> int | None:
    try:
        return os.open(source, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if optional:
            return None
        raise MountError(f"volume at {target!r}: {source}: {_words(error)}") from error


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _place(fd: int, target: str, placed: list[str], *, read_only: bool) -> None:
    target = os.path.realpath(target)
    folder = stat.S_ISDIR(os.stat(fd).st_mode)
    if not os.path.lexists(target):
        _make(target, placed, folder=folder)
    linux.mount(f"/proc/self/fd/{fd}", target, flags=linux.MS_BIND | linux.MS_REC)
    if read_only:
        # The kernel refuses a remount that drops flags the source came with.
        kept = os.statvfs(target).f_flag & _KEPT
        linux.mount("none", target, flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | kept)
    placed.append(target)


def _make(target: str, placed: list[str], *, folder: bool) -> None:
    """Make an empty folder or file at `target` to mount on."""
    above = os.path.dirname(target)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if above.split("/")[1] in _KERNEL:
        raise OSError(0, f"{above} belongs to the kernel, nothing can be made there")
    if not _ours(above, placed):
        cover(above)
    try:
        _make_in_place(target, folder=folder)
    except OSError:  # a read-only volume, for instance
        cover(above)
        _make_in_place(target, folder=folder)


def _make_in_place(target: str, *, folder: bool) -> None:
    os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def _ours(folder: str, placed: list[str]) -> bool:
    """Say whether a path may be made in `folder` as it is: a volume of the pod, or not the system's."""
    if any(folder == path or folder.startswith(f"{path}/") for path in placed):
        return True
    if _in_memory(folder):
        return True
    if not os.access(folder, os.W_OK):
        return False
    if os.stat(folder).st_mode & stat.S_ISVTX:  # /tmp and its like are everybody's
        return True
    return folder != "/home" and folder.split("/")[1] not in _SYSTEM | {""}


_covers: set[int] = set()
"""The devices of the copies made here."""


def _in_memory(folder: str) -> bool:
    return os.stat(folder).st_dev in _covers


def cover(folder: str, mode: int | None = None, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Cover a folder with a copy in memory in which everything that is there is mounted again.

    `mode` gives the copy other permissions than the original has; `wanted` says which entries it has.
    """
    if folder == "/":
        _copy_root()
        return
    names = [name for name in _names(folder) if wanted(name)]
    below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.stat(below).st_mode) if mode is None else mode
        linux.mount("tmpfs", folder, "tmpfs", data=f"mode={mode:o}")
        _covers.add(os.stat(folder).st_dev)
        for name in names:
            _mount_again(f"/proc/self/fd/{below}/{name}", f"{folder}/{name}")
    finally:
        os.close(below)


def _copy_root() -> None:
    entries = {name: os.open(f"/{name}", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for name in _names("/")}
    try:
        # Any folder will do to build the copy on: it is seen by nobody once we have moved into it.
        base = next(name for name in ("tmp", "mnt", "usr") if os.path.isdir(f"/{name}"))
        place = f"/{base}"
        linux.mount("tmpfs", place, "tmpfs", data="mode=755")
        # Mounting that folder again brings along what now covers it. First, while that is still empty: take it off.
        _mount_again(f"/proc/self/fd/{entries[base]}", f"{place}/{base}", os.stat)
        linux.unmount(f"{place}/{base}")
        for name in entries.keys() - {base}:
            fd = entries[name]
            if stat.S_ISLNK(os.stat(fd).st_mode):
                os.symlink(os.readlink("", dir_fd=fd), f"{place}/{name}")
            else:
                _mount_again(f"/proc/self/fd/{fd}", f"{place}/{name}", os.stat)
    finally:
        for fd in entries.values():
            os.close(fd)
    linux.enter_root(place)
    _covers.add(os.stat("/").st_dev)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except PermissionError:  # what cannot be listed could not be used either
        return []


def _mount_again(source: str, target: str, look: Callable[[str], os.stat_result] = os.lstat) -> None:
    try:
        mode = look(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        linux.mount(source, target, flags=linux.MS_BIND | linux.MS_REC)
    except OSError:  # an entry that even its owner may not see is left out, as a container would
        return
