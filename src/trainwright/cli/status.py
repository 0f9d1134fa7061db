"""`tw status JOB`: a job, its roles and its ranks, as they are, or were when the job was last seen."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import jobs as complete_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option

if TYPE_CHECKING:
    from trainwright.cli.ranks import Rank
    from trainwright.cli.seen import Seen

_EVERY_SECONDS = 1.0
_LONGEST_LINE = 80


@click.command("status")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=complete_jobs)
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it has changed, until the job has ended.")
@where_options
@output_option()
def command(job: str, watch: bool, where: Where, output: Output | None) -> None:
    """Show a job, its roles and its ranks: phase, node, exit code, restarts, the last line of each.

    \b
    tw status mnist
    tw status mnist/worker-1
    tw status mnist -w
    tw status mnist -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    asyncio.run(_watch(where, job) if watch and output is None else _status(where, job, output))


async def _status(where: Where, job: str, output: Output | None) -> None:
    from trainwright.cli import homes
    from trainwright.cli.output import printed
    from trainwright.cli.seen import look

    async with homes.opened(where, job) as home:
        found = await look(home, job)
        if output:
            click.echo(printed([found.pods()[0] if found.address.rank else found.job], output), nl=False)
            return
        for line in await _shown(found):
            click.echo(line)


async def _watch(where: Where, job: str) -> None:
    """Show the tree again and again: on a terminal in its place, elsewhere one below the other."""
    from trainwright.cli import homes
    from trainwright.cli.screen import Screen
    from trainwright.cli.seen import look

    screen, before = Screen(words=1), list[str]()
    async with homes.opened(where, job) as home:
        while True:
            found = await look(home, job)
            lines = await _shown(found)
            over = home.kind == "kept" or found.kind.face.standing(found.job.get("status") or {}).finished
            if screen.live and not over:
                screen.show(partial(_fitting, lines))
            elif lines != before:
                screen.show(None)
                screen.say("\n".join(["", *lines] if before and not screen.live else lines))
            if over:
                break
            before = lines
            await asyncio.sleep(_EVERY_SECONDS)
            if not homes.is_there(home):
                home = homes.afterwards(home)
    screen.settle()


def _fitting(lines: list[str], width: int, height: int) -> list[str]:
    return [line[:width] for line in lines[: height - 1]]


async def _shown(found: "Seen") -> list[str]:
    from trainwright.cli.gathered import outputs

    said = await outputs(found.home, found.kind, found.pods())
    last = {uid: each.lines[-1] if each.lines else "" for uid, each in said.items()}
    return lines(found, last, datetime.now(UTC))


def lines(found: "Seen", last: Mapping[str, str], now: datetime) -> list[str]:
    """Return the tree of a job: itself, how it came to this, its roles, their ranks; `last` lines go by pod uid."""
    return [
        _head(found, now),
        *(f"  {line}" for line in (*_elasticity(found), *_conditions(found.job), *_scalings(found.job))),
        *_roles(found, last, _ended(found, now)),
        *([f"  kept in {found.home.folder}"] if found.home.kind in ("run", "kept") else []),
    ]


def _head(found: "Seen", now: datetime) -> str:
    from trainwright.cli import jobs
    from trainwright.cli.words import span

    standing, key = found.kind.face.standing(found.job.get("status") or {}), found.key
    left = found.home.ended if not standing.finished else ""
    phase = {"": standing.phase, "Killed": "Unfinished: the run was killed"}.get(left, left)
    lasted = jobs.lasted(found.job, _ended(found, now))
    head = f"{key.kind} {key.namespace}/{key.name}: {phase}"
    if lasted is None:
        return head
    took = span(lasted) if lasted else "less than 1s"
    return f"{head} after {took}" if standing.finished or left else f"{head} for {took}"


def _ended(found: "Seen", now: datetime) -> datetime:
    """Return until when ages are counted: the last that is known of a job that was left unfinished."""
    from trainwright.core.objects import at, moment

    if done := moment(at(found.job, ("status", "completionTime"))):
        return done
    times = [moment(each.get("lastTransitionTime")) for each in at(found.job, ("status", "conditions")) or ()]
    known = [time for time in times if time]
    return max(known) if found.home.kind == "kept" and known else now


def _elasticity(found: "Seen") -> Iterator[str]:
    """Yield the range of an elastic job, and where in it the job is."""
    job = found.kind.read(found.job)
    if job.elastic:
        size = job.count(job.elastic.role)
        yield f"elastic: {job.elastic.minimum} ≤ {size} {job.elastic.role} ≤ {job.elastic.maximum}"


def _conditions(job: dict[str, Any]) -> Iterator[str]:
    from trainwright.cli.words import clock
    from trainwright.core.objects import at

    for each in at(job, ("status", "conditions")) or ():
        said = f": {each['message']}" if each.get("message") else ""
        yield f"{clock(each.get('lastTransitionTime')):8}  {_condition(each)}{said}"


def _condition(each: dict[str, Any]) -> str:
    """Return what a condition tells; those of a Volcano Job have no type, and their status is a phase."""
    if "type" not in each:
        return str(each.get("status", ""))
    return str(each["type"]) if each.get("status") == "True" else f"no longer {each['type']}"


def _scalings(job: dict[str, Any]) -> Iterator[str]:
    """Yield how the job came to its size."""
    from trainwright.api.scaling import history
    from trainwright.cli.words import clock

    return (f"{clock(each.time):8}  Scaled: {each.reason}" for each in history(job.get("status")))


def _roles(found: "Seen", last: Mapping[str, str], ended: datetime) -> list[str]:
    """Return each role with its ranks below it."""
    from trainwright.cli.words import columns

    asked = {pod["metadata"]["name"] for pod in found.pods()}
    ranks = [rank for rank in found.view.ranks(found.key) if rank.pod in asked]
    if not ranks:
        return ["  it has no ranks"]
    heads = ("RANK", "PHASE", "NODE", "EXIT", "RESTARTS", "AGE", "LAST LINE")
    cells = [_cells(found, rank, last.get(rank.uid, ""), ended) for rank in ranks]
    table = columns(heads, cells)
    lines, role = [f"    {table[0]}"], ""
    for rank, line in zip(ranks, table[1:], strict=True):
        name = rank.label.rpartition("-")[0]
        if name != role:
            role = name
            lines.append(f"  {_summary(role, [each for each in ranks if each.label.rpartition('-')[0] == role])}")
        lines.append(f"    {line}")
    return lines


def _summary(role: str, ranks: "list[Rank]") -> str:
    """Return how many ranks a role has, and in which phases they are."""
    counts = {phase: sum(rank.phase == phase for rank in ranks) for phase in dict.fromkeys(r.phase for r in ranks)}
    return f"{role} ({len(ranks)}: {', '.join(f'{number} {phase.lower()}' for phase, number in counts.items())})"


def _cells(found: "Seen", rank: "Rank", last: str, ended: datetime) -> tuple[str, ...]:
    from trainwright.cli import ranks
    from trainwright.cli.words import span

    pod = found.view.pods[rank.uid]
    code = next((str(each.code) for each in ranks.endings(pod) if rank.phase in ("Succeeded", "Failed")), "")
    age = span(max((ended - rank.started).total_seconds(), 0)) if rank.started else ""
    said = rank.detail or last
    short = said if len(said) <= _LONGEST_LINE else f"{said[: _LONGEST_LINE - 1]}…"
    return rank.label, rank.phase, rank.node, code, str(rank.restarts), age, short
