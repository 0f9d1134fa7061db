"""`tw retry JOB...`: a job that has ended is run once more, under a new name; the record of the old run stays."""

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option

if TYPE_CHECKING:
    from trainwright.api.faces import Face
    from trainwright.cli.homes import Home


@click.command("retry")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=live_jobs)
@where_options
@output_option()
def command(jobs: tuple[str, ...], where: Where, output: Output | None) -> None:
    """Run jobs that have ended once more: the same manifest, as a new job mnist-2, mnist-3 and so on.

    The old job stays as it is, with its logs, events and record, until it is deleted.

    \b
    tw retry mnist
    tw retry mnist-2        the same as the line above: the next number is taken
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import tell

    tell(asyncio.run(_retry(where, jobs)), output)


async def _retry(where: Where, jobs: tuple[str, ...]) -> list[tuple[dict[str, Any], str]]:
    from trainwright.cli import homes
    from trainwright.core.errors import Conflict

    done = []
    for text in jobs:
        async with homes.opened(where, text) as home:
            face, job = await homes.look_up(home, text)
            name, standing = job["metadata"]["name"], face.standing(job.get("status") or {})
            if home.kind == "kept":
                raise Conflict(f"{name} was run by tw run; run it once more with: tw run {homes.file_of(home)}")
            if not standing.finished:
                raise Conflict(f"{name} is {standing.phase}, and only what has ended is retried; tw cancel ends it")
            made = await _again(home, face, job)
            done.append((made, f"created, to retry {name}"))
    return done


async def _again(home: "Home", face: "Face", job: dict[str, Any]) -> dict[str, Any]:
    """Make the job once more under the next free name; who takes it before us makes us take the one after."""
    from trainwright.core.errors import AlreadyExists
    from trainwright.core.names import RETRY_ANNOTATION

    wanted = manifest(job)
    meta = wanted["metadata"]
    there = (await home.cluster.list(face.resource, meta["namespace"])).items
    taken = {each["metadata"]["name"] for each in there}
    for number in itertools.count(2):
        name = f"{meta['annotations'][RETRY_ANNOTATION]}-{number}"
        if name not in taken:
            with contextlib.suppress(AlreadyExists):
                return await home.cluster.create(face.resource, {**wanted, "metadata": {**meta, "name": name}})
    raise AssertionError("numbers do not end")


def manifest(job: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked for, without a name: as it was applied, else as it is stored."""
    from trainwright.cli.applying import LAST_APPLIED, last_applied
    from trainwright.core import names

    asked = last_applied(job) or job
    meta: dict[str, Any] = asked["metadata"]
    of_this_run = (names.CANCEL_ANNOTATION, names.SCALED_ANNOTATION, names.RECORD_ANNOTATION, LAST_APPLIED)
    annotations = {name: text for name, text in (meta.get("annotations") or {}).items() if name not in of_this_run}
    annotations.setdefault(names.RETRY_ANNOTATION, job["metadata"]["name"])
    labels = {"labels": meta["labels"]} if meta.get("labels") else {}
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"namespace": job["metadata"]["namespace"], **labels, "annotations": annotations},
        "spec": asked["spec"],
    }
