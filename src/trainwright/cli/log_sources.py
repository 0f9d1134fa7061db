"""Where the lines of a container come from: its files where those are on this machine, else the API; always with times.

Files have every run of a container and of the pods that had its name before. The API has the last run and the one
before it. Either way a source goes on through restarts while it is followed, and ends when its container has.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from trainwright.cli.time_order import sortable
from trainwright.cluster.base import Cluster
from trainwright.core.errors import BadRequest, ClusterError, NotFound
from trainwright.core.objects import Object, at, moment
from trainwright.node import logs
from trainwright.node.logs import Growth, Part

_AGAIN_SECONDS = 0.5
"""Between two tries to take up a stream that broke; four times as long a log's end may be ahead of the news of it."""
_LONG = 60.0


@dataclass(frozen=True)
class Asked:
    """Which lines of each container are wanted."""

    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since: datetime | None = None

    @property
    def part(self) -> Part:
        """Return the same for one log."""
        return Part(self.tail, self.since, timestamps=True)


def learn(growth: Growth, pod: Object, container: str, *, gone: bool = False) -> None:
    """Take from a pod which runs of a container there are, and whether there will be others."""
    status = pod.get("status") or {}
    states = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    known: Object = next((each for each in states if each["name"] == container), {})
    run, state = int(known.get("restartCount") or 0), known.get("state") or {}
    has_ended = "terminated" in state or bool(at(known, ("lastState", "terminated")))
    if "running" in state or has_ended:
        growth.begin(max(run, growth.begun))
    growth.finish(run if has_ended and "running" not in state else run - 1)
    if gone or status.get("phase") in ("Succeeded", "Failed") or _is_done(pod, container, state):
        growth.end()


def _is_done(pod: Object, container: str, state: Object) -> bool:
    """Say whether a container that has ended is not started again: an init step, or one that may run once only."""
    spec = pod.get("spec") or {}
    if "terminated" not in state:
        return False
    code = state["terminated"].get("exitCode", 0)
    if any(each["name"] == container for each in spec.get("initContainers") or ()):
        return not code
    policy = spec.get("restartPolicy", "Always")
    return policy == "Never" or (policy == "OnFailure" and not code)


async def from_files(folder: Path, container: str, growth: Growth, asked: Asked) -> AsyncIterator[bytes]:
    """Yield what the runs of a container have printed, from its files in the folder of its pod."""
    found = logs.runs(folder, container)
    if asked.previous:
        for run in found[-2:-1]:
            async for piece in _whole(logs.read(logs.log_path(folder, container, run), asked.part)):
                yield piece
        return
    if asked.follow:
        first = found[-1] if asked.tail is not None and found else 0
        async for piece in _followed(folder, container, growth, asked, first):
            yield piece
        return
    for run in _last_runs(folder, container, found, asked.tail):
        async for piece in _whole(logs.read(logs.log_path(folder, container, run), asked.part)):
            yield piece


def _last_runs(folder: Path, container: str, found: list[int], tail: int | None) -> list[int]:
    """Return the runs that are wanted: with `tail` only the last one that has printed anything."""
    if tail is None:
        return found
    spoken = [run for run in found if logs.log_path(folder, container, run).stat().st_size]
    return spoken[-1:]


async def _followed(folder: Path, container: str, growth: Growth, asked: Asked, first: int) -> AsyncIterator[bytes]:
    """Yield every run from one on; what was there before this began may be asked for in part only."""
    run, part = first, asked.part
    while True:
        while growth.begun < run and not growth.ended:
            await growth.wait(_LONG)
        if growth.begun < run and run not in logs.runs(folder, container):
            return
        async for piece in _whole(logs.follow(folder, container, growth, run, part)):
            yield piece
        run, part = run + 1, replace(part, tail=None)


async def from_api(
    cluster: Cluster, pod: Object, container: str, growth: Growth, asked: Asked, pause: float = _AGAIN_SECONDS
) -> AsyncIterator[bytes]:
    """Yield what the last runs of a container have printed, as the API tells it."""
    source = _Api(cluster, pod["metadata"]["namespace"], pod["metadata"]["name"], container, pause)
    if growth.begun > 0 and (asked.previous or asked.tail is None):
        async for piece in _whole(source.read(previous=True, tail=asked.tail, since=asked.since)):
            yield piece
    if asked.previous:
        return
    if not asked.follow:
        if growth.begun >= 0:
            async for piece in _whole(source.read(tail=asked.tail, since=asked.since)):
                yield piece
        return
    async for piece in source.follow(growth, asked):
        yield piece


@dataclass
class _Api:
    """The log of one container behind an API."""

    cluster: Cluster
    namespace: str
    pod: str
    container: str
    pause: float

    async def read(
        self,
        *,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: datetime | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield one run; nothing where the API has none (any more)."""
        with suppress(NotFound, BadRequest):
            async for piece in self.cluster.logs(
                self.namespace,
                self.pod,
                container=self.container,
                follow=follow,
                previous=previous,
                tail=tail,
                since=since,
                timestamps=True,
            ):
                yield piece

    async def follow(self, growth: Growth, asked: Asked) -> AsyncIterator[bytes]:
        """Yield the run that goes on and those after it; a stream that breaks is taken up where it was."""
        tail, since = asked.tail, asked.since
        while True:
            while growth.begun < 0 and not growth.ended:
                await growth.wait(_LONG)
            if growth.begun < 0:
                return
            run, resumed = growth.begun, _Resumed(since)
            while True:
                with suppress(ClusterError, OSError):
                    async for piece in _whole(self.read(follow=True, tail=tail, since=resumed.since)):
                        if new := resumed.new(piece):
                            yield new
                tail = None
                if await _is_over(growth, run, self.pause * 4):
                    break
                await asyncio.sleep(self.pause)
                resumed.begin_again()
            since = None
            while growth.begun <= run and not growth.ended:
                await growth.wait(_LONG)
            if growth.begun <= run:
                return


async def _is_over(growth: Growth, run: int, doubt: float) -> bool:
    """Say whether a run has ended, and not only its stream; the news of it may take a moment."""
    if growth.over < run and not growth.ended:
        await growth.wait(doubt)
    return growth.over >= run or growth.ended


class _Resumed:
    """Remembers how far a log was read, so that nothing of it is told twice after its stream broke."""

    def __init__(self, since: datetime | None) -> None:
        self.since = since
        self._last = b""
        """The time of the last line that was told."""
        self._same = 0
        """How many lines with that time were told."""
        self._again = 0
        """How many of those are still to come once more."""

    def begin_again(self) -> None:
        """Expect the lines from the last time on once more."""
        if self._last:
            self.since = moment(self._last.decode())
            self._again = self._same

    def new(self, piece: bytes) -> bytes:
        """Return the lines of a piece that were not told before; pieces are whole lines."""
        if self._again:
            piece = b"".join(line for line in _lines(piece) if self._is_new(line))
        if piece:
            self._note(piece)
        return piece

    def _is_new(self, line: bytes) -> bool:
        if not self._again:
            return True
        time = line.partition(b" ")[0]
        if time == self._last:
            self._again -= 1
            return False
        if sortable(time.decode(errors="replace")) < sortable(self._last.decode(errors="replace")):
            return False  # the API knows whole seconds only, and so begins too early
        self._again = 0
        return True

    def _note(self, piece: bytes) -> None:
        time = piece[piece.rfind(b"\n", 0, -1) + 1 :].partition(b" ")[0]
        count = piece.count(b"\n" + time + b" ") + piece.startswith(time + b" ")
        self._same = self._same + count if time == self._last else count
        self._last = time


def _lines(piece: bytes) -> Iterator[bytes]:
    """Yield lines, which end at a newline only: a progress bar moves within one line."""
    return (line + b"\n" for line in piece[:-1].split(b"\n"))


async def _whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces that end where a line ends: what one run left open is a line, too."""
    begun: list[bytes] = []
    async for piece in pieces:
        whole, end, rest = piece.rpartition(b"\n")
        if end:
            yield b"".join((*begun, whole, end))
            begun.clear()
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join((*begun, b"\n"))
