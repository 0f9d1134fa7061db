"""Virtual time: what happens next, happens now.

Things of one moment happen in the order of their turn: first the world changes, then the autoscaler looks at it, then
the scheduler places what waits. Within one turn, first asked is first served, so that a run can be repeated exactly.
"""

import heapq
import math
from collections.abc import Callable
from enum import IntEnum


class Turn(IntEnum):
    """Who acts first at one moment."""

    WORLD = 0
    AUTOSCALER = 1
    SCHEDULER = 2


class Clock:
    """The events to come, and the time of the last one that came."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self._asked = 0

    def at(self, time: float, do: Callable[[], None], turn: Turn = Turn.WORLD) -> None:
        """Have something done at a time, which is not in the past."""
        self._asked += 1
        heapq.heappush(self._events, (max(time, self.now), turn, self._asked, do))

    def run(self, until: float) -> None:
        """Let everything happen that happens before `until`, and stop there."""
        while self._events and self._events[0][0] < until:
            self.now, _, _, do = heapq.heappop(self._events)
            do()
        self.now = until


class Ticker:
    """Runs something on a grid of times, but only when there is a reason to."""

    def __init__(self, clock: Clock, every: float, do: Callable[[], None], turn: Turn) -> None:
        self._clock, self._every, self._do, self._turn = clock, every, do, turn
        self._last = -1
        self._due = False

    def wake(self) -> None:
        """Have it run at the next time of the grid at which it has not run yet."""
        if self._due:
            return
        self._due = True
        tick = max(math.ceil(self._clock.now / self._every - 1e-9), self._last + 1)
        self._clock.at(tick * self._every, lambda: self._run(tick), self._turn)

    def _run(self, tick: int) -> None:
        self._due, self._last = False, tick
        self._do()
