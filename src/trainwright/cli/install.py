"""`tw install`: everything a Kubernetes cluster needs to run our kinds, as manifests. Nothing is applied.

The cluster is only asked what somebody else has brought already, so that what is printed can be applied as it is. Where
no cluster answers, everything is printed: `kubectl apply` would not get further either.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli.flags import Capacity, Names, asked_cluster_options, operator_namespace_option, stream_option

if TYPE_CHECKING:
    from trainwright.core.objects import Ref
    from trainwright.operator.gangs import Choice
    from trainwright.operator.manifests import Installation

ANSWER_SECONDS = 5.0
"""For a cluster that does not answer nobody waits longer than for the manifests themselves."""


class _Parts(click.ParamType[frozenset[str]]):
    """Parts to leave out: "webhooks,metrics"."""

    name = "parts"

    def convert(
        self, value: str | frozenset[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[str]:
        if isinstance(value, frozenset):
            return value
        from trainwright.core.errors import did_you_mean
        from trainwright.operator.manifests import PARTS

        found = [part.strip() for part in value.split(",") if part.strip()]
        for part in found:
            if part not in PARTS:
                there = ", ".join(PARTS)
                self.fail(f"there is no part {part!r}{did_you_mean(part, PARTS)} (there are: {there})", param, ctx)
        return frozenset(found)


def _as_written(context: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return a capacity as it was written, after it was read: the operator will read it again."""
    if value:
        Capacity().convert(value, param, context)
    return value or ""


@click.command("install")
@operator_namespace_option
@click.option(
    "--watch",
    type=Names(),
    default=(),
    metavar="A,B",
    help="Look after these namespaces only, with rights in these alone.",
)
@click.option("--image", metavar="IMAGE", help="The image of the operator and of the init containers it adds.")
@click.option(
    "--replicas", type=click.IntRange(1), help="How many operators; one works, the others wait.  [default: 2]"
)
@click.option(
    "--gang",
    type=click.Choice(["auto", "native", "volcano", "scheduler-plugins", "gates", "none"]),
    default="auto",
    show_default=True,
    help="How pods that start together are kept together.",
)
@click.option(
    "--capacity",
    callback=_as_written,
    metavar="WHAT",
    help="What elastic jobs share with --watch: cpu=64,memory=256Gi.",
)
@click.option(
    "--without",
    type=_Parts(),
    default=frozenset(),
    metavar="PARTS",
    help="Leave parts out: crds, operator, webhooks, autoscaler, leader-election, metrics.",
)
@click.option(
    "--install-crds", is_flag=True, help="Leave the kinds out, and give the operator the rights to register them."
)
@click.option("--adopt-crds", is_flag=True, help="Replace kinds that another project has brought by ours.")
@click.option("--offline", is_flag=True, help="Print everything, and ask no cluster what it has.")
@click.option("--plan", is_flag=True, help="Only say what would change on the cluster, and what to do first.")
@asked_cluster_options
@stream_option
def command(
    *,
    adopt_crds: bool,
    offline: bool,
    plan: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **asked: Any,
) -> None:
    """Print the kinds, the operator's account and rights, its Deployment and its Services. Nothing is applied.

    Kinds and namespaces that somebody else has brought to the cluster are left out, and that is said.

    \b
    tw install | kubectl apply -f -
    tw install --image registry.example/trainwright:1 | kubectl diff -f -
    tw install --watch team-a,team-b --without autoscaler --namespace team-a
    tw install --plan
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import stream
    from trainwright.operator.manifests import manifests

    if plan:
        if offline:
            raise click.UsageError("--plan is about a cluster; leave --offline out")
        click.echo("\n".join(_plan(kubeconfig, context, adopt=adopt_crds)))
        return
    installation = _installation(**asked)
    kept = [] if offline else _brought_by_others(installation, kubeconfig, context, adopt=adopt_crds)
    sys.stdout.write(stream(manifests(installation, kept), output))
    sys.stdout.flush()
    for note in _notes(installation, kept):
        click.echo(f"tw: {note}", err=True)


def _installation(
    namespace: str,
    watch: tuple[str, ...],
    image: str | None,
    replicas: int | None,
    gang: "Choice",
    capacity: str,
    without: frozenset[Any],
    install_crds: bool,
) -> "Installation":
    """Return what is to be installed, or say which wishes do not go together."""
    from trainwright.desired import KUBERNETES
    from trainwright.operator.manifests import REPLICAS, Installation

    alone = "leader-election" in without
    if alone and (replicas or 1) > 1:
        raise click.UsageError(f"{replicas} operators need leader election; write --replicas 1, or keep it")
    if watch and install_crds:
        raise click.UsageError("--install-crds needs rights on the whole cluster, which --watch does without")
    if watch and not capacity and "autoscaler" not in without:
        raise click.UsageError(
            "with --watch the autoscaler sees no nodes; say what there is to share, such as "
            "--capacity cpu=64,memory=256Gi, or leave it out: --without autoscaler"
        )
    return Installation(
        namespace=namespace,
        image=image or KUBERNETES.wait_image,
        watch=watch,
        replicas=replicas or (1 if alone else REPLICAS),
        gang=gang,
        capacity=capacity,
        without=without,
        install_crds=install_crds,
    )


def _brought_by_others(
    installation: "Installation", kubeconfig: str | None, context: str | None, *, adopt: bool
) -> list["Ref"]:
    """Return what the cluster has of somebody else; nothing where there is no cluster to ask."""
    import asyncio

    from trainwright.cluster.kubernetes import KubernetesCluster, Patience, Unreachable
    from trainwright.core.errors import Forbidden, HomeError
    from trainwright.core.objects import Ref
    from trainwright.operator.manifests import manifests
    from trainwright.operator.survey import brought_by_others

    wanted = [each for each in manifests(installation) if not (adopt and each["kind"] == "CustomResourceDefinition")]

    async def ask() -> list[Ref]:
        patience = Patience(tries=1, seconds=ANSWER_SECONDS)
        async with KubernetesCluster.from_config(kubeconfig, context, patience=patience, timeout=ANSWER_SECONDS) as it:
            return await brought_by_others(it, wanted)

    try:
        return asyncio.run(ask())
    except Forbidden as error:
        raise HomeError(f"{error}; with --offline nobody is asked, and everything is printed") from error
    except (HomeError, Unreachable) as error:
        if kubeconfig or context:
            raise
        click.echo(f"tw: no cluster was asked what it has ({error})", err=True)
        return []


def _notes(installation: "Installation", kept: Iterable["Ref"]) -> Iterator[str]:
    for each in kept:
        if each.kind == "Namespace":
            yield f"the namespace {each.name} is there already and left as it is"
        else:
            yield f"{each.name} is left alone: another project has brought it; --adopt-crds replaces it by ours"
    if installation.watch:
        yield (
            "left out, for they are the whole cluster's: the kinds, webhooks and the namespace; an administrator adds "
            "the kinds with: tw install --without operator | kubectl apply -f -"
        )


def _plan(kubeconfig: str | None, context: str | None, *, adopt: bool) -> Iterator[str]:
    """Yield the lines that say what would change on a cluster."""
    import asyncio
    from dataclasses import fields

    from trainwright.cli.words import columns
    from trainwright.cluster.kubernetes import KubernetesCluster
    from trainwright.operator import takeover
    from trainwright.operator.survey import Survey, survey

    async def ask() -> Survey:
        async with KubernetesCluster.from_config(kubeconfig, context) as cluster:
            return await survey(cluster)

    found = takeover.plan(asyncio.run(ask()), adopt=adopt)
    for part in fields(found):
        if part.name == "steps":
            continue
        findings: tuple[takeover.Finding, ...] = getattr(found, part.name)
        if findings:
            yield from columns([part.name.upper(), ""], [(each.name, each.words) for each in findings])
            yield ""
    yield "WHAT TO DO"
    yield from (f"{number}. {step}" for number, step in enumerate(found.steps, 1))
