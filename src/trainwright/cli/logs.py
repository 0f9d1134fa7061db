"""`tw logs JOB`: what the ranks of a job printed, from the files of its run."""

import sys
import time
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

import click

from trainwright.cli.completion import jobs as complete_jobs

if TYPE_CHECKING:
    from trainwright.cli.kept import KeptJob
    from trainwright.cli.merge import Source

POLL_SECONDS = 0.2


@click.command("logs")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=complete_jobs)
@click.option("-n", "--namespace", help="Look in this namespace only.")
@click.option("-c", "--container", default="", help="Only this container of each rank.")
@click.option("-p", "--previous", is_flag=True, help="Only the run of the container before its last restart.")
@click.option("-f", "--follow", is_flag=True, help="Go on while the job runs.")
@click.option("--tail", type=click.IntRange(0), help="Only the last so many lines of each rank.")
def command(job: str, namespace: str | None, container: str, previous: bool, follow: bool, tail: int | None) -> None:
    """Print what the ranks of a job printed, every restart included.

    \b
    tw logs mnist              all ranks, each line with its rank in front
    tw logs mnist/worker-1     one rank, as it printed it
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli import kept

    found = kept.find(job, namespace)
    if follow and found.run.running:
        _follow(found)
        return
    chosen = _chosen(found, container, previous=previous)
    several = len({(source.pod, source.container) for source in chosen}) > 1
    for prefix, sources in groupby(chosen, key=lambda source: _prefix(found, source, several=several)):
        _print(found, prefix, sources, tail)


def _chosen(found: "KeptJob", container: str, *, previous: bool) -> "list[Source]":
    """Return the log files asked for, in the order of ranks, incarnations in order."""
    from trainwright.cli.merge import sources
    from trainwright.core.errors import NotFound, did_you_mean

    names = [pod["metadata"]["name"] for pod in found.pods()]
    uids = [pod["metadata"]["uid"] for pod in found.view.every_pod(found.key)]
    there = [each for each in sources(found.run.path) if each.pod in names and each.uid in uids]
    there.sort(key=lambda each: (names.index(each.pod), uids.index(each.uid), each.container, each.restart))
    containers = sorted({each.container for each in there})
    if container and container not in containers:
        known = ", ".join(containers) or "none that printed"
        raise NotFound(
            f"{found.address} has no container {container!r}{did_you_mean(container, containers)} (there are: {known})"
        )
    there = [each for each in there if (each.container == container if container else _main(found, each))]
    return _before_last(there) if previous else there


def _main(found: "KeptJob", source: "Source") -> bool:
    """Say whether a container is printed unasked: init steps only among all ranks, and what printed nothing never."""
    from trainwright.core.objects import at

    names = [each["name"] for each in at(found.view.pods[source.uid], ("spec", "containers")) or ()]
    wanted = not found.address.rank or source.container in names
    return wanted and source.path(found.run.path).stat().st_size > 0


def _before_last(sources: "Iterable[Source]") -> "list[Source]":
    grouped = [list(group) for _, group in groupby(sources, key=lambda each: (each.pod, each.container))]
    return [group[-2] for group in grouped if len(group) > 1]


def _prefix(found: "KeptJob", source: "Source", *, several: bool) -> bytes:
    """Return what to put before each line; nothing when only one container was asked for."""
    from trainwright.cli.view import container_name

    if not several:
        return b""
    return f"{container_name(found.view.pods[source.uid], source.container, several_jobs=False)} | ".encode()


def _print(found: "KeptJob", prefix: bytes, sources: "Iterable[Source]", tail: int | None) -> None:
    from trainwright.cli.merge import lines_of
    from trainwright.cli.report import last_lines

    out = sys.stdout.buffer
    if tail is not None:
        lines = [line for source in sources for line in last_lines(source.path(found.run.path), tail)]
        for line in lines[len(lines) - min(tail, len(lines)) :]:
            out.write(prefix + line.encode() + b"\n")
    else:
        for source in sources:
            for piece in lines_of(source.path(found.run.path), prefix):
                out.write(piece)
    out.flush()


def _follow(found: "KeptJob") -> None:
    """Print everything from the start and go on until the run is over."""
    from trainwright.cli.merge import Merger, Prefixes, Source
    from trainwright.cli.screen import Screen

    names = {pod["metadata"]["name"] for pod in found.pods()} if found.address.rank else set()
    screen = Screen()

    def label(source: Source) -> str:
        if names and source.pod not in names:
            return ""
        return source.pod.removeprefix(f"{found.key.name}-")

    broken: list[OSError] = []
    prefixes = Prefixes(terminal=screen.terminal, colour=screen.colour)
    merger = Merger(found.run.path, screen.log, label, prefixes, broken.append)
    merger.start()
    try:
        while found.run.running and merger.busy:
            time.sleep(POLL_SECONDS)
    finally:
        merger.finish()
    if broken:
        raise broken[0]
