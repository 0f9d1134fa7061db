"""The recent changes of a memory cluster, and the watches that walk along them.

Changes of one resource form a chain. A watch holds only its place in it, so a slow watch costs nothing and holds up
nobody; when the changes it has not seen yet are forgotten, it is told to list again (Expired), as by the API server.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainwright.cluster.base import Change
from trainwright.cluster.selectors import Test
from trainwright.core.errors import BadRequest, Expired
from trainwright.core.objects import Object

Key = tuple[str, str]
"""Namespace and name."""

_TURN = 64
"""So many changes a watch hands out in a row before it lets others run."""


class Record:
    """One change, and the next one."""

    __slots__ = ("after", "before", "last", "next", "version")

    def __init__(self, version: int, before: Object | None, after: Object | None, last: Object) -> None:
        self.version = version
        self.before = before
        self.after = after
        self.last = last
        """What watches show: the new state, or the final one with the version of the deletion."""
        self.next: Record | None = None


_LOST = Record(0, None, None, {})
"""Stands where the chain was cut: who gets here was too slow."""


class Table:
    """All objects of one resource, and the chain of their recent changes."""

    def __init__(self, version: int) -> None:
        self.objects: dict[Key, Object] = {}
        self._order: list[Key] = []
        self._waiting: dict[Watch, asyncio.Future[Change | None]] = {}
        self._floor = self.tail = Record(version, None, None, {})

    def begin(self, objects: dict[Key, Object], version: int) -> None:
        """Hold these objects and no history: changes after `version` will be known, earlier ones are not."""
        self.objects = objects
        self._order = sorted(objects)
        self._floor = self.tail = Record(version, None, None, {})

    def items(self) -> list[Object]:
        """Return all objects by namespace and name."""
        if len(self._order) != len(self.objects):
            self._order = sorted(self.objects)
        return [self.objects[key] for key in self._order]

    def put(self, key: Key, record: Record) -> None:
        """Make a change, and hand it to every watch that waits for one."""
        if record.after is None:
            del self.objects[key]
        else:
            self.objects[key] = record.after
        if record.before is None or record.after is None:
            self._order = []
        self.tail.next = record
        self.tail = record
        for watch, future in self._waiting.items():
            if future.done():
                continue  # it was handed an earlier change and walks the chain from there
            watch.position = record
            if change := watch.shown(record):
                future.set_result(change)

    def forget(self, record: Record) -> None:
        """Forget the oldest change. Cutting the chain before it keeps slow watches from holding all that followed."""
        self._floor.next = _LOST
        self._floor = record

    def start(self, since: str, current: int, matches: Test | None) -> "Start":
        """Return where a watch from version `since` begins; Expired when changes after it are forgotten already."""
        if since in ("", "0"):
            present = [obj for obj in self.items() if matches is None or matches(obj)]
            return Start(self, self.tail, matches, present)
        if not since.isdigit():
            raise BadRequest(f"invalid resource version {since!r}: expected what a list or an object says")
        version = int(since)
        if version > current:
            raise Expired(f"too large resource version: {version}, current: {current}")
        if version < self._floor.version:
            raise Expired(f"too old resource version: {version} ({self._floor.version})")
        if version >= self.tail.version:
            return Start(self, self.tail, matches)
        record = self._floor
        while record.next and record.next.version <= version:
            record = record.next
        return Start(self, record, matches)

    async def wait(self, watch: "Watch") -> Change | None:
        """Return the next change `watch` wants to show; None when it was closed."""
        future: asyncio.Future[Change | None] = asyncio.get_running_loop().create_future()
        self._waiting[watch] = future
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and (change := future.result()):
                watch.backlog.appendleft(change)  # handed over while the reader was cancelled: not lost
            raise
        finally:
            del self._waiting[watch]

    def close(self, watch: "Watch") -> None:
        """Wake a watch that is closed."""
        future = self._waiting.get(watch)
        if future and not future.done():
            future.set_result(None)


@dataclass(frozen=True)
class Start:
    """Where a watch begins, and through which selectors it looks."""

    table: Table
    position: Record
    matches: Test | None = None
    present: Sequence[Object] = ()
    """Shown as ADDED before anything else."""


class Watch:
    """One watch: its place in the chain of changes, and what it wants to see.

    An iterator of its own rather than a generator: a reader that was cancelled, by a timeout say, may go on reading.
    """

    def __init__(self, start: Callable[[], Start]) -> None:
        self._begin = start
        self._start: Start | None = None
        self._turn = 0
        self._closed = False
        self.backlog: deque[Change] = deque()
        self.position = _LOST

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        self._turn = (self._turn + 1) % _TURN
        if not self._turn:
            await asyncio.sleep(0)
        if self._closed:
            raise StopAsyncIteration
        if self._start is None:
            self._start = self._begin()
            self.position = self._start.position
            self.backlog.extend(Change("ADDED", obj) for obj in self._start.present)
        if self.backlog:
            return self.backlog.popleft()
        while (record := self.position.next) is not None:
            if record is _LOST:
                raise Expired(f"too old resource version: {self.position.version}: the watch was too slow")
            self.position = record
            if change := self.shown(record):
                return change
        if change := await self._start.table.wait(self):
            return change
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the watch; who waits for its next change is told."""
        self._closed = True
        if self._start:
            self._start.table.close(self)

    def shown(self, record: Record) -> Change | None:
        """Return how a change looks through the selectors; None if it does not show."""
        matches = self._start.matches if self._start else None
        was = record.before is not None and (matches is None or matches(record.before))
        if record.after is not None and (matches is None or matches(record.after)):
            return Change("MODIFIED" if was else "ADDED", record.last)
        if not was:
            return None
        if record.after is None or record.before is None:
            return Change("DELETED", record.last)
        # What stops matching is shown as it was when it last matched, as the API server does.
        return Change("DELETED", stamped(record.before, record.version))


def stamped(obj: Object, version: int) -> Object:
    """Return an object as of a version."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
