"""`tw explain FILE`: every field we put into the pods of a job, where it comes from and why."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from trainwright.cli.flags import lenient_option, set_option
from trainwright.cli.settings import Setting

if TYPE_CHECKING:
    from trainwright.desired import Injection

_WIDEST = 120


@click.command("explain")
@click.argument("file")
@click.option("--role", default="", help="Only the pods of this role.")
@click.option("-n", "--namespace", help="The namespace of objects that name none.")
@set_option
@lenient_option
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print rows of pod, path, value, source, reason.")
def command(
    file: str, role: str, namespace: str | None, sets: tuple[Setting, ...], lenient: bool, output: str | None
) -> None:
    """Print, pod by pod, every field we inject or change in the jobs of FILE, its source and the reason.

    \b
    tw explain job.yaml
    tw explain job.yaml --role Worker
    tw explain job.yaml -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.loading import load
    from trainwright.cli.output import dump

    loaded = load(file, sets, namespace, lenient=lenient)
    for warning in loaded.warnings:
        click.echo(warning, err=True)
    rows = _rows(loaded.jobs, role)
    if output:
        sys.stdout.write(dump([asdict(row) for row in rows], output))
    else:
        for line in _lines(rows):
            click.echo(line)


def _rows(jobs: Sequence[dict[str, object]], role: str) -> "list[Injection]":
    from trainwright import desired
    from trainwright.core.errors import NotFound, did_you_mean
    from trainwright.kinds import kind_of

    rows: list[Injection] = []
    known: dict[str, None] = {}
    for obj in jobs:
        kind = kind_of(obj)
        assert kind is not None, "only jobs are loaded as jobs"
        job = kind.read(obj)
        known |= dict.fromkeys(each.name for each in job.roles)
        rows += desired.explain(kind.build(job, desired.KUBERNETES, 0), role)
    if role and role.lower() not in (name.lower() for name in known):
        raise NotFound(f"no job here has a role {role!r}{did_you_mean(role, known)} (there are: {', '.join(known)})")
    return rows


def _lines(rows: "Sequence[Injection]") -> list[str]:
    """Return a table for each pod."""
    from trainwright.cli.words import columns

    lines: list[str] = []
    for pod, group in groupby(rows, key=lambda row: row.pod):
        cells = [(row.path, _short(row.value), row.source, row.reason) for row in group]
        lines += ["", pod] if lines else [pod]
        lines += [f"  {line}" for line in columns(("FIELD", "VALUE", "SOURCE", "WHY"), cells)]
    return lines


def _short(value: str) -> str:
    """Return what fits into a line of the table; -o json has all of it."""
    first, more = value.partition("\n")[::2]
    return f"{first[:_WIDEST]}…" if more or len(first) > _WIDEST else first
