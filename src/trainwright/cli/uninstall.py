"""`tw uninstall`: what to delete, in order, as manifests. Nothing is deleted."""

import sys
from typing import TYPE_CHECKING

import click

from trainwright.cli.flags import Names, asked_cluster_options, operator_namespace_option, stream_option

if TYPE_CHECKING:
    from trainwright.operator.survey import Survey


@click.command("uninstall")
@operator_namespace_option
@click.option("--watch", type=Names(), default=(), metavar="A,B", help="The namespaces it was installed for, if named.")
@click.option("--force", is_flag=True, help="Delete the kinds even if there are jobs, and all jobs with them.")
@click.option("--offline", is_flag=True, help="Ask no cluster what it has; the kinds then only go by --force.")
@asked_cluster_options
@stream_option
def command(
    namespace: str,
    watch: tuple[str, ...],
    force: bool,
    offline: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> None:
    """Print what `tw install` has printed, by name and in the order in which it goes. Nothing is deleted.

    Kinds that have jobs, or that somebody else has brought, are left out, and that is said.

    \b
    tw uninstall | kubectl delete --ignore-not-found -f -
    tw uninstall --namespace training --force
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import stream
    from trainwright.operator.manifests import Installation
    from trainwright.operator.removal import removal

    found = None if offline or watch else _survey(kubeconfig, context)
    planned = removal(Installation(namespace=namespace, watch=watch), found, force=force)
    sys.stdout.write(stream(planned.objects, output))
    sys.stdout.flush()
    for reason in planned.kept:
        click.echo(f"tw: {reason}", err=True)


def _survey(kubeconfig: str | None, context: str | None) -> "Survey":
    import asyncio

    from trainwright.cluster.kubernetes import KubernetesCluster
    from trainwright.operator.survey import Survey, definitions_there, objects_of

    async def ask() -> Survey:
        async with KubernetesCluster.from_config(kubeconfig, context) as cluster:
            definitions = await definitions_there(cluster)
            return Survey(definitions, await objects_of(cluster, definitions))

    return asyncio.run(ask())
