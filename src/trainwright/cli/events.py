"""`tw events JOB`: what happened to a job and its pods, oldest first."""

import asyncio
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import jobs as complete_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option

if TYPE_CHECKING:
    from trainwright.cli.seen import Seen

_HEADS = ("TIME", "TYPE", "ABOUT", "REASON", "WHAT HAPPENED")


@click.command("events")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=complete_jobs)
@click.option("-w", "--watch", is_flag=True, help="Go on and print what happens.")
@where_options
@output_option()
def command(job: str, watch: bool, where: Where, output: Output | None) -> None:
    """List what happened to a job and its pods, oldest first.

    \b
    tw events mnist
    tw events mnist/worker-1 -w
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    asyncio.run(_events(where, job, output, watch=watch))


async def _events(where: Where, job: str, output: Output | None, *, watch: bool) -> None:
    from trainwright.cli import homes
    from trainwright.cli.output import as_list, in_form, printed
    from trainwright.cli.seen import look
    from trainwright.core.resources import EVENT

    async with homes.opened(where, job) as home:
        found = await look(home, job)
        listing = await home.cluster.list(EVENT, found.key.namespace)
        events = sorted(_about(listing.items, found), key=_order)
        if output:
            named = output.form == "name"
            click.echo(printed(events, output) if named else in_form(as_list(events), output), nl=False)
        else:
            _print(events, f"nothing is known to have happened to {found.address}")
        if watch and home.kind != "kept":
            await _watch(found, listing.version, events, output)


def _print(events: list[dict[str, Any]], otherwise: str) -> None:
    from trainwright.cli.words import columns

    if not events:
        click.echo(otherwise, err=True)
        return
    for line in columns(_HEADS, map(_cells, events)):
        click.echo(line)


async def _watch(found: "Seen", version: str, events: list[dict[str, Any]], output: Output | None) -> None:
    """Print events as they come, until the user has seen enough or the home is gone."""
    from trainwright.cli import waiting
    from trainwright.cli.output import printed
    from trainwright.cli.words import columns
    from trainwright.core.resources import EVENT

    widest = tuple(max(column, key=len) for column in zip(_HEADS, *map(_cells, events), strict=True))
    watch = found.home.cluster.watch(EVENT, found.key.namespace, since=version)
    while (change := await waiting.next_change(found.home, watch)) is not None:
        if change.type in ("DELETED", "BOOKMARK"):
            continue
        for event in _about([change.object], found):
            if output:
                click.echo(printed([event], output), nl=False)
            else:
                click.echo(columns((*widest[:-1], _HEADS[-1]), [_cells(event)])[-1])
        sys.stdout.flush()


def _about(events: Iterable[dict[str, Any]], found: "Seen") -> list[dict[str, Any]]:
    """Return the events about a job or its pods, or about the rank that was asked for."""
    if found.address.rank:
        names = {pod["metadata"]["name"] for pod in found.pods()}
        return [each for each in events if _place(each).get("name") in names]
    return [each for each in events if _is_about(_place(each), found)]


def _is_about(place: dict[str, Any], found: "Seen") -> bool:
    name = str(place.get("name", ""))
    if place.get("kind") == found.key.kind:
        return name == found.key.name
    pods = {pod["metadata"]["name"] for pod in found.view.every_pod(found.key)}
    return name in pods or name.startswith(f"{found.key.name}-")


def _place(event: dict[str, Any]) -> dict[str, Any]:
    return event.get("involvedObject") or {}


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

    place = _place(event)
    count = event.get("count") or 1
    message = str(event.get("message", "")).replace("\n", " ")
    again = f" ({count} times)" if count > 1 else ""
    about = f"{place.get('kind', '').lower()}/{place.get('name', '')}"
    return clock(_time(event)), str(event.get("type", "")), about, str(event.get("reason", "")), message + again
