"""`tw doctor`: what works here, one line each, and what to do about the rest."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from trainwright.cli import exits
from trainwright.cli.homes import Where, where_options

if TYPE_CHECKING:
    from trainwright.cli.checkup import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print the findings for a program.")
@where_options
def command(output: str | None, where: Where) -> int:
    """Say what works here: isolation, control groups, GPUs, frameworks, disk, `tw serve`, the cluster and your rights.

    Each line is ok, warn (something is missing that a job may need) or fail (nothing will work without it), with what
    to do about it. Exit code 1 if anything fails.

    \b
    tw doctor
    tw doctor --context prod -n team
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.checkup import of_homes, of_machine
    from trainwright.cli.output import dump

    found = [*of_machine(), *asyncio.run(of_homes(where))]
    if output:
        rows = [{"state": each.state, "what": each.what, "found": each.found, "remedy": each.remedy} for each in found]
        sys.stdout.write(dump(rows, output))
    else:
        _tell(found)
    return exits.REFUSED if any(each.state == "fail" for each in found) else exits.OK


def _tell(found: "list[Finding]") -> None:
    widest = max(len(each.what) for each in found)
    for each in found:
        click.echo(f"{_shown(each.state)}  {each.what.ljust(widest)}  {each.found}")
        if each.remedy:
            click.echo(f"      {' ' * widest}  {each.remedy}")


def _shown(state: str) -> str:
    """Return a state as wide as the widest, in its colour unless nobody wants any."""
    return state.ljust(4) if os.environ.get("NO_COLOR") else click.style(state.ljust(4), fg=_COLOURS[state])
