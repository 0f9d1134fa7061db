"""Measures what starting ranks by exec costs, beside a plain mpirun of the same program on this machine.

    python benchmarks/mpi.py            # Open MPI 5, Open MPI 4 and MPICH, the median of five each
    python benchmarks/mpi.py --save     # also write benchmarks/results/mpi.md

Ours is the time from the moment all three workers are ready to the first line of the first rank: the launcher's Job
and pod are made, kubectl is delivered, mpirun starts its daemons through the agent. Plain is the time from starting
mpirun with six ranks to the same line. Each pair is measured one after the other, so that both see the same machine.
"""

import argparse
import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import frameworks  # noqa: E402

from trainwright.core.objects import Object, at  # noqa: E402
from trainwright.core.resources import POD  # noqa: E402
from trainwright.operator.home import HomeOptions, LocalHome, local_home  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "mpi.md"
PROGRAM = str(ROOT / "examples" / "mpi" / "allreduce.py")
BAR = 2.0
_POLL_SECONDS = 0.002


def environment(name: str) -> dict[str, str]:
    """Return the environment of a shell in which one MPI is activated."""
    folder = frameworks.python(name).parent
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **allowed, "PATH": path, "OPAL_PREFIX": str(folder.parent)}


def plain(name: str) -> float:
    """Return how long a plain mpirun of six ranks takes until the first line."""
    crowded = {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    began = time.monotonic()
    with subprocess.Popen(
        ["mpirun", "-np", "6", "python3", PROGRAM],
        env={**environment(name), **crowded},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        took = time.monotonic() - began
        run.stdout.read()
    return took


async def by_exec(name: str) -> float:
    """Return how long it takes from ready workers to the first line of a rank."""
    job: Object = yaml.safe_load((ROOT / "examples" / "mpi" / "allreduce.yaml").read_text())
    job["metadata"]["namespace"] = "default"
    with tempfile.TemporaryDirectory() as folder:
        options = HomeOptions(Path(folder), isolation="net", environment=environment(name), cwd=ROOT)
        async with local_home(options) as home:
            await home.submit(job)
            ready = await _ready(home)
            while not _first_line(Path(folder)):  # noqa: ASYNC110 - a file that another process writes
                await asyncio.sleep(_POLL_SECONDS)
            return time.monotonic() - ready


async def _ready(home: LocalHome) -> float:
    """Return when the last of the workers became ready."""
    listing = await home.cluster.list(POD, "default")
    async for _ in home.cluster.watch(POD, "default", since=listing.version):
        pods = (await home.cluster.list(POD, "default")).items
        if sum(_is_ready(pod) for pod in pods if "-worker-" in pod["metadata"]["name"]) == 3:
            return time.monotonic()
    raise AssertionError("the watch ended")


def _is_ready(pod: Object) -> bool:
    conditions = at(pod, ("status", "conditions")) or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _first_line(folder: Path) -> bool:
    return any("rank " in path.read_text(errors="replace") for path in folder.glob("logs/*/*launcher*/mpi/*.log"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/mpi.md")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows = []
    for name in ("openmpi5", "openmpi4", "mpich"):
        assert frameworks.python(name).exists(), f"{name} is missing; type: make frameworks"
        pairs = [(asyncio.run(by_exec(name)), plain(name)) for _ in range(options.turns)]
        ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
        said = "met" if ours <= BAR * bare else "missed"
        rows.append(f"| {name} | {ours:.2f} s | {bare:.2f} s | {ours / bare:.2f} | {said} |")
        print(rows[-1], flush=True)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f} before"
    if options.save:
        RESULTS.write_text(
            f"""# Starting ranks by exec

`python benchmarks/mpi.py`, {datetime.now(UTC):%Y-%m-%d}, {machine}; medians of {options.turns}, 3 x 2 ranks.

| MPI | ready workers to first line | plain mpirun to first line | ratio (bar {BAR:g}) | |
|---|---|---|---|---|
"""
            + "\n".join(rows)
            + "\n"
        )


if __name__ == "__main__":
    main()
