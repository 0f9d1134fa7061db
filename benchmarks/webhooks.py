"""What webhooks add to the creation of a job on a real API server. Prints a table; docs quote it.

    python benchmarks/webhooks.py           # about a minute
    python benchmarks/webhooks.py --save    # also write benchmarks/results/webhooks.md

Jobs of every kind, the examples of this repository, are created in two namespaces by turns: in one the API server asks
the webhooks, in the other it does not, and all else is the same. What else the machine does meanwhile slows both. The
operator looks after neither namespace: what it does for a job is another benchmark's.
"""

import argparse
import asyncio
import itertools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the control plane

from tools.kube import ControlPlane, build  # noqa: E402

from trainwright.cluster.base import Cluster  # noqa: E402
from trainwright.cluster.kubernetes import KubernetesCluster  # noqa: E402
from trainwright.core.errors import ClusterError  # noqa: E402
from trainwright.core.objects import Object  # noqa: E402
from trainwright.core.resources import NAMESPACE, SECRET, Resource  # noqa: E402
from trainwright.kinds import KINDS, kind_of  # noqa: E402
from trainwright.operator.configurations import MUTATING, VALIDATING, Webhooks, configurations  # noqa: E402
from trainwright.operator.crds import register  # noqa: E402
from trainwright.web.listener import listener  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "webhooks.md"
JOBS = {
    "PyTorchJob": "pytorch/elastic.yaml",
    "MPIJob": "mpi/v2beta1.yaml",
    "Job (Volcano)": "volcano/tensorflow-ps.yaml",
    "TrainingJob": "paddle/fault-tolerant.yaml",
}
ROUNDS = 300
WARM_UP = 20
ASKED, NOT_ASKED = "asked", "not-asked"
BAR_MILLISECONDS = 10.0
READY_SECONDS = 30.0
SETTLE_SECONDS = 15.0
"""An API server that has new kinds is busy for a while with describing them."""


@dataclass(frozen=True)
class Found:
    """The milliseconds in which jobs of one kind were created."""

    kind: str
    asked: tuple[float, ...]
    not_asked: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return what is added in the middle."""
        return statistics.median(self.asked) - statistics.median(self.not_asked)

    @property
    def tail(self) -> float:
        """Return what is added to the slowest of a hundred."""
        return percentile(self.asked, 99) - percentile(self.not_asked, 99)


def percentile(numbers: tuple[float, ...], per_hundred: int) -> float:
    """Return the number below which so many of a hundred lie."""
    return statistics.quantiles(numbers, n=100)[per_hundred - 1]


def example(path: str) -> tuple[Resource, Object]:
    """Return the first job in an example, and the resource by which it is created."""
    for obj in yaml.safe_load_all((ROOT / "examples" / path).read_text()):
        if kind := kind_of(obj):
            return kind.resource, {**obj, "apiVersion": kind.resource.api_version}
    raise ValueError(f"there is no job in {path}")


async def measure(cluster: Cluster, name: str, path: str, rounds: int) -> Found:
    """Create a job many times, by turns with webhooks and without."""
    resource, job = example(path)
    took: dict[str, list[float]] = {ASKED: [], NOT_ASKED: []}
    for number, namespace in itertools.product(range(rounds + WARM_UP), took):
        labels = {"name": f"{job['metadata']['name']}-{number}", "namespace": namespace}
        start = time.perf_counter()
        await cluster.create(resource, {**job, "metadata": {**job["metadata"], **labels}})
        took[namespace].append((time.perf_counter() - start) * 1e3)
    return Found(name, *(tuple(each[WARM_UP:]) for each in took.values()))


@asynccontextmanager
async def prepared(folder: Path) -> AsyncIterator[KubernetesCluster]:
    """Yield an API server with our kinds that asks a running operator about jobs, but not in one namespace."""
    plane = ControlPlane(folder)
    with listener("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    webhooks = Webhooks("127.0.0.1", port, url=f"https://127.0.0.1:{port}", excluded=("kube-system", NOT_ASKED))
    try:
        plane.start(controllers=False)
        async with KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
            await register(cluster, KINDS)
            for name in (ASKED, NOT_ASKED, webhooks.namespace):
                await cluster.create(NAMESPACE, {"metadata": {"name": name}})
            await cluster.create(SECRET, {"metadata": {"name": webhooks.secret, "namespace": webhooks.namespace}})
            for row, obj in zip((MUTATING, VALIDATING), configurations(webhooks), strict=True):
                await cluster.create(row, obj)
            with operating(plane, webhooks):
                await until_asked(cluster)
                await asyncio.sleep(SETTLE_SECONDS)
                yield cluster
    finally:
        plane.stop()


@contextmanager
def operating(plane: ControlPlane, webhooks: Webhooks) -> Iterator[None]:
    """Run an operator whose webhooks work and whose loops have nothing to do."""
    flags = f"--kubeconfig={plane.kubeconfig} --namespace=nobody --no-leader-elect --no-autoscaler --webhooks"
    flags += f" --webhook-url={webhooks.url} --webhook-address={webhooks.host}:{webhooks.port}"
    flags += " --metrics-address=127.0.0.1:0 --log-level=error"
    with subprocess.Popen([sys.executable, "-m", "trainwright", "operator", *flags.split()]) as process:
        try:
            yield
        finally:
            process.terminate()


async def until_asked(cluster: Cluster) -> None:
    """Wait until the API server trusts the webhooks and refuses what they refuse."""
    resource, job = example(JOBS["PyTorchJob"])
    wrong = {**job, "metadata": {"name": "wrong", "namespace": ASKED}, "spec": {"pytorchReplicaSpecs": {}}}
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await cluster.create(resource, wrong)
            except ClusterError as error:
                if "denied the request" in str(error):
                    return
            await asyncio.sleep(0.1)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table as Markdown has it."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(found: list[Found], rounds: int, load: float) -> Iterator[str]:
    """Yield the page piece by piece."""
    yield (
        f"`python benchmarks/webhooks.py`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, load {load:.1f} before; milliseconds of {rounds} creations each, by turns with "
        "webhooks and without.\n"
    )
    head = ("kind", "without: median", "p99", "with: median", "p99", "added: median", "p99")
    rows = [
        (
            each.kind,
            *(f"{number:.1f}" for number in (statistics.median(each.not_asked), percentile(each.not_asked, 99))),
            *(f"{number:.1f}" for number in (statistics.median(each.asked), percentile(each.asked, 99))),
            f"{each.median:.1f}",
            f"{each.tail:.1f}",
        )
        for each in found
    ]
    yield table(head, rows) + "\n"
    worst = {"median": max(each.median for each in found), "p99": max(each.tail for each in found)}
    checked: list[tuple[str, ...]] = [
        (f"added to any kind, {name}", f"{number:.1f} ms", f"< {BAR_MILLISECONDS:g} ms", verdict(number))
        for name, number in worst.items()
    ]
    yield table(("promised", "found", "bar", ""), checked)


def verdict(milliseconds: float) -> str:
    """Say whether a number keeps the promise."""
    return "met" if milliseconds < BAR_MILLISECONDS else "MISSED"


async def run(rounds: int) -> list[Found]:
    """Measure all kinds."""
    with tempfile.TemporaryDirectory() as folder:
        async with prepared(Path(folder)) as cluster:
            return [await measure(cluster, name, path, rounds) for name, path in JOBS.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each job is created")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    arguments = parser.parse_args()
    build()
    load = os.getloadavg()[0]
    pieces = list(report(asyncio.run(run(arguments.rounds)), arguments.rounds, load))
    print("\n".join(pieces))
    if arguments.save:
        RESULTS.write_text("# What webhooks add\n\n" + "\n".join(pieces) + "\n")


if __name__ == "__main__":
    main()
