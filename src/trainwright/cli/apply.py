"""`tw apply -f FILE...`: make the objects of a home what manifests say."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.flags import set_option
from trainwright.cli.homes import Where, where_options
from trainwright.cli.output import Output, output_option
from trainwright.cli.settings import Setting

if TYPE_CHECKING:
    from trainwright.cli.homes import Home
    from trainwright.core.resources import Resource


@click.command("apply")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="A file, a folder, or -.")
@set_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@where_options
@output_option()
def command(
    files: tuple[str, ...], sets: tuple[Setting, ...], dry_run: bool, where: Where, output: Output | None
) -> None:
    """Create what is not there and change what is, so that it is as the manifests say.

    What is wrong with any of them is said in the words of `tw lint` before anything is done (exit code 126). Values
    that an earlier manifest named and this one does not are removed; what others have set is left alone. `kubectl
    apply` and `tw apply` may take turns.

    \b
    tw apply -f job.yaml
    tw apply -f jobs/ --dry-run
    tw apply -f job.yaml --set spec.runPolicy.backoffLimit=3
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli import loading
    from trainwright.cli.output import tell

    if where.all_namespaces:
        raise click.UsageError("-A means every namespace, and an object lives in one; write -n NS")
    objects, warnings = loading.objects(files, sets, where.namespace)
    for warning in warnings:
        click.echo(warning, err=True)
    done = asyncio.run(_apply(where, objects, quiet=output is not None, dry_run=dry_run))
    if output:
        tell(done, output)


async def _apply(
    where: Where, objects: "list[tuple[Resource, dict[str, Any]]]", *, quiet: bool, dry_run: bool
) -> list[tuple[dict[str, Any], str]]:
    """Apply one object after the other, and say of each at once what was done: a later one may be refused."""
    from trainwright.cli import homes
    from trainwright.cli.output import tell

    done = []
    async with homes.opened(where) as home:
        for resource, obj in objects:
            stored, what = await _applied(home, resource, _placed(home, resource, obj), dry_run=dry_run)
            done.append((stored, f"{what} (dry run)" if dry_run else what))
            if not quiet:
                tell(done[-1:], None)
    return done


def _placed(home: "Home", resource: "Resource", obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the namespace that is meant where nobody names one."""
    meta = obj["metadata"]
    if not resource.namespaced or meta.get("namespace"):
        return obj
    return {**obj, "metadata": {**meta, "namespace": home.namespace}}


async def _applied(
    home: "Home", resource: "Resource", obj: dict[str, Any], *, dry_run: bool
) -> tuple[dict[str, Any], str]:
    from trainwright.cli import applying
    from trainwright.core.errors import BadRequest, NotFound

    meta = obj["metadata"]
    if not meta.get("name"):
        raise BadRequest("metadata.generateName: what is applied again and again needs a name; write metadata.name")
    namespace = meta.get("namespace", "")
    try:
        live = await home.cluster.get(resource, namespace, meta["name"])
    except NotFound:
        made = applying.to_create(obj)
        return made if dry_run else await home.cluster.create(resource, made), "created"
    patch = applying.patch(live, obj)
    if not patch:
        return live, "unchanged"
    return live if dry_run else await home.cluster.patch(resource, namespace, meta["name"], patch), "configured"
