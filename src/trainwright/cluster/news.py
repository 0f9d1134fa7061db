"""What wakes a loop that looks at everything at once: caches tell it that something has changed that matters."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from trainwright.cluster.base import Change
from trainwright.cluster.informer import Informers


class News:
    """Whether anything has happened since it was last waited for."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def tell(self) -> None:
        """Say that something has happened."""
        self._happened.set()

    def follow(self, informers: Informers, note: Callable[[Change], bool]) -> Informers:
        """Have every change noted, and told if `note` says that it matters; return who is followed."""

        def changed(change: Change) -> None:
            if note(change):
                self.tell()

        informers.subscribe(changed)
        return informers

    async def wait(self, seconds: float | None, settle: float = 0.0) -> None:
        """Wait for news, but not for longer than so many seconds; then until what goes with them has happened."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        if settle:
            await asyncio.sleep(settle)
        self._happened.clear()
