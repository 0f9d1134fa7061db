"""Three elastic jobs of three kinds share 8 processors of this machine, while torch really trains in one of them.

The manifests are those of examples/elastic; only how much work there is has been changed, so that each state lasts long
enough to be seen on a slow machine.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.e2e.following import Follower
from tests.e2e.training import watching

from trainwright.api.scaling import history
from trainwright.cli.training import gaps
from trainwright.core.objects import Object, at
from trainwright.core.resources import POD
from trainwright.kinds import kind_of
from trainwright.operator.home import HomeOptions, LocalHome, local_home

pytestmark = pytest.mark.e2e

UNIT = re.compile(r"^(.*)-(?:worker|trainer)-\d+$")
DONE = re.compile(r"^done shares (\d+) loss (\S+) to (\S+)$")


def example(root: Path, name: str, *changes: tuple[str, str]) -> Object:
    """Return an example's manifest with some of its words replaced."""
    text = (root / "examples" / "elastic" / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    job: Object = yaml.safe_load(text)
    return {**job, "metadata": {**job["metadata"], "namespace": "default"}}


@dataclass
class Sharing:
    """A home in which jobs share, and what their ranks print."""

    home: LocalHome
    follower: Follower

    async def job(self, like: Object) -> Object:
        kind = kind_of(like)
        assert kind
        return await self.home.cluster.get(kind.resource, "default", like["metadata"]["name"])

    async def reasons(self, like: Object) -> list[str]:
        """Return why a job was resized, each time."""
        return [each.reason or "" for each in history((await self.job(like)).get("status"))]

    async def until_running(self, counts: Mapping[str, int], seconds: float = 60) -> None:
        """Wait until jobs have exactly so many pods that are resized, and all of them run."""
        seen: Counter[str] = Counter()
        try:
            async with asyncio.timeout(seconds):
                listing = await self.home.cluster.list(POD)
                async with watching(self.home.cluster, POD, listing.version) as changes:
                    while (seen := await self._running()) != counts:
                        await anext(changes)
        except TimeoutError:
            self.follower.look()
            raise AssertionError(f"{dict(counts)} wanted, {dict(seen)} seen; {self.follower.tail()}") from None

    async def _running(self) -> Counter[str]:
        """Count the pods that are resized, by job; one that does not run, or is going, spoils the count."""
        pods = (await self.home.cluster.list(POD, "default")).items
        units = [(match[1], pod) for pod in pods if (match := UNIT.match(pod["metadata"]["name"]))]
        alive = [(job, pod) for job, pod in units if at(pod, ("status", "phase")) != "Succeeded"]
        still = {job for job, pod in alive if at(pod, ("status", "phase")) != "Running" or _is_going(pod)}
        return Counter(job if job not in still else f"{job}, not settled" for job, _ in alive)

    async def first_two(self, like: Object) -> list[tuple[str, int]]:
        """Return who the first two workers of a job are, and how often they were restarted."""
        names = (f"{like['metadata']['name']}-worker-{index}" for index in range(2))
        pods = [await self.home.cluster.get(POD, "default", name) for name in names]
        return [(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods]


def _is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@asynccontextmanager
async def sharing(environment: Mapping[str, str], folder: Path, cwd: Path) -> AsyncIterator[Sharing]:
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    options = HomeOptions(run_dir=folder, cpu="8", memory="16Gi", environment=environment, cwd=cwd)
    async with local_home(options) as home:
        yield Sharing(home, Follower(folder))


@pytest.mark.torch
@pytest.mark.timeout(300)
async def test_three_kinds_share_8_processors(root: Path, torch_environment: dict[str, str], tmp_path: Path) -> None:
    torch = example(root, "pytorch.yaml", ("--steps=300", "--steps=5000"))
    shares = example(root, "volcano.yaml", ("--shares=300", "--shares=400"))
    paddle = example(root, "training-job.yaml", ("--shares=300", "--shares=5000"))

    async with sharing(torch_environment, tmp_path / "run", root) as it:
        follower = it.follower
        await it.home.submit(torch)
        await it.until_running({"torch": 4})
        await follower.until_step(lambda step: step.world == 4, meaning="torch trains with all it may have")
        stayed = await it.first_two(torch)

        await it.home.submit(shares)
        await it.until_running({"torch": 4, "shares": 4})

        await it.home.submit(paddle)
        await it.until_running({"torch": 2, "shares": 3, "paddle": 3})
        asked = follower.steps()[-1].number
        await follower.until_step(
            lambda step: step.number > asked and step.world == 2, meaning="torch goes on with what it has left"
        )
        assert await it.reasons(torch) == [
            "grows from 2 to 4: there is room for it",
            "shrinks from 4 to 2: job default/paddle's minimum of 3 is not met",
        ]
        assert (await it.reasons(shares))[-1] == "shrinks from 4 to 3: job default/paddle's minimum of 3 is not met"

        await follower.until(lambda seen: any(DONE.match(line.text) for line in seen.lines), 120, "shares is done")
        await it.until_running({"torch": 3, "paddle": 5})
        asked = follower.steps()[-1].number
        last = await follower.until_step(
            lambda step: step.number > asked and step.world == 3, meaning="torch uses what has become free"
        )

        assert await it.first_two(torch) == stayed, "who stays is not restarted"
        assert [restarts for _, restarts in stayed] == [0, 0]
        told = follower.steps()
        assert not gaps([step for step in told if step.number <= last.number])
        assert last.loss < told[0].loss / 2
        done = next(match for line in follower.lines if (match := DONE.match(line.text)))
        assert (done[1], float(done[3]) < float(done[2]) / 100) == ("400", True)
        shared = [
            line.text.split()[1] for line in follower.lines if re.match(r"share \d+ loss .* by shares-", line.text)
        ]
        assert Counter(shared) == Counter(map(str, range(400))), "every share is done exactly once"
        assert at(await it.job(paddle), ("status", "phase")) == "running"
