"""`tw cancel JOB...`: jobs end now; they stay to be looked at."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option
from trainwright.cli.words import Duration

if TYPE_CHECKING:
    from trainwright.api.faces import Face
    from trainwright.cli.homes import Home


@click.command("cancel")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=live_jobs)
@click.option("--grace", type=Duration(), metavar="D", help="Kill what has not ended after so long; 0s kills at once.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when the jobs have ended.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this. Exit code 124.")
@where_options
@output_option()
def command(
    jobs: tuple[str, ...],
    grace: float | None,
    wait: bool,
    timeout: float | None,
    where: Where,
    output: Output | None,
) -> None:
    """End jobs now. Every rank is asked to stop and killed when its grace period is over.

    The job and its record stay: `tw why` and `tw logs` still tell what happened, and `tw retry` starts it once more.

    \b
    tw cancel mnist
    tw cancel mnist --grace 5s
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import tell

    tell(asyncio.run(_cancel(where, jobs, grace, timeout, wait=wait)), output)


async def _cancel(
    where: Where, jobs: tuple[str, ...], grace: float | None, timeout: float | None, *, wait: bool
) -> list[tuple[dict[str, Any], str]]:
    from trainwright.cli import homes, orders

    done = []
    for text in jobs:
        async with homes.opened(where, text) as home:
            face, job = await orders.give(home, text, "cancel")
            if grace is not None:
                await _hurry(home, job, round(grace))
            done.append((await _ended(home, face, job, timeout) if wait else job, "cancelled"))
    return done


async def _hurry(home: "Home", job: dict[str, Any], grace: int) -> None:
    """End the pods of a job with another grace period than their own; a run that is over by now has none left."""
    from trainwright.cli.homes import is_there
    from trainwright.cluster.kubernetes import Unreachable

    try:
        await _end_pods(home, job, grace)
    except Unreachable:
        if is_there(home):
            raise


async def _end_pods(home: "Home", job: dict[str, Any], grace: int) -> None:
    from trainwright.core.errors import Conflict, NotFound
    from trainwright.core.names import JOB_LABEL
    from trainwright.core.resources import POD

    meta = job["metadata"]
    for pod in (await home.cluster.list(POD, meta["namespace"], labels=f"{JOB_LABEL}={meta['name']}")).items:
        try:
            await home.cluster.delete(
                POD, meta["namespace"], pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace=grace
            )
        except (NotFound, Conflict):
            continue


async def _ended(home: "Home", face: "Face", job: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    from trainwright.cli.waiting import until

    def has_ended(now: dict[str, Any] | None) -> bool:
        return now is None or face.standing(now.get("status") or {}).finished

    what = f"{job['metadata']['name']} was told to end, but has not"
    return await until(home, face.resource, job, has_ended, timeout, what) or job
