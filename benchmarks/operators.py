"""Measures the operator on a real API server, beside the training-operator and a loop that only creates the objects.

    python benchmarks/operators.py                # 1,000 jobs of 4 replicas each, the median of three rounds
    python benchmarks/operators.py --jobs 100 --rounds 1    # to see that it works
    python benchmarks/operators.py --full         # the cost curve also at 5,000 jobs
    python benchmarks/operators.py --save         # also write benchmarks/results/operators.md

Everyone gets an etcd and an API server of his own in which the jobs wait already; without a scheduler the pods stay
pending. The clock runs from the first object to the last pod. CPU is taken when the operator has come to rest, so what
it does after the last pod counts as well. The training-operator is built from its Go module, once (about 2 minutes).
"""

import argparse
import asyncio
import contextlib
import os
import platform
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the control plane

from tools import originals  # noqa: E402
from tools.kube import ADMIN_TOKEN, ControlPlane, build  # noqa: E402
from tools.originals import TRAINING_OPERATOR, training_operator  # noqa: E402

from trainwright.cluster.kubernetes import KubernetesCluster  # noqa: E402
from trainwright.core.objects import Object, at  # noqa: E402
from trainwright.core.resources import BUILT_IN, NAMESPACE, POD, SERVICE, Resource, resource_of  # noqa: E402
from trainwright.desired import KUBERNETES  # noqa: E402
from trainwright.desired.base import render  # noqa: E402
from trainwright.kinds import PYTORCH_JOB  # noqa: E402
from trainwright.operator.crds import definition  # noqa: E402
from trainwright.operator.rights import CUSTOM_RESOURCE  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "operators.md"
SPACE = "bench"
WORKERS = 3
PODS = WORKERS + 1
THREADS = 10
AT_ONCE = 32
LONGEST_SECONDS = 900.0
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)
NOTE = (
    "Everyone has an etcd and an API server of his own, on the same cores. The clock runs from the first object to\n"
    "the last pod, CPU until the process is at rest. The bare loop only creates the pods and Services of the jobs."
)
MUTATING = ("POST", "PUT", "PATCH", "DELETE", "APPLY")
COUNTED = ("pods", "services", "pytorchjobs", "events", "horizontalpodautoscalers")


@dataclass(frozen=True)
class Contender:
    """Someone who makes the objects of the jobs that are there."""

    name: str
    command: Callable[[Path], list[str]]
    """The command line, given a kubeconfig."""
    crd: Callable[[], Object]


@dataclass(frozen=True)
class Run:
    """What one contender did with so many jobs."""

    name: str
    jobs: int
    seconds: float
    cpu: float
    """CPU seconds of its process until it had come to rest."""
    rss: float
    """The most memory it ever had, in MB."""
    server_cpu: float
    """CPU seconds of the API server meanwhile."""
    calls: Counter[tuple[str, str]]
    """Mutating calls it made, by verb and resource."""

    @property
    def rate(self) -> float:
        """Return jobs per second."""
        return self.jobs / self.seconds

    def per_job(self, *resources: str) -> float:
        """Return mutating calls per job, of these resources."""
        return sum(count for (_, resource), count in self.calls.items() if resource in resources) / self.jobs

    @property
    def lasting(self) -> float:
        """Return mutating calls per job without events."""
        return self.per_job(*(each for _, each in self.calls if each != "events"))


# The contenders


def ours(kubeconfig: Path) -> list[str]:
    flags = ["--metrics-address=127.0.0.1:0", f"--kubeconfig={kubeconfig}"]
    return [sys.executable, "-m", "trainwright", "operator", *flags]


def theirs(kubeconfig: Path) -> list[str]:
    return [str(training_operator()), f"--kubeconfig={kubeconfig}", f"--threads={THREADS}"]


def bare(kubeconfig: Path) -> list[str]:
    return [sys.executable, __file__, "--bare-loop", str(kubeconfig)]


BARE = Contender("bare loop", bare, lambda: definition(PYTORCH_JOB))
OURS = Contender("trainwright", ours, lambda: definition(PYTORCH_JOB))
THEM = Contender(f"training-operator {TRAINING_OPERATOR}", theirs, lambda: originals.definition("PyTorchJob"))


async def bare_loop(kubeconfig: str) -> None:
    """Create what the jobs should have and do nothing else; all of it is built before the first is sent."""
    async with KubernetesCluster.from_config(kubeconfig) as cluster:
        jobs = (await cluster.list(PYTORCH_JOB.resource, SPACE)).items
        wanted = [PYTORCH_JOB.build(PYTORCH_JOB.read(each), KUBERNETES, 0) for each in jobs]
        await create(cluster, [obj for each in wanted for obj in render(each)])


# One run


class Usage:
    """What a process has used as far as it was looked at, and whether it has come to rest: 2 s with next to no CPU."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._since = time.monotonic()
        self._then = 0.0
        self.cpu = 0.0
        self.rss = 0.0

    def look(self) -> None:
        with contextlib.suppress(OSError, StopIteration):  # it may have ended: then what was seen last stands
            self.rss = peak_memory(self._pid)
            self.cpu = cpu_seconds(self._pid)
        if self.cpu - self._then > 0.05:
            self._since, self._then = time.monotonic(), self.cpu

    def at_rest(self) -> bool:
        self.look()
        return time.monotonic() - self._since > 2


def job(number: int) -> Object:
    """Return a job with a master and workers, of the size that jobs have."""
    container = {
        "name": "pytorch",
        "image": "registry.example/team/train:1",
        "command": ["python", "train.py", "--epochs=10"],
        "env": [{"name": f"SETTING_{index}", "value": f"value {index}"} for index in range(6)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    role = {"restartPolicy": "OnFailure", "template": {"spec": pod}}
    roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": WORKERS}}
    return {
        "apiVersion": PYTORCH_JOB.resource.api_version,
        "kind": PYTORCH_JOB.name,
        "metadata": {"name": f"job-{number}", "namespace": SPACE},
        "spec": {"pytorchReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "None"}},
    }


async def run(contender: Contender, jobs: int) -> Run:
    """Let a contender make the objects of so many jobs on a control plane of his own."""
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder) / "plane")
        try:
            plane.start(controllers=False)
            return await measured(contender, jobs, plane)
        finally:
            plane.stop()


async def measured(contender: Contender, jobs: int, plane: ControlPlane) -> Run:
    async with KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
        await prepare(cluster, contender, jobs)
        before = ask_server(plane)
        with started(contender.command(plane.kubeconfig), plane.folder / "contender.log") as process:
            usage = Usage(process.pid)
            seconds = await made(cluster, jobs, process, usage)
            while process.poll() is None and not usage.at_rest():  # noqa: ASYNC110 - a process can only be asked
                await asyncio.sleep(0.5)
        after = ask_server(plane)
        spent, made_calls = after.cpu - before.cpu, after.calls - before.calls
        return Run(contender.name, jobs, seconds, usage.cpu, usage.rss, spent, made_calls)


async def prepare(cluster: KubernetesCluster, contender: Contender, jobs: int) -> None:
    """Register the kind and create the jobs."""
    space = {"metadata": {"name": SPACE}}
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", **space})
    account = {"metadata": {"name": "default", "namespace": SPACE}}  # who makes it otherwise does not run here
    await cluster.create(SERVICE_ACCOUNT, account)
    crd = await cluster.create(CUSTOM_RESOURCE, contender.crd())
    async with asyncio.timeout(30):
        while "Established" not in conditions(crd):
            await asyncio.sleep(0.1)
            crd = await cluster.get(CUSTOM_RESOURCE, "", crd["metadata"]["name"])
    await create(cluster, [job(number) for number in range(jobs)])


def conditions(obj: Object) -> set[str]:
    return {each["type"] for each in at(obj, ("status", "conditions")) or () if each["status"] == "True"}


async def create(cluster: KubernetesCluster, objects: list[Object]) -> None:
    """Create objects in their order, many at once."""
    waiting = iter(objects)

    async def work() -> None:
        for obj in waiting:
            await cluster.create(resource_of(obj, (*BUILT_IN, PYTORCH_JOB.resource)), obj)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


async def made(cluster: KubernetesCluster, jobs: int, process: "subprocess.Popen[bytes]", usage: Usage) -> float:
    """Return the seconds from the first object to the last pod."""
    began = 0.0
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            usage.look()
            if not began and await count(cluster, SERVICE) + await count(cluster, POD):
                began = time.perf_counter()
            if began and await count(cluster, POD) >= jobs * PODS:
                return time.perf_counter() - began
            if process.poll():
                raise SystemExit(f"{process.args!r} ended with {process.returncode}")
            await asyncio.sleep(0.1 if began else 0.02)


async def count(cluster: KubernetesCluster, resource: Resource) -> int:
    """Return how many objects there are, without reading them."""
    page = await cluster.rest.request("GET", f"/api/v1/namespaces/{SPACE}/{resource.plural}", query={"limit": "1"})
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


@contextlib.contextmanager
def started(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@dataclass(frozen=True)
class Server:
    """What the API server says about itself."""

    cpu: float
    calls: Counter[tuple[str, str]]
    """Mutating calls so far, by verb and resource with subresource."""


def ask_server(plane: ControlPlane) -> Server:
    request = urllib.request.Request(f"{plane.url}/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(plane.ca))) as answer:
        lines = answer.read().decode().splitlines()
    cpu, calls = 0.0, Counter[tuple[str, str]]()
    for sample, _, value in (line.rpartition(" ") for line in lines):
        if sample == "process_cpu_seconds_total":
            cpu = float(value)
        elif sample.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', sample))
            if labels["verb"] in MUTATING and labels["resource"] in COUNTED:
                where = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                calls[labels["verb"], where] += int(float(value))
    return Server(cpu, calls)


# The tables


@dataclass(frozen=True)
class Bar:
    """Something that was promised: a sentence, a figure, what it may be."""

    says: str
    found: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    def row(self) -> tuple[str, ...]:
        sign = "≥" if self.at_least else "≤"
        return self.says, f"{self.found:.2f}", f"{sign} {self.limit:.2f}", "met" if self.met else "MISSED"


def bars(us: Run, them: Run, loop: Run, curve: list[Run]) -> list[Bar]:
    costs = [each.seconds / each.jobs for each in curve]
    return [
        Bar("jobs/s, as a multiple of the training-operator's", us.rate / them.rate, 2, at_least=True),
        Bar("jobs/s, as a part of the bare loop's", us.rate / loop.rate, 0.6, at_least=True),
        Bar("CPU, as a part of the training-operator's", us.cpu / them.cpu, 0.5),
        Bar("peak memory, as a part of the training-operator's", us.rss / them.rss, 1),
        Bar(f"mutating calls per job of {PODS} pods, events apart", us.lasting, PODS + 4),
        Bar("time per job, most to least along the curve", max(costs) / min(costs), 1.5),
    ]


def figures(runs: list[Run]) -> str:
    head = ("", "jobs", "jobs/s", "pods/s", "ms per job", "CPU s", "ms CPU per job", "peak MB", "server CPU s")
    return table(
        head,
        [
            (
                each.name,
                f"{each.jobs:,}",
                f"{each.rate:.1f}",
                f"{each.rate * PODS:.0f}",
                f"{1000 / each.rate:.1f}",
                f"{each.cpu:.1f}",
                f"{1000 * each.cpu / each.jobs:.1f}",
                f"{each.rss:.0f}",
                f"{each.server_cpu:.1f}",
            )
            for each in runs
        ],
    )


def calls(runs: list[Run]) -> str:
    kinds = ("pods", "services", "pytorchjobs", "pytorchjobs/status", "events")
    rows = [(each.name, *(f"{each.per_job(kind):.2f}" for kind in kinds), f"{each.lasting:.2f}") for each in runs]
    return table(("mutating calls per job", *kinds, "without events"), rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [" | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.system()} {platform.release()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} before the run"
    )


def say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


async def compare(jobs: int, rounds: int, curve: list[int]) -> tuple[str, bool]:
    """Return the report, and whether everything is as promised."""
    found = await in_turn({contender.name: (contender, jobs) for contender in (BARE, OURS, THEM)}, rounds)
    sizes = await in_turn({f"ours, {size:,} jobs": (OURS, size) for size in curve}, rounds)
    loop, us, them = (median(found[contender.name]) for contender in (BARE, OURS, THEM))
    costs = sorted([us, *map(median, sizes.values())], key=lambda each: each.jobs)
    promised = bars(us, them, loop, costs)
    verdicts = table(("promised", "found", "bar", ""), [bar.row() for bar in promised])
    spread = ", ".join(f"{name} {rates(runs)}" for name, runs in found.items())
    parts = (
        figures([loop, us, them]),
        f"jobs/s, least to most: {spread}.",
        calls([loop, us, them]),
        "Ours, with more jobs:",
        figures(costs),
        verdicts,
    )
    return "\n\n".join(parts), all(bar.met for bar in promised)


async def in_turn(entries: dict[str, tuple[Contender, int]], rounds: int) -> dict[str, list[Run]]:
    """Let everyone run in every round, so that what else the machine does hits all alike."""
    found: dict[str, list[Run]] = {name: [] for name in entries}
    for number in range(1, rounds + 1):
        for name, (contender, jobs) in entries.items():
            found[name].append(await run(contender, jobs))
            say(f"{number}/{rounds} {name}: {found[name][-1].rate:.1f} jobs/s")
    return found


def median(runs: list[Run]) -> Run:
    """Return the run of middling speed."""
    return sorted(runs, key=lambda each: each.rate)[len(runs) // 2]


def rates(runs: list[Run]) -> str:
    return f"{min(each.rate for each in runs):.0f} to {max(each.rate for each in runs):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs (1,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of so many runs of each the median counts (3)")
    parser.add_argument("--full", action="store_true", help="the cost curve also at 5,000 jobs")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--bare-loop", metavar="KUBECONFIG", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare_loop:
        asyncio.run(bare_loop(options.bare_loop))
        return
    build()
    training_operator()
    about = machine()
    print(f"{about}\n", flush=True)
    curve = [size for size in (100, *([5000] if options.full else [])) if size != options.jobs]
    report, met = asyncio.run(compare(options.jobs, options.rounds, curve))
    print(f"\n{report}")
    if options.save:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# The operator, measured\n\n{about}.\n{NOTE}\n\n{report}\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
