"""`tw top [JOB]`: what the ranks use right now, and how fast they train if their logs tell; live on a terminal."""

import asyncio
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options

if TYPE_CHECKING:
    from trainwright.cli.homes import Home
    from trainwright.cli.ranks import Rank
    from trainwright.cli.steps import Progress
    from trainwright.core.objects import Object

_EVERY_SECONDS = 2.0
_LINES = 200
"""So many of the last lines of a rank are looked at for steps."""
_MOST_LOGS = 64
"""Of so many ranks the logs are looked at; larger jobs are told by their first ranks."""
_HEADS = ("JOB", "RANK", "NODE", "CPU", "MEMORY", "LIMIT", "STEP", "STEPS/S")


@dataclass(frozen=True)
class Row:
    """One rank that runs, and what it uses: cores and bytes, None where nobody measures."""

    rank: "Rank"
    cpu: float | None
    memory: int | None
    limit: int | None
    progress: "Progress"


@click.command("top")
@click.argument("job", metavar="[JOB[/RANK]]", required=False, shell_complete=live_jobs)
@where_options
def command(job: str | None, where: Where) -> None:
    """Show what the ranks of a job use, or those of all jobs: CPU, memory, steps per second if the log shows them.

    On a terminal the table stays and is brought up to date; q quits. In a pipe it is printed once.

    \b
    tw top
    tw top mnist
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    asyncio.run(_live(where, job) if sys.stdout.isatty() and sys.stdin.isatty() else _once(where, job))


async def _once(where: Where, job: str | None) -> None:
    async with _places(where, job) as homes:
        rows, notices = await _looked(homes, job)
        for notice in notices:
            click.echo(notice, err=True)
        for line in table(rows, None) if rows else ():
            click.echo(line)


async def _live(where: Where, job: str | None) -> None:
    """Draw the table again and again until q is pressed."""
    from trainwright.cli import homes
    from trainwright.cli.screen import Screen

    screen, quitting = Screen(words=1), asyncio.Event()
    with _keys(quitting):
        async with _places(where, job) as places:
            while not quitting.is_set() and (there := [home for home in places if homes.is_there(home)]):
                screen.show(partial(_frame, *await _looked(there, job)))
                with suppress(TimeoutError):
                    await asyncio.wait_for(quitting.wait(), _EVERY_SECONDS)
        screen.settle()


@asynccontextmanager
async def _places(where: Where, job: str | None) -> AsyncIterator["list[Home]"]:
    """Open the home of a job, or every home there may be jobs in."""
    from trainwright.cli import homes

    if job is None:
        async with homes.everywhere(where) as places:
            yield places
    else:
        async with homes.opened(where, job) as home:
            yield [home]


async def _looked(places: "list[Home]", job: str | None) -> tuple[list[Row], list[str]]:
    """Return a row for each rank that runs anywhere, and what there is to say about them."""
    found = await asyncio.gather(*(_rows(home, job) for home in places))
    rows = [row for rows, _ in found for row in rows]
    said = [notice for _, notice in found if notice]
    return rows, said if rows else ["no rank runs" if job is None else f"no rank of {job} runs"]


def _frame(rows: list[Row], notices: list[str], width: int, height: int) -> list[str]:
    """Return as much of the table as fits a terminal."""
    lines = [*table(rows, width), *(notice[:width] for notice in notices), "q quits"]
    if len(lines) < height:
        return lines
    return [*lines[: height - 2], f"… {len(lines) - height} more; tw top JOB shows fewer"[:width]]


def table(rows: list[Row], width: int | None) -> list[str]:
    """Return the lines of the table."""
    from trainwright.cli.words import columns

    return columns(_HEADS, map(_cells, rows), width)


def _cells(row: Row) -> tuple[str, ...]:
    from trainwright.placement.amounts import show

    rank, progress = row.rank, row.progress
    return (
        rank.job,
        rank.label,
        rank.node,
        "" if row.cpu is None else f"{row.cpu:.2f}",
        "" if row.memory is None else show("memory", row.memory),
        "" if row.limit is None else show("memory", row.limit),
        "" if progress.step is None else str(progress.step),
        "" if progress.rate is None else f"{progress.rate:.3g}",
    )


async def _rows(home: "Home", job: str | None) -> tuple[list[Row], str]:
    """Return a row for each rank that runs, and what there is to say about the table."""
    from trainwright.cli import ranks
    from trainwright.cli.steps import Progress
    from trainwright.core.objects import at

    pods = [pod for pod in await _pods(home, job) if at(pod, ("status", "phase")) == "Running"]
    used, notice = await _usage(home, pods)
    said = await asyncio.gather(*(_progress(home, pod) for pod in pods[:_MOST_LOGS]))
    steps = dict(zip((pod["metadata"]["uid"] for pod in pods), said, strict=False))
    rows = []
    for pod in pods:
        cpu, memory = used.get((pod["metadata"]["namespace"], pod["metadata"]["name"]), (None, None))
        rows.append(Row(ranks.rank(pod), cpu, memory, _limit(pod), steps.get(pod["metadata"]["uid"], Progress())))
    return rows, notice


async def _pods(home: "Home", job: str | None) -> "list[Object]":
    from trainwright.cli import ranks
    from trainwright.cli.seen import look
    from trainwright.core.names import JOB_LABEL
    from trainwright.core.resources import POD

    if job is not None:
        return (await look(home, job)).pods()
    listed = (await home.cluster.list(POD, home.namespace, labels=JOB_LABEL)).items
    return sorted(ranks.order(listed), key=lambda pod: (pod["metadata"]["namespace"], ranks.job_of(pod)))


async def _usage(home: "Home", pods: "list[Object]") -> tuple[Mapping[tuple[str, str], tuple[float, int]], str]:
    """Return cores and bytes by namespace and pod; nothing, and why, where nobody measures."""
    from trainwright.core.errors import ClusterError
    from trainwright.core.names import JOB_LABEL
    from trainwright.core.resources import Resource

    if not pods:
        return {}, ""
    metrics = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
    namespaces = {pod["metadata"]["namespace"] for pod in pods}
    try:
        listed = await home.cluster.list(metrics, *(namespaces if len(namespaces) == 1 else ("",)), labels=JOB_LABEL)
    except ClusterError as error:
        return {}, f"nobody measures CPU and memory in {home.name} (metrics-server would): {error}"
    return {(each["metadata"]["namespace"], each["metadata"]["name"]): _sum(each) for each in listed.items}, ""


def _sum(metrics: "Object") -> tuple[float, int]:
    from trainwright.core.quantity import parse

    used = [each.get("usage") or {} for each in metrics.get("containers") or ()]
    return float(sum(parse(each.get("cpu", 0)) for each in used)), int(
        sum(parse(each.get("memory", 0)) for each in used)
    )


def _limit(pod: "Object") -> int | None:
    """Return the memory limit of all containers together; None if any has none."""
    from trainwright.core.objects import at
    from trainwright.node.memory import memory_limit

    limits = [memory_limit(each) for each in at(pod, ("spec", "containers")) or ()]
    return sum(limit for limit in limits if limit) if all(limits) else None


async def _progress(home: "Home", pod: "Object") -> "Progress":
    from trainwright.cli.steps import progress
    from trainwright.core.errors import ClusterError

    meta, data = pod["metadata"], b""
    container = pod["spec"]["containers"][0]["name"]
    with suppress(ClusterError):  # no log yet, or none that may be seen
        async for piece in home.cluster.logs(
            meta["namespace"], meta["name"], container=container, tail=_LINES, timestamps=True
        ):
            data += piece
    return progress(data.decode(errors="replace").splitlines())


@contextmanager
def _keys(quitting: asyncio.Event) -> Iterator[None]:
    """Have q quit, without Enter; the terminal is as before afterwards."""
    before = termios.tcgetattr(sys.stdin)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        if sys.stdin.read(1) in ("q", "Q", ""):
            quitting.set()

    try:
        tty.setcbreak(sys.stdin)
        loop.add_reader(sys.stdin, pressed)
        yield
    finally:
        loop.remove_reader(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
