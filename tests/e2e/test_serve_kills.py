"""`kill -9` of a server at any moment: what was accepted is never lost, and nothing is ever run twice.

Every job appends its name to a file when it runs, and may not be restarted. A hundred jobs are submitted while the
server is killed again and again: 6 times, or 50 with TRAINWRIGHT_SOAK=1.
"""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.running import Start
from tests.e2e.served import JOBS, Served, client, finished, job, lines

from trainwright.core.errors import AlreadyExists, ClusterError

SOAK = bool(os.environ.get("TRAINWRIGHT_SOAK"))
COUNT = 100
KILLS = 50 if SOAK else 6


class Submitter:
    """Submits jobs at chance moments, whether the server lives or not; knows which were accepted."""

    def __init__(self, folder: Path, chance: random.Random, ran: Path, seconds: float) -> None:
        self.accepted: list[str] = []
        self._folder, self._chance, self._ran, self._pause = folder, chance, ran, seconds / COUNT

    async def run(self) -> None:
        for number in range(COUNT):
            name = f"job-{number}"
            script = f"echo {name} >> {self._ran}; sleep {self._chance.random() * 0.4:.3f}"
            await self._submit(name, script)
            self.accepted.append(name)
            await asyncio.sleep(self._chance.random() * 2 * self._pause)

    async def _submit(self, name: str, script: str) -> None:
        """Submit until it was accepted: an answer that was cut off may mean that it was."""
        while True:
            try:
                async with client(self._folder / "api.sock") as cluster:
                    await cluster.create(JOBS, job(name, script))
                    return
            except AlreadyExists:
                return
            except (ClusterError, OSError):
                await asyncio.sleep(0.05)


@pytest.mark.e2e
@pytest.mark.timeout(1800 if SOAK else 240)
@pytest.mark.parametrize("isolation", ["net", "ports"] if not SOAK else ["net"])
async def test_nothing_is_lost_and_nothing_is_run_twice(start: Start, tmp_path: Path, isolation: str):
    chance = random.Random(isolation)
    ran = tmp_path / "ran"
    kills = KILLS if isolation == "net" else max(KILLS // 2, 1)
    server = Served(start, tmp_path / "serve", "--isolation", isolation)
    await asyncio.to_thread(server.start)
    submitter = Submitter(server.folder, chance, ran, seconds=kills * 1.5)
    submitting = asyncio.create_task(submitter.run())
    for _ in range(kills):
        await asyncio.sleep(chance.random() * 1.2)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    await submitting

    async with server.client() as cluster:
        outcomes = await finished(cluster, submitter.accepted)
    assert await asyncio.to_thread(server.stop) == 0

    times = Counter(lines(ran))
    assert max(times.values()) == 1, f"run twice: {[name for name, count in times.items() if count > 1]}"
    never = {name for name in outcomes if not times[name]}
    assert not {name for name in never if outcomes[name] == "Succeeded"}, "what succeeded has run"
    assert len(outcomes) == COUNT
    lost = [name for name, outcome in outcomes.items() if outcome == "Failed"]
    print(f"{kills} kills: {COUNT - len(lost)} succeeded, {len(lost)} were running and ended as with a lost node")
    assert len(lost) < COUNT / 2 or SOAK
