"""A job in a home of its own in this process: what its ranks print, how to kill one, how to resize it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tests.e2e import processes
from tests.e2e.following import Follower, recovery

from trainwright.cli.training import Step
from trainwright.cluster.base import Change
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.objects import Object, at, key, nest
from trainwright.core.resources import Resource
from trainwright.kinds import PYTORCH_JOB
from trainwright.operator.home import HomeOptions, local_home

JOBS = PYTORCH_JOB.resource
REPLICAS = ("spec", "pytorchReplicaSpecs", "Worker", "replicas")


@dataclass
class Training:
    """An elastic job in a home of its own in this process, and what its ranks print."""

    cluster: MemoryCluster
    follower: Follower
    mark: str
    name: str
    namespace: str = "default"

    async def job(self) -> Object:
        return await self.cluster.get(JOBS, self.namespace, self.name)

    async def scale(self, size: int) -> None:
        await self.cluster.patch(JOBS, self.namespace, self.name, nest(REPLICAS, size))

    def kill(self, index: int) -> None:
        """SIGKILL a worker's main process."""
        processes.kill(processes.rank(self.mark, f"{self.name}-worker-{index}").pid)

    def last(self) -> Step:
        self.follower.look()
        return self.follower.steps(self.namespace)[-1]

    async def more(self, count: int = 5, world: int | None = None, seconds: float = 60) -> Step:
        """Wait until some more steps are done, in a world of that size."""
        known = self.last()
        return await self.follower.until_step(
            lambda step: step.number >= known.number + count and world in (None, step.world),
            seconds,
            namespace=self.namespace,
            meaning=f"{count} steps after step {known.number} in a world of {world or 'any size'}",
        )

    async def after_loss(self, index: int, seconds: float = 60) -> float:
        """SIGKILL a worker, wait until training goes on, and return how long that took."""
        return await recovery(self.follower, lambda: self.kill(index), seconds)

    async def end(self, seconds: float) -> Object:
        """Wait until the job has ended and return it."""
        try:
            async with asyncio.timeout(seconds):
                job = await self._ended()
        except TimeoutError:
            self.follower.look()
            raise AssertionError(f"the job did not end within {seconds:.0f} s; {self.follower.tail()}") from None
        self.follower.look()
        return job

    async def _ended(self) -> Object:
        listing = await self.cluster.list(JOBS, self.namespace)
        job = next(each for each in listing.items if each["metadata"]["name"] == self.name)
        if finished(job):
            return job
        async with watching(self.cluster, JOBS, listing.version) as changes:
            async for change in changes:
                if key(change.object) == f"{self.namespace}/{self.name}" and finished(change.object):
                    return change.object
        raise AssertionError("the watch has ended")


@asynccontextmanager
async def watching(cluster: MemoryCluster, resource: Resource, since: str) -> AsyncIterator[AsyncIterator[Change]]:
    """Watch all namespaces, and end the watch with the block."""
    changes = cast("AsyncGenerator[Change]", cluster.watch(resource, since=since))
    async with aclosing(changes):
        yield changes


def finished(job: Object) -> str:
    conditions = at(job, ("status", "conditions"), [])
    ends = [each["type"] for each in conditions if each["type"] in ("Succeeded", "Failed") and each["status"] == "True"]
    return ends[0] if ends else ""


@asynccontextmanager
async def trained(
    manifest: Object,
    environment: Mapping[str, str],
    folder: Path,
    isolation: Literal["auto", "net", "ports"],
    cwd: Path,
) -> AsyncIterator[Training]:
    """Run a job in a home of its own; leaving it ends everything."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing else runs yet
    options = HomeOptions(run_dir=folder, isolation=isolation, environment=environment, cwd=cwd, autoscale=False)
    async with local_home(options) as home:
        meta = {"namespace": "default", **manifest["metadata"]}
        await home.submit({**manifest, "metadata": meta})
        yield Training(home.cluster, Follower(folder), environment[processes.MARK], meta["name"])
