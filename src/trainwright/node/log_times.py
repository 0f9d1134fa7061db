"""When lines were printed: `<restart>.times` beside `<restart>.log`, pairs of a time and of how long the log was then.

Processes write their logs themselves, so nobody is there when a line is printed. What can be known is how long a log
was when: while it grows it is looked at several times a second, and the time of its last change is noted with its
length. A line is as old as the first note that counts its first byte, which is right to a fraction of a second; what
was printed after the last note is as old as the file.
"""

import asyncio
import contextlib
import os
from array import array
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime
from pathlib import Path

LOOK_SECONDS = 0.2
_NANO = 10**9
_PAIR = 16
_SCAN = 1 << 16


class Timekeeper:
    """Notes how long the logs of one node are while they grow."""

    def __init__(self) -> None:
        self._notes: dict[Path, _Notes] = {}
        self._some = asyncio.Event()

    def begin(self, log: Path) -> None:
        """Look at a log from now on."""
        self._notes[log] = _Notes(log)
        self._some.set()

    def finish(self, log: Path) -> None:
        """Look at a log for the last time."""
        if noted := self._notes.pop(log, None):
            noted.look()

    async def run(self) -> None:
        """Look again and again, for as long as there is anything to look at."""
        while True:
            await self._some.wait()
            for noted in list(self._notes.values()):
                noted.look()
            if not self._notes:
                self._some.clear()
            await asyncio.sleep(LOOK_SECONDS)


class _Notes:
    """The notes about one log, as they are made."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._size = 0
        self._time = 0

    def look(self) -> None:
        with contextlib.suppress(OSError):  # a note that cannot be made only makes times less exact
            seen = self._log.stat()
            if seen.st_size <= self._size:
                return
            self._size, self._time = seen.st_size, max(seen.st_mtime_ns, self._time)
            with _path(self._log).open("ab") as file:
                file.write(array("q", (self._time, self._size)).tobytes())


class Times:
    """The notes about one log, as they are read; also while more are made."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._times = array("q")
        self._sizes = array("q")
        self._read()

    def of(self, position: int) -> tuple[int, int]:
        """Return when the byte at a position was printed, in nanoseconds, and up to where the same holds."""
        if not self._sizes or position >= self._sizes[-1]:
            self._read()
        place = bisect_right(self._sizes, position)
        if place < len(self._sizes):
            return self._times[place], self._sizes[place]
        seen = _stat(self._log)
        if seen is None:
            return self._last, position + 1
        return max(seen.st_mtime_ns, self._last), max(seen.st_size, position + 1)

    def since(self, moment: datetime) -> int:
        """Return the position of the first line that was printed at a moment or later."""
        wanted = int(moment.timestamp() * _NANO)
        place = bisect_left(self._times, wanted)
        seen = _stat(self._log)
        if place == len(self._times) and (seen is None or seen.st_mtime_ns < wanted):
            return seen.st_size if seen else 0
        return _next_line(self._log, self._sizes[place - 1] if place else 0)

    @property
    def _last(self) -> int:
        return self._times[-1] if self._times else 0

    def _read(self) -> None:
        """Read the notes that were made since the last time."""
        with contextlib.suppress(FileNotFoundError), _path(self._log).open("rb") as file:
            file.seek(len(self._sizes) * _PAIR)
            data = file.read()
            more = array("q", data[: len(data) // _PAIR * _PAIR])
            self._times += more[0::2]
            self._sizes += more[1::2]


class Stamps:
    """Puts in front of each line of one log when it was printed, piece by piece from some position on."""

    def __init__(self, log: Path, position: int) -> None:
        self._times = Times(log)
        self._position = position
        self._open_line = False

    def put(self, piece: bytes) -> bytes:
        """Return the next piece of the log with a time in front of each line that begins in it."""
        stamped = []
        while piece:
            time, until = self._times.of(self._position)
            same, piece = piece[: until - self._position], piece[until - self._position :]
            stamped.append(prefixed(same, f"{written(time)} ".encode(), open_line=self._open_line))
            self._open_line = not same.endswith(b"\n")
            self._position += len(same)
        return b"".join(stamped)


def written(nanoseconds: int) -> str:
    """Return a time as kubelets write it before a line: always as long, so that times sort as text."""
    seconds, rest = divmod(nanoseconds, _NANO)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def prefixed(piece: bytes, prefix: bytes, *, open_line: bool) -> bytes:
    """Return a piece with the prefix in front of each of its lines; not of the first if that has begun already."""
    whole = piece.endswith(b"\n")
    body = (piece[:-1] if whole else piece).replace(b"\n", b"\n" + prefix)
    return (b"" if open_line else prefix) + body + (b"\n" if whole else b"")


def _path(log: Path) -> Path:
    return log.with_suffix(".times")


def _stat(log: Path) -> os.stat_result | None:
    try:
        return log.stat()
    except FileNotFoundError:
        return None


def _next_line(log: Path, position: int) -> int:
    """Return where the first line begins at a position or after it."""
    if not position:
        return 0
    with log.open("rb") as file:
        file.seek(position - 1)
        start = position - 1
        while chunk := file.read(_SCAN):
            if (end := chunk.find(b"\n")) >= 0:
                return start + end + 1
            start += len(chunk)
        return start
