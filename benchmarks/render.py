"""What it costs to render a job: time per replica, and the whole command. Prints tables; docs quote them.

    python benchmarks/render.py           # a minute or two
    python benchmarks/render.py --save    # also write benchmarks/results/render.md

The jobs are Volcano Jobs, because they have the most plugins. A replica's time is the CPU time in which its pod is
built and written as YAML, the least of several rounds. With TF_CONFIG every replica carries the addresses of all, so
its bytes alone grow with the square of the replicas; it stands apart. The whole command is `tw render` as a user calls
it, from the start of the process until the last byte is written to a file. It is one thread, so its CPU time is what
the clock says where nothing else runs; that is what is held against the bar: on a busy machine the clock says little.
"""

import argparse
import gc
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml

from trainwright.cli.output import documents
from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES, render
from trainwright.kinds import VOLCANO_JOB

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "render.md"
SIZES = (10, 100, 1_000, 10_000)
TASKS = 10
ROUNDS = 5
PLUGINS: dict[str, tuple[dict[str, list[str]], tuple[str, ...], int]] = {
    "no plugins": ({}, (), 10_000),
    "svc, env": ({"svc": [], "env": []}, (), 10_000),
    "pytorch": ({"pytorch": []}, ("master", "worker"), 10_000),
    "mpi": ({"mpi": []}, ("master", "worker"), 10_000),
    "mxnet": ({"mxnet": []}, ("scheduler", "server", "worker"), 10_000),
    "ray": ({"ray": []}, ("head", "worker"), 10_000),
    "tensorflow": ({"tensorflow": []}, ("ps", "worker"), 1_000),
}
"""Per row its plugins, its tasks (of which all but the last have one replica; none: ten alike), and its largest job."""
SECONDS_BAR, MEGABYTES_BAR, GROWTH_BAR = 1.5, 250, 1.5


def job(plugins: dict[str, list[str]], tasks: tuple[str, ...], replicas: int) -> Object:
    """Return a job of so many replicas."""
    counts = [replicas // TASKS] * TASKS if not tasks else [*(1 for _ in tasks[1:]), replicas - len(tasks) + 1]
    names = tasks or tuple(f"task{number}" for number in range(TASKS))
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}}
    main = {"name": "main", "image": "trainer:1", "command": ["python", "train.py"], "resources": resources}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "big", "namespace": "default"},
        "spec": {
            "plugins": plugins,
            "tasks": [
                {"name": name, "replicas": count, "template": {"spec": {"containers": [main]}}}
                for name, count in zip(names, counts, strict=True)
            ],
        },
    }


def per_replica(obj: Object, replicas: int) -> float:
    """Return the microseconds in which one pod of a job is built and written, the least of several rounds."""
    read = VOLCANO_JOB.read(VOLCANO_JOB.default(obj))
    took = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        for _text in documents(render(VOLCANO_JOB.build(read, KUBERNETES, 0))):
            pass
        took.append(time.process_time() - start)
    return min(took) / replicas * 1e6


def command(obj: Object) -> tuple[float, float, float, float]:
    """Return the seconds, CPU seconds and peak megabytes of one `tw render`, and the megabytes it writes."""
    with tempfile.TemporaryDirectory() as folder:
        manifest, out = Path(folder, "job.yaml"), Path(folder, "out.yaml")
        manifest.write_text(yaml.safe_dump(obj))
        start = time.perf_counter()
        to_file = (os.POSIX_SPAWN_OPEN, 1, str(out), os.O_WRONLY | os.O_CREAT, 0o600)
        words = [sys.executable, "-m", "trainwright", "render", str(manifest)]
        pid = os.posix_spawn(sys.executable, words, os.environ, file_actions=[to_file])
        _, status, usage = os.wait4(pid, 0)
        assert status == 0, "tw render failed"
        seconds = time.perf_counter() - start
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.stat().st_size / 1e6


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table as Markdown has it."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (head, tuple("-" * width for width in widths), *rows)
    ]
    return "\n".join(lines)


def report() -> Iterator[str]:
    """Measure everything, and yield the page piece by piece."""
    now, cores = datetime.now(UTC), os.cpu_count()
    yield (
        f"{now:%Y-%m-%d %H:%M} UTC, {platform.system()} {platform.release()}, {cores} cores, Python "
        f"{platform.python_version()}, load {os.getloadavg()[0]:.1f} before the run.\n"
    )
    yield "Microseconds of CPU in which one replica's pod is built and written as YAML, by the replicas of the job:\n"
    rows: list[tuple[str, ...]] = []
    growth = 0.0
    for name, (plugins, tasks, largest) in PLUGINS.items():
        found = [per_replica(job(plugins, tasks, size), size) for size in SIZES if size <= largest]
        rows.append((name, *(f"{each:,.0f}" for each in found), *("" for _ in SIZES[len(found) :])))
        if largest == SIZES[-1]:
            growth = max(growth, found[-1] / found[-2])
    yield table(("", *(f"{size:,}" for size in SIZES)), rows) + "\n"
    runs = [command(job({"svc": [], "env": []}, (), SIZES[-1])) for _ in range(ROUNDS)]
    seconds, cpu, peak = (statistics.median(run[place] for run in runs) for place in range(3))
    yield (
        f"`tw render` of {TASKS} tasks of 1,000 replicas with svc and env, {runs[0][3]:.0f} MB of YAML, the median of "
        f"{ROUNDS}: {cpu:.2f} s of CPU, {seconds:.2f} s by the clock, {peak:.0f} MB at the peak.\n"
    )
    promised = [
        ("the whole command, seconds of CPU", cpu, SECONDS_BAR),
        ("the whole command, peak MB", peak, MEGABYTES_BAR),
        ("time per replica, 10,000 against 1,000", growth, GROWTH_BAR),
    ]
    checked: list[tuple[str, ...]] = [
        (what, f"{found:.2f}", f"≤ {bar:.2f}", "met" if found <= bar else "MISSED") for what, found, bar in promised
    ]
    yield table(("promised", "found", "bar", ""), checked)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    save: bool = parser.parse_args().save
    pieces = []
    for piece in report():
        print(piece, flush=True)
        pieces.append(piece)
    if save:
        RESULTS.write_text("# Rendering, measured\n\n" + "\n".join(pieces) + "\n")


if __name__ == "__main__":
    main()
