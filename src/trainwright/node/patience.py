"""How long something may still take: a deadline on the monotonic clock that can be brought forward at any time."""

import asyncio
from typing import Any


class Patience:
    """A grace period that is running out."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds
        self._shortened = asyncio.Event()

    def left(self) -> float:
        """Return the seconds left, 0 when there are none."""
        return max(0.0, self._until - self._loop.time())

    def shorten(self, seconds: float) -> None:
        """Allow no more than `seconds` from now; never lengthens."""
        until = self._loop.time() + seconds
        if until < self._until:
            self._until = until
            self._shortened.set()
            self._shortened = asyncio.Event()

    def at_least(self, seconds: float) -> None:
        """Allow `seconds` from now if less is left."""
        self._until = max(self._until, self._loop.time() + seconds)

    async def outlasts(self, task: asyncio.Task[Any]) -> bool:
        """Wait for a task; False when patience ran out first. The task goes on."""
        while not task.done():
            if not self.left():
                return False
            shortened = asyncio.create_task(self._shortened.wait())
            try:
                await asyncio.wait({task, shortened}, timeout=self.left(), return_when=asyncio.FIRST_COMPLETED)
            finally:
                shortened.cancel()
        return True
