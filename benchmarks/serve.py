"""What `tw serve` carries: jobs accepted and done, thousands that have finished, many clients at once.

Run with `.venv/bin/python benchmarks/serve.py`; `--seconds 10` shortens the last part, `--save` also writes
benchmarks/results/serve.md. Prints a table with the bars.
The client is this process, so it and the server share the machine's cores.
"""

import argparse
import asyncio
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import msgspec

from trainwright.api.faces import FACES, RESOURCES
from trainwright.cluster.journal import Journal, read
from trainwright.cluster.kubernetes import Access, KubernetesCluster, Server
from trainwright.core.objects import Object
from trainwright.core.resources import NODE, Resource, resource_of
from trainwright.server.retention import Keep

RESULTS = Path(__file__).resolve().parent / "results" / "serve.md"
ROWS: list[tuple[str, str, str]] = []
FACE = next(face for face in FACES if face.name == "PyTorchJob")
JOBS = FACE.resource
TW = str(Path(sys.executable).with_name("tw"))
BURST, FINISHED, CLIENTS = 200, 10_000, 50
MODEL = f"burst-{BURST - 1}"


def job(name: str, *command: str) -> Object:
    container = {"name": "pytorch", "image": "none", "command": [*command]}
    master = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    meta = {"name": name, "namespace": "default"}
    spec = {"pytorchReplicaSpecs": {"Master": master}}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}


@contextmanager
def serving(state: Path) -> Iterator[int]:
    """Run a server and yield its process id."""
    command = [TW, "serve", "--port", "0", "--cpu", "1000", "--memory", "1Ti"]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr
        for line in server.stderr:
            if line.startswith("serving "):
                break
        draining = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
        yield server.pid
        server.send_signal(signal.SIGTERM)
        server.wait()
        draining.wait()


def client(state: Path) -> KubernetesCluster:
    socket = state / "trainwright" / "serve" / "api.sock"
    return KubernetesCluster(Access(Server(f"unix://{quote(str(socket))}"), namespace="default"))


def resident(pid: int) -> float:
    """Return a process's memory in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def row(what: str, found: str, bar: str) -> None:
    """Print one line of the table, and keep it."""
    print(f"{what:70} {found:>12}   bar {bar}", flush=True)
    ROWS.append((what, found, bar))


async def burst(state: Path) -> None:
    """Submit many jobs at once while others run, and wait for all of them."""
    async with client(state) as cluster:
        await asyncio.gather(*(cluster.create(JOBS, job(f"other-{n}", "sleep", "600")) for n in range(10)))
        await asyncio.sleep(3)
        began = time.perf_counter()
        await asyncio.gather(*(cluster.create(JOBS, job(f"burst-{n}", "true")) for n in range(BURST)))
        accepted = time.perf_counter() - began
        row(f"{BURST} jobs at once, accepted and on disk while others run", f"{BURST / accepted:,.0f} /s", ">= 300 /s")
        while sum(_ended(each) for each in (await cluster.list(JOBS, "default")).items) < BURST:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        row("all of them done after", f"{time.perf_counter() - began:.1f} s", "<= 15 s")


def _ended(obj: Object) -> bool:
    return FACE.standing(obj.get("status") or {}).outcome == "Succeeded"


def fill(state: Path) -> None:
    """Copy one job that has finished many times over; the newest ones with all it had, as a server keeps them."""
    store = state / "trainwright" / "serve" / "store.sqlite"
    kept, keep = read(store), Keep()
    models = [obj for obj in kept.objects if obj["metadata"]["name"].startswith(MODEL)]
    version = kept.version
    with Journal.open(store, on_error=print) as journal:
        for number in range(FINISHED):
            uids = {obj["metadata"]["uid"]: str(uuid.uuid4()) for obj in models}
            for obj in models if number < keep.whole else (each for each in models if each["kind"] == JOBS.kind):
                version += 1
                journal.record(*_copied(obj, f"done-{number}", uids, version))


def _copied(
    obj: Object, name: str, uids: dict[str, str], version: int
) -> tuple[Resource, tuple[str, str], int, Object]:
    text = msgspec.json.encode(obj).decode().replace(MODEL, name)
    for old, new in uids.items():
        text = text.replace(old, new)
    copy = msgspec.json.decode(text.encode())
    copy["metadata"]["resourceVersion"] = str(version)
    return resource_of(copy, RESOURCES), (copy["metadata"]["namespace"], copy["metadata"]["name"]), version, copy


def look(state: Path, pid: int) -> None:
    """Ask as a user does who has many finished jobs."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        environment = {**os.environ, "XDG_STATE_HOME": str(state)}
        subprocess.run([TW, "ps"], check=True, capture_output=True, env=environment)
        times.append(time.perf_counter() - began)
    row(f"tw ps, {FINISHED:,} finished jobs in the store, best of 5", f"{min(times):.2f} s", "< 0.3 s")
    row("the server's memory", f"{resident(pid):.0f} MB", "< 200 MB")


async def crowd(state: Path, seconds: float) -> None:
    """Watch and submit with many clients at once."""
    counts = {"submitted": 0, "seen": 0}
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        async with client(state) as cluster:
            version = (await cluster.list(NODE)).version  # one version counts for everything
            watching = asyncio.create_task(watch(cluster, version))
            turn = 0
            while time.monotonic() < end:
                await cluster.create(JOBS, job(f"crowd-{number}-{turn}", "true"))
                counts["submitted"] += 1
                turn += 1
                await asyncio.sleep(5)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def watch(cluster: KubernetesCluster, version: str) -> None:
        async for _ in cluster.watch(JOBS, "default", since=version):
            counts["seen"] += 1

    await asyncio.gather(*map(one, range(CLIENTS)))
    what = f"{CLIENTS} clients for {seconds:.0f} s: {counts['submitted']} submitted, {counts['seen']:,} changes seen"
    row(what, "no error", "no error")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--save", action="store_true", help="also write benchmarks/results/serve.md")
    arguments = parser.parse_args()
    load, seconds = os.getloadavg()[0], arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with serving(state) as pid:
            row("the memory of a server that has nothing to do", f"{resident(pid):.0f} MB", "-")
            asyncio.run(burst(state))
        fill(state)
        began = time.perf_counter()
        with serving(state) as pid:
            row(f"started again with {FINISHED:,} finished jobs", f"{time.perf_counter() - began:.1f} s", "-")
            look(state, pid)
            asyncio.run(crowd(state, seconds))
            row("its memory after that", f"{resident(pid):.0f} MB", "< 200 MB")
    if arguments.save:
        RESULTS.write_text(report(load))


def report(load: float) -> str:
    """Return the table as a page."""
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    head = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, load {load:.1f} before the run."
    lines = (f"| {' | '.join(each)} |" for each in (("what", "found", "bar"), ("---",) * 3, *ROWS))
    return "\n".join(("# tw serve, measured", "", head, "", *lines, ""))


if __name__ == "__main__":
    main()
