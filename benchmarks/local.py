"""Measures what the local home costs, each figure beside the same thing done by bare processes in the same run.

    python benchmarks/local.py            # everything, elastic figures as the median of five
    python benchmarks/local.py --quick    # one repetition each, to see that it works
    python benchmarks/local.py --save     # also write benchmarks/results/local.md

A bare process is what a user would start by hand: /bin/true, `sleep`, or torchrun on loopback with the same
environment, started again by a loop when it ends. The recovery figures need torch (`make frameworks`).

The isolation is asked for by name and never chosen on the way: a home that fell back to another one would be measured
as if it were the same. What else the machine did is told by its load before and after; busy figures say little.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, get_args

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for what the end-to-end tests know about logs and processes

from tests.e2e import processes  # noqa: E402
from tests.e2e.following import Follower, recovery  # noqa: E402
from tests.e2e.training import Training, trained, watching  # noqa: E402

from trainwright.core.objects import Object, at  # noqa: E402
from trainwright.core.resources import POD  # noqa: E402
from trainwright.operator.home import HomeOptions, LocalHome, local_home  # noqa: E402

Isolation = Literal["net", "ports"]
IDLE = 0.5
"""The load up to which a machine counts as doing nothing else."""
RESULTS = ROOT / "benchmarks" / "results" / "local.md"


@dataclass
class Figure:
    """One thing that was measured, in seconds, ours and bare; `bar` is what ours may be at most."""

    name: str
    bar: float
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    @property
    def met(self) -> bool:
        return statistics.median(self.ours) <= self.bar


def job(name: str, command: list[str], *, master: int = 1, workers: int = 0) -> Object:
    """Return a PyTorchJob all of whose ranks run one command."""
    role = {"restartPolicy": "Never", "template": {"spec": {"containers": [container(command)]}}}
    counts = {"Master": master, "Worker": workers}
    roles = {role_name: {**role, "replicas": count} for role_name, count in counts.items() if count}
    meta = {"name": name, "namespace": "default"}
    spec = {"pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}


def container(command: list[str]) -> Object:
    return {"name": "pytorch", "image": "none", "command": command}


@asynccontextmanager
async def home(isolation: Isolation) -> AsyncIterator[LocalHome]:
    """Open a home that offers enough for fifty pods, whose wait steps ask for 50m each."""
    with tempfile.TemporaryDirectory() as folder:
        options = HomeOptions(run_dir=Path(folder), isolation=isolation, cwd=ROOT, cpu="16", autoscale=False)
        async with local_home(options) as opened:
            yield opened


# Pods


async def pod_start(repetitions: int, isolation: Isolation) -> Figure:
    """From the request for a pod to the end of its /bin/true, through store, scheduler and kubelet."""
    figure = Figure("pod start, request to exit of /bin/true", 0.040)
    async with home(isolation) as here:
        for number in range(repetitions + 2):
            name = f"true-{number}"
            spec = {"restartPolicy": "Never", "containers": [container(["/bin/true"])]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
            version = (await here.cluster.list(POD)).version
            began = time.perf_counter()
            await here.submit(pod)
            await until_pods(here, version, {name}, "Succeeded")
            if number >= 2:  # the first ones also pay for imports
                figure.ours.append(time.perf_counter() - began)
    figure.bare = [timed(["/bin/true"], dict(os.environ)) for _ in range(repetitions)]
    return figure


async def fifty_pods(repetitions: int, isolation: Isolation) -> list[Figure]:
    """From the request for a job to the moment all of its 50 pods run, without and with a master to wait for."""
    workers = Figure("50 pods of one job running: 50 workers", 0.8)
    master = Figure("50 pods of one job running: a master, 49 that wait for its name", 0.8)
    elastic = job("fifty", ["sleep", "600"], master=0, workers=50)
    elastic["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 50}
    for _ in range(repetitions):
        workers.ours.append(await all_running(isolation, elastic, {f"fifty-worker-{index}" for index in range(50)}))
        names = {"fifty-master-0", *(f"fifty-worker-{index}" for index in range(49))}
        master.ours.append(await all_running(isolation, job("fifty", ["sleep", "600"], workers=49), names))
        for figure in (workers, master):
            figure.bare.append(fifty_processes())
    return [workers, master]


async def all_running(isolation: Isolation, manifest: Object, names: set[str]) -> float:
    async with home(isolation) as here:
        version = (await here.cluster.list(POD)).version
        began = time.perf_counter()
        await here.submit(manifest)
        await until_pods(here, version, names, "Running")
        return time.perf_counter() - began


def fifty_processes() -> float:
    began = time.perf_counter()
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(50)]
    seconds = time.perf_counter() - began
    for process in started:
        process.kill()
        process.wait()
    return seconds


async def until_pods(here: LocalHome, version: str, names: set[str], phase: str) -> None:
    """Wait until each of these pods has been seen in a phase."""
    waited = set(names)
    async with asyncio.timeout(60), watching(here.cluster, POD, version) as changes:
        async for change in changes:
            if at(change.object, ("status", "phase")) == phase:
                waited.discard(change.object["metadata"]["name"])
                if not waited:
                    return


def overhead(repetitions: int, isolation: Isolation) -> Figure:
    """What `tw run` of a job with one rank takes longer than the command itself."""
    figure = Figure("tw run, over the bare command", 0.4)
    command = ["python3", "-c", "pass"]
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "one.json"
        manifest.write_text(json.dumps(job("one", command)))
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # set, every start would compile us anew
        tw = [str(Path(sys.executable).with_name("tw")), "run", str(manifest), "--isolation", isolation]
        for number in range(repetitions + 1):
            alone = timed(command, environment)
            ours = timed(tw, environment)
            if number:
                figure.ours.append(ours - alone)
                figure.bare.append(alone)
    return figure


def timed(command: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


# Elastic training


class Elastic(Protocol):
    """An elastic training of 2 to 4 workers, two at first, that can be disturbed."""

    @property
    def follower(self) -> Follower:
        """Return who reads what the workers print."""

    async def grow(self) -> None:
        """Ask for a third worker."""

    def kill(self, index: int) -> None:
        """SIGKILL a worker, with all it has started."""


@dataclass
class Ours:
    """The example manifest in a local home."""

    training: Training

    @property
    def follower(self) -> Follower:
        return self.training.follower

    async def grow(self) -> None:
        await self.training.scale(3)

    def kill(self, index: int) -> None:
        self.training.kill(index)


@dataclass
class Bare:
    """torchrun on loopback: one process per worker and a loop around it that starts it again."""

    folder: Path
    environment: dict[str, str]
    follower: Follower
    agents: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    loops: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, index: int) -> None:
        self.loops.append(asyncio.create_task(self._loop(index)))

    async def _loop(self, index: int) -> None:
        conf = f"last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,is_host={int(index == 0)}"
        environment = {**self.environment, "HOSTNAME": f"elastic-worker-{index}", "PET_RDZV_CONF": conf}
        place = self.folder / "logs" / "default" / f"elastic-worker-{index}_bare" / "pytorch"
        place.mkdir(parents=True)
        for restart in range(1000):
            with (place / f"{restart}.log").open("wb") as log:
                self.agents[index] = agent = await asyncio.create_subprocess_exec(
                    *command_of(example()), cwd=ROOT, env=environment, stdout=log, stderr=log
                )
                if await agent.wait() == 0:
                    return

    async def grow(self) -> None:
        self.start(2)

    def kill(self, index: int) -> None:
        for found in processes.marked(self.environment[processes.MARK], HOSTNAME=f"elastic-worker-{index}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)

    async def stop(self) -> None:
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        for index, agent in self.agents.items():
            self.kill(index)
            await agent.wait()


def example() -> Object:
    """Return the elastic example, training until it is stopped."""
    manifest: Object = yaml.safe_load((ROOT / "examples" / "pytorch" / "elastic.yaml").read_text())
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["args"] = [worker["args"][0], "--steps=100000", "--step-seconds=0.05"]
    return manifest


def command_of(manifest: Object) -> list[str]:
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    return [*worker["command"], *worker["args"]]


@contextmanager
def marked_environment(python: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Make a folder and an environment in which python3 has torch; end whatever still carries its mark."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        own = {"OMP_NUM_THREADS": "1", "CHECKPOINTS": folder, processes.MARK: mark}
        try:
            yield Path(folder), {**os.environ, **own, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        finally:
            for found in processes.marked(mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found.pid, signal.SIGKILL)


@asynccontextmanager
async def ours(python: Path, isolation: Isolation) -> AsyncIterator[Elastic]:
    with marked_environment(python) as (folder, environment):
        async with trained(example(), environment, folder / "run", isolation, ROOT) as training:
            yield Ours(training)


@asynccontextmanager
async def bare(python: Path) -> AsyncIterator[Elastic]:
    with marked_environment(python) as (folder, environment):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment |= {
            "GLOO_SOCKET_IFNAME": "lo",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}",
            "PET_RDZV_ID": folder.name,
            "PET_NNODES": "2:4",
            "PET_MAX_RESTARTS": "100",
            "PET_NPROC_PER_NODE": "1",
            "PYTHONUNBUFFERED": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        training = Bare(folder / "run", environment, Follower(folder / "run"))
        training.start(0)
        training.start(1)
        try:
            yield training
        finally:
            await training.stop()


async def recoveries(repetitions: int, python: Path, isolation: Isolation) -> list[Figure]:
    """Disturb elastic trainings in three ways, ours and bare ones in turn."""
    join = Figure("elastic: a joined worker trains", 10)
    kill = Figure("elastic: training again after SIGKILL of a worker", 10)
    hub = Figure("elastic: training again after SIGKILL of worker-0", 20)
    for number in range(repetitions):
        for opened, name in ((ours(python, isolation), "ours"), (bare(python), "bare")):
            async with opened as elastic:
                for figure, seconds in zip((join, kill, hub), await disturb(elastic), strict=True):
                    getattr(figure, name).append(seconds)
            print(f"  elastic {number + 1}/{repetitions}, {name}: done", file=sys.stderr, flush=True)
    return [kill, hub, join]


async def disturb(elastic: Elastic) -> tuple[float, float, float]:
    """Return how long until a third worker trains, and until training goes on after two losses."""
    follower = elastic.follower
    await follower.until_step(lambda step: step.number >= 5, meaning="the fifth step")
    asked = time.time()
    await elastic.grow()
    joined = await follower.until_step(lambda step: step.world == 3, meaning="a world of three")
    await follower.until_step(lambda step: step.number >= joined.number + 5, meaning="five steps by three")

    after_kill = await recovery(follower, lambda: elastic.kill(1))
    back = follower.steps()[-1].number
    await follower.until_step(lambda step: step.number > back + 5 and step.world == 3, meaning="all three again")

    after_hub = await recovery(follower, lambda: elastic.kill(0))
    return joined.time - asked, after_kill, after_hub


# The table


def shown(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table: medians, and the span of ours."""
    head = ("what", "ours (median)", "ours (least to most)", "bare", "bar", "")
    rows = [
        (
            figure.name,
            shown(statistics.median(figure.ours)),
            f"{shown(min(figure.ours))} to {shown(max(figure.ours))}, n={len(figure.ours)}",
            shown(statistics.median(figure.bare)),
            f"≤ {shown(figure.bar)}",
            "met" if figure.met else "MISSED",
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [" | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    who = "root" if os.geteuid() == 0 else "a plain user"
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.system()} {platform.release()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB, Python {platform.python_version()}, as {who}"
    )


def torch_python() -> Path | None:
    asked = [sys.executable, str(ROOT / "tools" / "frameworks.py"), "--path", "torch"]
    python = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    return python if (python.parent.parent / ".ready").exists() else None


async def measured(isolation: Isolation, *, quick: bool) -> AsyncIterator[list[Figure]]:
    yield [await pod_start(5 if quick else 20, isolation)]
    yield await fifty_pods(1 if quick else 5, isolation)
    yield [await asyncio.to_thread(overhead, 2 if quick else 10, isolation)]
    python = torch_python()
    if python is None:
        print("torch is not installed (make frameworks): the elastic figures are left out", file=sys.stderr)
    else:
        yield await recoveries(1 if quick else 5, python, isolation)


async def run(isolation: Isolation, *, quick: bool, save: bool) -> int:
    about, before = f"{machine()}, isolation {isolation}", os.getloadavg()[0]
    print(f"{about}, load {before:.1f}\n", flush=True)
    figures: list[Figure] = []
    async for some in measured(isolation, quick=quick):
        for figure in some:
            print(f"  {figure.name}: {shown(statistics.median(figure.ours))}", file=sys.stderr, flush=True)
        figures += some
    about += f", load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(f"\n{about}\n\n{table(figures)}")
    if save:
        RESULTS.parent.mkdir(exist_ok=True)
        note = "`tw run` is measured as the time it adds to the bare command beside it."
        if before > IDLE:
            note += "\nThe machine was not idle when this began: measure again on an idle one before relying on it."
        RESULTS.write_text(f"# The local home, measured\n\n{about}.\n{note}\n\n{table(figures)}\n")
    return 0 if all(figure.met for figure in figures) else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one repetition of the slow ones")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--isolation", choices=get_args(Isolation), default="net", help="how pods are kept apart")
    options = parser.parse_args()
    sys.exit(asyncio.run(run(options.isolation, quick=options.quick, save=options.save)))


if __name__ == "__main__":
    main()
