"""How a program that runs until it is told to stop hears that: by SIGTERM or SIGINT, and a second one means at once."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def cancelled_by_signals() -> Iterator[None]:
    """Have the current task cancelled by a first signal, and again by a second; what it does then is left alone."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task
    left = [task.cancel, task.cancel]

    def heard() -> None:
        if left:
            left.pop()()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
