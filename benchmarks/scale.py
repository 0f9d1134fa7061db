"""Measures the operator with crowds on a real API server: large jobs, many jobs that end together, many pods to know.

    python benchmarks/scale.py                     # 5 jobs of 500 pods, 500 jobs ending at once, 10,000 pods
    python benchmarks/scale.py --part 10           # a tenth of each, to see that it works
    python benchmarks/scale.py --save              # also write benchmarks/results/scale.md

There are no nodes: pods are created and stay pending, until it is said of them that they have succeeded. Memory is that
of an operator that starts when everything is there, with its autoscaler, once it has come to rest.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the control plane, and for the other benchmark

from benchmarks.operators import (  # noqa: E402
    OURS,
    Usage,
    ask_server,
    create,
    machine,
    our_definitions,
    ours,
    register,
    started,
    table,
    template,
)
from tools.kube import ControlPlane, build  # noqa: E402

from trainwright.api.faces import outcome_of  # noqa: E402
from trainwright.cluster.kubernetes import KubernetesCluster, collection  # noqa: E402
from trainwright.core.objects import Object  # noqa: E402
from trainwright.core.resources import NAMESPACE, POD, SERVICE_ACCOUNT, Resource  # noqa: E402
from trainwright.kinds import PYTORCH_JOB  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "scale.md"
LARGE, LARGE_PODS = 5, 500
ENDING = 500
KNOWN = 10_000
LONGEST_SECONDS = 600.0
WATCHING = ours("--gang=none")
"""The command line of an operator that hears of all pods, as its autoscaler must."""


@dataclass(frozen=True)
class Ended:
    """How many jobs ended together, how long that took, and what was called meanwhile."""

    jobs: int
    seconds: float
    calls: Counter[tuple[str, str]]


@dataclass
class Crowd:
    """A control plane without nodes, and who asks it for things."""

    plane: ControlPlane
    cluster: KubernetesCluster

    async def make(self, space: str, jobs: int, workers: int) -> float:
        """Create jobs in a namespace of their own; return how long an operator took to create all their pods."""
        await self.cluster.create(NAMESPACE, {"metadata": {"name": space}})
        await self.cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": space}})
        began = time.perf_counter()
        await create(self.cluster, [job(space, number, workers) for number in range(jobs)])
        while await self.count(POD, space) < jobs * workers:  # noqa: ASYNC110 - only asking again can tell
            await asyncio.sleep(0.2)
        return time.perf_counter() - began

    async def end(self, space: str, jobs: int) -> Ended:
        """Say of all pods of a namespace at once that they have succeeded; wait until that is said of the jobs."""
        await self._until_all(space, bool)  # a new job's first status comes after its pods
        before = ask_server(self.plane).calls
        began = time.perf_counter()
        pods = (await self.cluster.list(POD, space)).items
        await at_once([each["metadata"]["name"] for each in pods], self.cluster, space)
        await self._until_all(space, lambda status: bool(outcome_of(status)))
        return Ended(jobs, time.perf_counter() - began, ask_server(self.plane).calls - before)

    async def _until_all(self, space: str, holds: Callable[[Object | None], bool]) -> None:
        """Wait until something holds of the status of every job of a namespace."""
        while not all(holds(each.get("status")) for each in await self.jobs(space)):  # noqa: ASYNC110
            await asyncio.sleep(0.5)

    async def jobs(self, space: str) -> list[Object]:
        """Return the jobs of a namespace."""
        return (await self.cluster.list(PYTORCH_JOB.resource, space)).items

    async def count(self, resource: Resource, space: str = "") -> int:
        """Return how many objects there are."""
        page = await self.cluster.rest.request("GET", collection(resource, space), query={"limit": "1"})
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def at_once(pods: Iterable[str], cluster: KubernetesCluster, space: str) -> None:
    """Say of pods that they have succeeded, many at a time."""
    state = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}}
    ended = {"name": "pytorch", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}
    status = {"status": {"phase": "Succeeded", "containerStatuses": [ended]}}
    waiting = iter(pods)

    async def work() -> None:
        for pod in waiting:
            await cluster.patch(POD, space, pod, status, subresource="status")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(32):
            tasks.create_task(work())


def job(space: str, number: int, workers: int) -> Object:
    """Return a job of so many workers."""
    worker = {"replicas": workers, "restartPolicy": "Never", "template": template("pytorch")}
    return {
        "apiVersion": PYTORCH_JOB.resource.api_version,
        "kind": PYTORCH_JOB.name,
        "metadata": {"name": f"job-{number}", "namespace": space},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}, "runPolicy": {"cleanPodPolicy": "None"}},
    }


@asynccontextmanager
async def crowd(folder: Path) -> AsyncIterator[Crowd]:
    """Run a control plane that serves our kinds."""
    plane = ControlPlane(folder / "plane")
    try:
        plane.start(controllers=False)
        async with KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster, asyncio.timeout(LONGEST_SECONDS):
            for each in our_definitions():
                await register(cluster, each)
            yield Crowd(plane, cluster)
    finally:
        plane.stop()


async def memory(found: Crowd) -> float:
    """Return how many MB an operator has at most that starts now, until it has come to rest."""
    with started(WATCHING(found.plane.kubeconfig), found.plane.folder / "watching.log") as process:
        usage = Usage(process.pid)
        while not usage.at_rest() or usage.cpu < 0.5:  # noqa: ASYNC110 - a process can only be asked
            await asyncio.sleep(0.5)
        return usage.rss


async def measure(part: int) -> str:
    """Return the report."""
    large, ending, known = max(1, LARGE // part), ENDING // part, KNOWN // part
    with tempfile.TemporaryDirectory() as folder:
        async with crowd(Path(folder)) as found:
            nothing = await memory(found)
            with started(OURS.command(found.plane.kubeconfig), found.plane.folder / "operator.log"):
                made = await found.make("large", large, LARGE_PODS)
                await found.make("ending", ending, 1)
                ended = await found.end("ending", ending)
                there = await found.count(POD)
                await found.make("known", (known - there) // LARGE_PODS + 1, LARGE_PODS)
            pods = await found.count(POD)
            full = await memory(found)
    lasting = sum(count for (_, what), count in ended.calls.items() if what != "events") / ending - 1
    rows: list[tuple[str, ...]] = [
        (
            f"{large} jobs of {LARGE_PODS} pods, until all pods are there",
            f"{made:.1f} s",
            f"{large * LARGE_PODS / made:.0f} pods/s",
        ),
        (
            f"{ending} jobs ending together, until all are known to have",
            f"{ended.seconds:.1f} s",
            f"{lasting:.2f} calls per job, events apart",
        ),
        ("peak memory of an operator that knows nothing", f"{nothing:.0f} MB", ""),
        (
            f"peak memory of one that starts with {pods:,} pods",
            f"{full:.0f} MB",
            f"{1000 * (full - nothing) / pods:.1f} kB per pod",
        ),
    ]
    return table(("", "found", ""), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, default=1, help="measure only such a part of everything: 10 is a tenth")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    build()
    about = machine()
    print(f"{about}\n", flush=True)
    report = asyncio.run(measure(options.part))
    print(report)
    if options.save:
        RESULTS.write_text(f"# Crowds, measured\n\n{about}.\n\n{report}\n")


if __name__ == "__main__":
    main()
