"""`tw why JOB`: why a job has the size it has. Reads the history in its status, and what was said about scaling it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import jobs as complete_jobs

if TYPE_CHECKING:
    from trainwright.api.scaling import Scaling
    from trainwright.cli.kept import KeptJob

_TOLD = ("Waiting", "NotScaled")
"""Reasons of events that the autoscaler tells besides the changes in the history."""


@click.command("why")
@click.argument("job", metavar="JOB", shell_complete=complete_jobs)
@click.option("-n", "--namespace", help="Look in this namespace only.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print the changes of its size as rows.")
def command(job: str, namespace: str | None, output: str | None) -> None:
    """Say why a job has the size it has: every change, when it was made, and what for.

    \b
    tw why mnist
    tw why mnist -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.api import scaling
    from trainwright.cli import kept
    from trainwright.cli.output import dump

    found = kept.find(job, namespace)
    changes = scaling.history((found.object or {}).get("status"))
    if output:
        sys.stdout.write(dump([scaling.written(each) for each in changes], output))
        return
    for line in _lines(found, changes):
        click.echo(line)


def _lines(found: "KeptJob", changes: "list[Scaling]") -> Iterator[str]:
    told = [each for each in found.events if each.get("reason") in _TOLD and _is_about(each, found)]
    waits = [(str(each["firstTimestamp"]), _waited(each)) for each in told if each["reason"] == "Waiting"]
    scalings = [(each.time or "", _sentence(each)) for each in changes]
    yield from (sentence for _, sentence in sorted([*waits, *scalings]))
    yield from [str(each["message"]) for each in told if each["reason"] == "NotScaled"][-1:]
    if not changes and not told:
        yield _unscaled(found)


def _waited(event: dict[str, Any]) -> str:
    from trainwright.cli.words import clock

    return f"waited at {clock(event['firstTimestamp'])} because {event['message']}"


def _is_about(event: dict[str, Any], found: "KeptJob") -> bool:
    from trainwright.core.objects import at

    return bool(at(event, ("involvedObject", "uid")) == at(found.object, ("metadata", "uid")))


def _sentence(change: "Scaling") -> str:
    """Return "scaled from 4 to 2 at 12:03:05 because …"; the reason repeats the sizes before its colon."""
    from trainwright.cli.words import clock

    head, _, cause = (change.reason or "").partition(": ")
    because = f" because {cause or head}" if change.reason else ""
    return f"scaled from {change.before} to {change.after} at {clock(change.time)}{because}"


def _unscaled(found: "KeptJob") -> str:
    from trainwright.kinds import kind_of

    kind = kind_of(found.object or {})
    elastic = kind.read(found.object).elastic if kind and found.object else None
    if elastic is None:
        return f"{found.key.kind} {found.key.name} has only one size: it is not elastic"
    span = f"{elastic.role} may be {elastic.minimum} to {elastic.maximum}"
    return f"{found.key.kind} {found.key.name} was never resized; {span}"
