"""The lines of many logs as one stream in the order of their times, whole and none of them twice.

Each log arrives in pieces with a time in front of every line. A line is passed on once no other log can still bring an
earlier one: every other log has a later line at hand, has ended, or has been silent for a moment. What has arrived and
was not taken is limited log by log; whoever brings more waits, so a reader that stops reading stops everything.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import NamedTuple

SETTLE_SECONDS = 0.3
"""A log that has brought nothing for so long holds the others up no more."""
MOST_BYTES = 1 << 18
"""So much of one log may wait to be taken; more only if that is a single line."""
_time = itemgetter(0)


class Line(NamedTuple):
    """One line of one log."""

    time: str
    """When it was printed, as text that sorts."""
    log: str
    text: bytes
    """With its end."""


class Feed:
    """One log on its way."""

    def __init__(self, log: str, heard: float) -> None:
        self.lines: list[Line] = []
        """What has arrived and was not taken."""
        self.ended = False
        self.heard = heard
        """When it last brought something, by the clock of the loop."""
        self._log = log
        self._begun: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._size = 0
        self._last = ""
        self._room = asyncio.Event()

    def put(self, piece: bytes, now: float) -> None:
        """Take the next piece."""
        self.heard = now
        whole, end, rest = piece.rpartition(b"\n")
        if end:
            text = b"".join((*self._begun, whole))
            self._begun.clear()
            self._size += len(text)
            self.lines += self._read(text)
        if rest:
            self._begun.append(rest)

    def end(self, now: float) -> None:
        """Say that there is no more; a last line without an end is one, too."""
        if self._begun:
            self.put(b"\n", now)
        self.ended = True

    async def room(self) -> None:
        """Wait until more may come."""
        while self._size > MOST_BYTES:
            self._room.clear()
            await self._room.wait()

    def take(self, until: str | None) -> list[Line]:
        """Return the lines up to a time, or all of them."""
        number = len(self.lines) if until is None else bisect_right(self.lines, until, key=_time)
        taken, self.lines = self.lines[:number], self.lines[number:]
        self._size = sum(len(line.text) for line in self.lines)
        self._room.set()
        return taken

    def _read(self, text: bytes) -> Iterator[Line]:
        """Yield lines with their times; no time is before that of the line above."""
        for line in text.split(b"\n"):
            stamp, _, rest = line.partition(b" ")
            self._last = max(self._last, sortable(stamp.decode(errors="replace")))
            yield Line(self._last, self._log, rest + b"\n")


def sortable(stamp: str) -> str:
    """Return a time as text that sorts: some kubelets write their own offset from UTC."""
    if stamp.endswith("Z"):
        return stamp
    try:
        return f"{datetime.fromisoformat(stamp).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"
    except ValueError:
        return ""


class Order:
    """Merges logs; others may be added while it goes on."""

    def __init__(self, *, settle: float | None = SETTLE_SECONDS) -> None:
        """Wait for a silent log so many seconds; None: until it has ended."""
        self._settle = settle
        self._feeds: list[Feed] = []
        self._closed = False
        self._news = asyncio.Event()

    async def bring(self, log: str, pieces: AsyncIterator[bytes]) -> None:
        """Bring one log here, from its beginning to its end."""
        feed = Feed(log, _now())
        self._feeds.append(feed)
        try:
            async for piece in pieces:
                feed.put(piece, _now())
                self._news.set()
                await feed.room()
        finally:
            feed.end(_now())
            self._news.set()

    def close(self) -> None:
        """Say that no other log will be brought."""
        self._closed = True
        self._news.set()

    async def batches(self) -> AsyncIterator[list[Line]]:
        """Yield the lines of all logs as they follow in time, many at once, until all logs have ended."""
        while True:
            self._news.clear()
            self._feeds = [feed for feed in self._feeds if feed.lines or not feed.ended]
            active = [feed for feed in self._feeds if not self._is_out(feed)]
            if all(feed.lines for feed in active) and any(feed.lines for feed in self._feeds):
                until = min((feed.lines[-1].time for feed in active), default=None)
                yield sorted((line for feed in self._feeds for line in feed.take(until)), key=_time)
            elif self._closed and not self._feeds:
                return
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settle / 3 if active and self._settle else None):
                        await self._news.wait()

    def _is_out(self, feed: Feed) -> bool:
        """Say whether a log will bring nothing that anybody should wait for."""
        return feed.ended or (self._settle is not None and _now() - feed.heard >= self._settle)


def _now() -> float:
    return asyncio.get_running_loop().time()
