"""`tw events JOB`: what happened to a job and its pods, oldest first."""

import sys
from typing import Any

import click

from trainwright.cli.completion import jobs as complete_jobs


@click.command("events")
@click.argument("job", metavar="JOB", shell_complete=complete_jobs)
@click.option("-n", "--namespace", help="Look in this namespace only.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print the event objects instead.")
def command(job: str, namespace: str | None, output: str | None) -> None:
    """List what happened to a job and its pods, oldest first."""
    from trainwright.cli import kept
    from trainwright.cli.output import as_list, dump
    from trainwright.cli.words import columns

    found = kept.find(job, namespace)
    pods = {pod["metadata"]["name"] for pod in found.pods()} if found.address.rank else None
    events = sorted((each for each in found.events if kept.about(each, found)), key=_order)
    if pods is not None:
        events = [each for each in events if (each.get("involvedObject") or {}).get("name") in pods]
    if output:
        sys.stdout.write(dump(as_list(events), output))
        return
    if not events:
        click.echo(f"nothing is known to have happened to {found.address}", err=True)
        return
    for line in columns(("TIME", "TYPE", "ABOUT", "REASON", "WHAT HAPPENED"), [_cells(each) for each in events]):
        click.echo(line)


def _order(event: dict[str, Any]) -> tuple[str, int]:
    version = str(event["metadata"].get("resourceVersion", ""))
    return _time(event), int(version) if version.isdecimal() else 0


def _time(event: dict[str, Any]) -> str:
    meta = event["metadata"]
    times = (
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        meta.get("creationTimestamp"),
    )
    return next((str(time) for time in times if time), "")


def _cells(event: dict[str, Any]) -> tuple[str, ...]:
    from trainwright.cli.words import clock

    place = event.get("involvedObject") or {}
    count = event.get("count") or 1
    message = str(event.get("message", "")).replace("\n", " ")
    again = f" ({count} times)" if count > 1 else ""
    about = f"{place.get('kind', '').lower()}/{place.get('name', '')}"
    return clock(_time(event)), str(event.get("type", "")), about, str(event.get("reason", "")), message + again
