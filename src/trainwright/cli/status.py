"""`tw status JOB`: a job, its roles and its ranks, as they are or were when the run ended."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import jobs as complete_jobs

if TYPE_CHECKING:
    from trainwright.cli.kept import KeptJob
    from trainwright.cli.ranks import Rank


@click.command("status")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=complete_jobs)
@click.option("-n", "--namespace", help="Look in this namespace only.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print the job object instead.")
def command(job: str, namespace: str | None, output: str | None) -> None:
    """Show a job, its roles and its ranks: phase, exit, restarts, the last line of each.

    \b
    tw status mnist
    tw status mnist/worker-1
    tw status mnist -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli import kept
    from trainwright.cli.output import dump

    found = kept.find(job, namespace)
    if output:
        wanted: Any = found.pods()[0] if found.address.rank else found.object
        sys.stdout.write(dump(wanted, output))
        return
    for line in lines(found, datetime.now(UTC)):
        click.echo(line)


def lines(found: "KeptJob", now: datetime) -> list[str]:
    """Return the tree of a job: itself, how it came to this, its roles, their ranks."""
    from trainwright.cli import jobs
    from trainwright.cli.words import span

    job = found.object
    if job is None:
        return [f"{found.key.kind} {found.key.name}: nothing was kept of it but its logs, in {found.run.path}"]
    state, outcome = jobs.state(job), found.run.meta.get("outcome", "")
    ended = _ended(found.run.meta, now)
    lasted = jobs.lasted(job, ended)
    phase = state.phase if state.finished or found.run.running else outcome or "Unfinished: the run was killed"
    head = f"{found.key.kind} {found.key.namespace}/{found.key.name}: {phase}"
    if lasted is not None and not found.run.running:
        head += f" after {span(lasted) if lasted else 'less than 1s'}"
    return [
        head,
        *(f"  {line}" for line in _conditions(job)),
        *(f"  {line}" for line in _scalings(job)),
        *_roles(found, ended),
        f"  kept in {found.run.path}",
    ]


def _ended(meta: Any, now: datetime) -> datetime:
    from trainwright.core.objects import moment

    return moment(meta.get("ended")) or now


def _conditions(job: dict[str, Any]) -> list[str]:
    from trainwright.cli.words import clock
    from trainwright.core.objects import at

    lines = []
    for each in at(job, ("status", "conditions")) or ():
        said = f": {each['message']}" if each.get("message") else ""
        lines.append(f"{clock(each.get('lastTransitionTime')):8}  {_condition(each)}{said}")
    return lines


def _condition(each: dict[str, Any]) -> str:
    """Return what a condition tells; those of a Volcano Job have no type, and their status is a phase."""
    if "type" not in each:
        return str(each.get("status", ""))
    return str(each["type"]) if each.get("status") == "True" else f"no longer {each['type']}"


def _scalings(job: dict[str, Any]) -> list[str]:
    """Return how the job came to its size."""
    from trainwright.api.scaling import history
    from trainwright.cli.words import clock

    return [f"{clock(each.time):8}  Scaled: {each.reason}" for each in history(job.get("status"))]


def _roles(found: "KeptJob", ended: datetime) -> list[str]:
    """Return each role with its ranks below it."""
    from trainwright.cli.words import columns

    asked = {pod["metadata"]["name"] for pod in found.pods()}
    ranks = [rank for rank in found.view.ranks(found.key) if rank.pod in asked]
    table = columns(
        ("RANK", "PHASE", "EXIT", "RESTARTS", "AGE", "LAST LINE"), [_cells(found, rank, ended) for rank in ranks]
    )
    lines, role = [f"    {table[0]}"], ""
    for rank, line in zip(ranks, table[1:], strict=True):
        name = rank.label.rpartition("-")[0]
        if name != role:
            role = name
            same = [each for each in ranks if each.label.rpartition("-")[0] == role]
            done = sum(each.phase == "Succeeded" for each in same)
            lines.append(f"  {role} ({len(same)}, {done} succeeded)")
        lines.append(f"    {line}")
    return lines if ranks else ["  it has no ranks"]


def _cells(found: "KeptJob", rank: "Rank", ended: datetime) -> tuple[str, ...]:
    from trainwright.cli import ranks
    from trainwright.cli.words import span

    pod = found.view.pods[rank.uid]
    code = next((str(each.code) for each in ranks.endings(pod) if rank.phase in ("Succeeded", "Failed")), "")
    age = span((ended - rank.started).total_seconds()) if rank.started else ""
    return rank.label, rank.phase, code, str(rank.restarts), age, rank.detail or _last_line(found.run.path, rank)


def _last_line(folder: Path, rank: "Rank") -> str:
    from trainwright.cli.merge import sources
    from trainwright.cli.report import last_lines

    files = [each.path(folder) for each in sources(folder) if each.uid == rank.uid]
    said = next((line for path in reversed(files) for line in last_lines(path, 1)), "")
    return said if len(said) <= 80 else f"{said[:79]}…"
