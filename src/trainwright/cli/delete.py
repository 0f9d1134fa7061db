"""`tw delete JOB...`: jobs and everything that is theirs are removed."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.words import Duration

if TYPE_CHECKING:
    from trainwright.cli.homes import Home
    from trainwright.core.resources import Resource

    Doomed = tuple[Resource, dict[str, Any]]


@click.command("delete")
@click.argument("jobs", metavar="[JOB...]", nargs=-1, shell_complete=live_jobs)
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Delete what these manifests describe.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Delete the jobs with these labels.")
@click.option("--all", "every", is_flag=True, help="Delete all jobs of the namespace.")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is as good as deleted.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when they are gone.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this. Exit code 124.")
@where_options
def command(
    jobs: tuple[str, ...],
    files: tuple[str, ...],
    selector: str,
    every: bool,
    ignore_not_found: bool,
    wait: bool,
    timeout: float | None,
    where: Where,
) -> None:
    """Delete jobs with their pods and everything else they have. Nothing of them is left to be looked at.

    \b
    tw delete mnist
    tw delete -f job.yaml --ignore-not-found
    tw delete -l team=vision --no-wait
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    if sum(map(bool, (jobs, files, selector, every))) != 1:
        raise click.UsageError("say what to delete: JOB..., or -f FILE, or -l LABELS, or --all, one of them")
    asyncio.run(_delete(where, jobs, files, selector, ignore=ignore_not_found, timeout=timeout if wait else 0))


async def _delete(
    where: Where, jobs: tuple[str, ...], files: tuple[str, ...], selector: str, *, ignore: bool, timeout: float | None
) -> None:
    """Delete everything that is meant and wait for it; a timeout of 0 is not to wait."""
    from trainwright.cli import homes
    from trainwright.core.errors import NotFound

    for text in jobs or (None,):
        try:
            async with homes.opened(where, text) as home:
                doomed = (
                    await _named(home, text) if text else await _chosen(home, where, files, selector, ignore=ignore)
                )
                await _removed(home, doomed, timeout)
        except NotFound:
            if not ignore:
                raise


async def _named(home: "Home", text: str) -> "list[Doomed]":
    from trainwright.cli import homes

    face, job = await homes.look_up(home, text)
    return [(face.resource, job)]


async def _chosen(home: "Home", where: Where, files: tuple[str, ...], selector: str, *, ignore: bool) -> "list[Doomed]":
    from trainwright.cli import homes, loading
    from trainwright.core.errors import NotFound

    if not files:
        return [(face.resource, job) for face, job in await homes.listing(home, labels=selector)]
    found: list[Doomed] = []
    for resource, obj in loading.objects(files, (), where.namespace, check=False)[0]:
        meta = obj["metadata"]
        namespace = (meta.get("namespace") or home.namespace or "default") if resource.namespaced else ""
        try:
            found.append((resource, await home.cluster.get(resource, namespace, meta["name"])))
        except NotFound:
            if not ignore:
                raise
    return found


async def _removed(home: "Home", doomed: "list[Doomed]", timeout: float | None) -> None:
    from trainwright.cli.output import tell
    from trainwright.cli.waiting import until

    if not doomed:
        click.echo(f"there is nothing to delete in {home.place}", err=True)
    for resource, obj in doomed:
        meta = obj["metadata"]
        await home.cluster.delete(resource, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
        tell([(obj, "deleted")], None)
    if timeout == 0:
        return
    for resource, obj in doomed:
        what = f"{obj['metadata']['name']} is being deleted, but was not gone"
        await until(home, resource, obj, lambda now: now is None, timeout, what)
