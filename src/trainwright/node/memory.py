"""Memory limits: a control group where the kernel lets us make one, else a look at the processes twice a second.

The group is made below the one we are in ourselves (cgroup v1), or beside it where the parent hands out memory (v2), so
that whatever limits the caller has still hold for the pods. With a group the kernel stops a container the moment it
asks for too much. Polling sums the proportional set size (shared pages counted once) of the container's processes; what
allocates gigabytes between two looks is seen late. Either way the whole container is killed: OOMKilled, 137.
"""

import asyncio
import contextlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from trainwright.core.objects import Object
from trainwright.placement import amounts

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "trainwright"
_LOOK_SECONDS = 0.5
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLEANUPS = 50


def memory_limit(container: Object) -> int | None:
    """Return the memory limit of a container in bytes, if it has one."""
    return amounts((container.get("resources") or {}).get("limits")).get("memory")


class Limit(ABC):
    """A memory limit on one run of a container."""

    @abstractmethod
    def exceeded(self) -> bool:
        """Look whether the container has used more than it may."""

    @abstractmethod
    def peak(self) -> int:
        """Return the most memory the container has had, in bytes; 0 if that is not known."""

    @abstractmethod
    def close(self) -> None:
        """Forget about it; all its processes have ended."""

    async def wait(self) -> None:
        """Return when the limit was exceeded."""
        while not self.exceeded():  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(_LOOK_SECONDS)


class MemoryLimits:
    """Makes limits, with control groups if there is a place for them."""

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._numbers = itertools.count()

    def limit(self, size: int, pid: int, pids: Callable[[], list[int]]) -> Limit:
        """Limit a process that has just been started, and everything it starts, to so many bytes."""
        if self._parent is not None:
            folder = self._parent / f"{_PREFIX}-{os.getpid()}-{next(self._numbers)}"
            with contextlib.suppress(OSError):
                return _Group(folder, size, pid, pids)
        return _Polled(size, pid, pids)


def group_parent(root: Path = _ROOT, own: str | None = None) -> Path | None:
    """Return the folder to make control groups in, None if there is none; removes what a killed agent left there."""
    own = _own_groups() if own is None else own
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            here = root / "memory" / path.lstrip("/")
            candidates = [here if here.is_dir() else root / "memory"]  # in a container, the root is our own group
        elif not controllers and (root / "cgroup.controllers").exists():
            here = root / path.lstrip("/")
            candidates = [
                folder for folder in (here, *here.parents) if folder.is_relative_to(root) and _hands_out(folder)
            ]
        else:
            continue
        for folder in candidates[:1]:
            if _can_make(folder):
                _sweep(folder)
                return folder
    return None


def pss(pid: int) -> int:
    """Return the memory of a process in bytes, shared pages counted in proportion; 0 once it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    return 0


def descendants(pid: int, among: Iterable[int], known: Iterable[int] = ()) -> set[int]:
    """Return those of the processes that descend from `pid` or from one of `known`."""
    among = set(among)
    parents = {each: _parent(each) for each in among}
    family = {pid, *known} & (among | {pid})
    while True:
        more = {each for each, parent in parents.items() if parent in family} - family
        if not more:
            return family
        family |= more


class _Group(Limit):
    """A control group of version 1 or 2."""

    def __init__(self, folder: Path, size: int, pid: int, pids: Callable[[], list[int]]) -> None:
        self._folder = folder
        self._before = 0
        folder.mkdir()
        try:
            self._set_limit(size)
            self._before = self._kills()
            (folder / "cgroup.procs").write_text(str(pid))
            for each in descendants(pid, pids()) - {pid}:  # what it started before it was moved
                with contextlib.suppress(OSError):
                    (folder / "cgroup.procs").write_text(str(each))
        except OSError:
            self.close()
            raise

    def exceeded(self) -> bool:
        """Look whether the kernel has killed something in the group."""
        try:
            return self._kills() > self._before
        except OSError:
            return False

    def peak(self) -> int:
        """Return what the kernel has counted; older ones of version 2 do not."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError, ValueError):
                return int((self._folder / name).read_text())
        return 0

    def close(self) -> None:
        """Remove the group; the kernel may need a moment until it is empty."""
        self._remove(_CLEANUPS)

    def _remove(self, tries: int) -> None:
        try:
            self._folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if tries:
                with contextlib.suppress(RuntimeError):
                    asyncio.get_running_loop().call_later(0.1, self._remove, tries - 1)

    def _set_limit(self, size: int) -> None:
        v1 = self._folder / "memory.limit_in_bytes"
        if v1.exists():
            v1.write_text(str(size))
            with contextlib.suppress(OSError):  # only where the kernel counts swap
                (self._folder / "memory.memsw.limit_in_bytes").write_text(str(size))
            return
        (self._folder / "memory.max").write_text(str(size))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with contextlib.suppress(OSError):
                (self._folder / name).write_text(value)

    def _kills(self) -> int:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(FileNotFoundError):
                for line in (self._folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0


class _Polled(Limit):
    """A sum that is looked at now and then."""

    def __init__(self, size: int, pid: int, pids: Callable[[], list[int]]) -> None:
        self._size = size
        self._pid = pid
        self._pids = pids
        self._family: set[int] = {pid}
        self._exceeded = False
        self._peak = 0

    def exceeded(self) -> bool:
        """Sum up the processes; remembers that it was too much once."""
        if not self._exceeded:
            self._family = descendants(self._pid, self._pids(), self._family)
            used = sum(map(pss, self._family))
            self._peak = max(self._peak, used)
            self._exceeded = used > self._size
        return self._exceeded

    def peak(self) -> int:
        """Return the most that was seen at a look."""
        return self._peak

    def close(self) -> None:
        """There is nothing to remove."""


def _own_groups() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


def _hands_out(folder: Path) -> bool:
    """Say whether groups made in a v2 folder can limit memory."""
    try:
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _can_make(folder: Path) -> bool:
    trial = folder / f"{_PREFIX}-{os.getpid()}-trial"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return False
    return True


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}-*-*"):
        owner = left.name.split("-")[1]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
