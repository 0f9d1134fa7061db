"""System calls that Python does not have, and the process tree as /proc tells it.

Loaded by the helper processes (zygote, pod init, supervisor), so it imports almost nothing: every import is paid for in
the start of the first pod. On systems without these calls only the process tree works (through `ps`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_SLAVE = 1 << 10, 1 << 11, 1 << 12, 1 << 14, 1 << 19
MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 15, 36, 38
_CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)
_HAS_PRCTL = sys.platform.startswith("linux")


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _call("unshare", ctypes.c_int(flags))


def setns(fd: int, kind: int) -> None:
    """Join the namespace that `fd` refers to."""
    _call("setns", ctypes.c_int(fd), ctypes.c_int(kind))


def control_terminal(fd: int) -> None:
    """Make the terminal `fd` the one that this session obeys."""
    import fcntl  # only an exec with a terminal pays for these
    import termios

    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount `source` at `target`."""
    words = [ctypes.c_char_p(os.fsencode(word) if word else None) for word in (source, target, kind, data)]
    _call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])


def unmount(target: str) -> None:
    """Take a mount away; whoever still uses it keeps it."""
    _call("umount2", ctypes.c_char_p(os.fsencode(target)), ctypes.c_int(MNT_DETACH))


def enter_root(folder: str) -> None:
    """Make `folder`, a mount of its own, the root of this mount namespace."""
    os.chdir(folder)
    try:
        # The old root ends up on top of the new one and is then taken away: no folder is needed to hold it.
        _call("pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
        unmount(".")
    except (AttributeError, OSError):  # no wrapper in this libc, or the root is an initramfs
        os.chroot(".")
    os.chdir("/")


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    if _HAS_PRCTL:
        _call("prctl", ctypes.c_int(_PR_SET_CHILD_SUBREAPER), *[ctypes.c_ulong(n) for n in (1, 0, 0, 0)])


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent ends. It is the parent's *thread* that counts: fork from main threads only."""
    if _HAS_PRCTL:
        _call("prctl", ctypes.c_int(_PR_SET_PDEATHSIG), *[ctypes.c_ulong(n) for n in (signal.SIGKILL, 0, 0, 0)])


def no_new_privileges() -> None:
    """Give up for good, also for children, that starting a program may give rights its user does not have."""
    if _HAS_PRCTL:
        _call("prctl", ctypes.c_int(_PR_SET_NO_NEW_PRIVS), *[ctypes.c_ulong(n) for n in (1, 0, 0, 0)])


def rename(name: str) -> None:
    """Take another name in process lists, so that a pod that ends every "python" it sees spares its supervision."""
    if _HAS_PRCTL:
        _call("prctl", ctypes.c_int(_PR_SET_NAME), ctypes.c_char_p(name.encode()))


def may_administer() -> bool:
    """Say whether this process may make namespaces without a user namespace of its own."""
    try:
        with open("/proc/self/status") as status:
            words = next(line.split() for line in status if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return False
    return bool(int(words[1], 16) >> _CAP_SYS_ADMIN & 1)


def enter_user_namespace() -> None:
    """Enter a user namespace as the same user: all capabilities here, until the next exec."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEWUSER)
    # setgroups must be denied first, or the kernel refuses gid_map.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def join_network(pid: int) -> None:
    """Join the network namespace of a process of the same user's, and its user namespace if that takes one."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not may_administer():
            users = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            setns(users, NEWUSER)
            os.close(users)
        setns(network, NEWNET)
    finally:
        os.close(network)


def may_be_joined() -> None:
    """Let other processes of the same user join our namespaces, which having entered a user namespace forbids."""
    _call("prctl", ctypes.c_int(_PR_SET_DUMPABLE), *[ctypes.c_ulong(n) for n in (1, 0, 0, 0)])


def parents() -> dict[int, int]:
    """Return every process that can be seen, with its parent."""
    if not os.path.exists("/proc/self/stat"):
        return _parents_by_ps()
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            except OSError:  # it has ended meanwhile
                continue
            try:
                # "12 (a name) with) spaces) S 1 …": the name ends at the last parenthesis
                found[int(name)] = int(os.read(fd, 512).rpartition(b")")[2].split(None, 2)[1])
            except (OSError, IndexError):
                pass
            finally:
                os.close(fd)
    return found


def _parents_by_ps() -> dict[int, int]:
    with os.popen("ps -axo pid=,ppid=") as lines:  # noqa: S605 - a constant
        return {int(pid): int(parent) for pid, parent in (line.split() for line in lines)}


def descendants(root: int, tree: dict[int, int]) -> set[int]:
    """Return all processes of `tree` below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in tree.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def marked(mark: str) -> set[int]:
    """Return the processes that were started with `mark`, a "NAME=value", in their environment."""
    if not os.path.exists("/proc/self/environ"):
        with os.popen("ps -axEwwo pid=,command=") as lines:  # noqa: S605 - a constant
            return {int(line.split(None, 1)[0]) for line in lines if f" {mark}" in line}
    wanted = os.fsencode(mark)
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.add(int(name))
            except OSError:  # it has ended, or is somebody else's
                continue
    return found
