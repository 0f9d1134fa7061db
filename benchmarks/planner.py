"""What a round of the autoscaler costs. Prints a table; benchmarks/results/planner.md keeps one.

    python benchmarks/planner.py            # everything, a few minutes
    python benchmarks/planner.py --quick    # small sizes only

Every job has a request of its own object, one of 50 different shapes, a master and two parameter servers; every node
carries pods of others. Beside our planner stands the plain way to grow: sort all jobs for each unit, look at all nodes
for each unit. It is only measured where it ends within a minute or so. In the last kind of round the units moved are
those that leave; the plan also says who gets each place, once it is free.
"""

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable

from trainwright.autoscaler import Ask, Cluster, ElasticJob, Fixed, Node, plan
from trainwright.autoscaler.fulfilment import score
from trainwright.placement.amounts import minus, plus
from trainwright.placement.fit import fits

LOW, HIGH = 2, 60
SHAPES = 50
ROUNDS = 5
QUICK = [(100, 100), (1_000, 1_000)]
FULL = [*QUICK, (2_000, 1_000), (4_000, 2_000), (10_000, 5_000)]
PLAIN_STEADY_UP_TO = 1_000
PLAIN_GROWTH_UP_TO = 100
"""Jobs up to which the plain algorithm is measured as well."""


def cpu_of(number: int) -> int:
    """Return the cpu of one unit of a job: one of 50 amounts between 500m and about a whole one."""
    return 500 + 10 * (number % SHAPES)


def build(jobs: int, nodes: int, size: Callable[[int], int], room: int) -> tuple[Cluster, list[ElasticJob]]:
    """Return a cluster where job i has size(i) units, spread over all nodes, each of which has this much cpu left."""
    names = [f"node-{number:05}" for number in range(nodes)]
    used: list[dict[str, int]] = [{"cpu": 500, "memory": 2**30, "pods": 3} for _ in names]
    made = []
    turn = 0
    for number in range(jobs):
        asks = {"cpu": cpu_of(number), "memory": 2**30, "pods": 1}
        places = []
        for _ in range(size(number)):
            places.append(names[turn % nodes])
            used[turn % nodes] = plus(used[turn % nodes], asks)
            turn += 1
        made.append(
            ElasticJob(
                f"team/job-{number:05}",
                Ask(asks, {"cpu": asks["cpu"], "memory": 2**30}),
                LOW,
                HIGH,
                size(number),
                tuple(places),
                len(places),
                fixed=(
                    Fixed(Ask({"cpu": 100, "memory": 2**28}), 1, 1),
                    Fixed(Ask({"cpu": 200, "memory": 2**28}, {"cpu": 200}), 2, 2),
                ),
                created=float(number),
            )
        )
    rest = {"memory": 2**40, "pods": 10**4}
    return (
        Cluster(
            [Node(name, {"cpu": held["cpu"] + room, **rest}, held) for name, held in zip(names, used, strict=True)]
        ),
        made,
    )


def plain(cluster: Cluster, jobs: list[ElasticJob]) -> dict[str, int]:
    """Grow the plain way: for each unit all jobs are sorted and all nodes looked at."""
    free = {node.name: minus(node.offers, node.used) for node in cluster.nodes}
    sizes = {job.key: job.size for job in jobs}

    def fulfilled(job: ElasticJob) -> float:
        return score(job.minimum, job.maximum, sizes[job.key])

    def grow() -> bool:
        for job in sorted(jobs, key=fulfilled):
            node = next((name for name, room in free.items() if fits(job.unit.requests, room)), None)
            if node and sizes[job.key] < job.maximum:
                free[node] = minus(free[node], job.unit.requests)
                sizes[job.key] += 1
                return True
        return False

    while grow():
        pass
    return sizes


def median_seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median CPU time of some rounds, without the pauses of the garbage collector."""
    times = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
        gc.enable()
    return statistics.median(times)


def measure(what: str, cluster: Cluster, jobs: list[ElasticJob], units: int, *, beside: bool) -> None:
    """Measure one round and print it as a row of the table."""
    moved = sum(abs(change.after - change.before) for change in plan(cluster, jobs).changes)
    assert moved == units, f"{what}: {moved} units moved, {units} expected"
    seconds = median_seconds(lambda: plan(cluster, jobs), 3 if units > 10**5 else ROUNDS)
    per_unit = f"{seconds / units * 1e6:.2f} µs" if units else "-"
    plainly = f"{median_seconds(lambda: plain(cluster, jobs), 1) * 1e3:,.0f} ms" if beside else "-"
    counts = f"{len(jobs):,} | {len(cluster.nodes):,} | {units:,}"
    print(f"| {what} | {counts} | {seconds * 1e3:,.1f} ms | {per_unit} | {plainly} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    sizes = QUICK if parser.parse_args().quick else FULL
    print(f"Python {platform.python_version()}, {platform.machine()}, median of {ROUNDS} rounds (3 of the largest)\n")
    print("| round | jobs | nodes | units moved | CPU time | per unit | plain algorithm |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for jobs, nodes in sizes:
        half = jobs // 2
        steady, growing = jobs <= PLAIN_STEADY_UP_TO, jobs <= PLAIN_GROWTH_UP_TO
        measure("nothing changes, nodes are full", *build(jobs, nodes, lambda _: 31, 0), 0, beside=steady)
        measure("nothing changes, jobs are full", *build(jobs, nodes, lambda _: HIGH, 10**4), 0, beside=False)
        measure("all grow by 58", *build(jobs, nodes, lambda _: LOW, 10**6), 58 * jobs, beside=growing)
        measure(
            "half have all, half their minimum",
            *build(jobs, nodes, lambda number, half=half: HIGH if number < half else LOW, 0),  # type: ignore[misc]
            29 * half,
            beside=False,
        )


if __name__ == "__main__":
    main()
