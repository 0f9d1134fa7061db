"""Measures the operator on a real API server, beside the original ones and a loop that only creates the objects.

    python benchmarks/operators.py                # 1,000 jobs of 4 replicas each, the median of three rounds
    python benchmarks/operators.py --jobs 100 --rounds 1    # to see that it works
    python benchmarks/operators.py --kinds MPIJob,Job       # only these
    python benchmarks/operators.py --full         # the cost curve also at 5,000 jobs
    python benchmarks/operators.py --save         # also write them to benchmarks/results/operators.md

Everyone gets an etcd and an API server of his own in which the jobs wait already; without a scheduler the pods stay
pending. The clock runs from the first object to the last pod, or Job of a launcher. CPU is taken when the operator has
come to rest, so what it does after the last pod counts as well. Original operators are built from their Go modules,
once (about 2 minutes each). They have neither an autoscaler nor gangs unless asked for, so ours is told to do without;
one row shows what these cost.
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
from tools.originals import MPI_OPERATOR, TRAINING_OPERATOR  # noqa: E402

from trainwright.api.faces import RESOURCES  # noqa: E402
from trainwright.cluster.kubernetes import KubernetesCluster, collection  # noqa: E402
from trainwright.core.objects import Object, at  # noqa: E402
from trainwright.core.resources import BATCH_JOB, NAMESPACE, POD, SERVICE, SERVICE_ACCOUNT, Resource, resource_of  # noqa: E402
from trainwright.desired import KUBERNETES  # noqa: E402
from trainwright.desired.base import render  # noqa: E402
from trainwright.kinds import KINDS  # noqa: E402
from trainwright.operator.crds import definitions  # noqa: E402
from trainwright.operator.rights import CUSTOM_RESOURCE  # noqa: E402
from trainwright.reconcile.kind import Kind  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "operators.md"
SPACE = "bench"
WORKERS = 3
PODS = WORKERS + 1
THREADS = 10
AT_ONCE = 32
LONGEST_SECONDS = 900.0
NOTE = (
    "Everyone has an etcd and an API server of his own, on the same cores. The clock runs from the first object to\n"
    "the last pod; CPU counts until the process is at rest, with all statuses and events written. The bare loop only\n"
    "creates the objects of the jobs. The original operators have neither an autoscaler nor gangs unless asked for:\n"
    "ours does without but in the row that says so."
)
MUTATING = ("POST", "PUT", "PATCH", "DELETE", "APPLY")
COUNTED = {each.plural for each in RESOURCES if each.namespaced and each.plural != "leases"}


@dataclass(frozen=True)
class Contender:
    """Someone who makes the objects of the jobs that are there."""

    name: str
    command: Callable[[Path], list[str]]
    """The command line, given a kubeconfig."""
    definitions: Callable[[], list[Object]]


@dataclass(frozen=True)
class Run:
    """What one contender did with so many jobs."""

    name: str
    jobs: int
    seconds: float
    settled: float
    """Seconds from the first object until it had come to rest, with everything told about the jobs."""
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


def ours(*flags: str) -> Callable[[Path], list[str]]:
    words = ["operator", "--metrics-address=127.0.0.1:0", "--no-leader-elect", *flags]
    return lambda kubeconfig: [sys.executable, "-m", "trainwright", *words, f"--kubeconfig={kubeconfig}"]


def their_training_operator(kubeconfig: Path) -> list[str]:
    return [str(TRAINING_OPERATOR.built()), f"--kubeconfig={kubeconfig}", f"--threads={THREADS}"]


def their_mpi_operator(kubeconfig: Path) -> list[str]:
    limits = ["--kube-api-qps=10000", "--kube-api-burst=10000", f"--threadiness={THREADS}"]
    return [str(MPI_OPERATOR.built()), f"--kubeConfig={kubeconfig}", f"--lock-namespace={SPACE}", *limits]


def bare(kind: Kind) -> Contender:
    def command(kubeconfig: Path) -> list[str]:
        return [sys.executable, __file__, "--bare-loop", str(kubeconfig), "--kinds", kind.name]

    return Contender("bare loop", command, our_definitions)


def our_definitions() -> list[Object]:
    return list(definitions(KINDS))


OURS = Contender("trainwright", ours("--no-autoscaler", "--gang=none"), our_definitions)
ALL_OF_OURS = Contender("trainwright, autoscaler and gates", ours("--gang=gates"), our_definitions)
ORIGINALS = {
    "PyTorchJob": Contender(
        f"training-operator {TRAINING_OPERATOR.version}",
        their_training_operator,
        lambda: [originals.definition("PyTorchJob")],
    ),
    "MPIJob": Contender(
        f"mpi-operator {MPI_OPERATOR.version}", their_mpi_operator, lambda: [originals.definition("MPIJob")]
    ),
}
"""Those that can be run without the rest of their projects, by kind."""


async def bare_loop(kubeconfig: str, kind: Kind) -> None:
    """Create what the jobs should have and do nothing else; all of it is built before the first is sent."""
    async with KubernetesCluster.from_config(kubeconfig) as cluster:
        jobs = (await cluster.list(kind.resource, SPACE)).items
        wanted = [kind.build(kind.read(kind.default(each)), KUBERNETES, 0) for each in jobs]
        await create(cluster, [with_keys(obj) for each in wanted for obj in render(each)])


def with_keys(obj: Object) -> Object:
    """Return a Secret for keys with something in their places, which an API server asks for; others as they are."""
    return {**obj, "stringData": {"ssh-privatekey": "-"}} if obj.get("type") == "kubernetes.io/ssh-auth" else obj


# The jobs, each with four replicas


def template(container: str) -> Object:
    """Return a pod template of the size that templates have."""
    described = {
        "name": container,
        "image": "registry.example/team/train:1",
        "command": ["python", "train.py", "--epochs=10"],
        "env": [{"name": f"SETTING_{index}", "value": f"value {index}"} for index in range(6)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {"spec": {"containers": [described], "volumes": [{"name": "data", "emptyDir": {}}]}}


def pytorch_job() -> Object:
    role = {"restartPolicy": "OnFailure", "template": template("pytorch")}
    roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": WORKERS}}
    return {"pytorchReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "None"}}


def mpi_job() -> Object:
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": WORKERS}}
    return {"mpiReplicaSpecs": {name: {**role, "template": template("mpi")} for name, role in roles.items()}}


def volcano_job() -> Object:
    task = {"name": "worker", "replicas": PODS, "template": template("main")}
    return {"minAvailable": PODS, "plugins": {"svc": []}, "tasks": [task]}


def training_job() -> Object:
    resources = {"limits": {"cpu": "4", "memory": "16Gi"}}
    trainer = {"entrypoint": "python train.py", "min-instance": PODS, "max-instance": PODS, "resources": resources}
    return {"image": "registry.example/team/train:1", "trainer": trainer}


SPECS = {"PyTorchJob": pytorch_job, "MPIJob": mpi_job, "Job": volcano_job, "TrainingJob": training_job}
BY_NAME = {kind.name: kind for kind in KINDS}


def job(kind: Kind, number: int) -> Object:
    """Return a job of four replicas."""
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.name,
        "metadata": {"name": f"job-{number}", "namespace": SPACE},
        "spec": SPECS[kind.name](),
    }


# One run


class Usage:
    """What a process has used as far as it was looked at, and whether it has come to rest: 2 s with next to no CPU."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.since = time.monotonic()
        """When it did something last."""
        self._then = 0.0
        self.cpu = 0.0
        self.rss = 0.0

    def look(self) -> None:
        with contextlib.suppress(OSError, StopIteration):  # it may have ended: then what was seen last stands
            self.rss = peak_memory(self._pid)
            self.cpu = cpu_seconds(self._pid)
        if self.cpu - self._then > 0.05:
            self.since, self._then = time.monotonic(), self.cpu

    def at_rest(self) -> bool:
        self.look()
        return time.monotonic() - self.since > 2


async def run(kind: Kind, contender: Contender, jobs: int) -> Run:
    """Let a contender make the objects of so many jobs on a control plane of his own."""
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder) / "plane")
        try:
            plane.start(controllers=False)
            return await measured(kind, contender, jobs, plane)
        finally:
            plane.stop()


async def measured(kind: Kind, contender: Contender, jobs: int, plane: ControlPlane) -> Run:
    async with KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
        await prepare(cluster, kind, contender, jobs)
        before = ask_server(plane)
        with started(contender.command(plane.kubeconfig), plane.folder / "contender.log") as process:
            usage = Usage(process.pid)
            began, ended = await made(cluster, jobs, process, usage)
            while process.poll() is None and not usage.at_rest():  # noqa: ASYNC110 - a process can only be asked
                await asyncio.sleep(0.5)
        after = ask_server(plane)
        spent, made_calls = after.cpu - before.cpu, after.calls - before.calls
        settled = max(usage.since, ended) - began
        return Run(contender.name, jobs, ended - began, settled, usage.cpu, usage.rss, spent, made_calls)


async def prepare(cluster: KubernetesCluster, kind: Kind, contender: Contender, jobs: int) -> None:
    """Register what the contender needs and create the jobs."""
    space = {"metadata": {"name": SPACE}}
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", **space})
    account = {"metadata": {"name": "default", "namespace": SPACE}}  # who makes it otherwise does not run here
    await cluster.create(SERVICE_ACCOUNT, account)
    for each in contender.definitions():
        await register(cluster, each)
    await create(cluster, [job(kind, number) for number in range(jobs)])


async def register(cluster: KubernetesCluster, definition: Object) -> None:
    crd = await cluster.create(CUSTOM_RESOURCE, definition)
    async with asyncio.timeout(30):
        while "Established" not in conditions(crd):
            await asyncio.sleep(0.1)
            crd = await cluster.get(CUSTOM_RESOURCE, "", crd["metadata"]["name"])


def conditions(obj: Object) -> set[str]:
    return {each["type"] for each in at(obj, ("status", "conditions")) or () if each["status"] == "True"}


async def create(cluster: KubernetesCluster, objects: list[Object]) -> None:
    """Create objects in their order, many at once."""
    waiting = iter(objects)

    async def work() -> None:
        for obj in waiting:
            await cluster.create(resource_of(obj, RESOURCES), obj)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


async def made(
    cluster: KubernetesCluster, jobs: int, process: "subprocess.Popen[bytes]", usage: Usage
) -> tuple[float, float]:
    """Return when the first object was there, and when the last pod."""
    began = 0.0
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            usage.look()
            there = await count(cluster, POD)
            if there >= jobs * WORKERS:  # asking costs the API server what the contender could use
                there += await count(cluster, BATCH_JOB)
            if not began and (there or await count(cluster, SERVICE)):
                began = time.monotonic()
            if there >= jobs * PODS:
                return began, time.monotonic()
            if process.poll():
                raise SystemExit(f"{process.args!r} ended with {process.returncode}")
            await asyncio.sleep(min(0.25, jobs / 4000) if began else 0.02)


async def count(cluster: KubernetesCluster, resource: Resource) -> int:
    """Return how many objects there are, without reading them."""
    page = await cluster.rest.request("GET", collection(resource, SPACE), query={"limit": "1"})
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


def bars(us: Run, loop: Run, them: Run | None) -> Iterator[Bar]:
    """Yield what is promised of every kind."""
    if them is not None:
        yield Bar(f"jobs/s, as a multiple of the {them.name}'s", us.rate / them.rate, 2, at_least=True)
    yield Bar("jobs/s, as a part of the bare loop's", us.rate / loop.rate, 0.6, at_least=True)
    if them is not None:
        yield Bar(f"CPU, as a part of the {them.name}'s", us.cpu / them.cpu, 0.5)
        yield Bar(f"peak memory, as a part of the {them.name}'s", us.rss / them.rss, 1)
    yield Bar("mutating calls per job beyond the bare loop's, events apart", us.lasting - loop.lasting, 2)


def flat(curve: list[Run]) -> Bar:
    costs = [each.seconds / each.jobs for each in curve]
    return Bar("time per job, most to least along the curve", max(costs) / min(costs), 1.5)


def figures(runs: list[Run]) -> str:
    head = ("", "jobs", "jobs/s", "pods/s", "ms per job", "at rest s", "CPU s", "ms CPU", "peak MB", "server CPU s")
    return table(
        head,
        [
            (
                each.name,
                f"{each.jobs:,}",
                f"{each.rate:.1f}",
                f"{each.rate * PODS:.0f}",
                f"{1000 / each.rate:.1f}",
                f"{each.settled:.1f}",
                f"{each.cpu:.1f}",
                f"{1000 * each.cpu / each.jobs:.1f}",
                f"{each.rss:.0f}",
                f"{each.server_cpu:.1f}",
            )
            for each in runs
        ],
    )


def calls(kind: Kind, runs: list[Run]) -> str:
    pods, job, status = ("pods",), (kind.resource.plural,), (f"{kind.resource.plural}/status",)
    told = {*pods, *job, *status, "events"}
    head = ("mutating calls per job", "pods", "job", "status", "other objects", "events", "without events")
    rows = []
    for each in runs:
        others = {resource for _, resource in each.calls} - told
        parts = (pods, job, status, tuple(others), ("events",))
        rows.append((each.name, *(f"{each.per_job(*part):.2f}" for part in parts), f"{each.lasting:.2f}"))
    return table(head, rows)


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


async def compare(kinds: list[Kind], jobs: int, rounds: int, curve: list[int]) -> tuple[dict[str, str], bool]:
    """Return the report on every kind, and whether everything is as promised."""
    parts, promised = dict[str, str](), list[Bar]()
    for kind in kinds:
        about = machine()
        entries = {each.name: (each, jobs) for each in contenders(kind)}
        if kind.name == "PyTorchJob":
            entries |= {f"ours, {size:,} jobs": (OURS, size) for size in curve}
        found = await in_turn(kind, entries, rounds)
        told, kept = described(kind, found)
        parts[kind.name] = f"{about}.\n\n{told}"
        promised += kept
    return parts, all(bar.met for bar in promised)


def contenders(kind: Kind) -> Iterator[Contender]:
    yield bare(kind)
    yield OURS
    if kind.name in ORIGINALS:
        yield ORIGINALS[kind.name]
    if kind.name == "PyTorchJob":
        yield ALL_OF_OURS


def described(kind: Kind, found: dict[str, list[Run]]) -> tuple[str, list[Bar]]:
    """Return what is told of one kind, and what was promised of it."""
    rows = {name: median(runs) for name, runs in found.items() if name in {each.name for each in contenders(kind)}}
    us, loop = rows[OURS.name], rows["bare loop"]
    them = rows[ORIGINALS[kind.name].name] if kind.name in ORIGINALS else None
    promised = list(bars(us, loop, them))
    spread = ", ".join(f"{name} {rates(found[name])}" for name in rows)
    parts = [figures(list(rows.values())), f"jobs/s, least to most: {spread}."]
    parts.append(calls(kind, list(rows.values())))
    if curve := [median(runs) for name, runs in found.items() if name not in rows]:
        costs = sorted([us, *curve], key=lambda each: each.jobs)
        promised.append(flat(costs))
        parts += ["Ours, with more jobs:", figures(costs)]
    parts.append(table(("promised", "found", "bar", ""), [bar.row() for bar in promised]))
    return "\n\n".join(parts), promised


async def in_turn(kind: Kind, entries: dict[str, tuple[Contender, int]], rounds: int) -> dict[str, list[Run]]:
    """Let everyone run in every round, so that what else the machine does hits all alike."""
    found: dict[str, list[Run]] = {name: [] for name in entries}
    for number in range(1, rounds + 1):
        for name, (contender, jobs) in entries.items():
            found[name].append(await run(kind, contender, jobs))
            say(f"{number}/{rounds} {kind.name}, {name}: {found[name][-1].rate:.1f} jobs/s")
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
    parser.add_argument("--kinds", default=",".join(SPECS), help="only these kinds, such as MPIJob,TrainingJob")
    parser.add_argument("--bare-loop", metavar="KUBECONFIG", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = [BY_NAME[name] for name in options.kinds.split(",")]
    if options.bare_loop:
        asyncio.run(bare_loop(options.bare_loop, kinds[0]))
        return
    build()
    curve = [size for size in (100, *([5000] if options.full else [])) if size != options.jobs]
    parts, met = asyncio.run(compare(kinds, options.jobs, options.rounds, curve))
    print(report(parts))
    if options.save:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# The operator, measured\n\n{NOTE}\n{report({**saved(), **parts})}\n")
    sys.exit(0 if met else 1)


def report(parts: dict[str, str]) -> str:
    return "\n".join(f"\n## {name}\n\n{parts[name]}" for name in SPECS if name in parts)


def saved() -> dict[str, str]:
    """Return what was measured before, by kind."""
    if not RESULTS.exists():
        return {}
    sections = RESULTS.read_text().split("\n## ")[1:]
    return {name: told.strip() for name, _, told in (each.partition("\n") for each in sections)}


if __name__ == "__main__":
    main()
