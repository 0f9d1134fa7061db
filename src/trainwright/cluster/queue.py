"""The work queue of a control loop: each key once, one worker per key at a time, first come first served.

Who adds a key only says "look at this again". Adding it ten times before anyone looked means one look; adding it
while somebody looks means one more look afterwards, so no change goes unseen and no key is worked on twice at once.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Closed(Exception):  # noqa: N818 - it is not an error but the end
    """The queue was closed: there is no more work."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait after the n-th failure in a row: twice as long each time, less a random part."""

    first: float = 0.05
    longest: float = 60.0
    jitter: float = 0.5
    """The part of a delay that chance may take away, so that those who failed together do not return together."""
    chance: Callable[[], float] = random.random

    def seconds(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        if failures < 1:
            return 0.0
        # 2.0 ** 1024 overflows; the longest delay is reached long before that.
        whole = min(self.first * 2.0 ** min(failures - 1, 64), self.longest)
        return whole * (1 - self.jitter * self.chance())


class WorkQueue(Generic[K]):
    """Keys waiting to be looked at."""

    def __init__(self, backoff: Backoff | None = None, waited: Callable[[float], None] | None = None) -> None:
        self._backoff = backoff or Backoff()
        self._waited = waited
        """Told of every key that is taken how many seconds it was in line."""
        self._ready: dict[K, float] = {}
        self._taken: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Ask for a look at a key, now."""
        if self._closed:
            return
        if key in self._taken:
            self._again.add(key)
        elif key not in self._ready:
            self._ready[key] = time.monotonic()
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a look at a key later. Of several such wishes for one key the earliest is kept."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    async def get(self) -> K:
        """Take the next key, and wait for one if need be; whoever takes it must say `done`. Closed at the end."""
        while not self._ready:
            if self._closed:
                raise Closed
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the wake-up was meant for somebody who will use it
                elif getter in self._getters:  # else a wake-up has come past and skipped it
                    self._getters.remove(getter)
                raise
        if self._closed:
            raise Closed
        key = next(iter(self._ready))
        since = self._ready.pop(key)
        if self._waited:
            self._waited(time.monotonic() - since)
        self._taken.add(key)
        if self._ready:
            self._wake()
        return key

    def done(self, key: K) -> None:
        """Say that the look at a key is over; if it was added meanwhile, it is next in line again."""
        self._taken.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def retry(self, key: K) -> float:
        """Ask for another look after a failure, later each time; return in how many seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = self._backoff.seconds(failures)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """Say that a key is fine: its failures no longer count."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often in a row a key has failed."""
        return self._failures.get(key, 0)

    def close(self) -> None:
        """End the queue: waiting and future `get` raise Closed, timers are dropped."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        self._again.clear()
        while self._getters:
            self._wake()

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
