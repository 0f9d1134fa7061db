"""An event loop whose time jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jump(selectors.DefaultSelector):
    """Never waits: what would have been waited for is added to the clock."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.passed += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for tests about time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.passed


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, however many hours that takes, at once."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
