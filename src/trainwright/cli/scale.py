"""`tw scale JOB N`: an elastic job gets another size."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option

if TYPE_CHECKING:
    from trainwright.api.common import Elastic
    from trainwright.kinds import Kind


@click.command("scale")
@click.argument("job", metavar="JOB", shell_complete=live_jobs)
@click.argument("size", metavar="N", type=click.IntRange(0))
@where_options
@output_option()
def command(job: str, size: int, where: Where, output: Output | None) -> None:
    """Give an elastic job N workers, within the bounds it names.

    The autoscaler may change the size again; the annotation trainwright.dev/autoscale: "false" keeps it from that job.

    \b
    tw scale mnist 4
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import tell

    tell([asyncio.run(_scale(where, job, size))], output)


async def _scale(where: Where, text: str, size: int) -> tuple[dict[str, Any], str]:
    from trainwright.cli import homes
    from trainwright.core.objects import at

    async with homes.opened(where, text) as home:
        kind, job = await homes.find(home, text)
        elastic = _checked(kind, job, size)
        before = kind.read(job).count(elastic.role)
        if at(job, kind.size_path) == size:
            return job, f"has {size} already"
        meta = job["metadata"]
        patch = _patch(kind, before, size)
        scaled = await home.cluster.patch(kind.resource, meta["namespace"], meta["name"], patch)
    return scaled, f"scaled from {before} to {size}"


def _checked(kind: "Kind", job: dict[str, Any], size: int) -> "Elastic":
    """Return the range of a job that may have this size; Conflict or BadRequest says why it may not."""
    from trainwright.api.faces import OWN_SIZE
    from trainwright.core.errors import BadRequest, Conflict
    from trainwright.core.whole import is_apart

    name = job["metadata"]["name"]
    standing = kind.face.standing(job.get("status") or {})
    if standing.finished:
        raise Conflict(f"{name} is {standing.phase} already; there is nothing to scale")
    if is_apart(job) and kind.size_path == OWN_SIZE:
        raise Conflict(
            f"{name} keeps its size: the cluster's definition of {kind.name} is not ours and drops "
            f"{'.'.join(OWN_SIZE)}; tw install --adopt-crds replaces it"
        )
    elastic = kind.read(job).elastic
    if elastic is None:
        how = f"a {kind.name} becomes elastic by {kind.face.stretch}" if kind.face.stretch else f"no {kind.name} is"
        raise Conflict(f"{name} is not elastic: its ranks were told how many they are, and stay so many; {how}")
    if not elastic.minimum <= size <= elastic.maximum:
        raise BadRequest(f"{name} may have {elastic.minimum} to {elastic.maximum} {elastic.role}, found {size}")
    return elastic


def _patch(kind: "Kind", before: int, size: int) -> dict[str, Any]:
    """Return the change of the size, together with who made it: both are written in one go."""
    from trainwright.api.scaling import Scaling, annotation
    from trainwright.cli.orders import person
    from trainwright.core.names import SCALED_ANNOTATION
    from trainwright.core.objects import nest, timestamp

    said = f"{before} to {size}: {person()} asked for it"
    change = Scaling(timestamp(datetime.now(UTC)), before, size, said)
    metadata: dict[str, Any] = {"annotations": {SCALED_ANNOTATION: annotation(change)}}
    patch: dict[str, Any] = nest(kind.size_path, size)
    return {**patch, "metadata": metadata}
