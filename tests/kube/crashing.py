"""What the tests that kill the operator share: an operator that is started again, and patience."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kube.cutting_proxy import Answer, CuttingProxy, Done

from trainwright.core.objects import Object

SOAK = os.environ.get("TRAINWRIGHT_SOAK") == "1"
SECONDS = 60.0
AT_ONCE = 3
"""So many lives are played beside each other."""


@dataclass(frozen=True)
class Ending:
    """How a life has ended."""

    outcome: Object
    created: Counter[str]
    done: Sequence[Done]
    cut: bool


async def ends_alike(
    undisturbed: Ending, live: Callable[[int, Answer], Awaitable[Ending]], moments: Iterable[tuple[int, Answer]]
) -> None:
    """Live again for each moment, with the operator killed then; everything must end as if nothing had happened."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def disturbed(last: int, answer: Answer) -> None:
        async with turns:
            ending = await live(last, answer)
        what = f"killed after call {last} of {len(undisturbed.done)}, {answer}"
        assert ending.cut or len(ending.done) < last, what
        assert ending.outcome == undisturbed.outcome, what
        assert ending.created == undisturbed.created, what

    async with asyncio.TaskGroup() as tasks:
        for last, answer in moments:
            tasks.create_task(disturbed(last, answer))


async def eventually(
    check: Callable[[], Awaitable[bool]], what: str, found: Callable[[], Awaitable[Any]] | None = None
) -> None:
    """Wait until something is so; fail with what was found instead."""
    try:
        async with asyncio.timeout(SECONDS):
            while not await check():  # noqa: ASYNC110 - only asking again can tell
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"after {SECONDS:g} s it is still not so that {what}; found {found and await found()}")


@asynccontextmanager
async def kept_operator(proxy: CuttingProxy, config: Path, log: Path, namespace: str) -> AsyncIterator[None]:
    """Run an operator behind the proxy, and another one whenever the proxy has killed it."""
    command = [sys.executable, "-m", "trainwright", "operator", "--no-autoscaler", "--no-leader-elect"]
    command += [f"--kubeconfig={config}", f"--namespace={namespace}"]

    async def keep() -> None:
        while True:
            with log.open("ab") as file:
                process = await asyncio.create_subprocess_exec(
                    *command, "--metrics-address=127.0.0.1:0", stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
            proxy.kill = process.kill
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise
            assert code == -signal.SIGKILL, f"the operator ended by itself with {code}; see {log}"

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
