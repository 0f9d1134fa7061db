"""Logs are files: `<root>/logs/<namespace>/<pod>_<uid>/<container>/<restart>.log`, stdout and stderr together.

A process writes into its file itself, so nothing is lost and nobody is in between. Whoever reads, reads the file: from
the start, through all restarts in order, and when following until the container has ended for good and its file was
read to the end. (`kubectl logs` shows the last restart only; here a crash is not hidden by the run after it.
`restart` picks a single one, -1 the last.) When a line was printed `log_times` knows.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from trainwright.cluster.base import Session
from trainwright.core.errors import BadRequest, NotFound
from trainwright.node.log_times import Stamps, Times

CHUNK = 1 << 18
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.25
_TAIL_BYTES, _TAIL_LINES = 2048, 80
LAST, BEFORE = -1, -2
"""The last run of a container, and the one before it."""
_LOG_NAME = re.compile(r"(\d+)\.log")


@dataclass(frozen=True)
class Part:
    """Which lines of each log are wanted, and how."""

    tail: int | None = None
    """So many of the last lines there are now, and what comes after them."""
    since: datetime | None = None
    """Those that were printed then or later."""
    timestamps: bool = False
    """With the time in front of each."""

    def start(self, path: Path) -> int:
        """Return the position in a log from which on it is wanted."""
        since = Times(path).since(self.since) if self.since else 0
        return max(since, last_lines(path, self.tail))


ALL = Part()


def pod_folder(root: Path, namespace: str, pod: str, uid: str) -> Path:
    """Return the folder with the logs of one pod."""
    return root / "logs" / namespace / f"{pod}_{uid}"


def log_path(folder: Path, container: str, restart: int) -> Path:
    """Return the log file of one run of a container of the pod with that folder."""
    return folder / container / f"{restart}.log"


def open_log(path: Path) -> int:
    """Open a log file for a process to append to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def tail(path: Path) -> str:
    """Return the last lines of a log: what stands in for a termination message after a failure."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read(_TAIL_BYTES)
    except OSError:
        return ""
    return "\n".join(data.decode(errors="replace").splitlines()[-_TAIL_LINES:])


class Growth:
    """What a follower must know of a container: which run is the last so far, and whether there will be more."""

    def __init__(self) -> None:
        self.begun = -1
        """The newest run that has a log."""
        self.over = -1
        """The newest run whose log is complete."""
        self.ended = False
        """Whether there will be no other run."""
        self._changed = asyncio.Event()

    def begin(self, restart: int) -> None:
        """Say that a run has a log now."""
        self.begun = restart
        self._wake()

    def finish(self, restart: int) -> None:
        """Say that nothing will be added to the log of a run."""
        self.over = max(self.over, restart)
        self._wake()

    def end(self) -> None:
        """Say that there will be no other run."""
        self.ended, self.over = True, max(self.over, self.begun)
        self._wake()

    async def wait(self, seconds: float) -> bool:
        """Wait for the next of these to be said, or so long; tell whether anything was."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def follow(
    folder: Path, container: str, growth: Growth, only: int | None = None, part: Part = ALL
) -> AsyncIterator[bytes]:
    """Yield the logs of a container, of all its runs or of one, until it has ended and everything was read."""
    restart = only or 0
    while only is None or restart == only:
        while growth.begun < restart and not growth.ended:
            await growth.wait(60)
        if growth.begun < restart:
            return
        async for chunk in _follow_one(log_path(folder, container, restart), restart, growth, part):
            yield chunk
        restart += 1


async def _follow_one(path: Path, restart: int, growth: Growth, part: Part) -> AsyncIterator[bytes]:
    position, pause = part.start(path), _FIRST_LOOK
    stamps = Stamps(path, position) if part.timestamps else None
    while True:
        done = growth.over >= restart  # asked before reading: what is there after the end was there at the end
        async for chunk in _chunks(path, position):
            position += len(chunk)
            pause = _FIRST_LOOK
            yield stamps.put(chunk) if stamps else chunk
        if done:
            return
        woken = await growth.wait(pause)
        pause = _FIRST_LOOK if woken else min(pause * 2, _LAST_LOOK)


async def read(path: Path, part: Part = ALL) -> AsyncIterator[bytes]:
    """Yield what is in a log now."""
    position = part.start(path)
    stamps = Stamps(path, position) if part.timestamps else None
    async for chunk in _chunks(path, position):
        yield stamps.put(chunk) if stamps else chunk


async def _chunks(path: Path, position: int) -> AsyncIterator[bytes]:
    """Yield what is in a file from a position on."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        while chunk := os.pread(file, CHUNK, position):
            position += len(chunk)
            yield chunk
            await asyncio.sleep(0)  # a reader of a long log lets others have their turn
    finally:
        os.close(file)


def last_lines(path: Path, lines: int | None) -> int:
    """Return the position in a file from which on there are so many lines; 0 for all of them."""
    if lines is None:
        return 0
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            return _line_start(file, end, lines)
    except FileNotFoundError:
        return 0


def _line_start(file: BinaryIO, end: int, lines: int) -> int:
    """Return where the last `lines` lines before `end` begin, reading backwards."""
    if not lines:
        return end
    position, wanted = end, lines
    while position:
        start = max(0, position - CHUNK)
        file.seek(start)
        chunk = file.read(position - start)
        at = len(chunk) - 1 if position == end else len(chunk)  # the newline at the very end begins no line
        while (at := chunk.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if not wanted:
                return start + at + 1
        position = start
    return 0


def runs(folder: Path, container: str) -> list[int]:
    """Return the runs of a container that have a log, in order."""
    try:
        entries = list((folder / container).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for entry in entries if (match := _LOG_NAME.fullmatch(entry.name)))


class FileLogs:
    """Logs of pods that are no more, by looking at files only: the logs half of `PodStreams`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, namespace: str, pod: str, uid: str = "") -> Path:
        """Return the folder of a pod; without uid, of the one of that name that started last."""
        if uid:
            return pod_folder(self._root, namespace, pod, uid)
        folders = (self._root / "logs" / namespace).glob(f"{pod}_*")
        found = [(path.stat().st_mtime_ns, path) for path in folders if path.name.rpartition("_")[0] == pod]
        if not found:
            raise NotFound(f"there are no logs of pod {pod!r} in namespace {namespace!r}")
        return max(found)[1]

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        restart: int | None = None,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield what is there; nothing will be added, so `follow` makes no difference."""
        del follow
        part = Part(tail, since, timestamps)
        folder = self.folder(namespace, pod)
        container = container or _only_container(folder)
        found = runs(folder, container)
        if not found:
            known = ", ".join(_containers(folder)) or "none"
            raise NotFound(f"pod {pod!r} has no logs of a container {container!r} (there are: {known})")
        for run in chosen(found, BEFORE if previous else restart):
            async for chunk in read(log_path(folder, container, run), part):
                yield chunk

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: list[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Session:
        """Refuse: nothing runs."""
        del command, container, stdin, tty
        raise BadRequest(f"pod {pod!r} in namespace {namespace!r} is not running; only its logs were kept")


def chosen(found: list[int], restart: int | None) -> list[int]:
    """Return the runs asked for: all of them, or one (-1 is the last)."""
    if restart is None:
        return found
    try:
        return [found[restart]] if restart < 0 else [found[found.index(restart)]]
    except (IndexError, ValueError):
        raise NotFound(f"there is no run {restart} (there are: {', '.join(map(str, found)) or 'none'})") from None


def _containers(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return []


def _only_container(folder: Path) -> str:
    """Return the container meant when none is named: the one that wrote last, as init steps end before it."""
    found = _containers(folder)
    if not found:
        raise NotFound(f"there are no logs in {folder}")
    return max(found, key=lambda name: max((log.stat().st_mtime_ns for log in (folder / name).iterdir()), default=0))
