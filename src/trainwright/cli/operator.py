"""`tw operator`: look after the jobs of a Kubernetes cluster."""

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from trainwright.cli.flags import Capacity, Names
from trainwright.cli.words import Duration

if TYPE_CHECKING:
    from trainwright.operator.gangs import Choice
    from trainwright.operator.leader import Leadership
    from trainwright.placement import Amounts


class _Address(click.ParamType[tuple[str, int]]):
    """Where to listen: ":8080" on every address, "127.0.0.1:8080", "[::1]:8080"."""

    name = "address"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]*)):([0-9]{1,5})", value)
        if not found or int(found[3]) > 65535:
            self.fail(f"expected an address and a port such as :8080 or 127.0.0.1:8080, found {value!r}", param, ctx)
        return found[1] or found[2] or "", int(found[3])


class _HttpsUrl(click.ParamType[str]):
    """Where an API server reaches us: "https://10.0.0.7:9443"."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        parts = urlsplit(value)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            self.fail(f"expected a URL such as https://10.0.0.7:9443, found {value!r}", param, ctx)
        return value


@click.command("operator")
@click.option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, or the account of this pod.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; otherwise its current one.")
@click.option(
    "-n",
    "--namespace",
    "named",
    type=Names(),
    multiple=True,
    metavar="A,B",
    help="Look after the jobs of these namespaces only, and look into no other; as often as you like.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Share a Lease with other operators: one acts, the others stand by.",
)
@click.option(
    "--lease-name", metavar="NAME", help="The Lease; otherwise trainwright, followed by the namespaces of -n."
)
@click.option(
    "--lease-namespace",
    metavar="NS",
    help="Its namespace; else this pod's, the first of -n, trainwright-system if it is there, the kubeconfig's.",
)
@click.option("--install-crds", is_flag=True, help="Register the kinds that are missing first.")
@click.option(
    "--metrics-address",
    "address",
    type=_Address(),
    default="127.0.0.1:8080",
    show_default=True,
    metavar="A:P",
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option(
    "--webhooks/--no-webhooks",
    default=False,
    show_default=True,
    help="Judge jobs before they are stored; else they are judged when they are first looked at.",
)
@click.option(
    "--webhook-address",
    type=_Address(),
    default=":9443",
    show_default=True,
    metavar="A:P",
    help="Where webhooks are served over HTTPS.",
)
@click.option(
    "--webhook-namespace",
    metavar="NS",
    help="Where the Service and the Secret of the certificate are; else this pod's namespace, or trainwright-system.",
)
@click.option(
    "--webhook-service",
    default="trainwright",
    show_default=True,
    metavar="NAME",
    help="The Service by which the API server reaches webhooks.",
)
@click.option(
    "--webhook-url",
    type=_HttpsUrl(),
    metavar="URL",
    help="How it reaches them instead, for an operator outside the cluster: https://10.0.0.7:9443.",
)
@click.option(
    "--webhook-certificate-validity",
    "certificate_validity",
    type=Duration(),
    default="90d",
    show_default=True,
    metavar="D",
    help="How long a certificate holds; the next one is made when a third of that is left.",
)
@click.option("--image", metavar="IMAGE", help="Our own image: for init containers that wait, or bring kubectl.")
@click.option("--kubectl-image", metavar="IMAGE", help="The image that brings kubectl into launchers, if not ours.")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="What a worker of an MPIJob takes of its gpus, if the job does not say it.",
)
@click.option(
    "--processing-units-per-node",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The same for its processingUnits.",
)
@click.option(
    "--autoscaler/--no-autoscaler",
    default=True,
    show_default=True,
    help="Resize elastic jobs so that they share what the nodes offer.",
)
@click.option(
    "--no-autoscale-kind",
    "not_scaled",
    multiple=True,
    metavar="KIND",
    help="Never resize jobs of this kind, such as PyTorchJob; as often as you like.",
)
@click.option(
    "--capacity",
    type=Capacity(),
    metavar="WHAT",
    help="What elastic jobs share instead of what nodes offer: cpu=16,memory=64Gi. Needed with -n.",
)
@click.option(
    "--gang",
    type=click.Choice(["auto", "native", "volcano", "scheduler-plugins", "gates", "none"]),
    default="auto",
    show_default=True,
    help="How pods that start together are kept together; auto takes the first of native, volcano, gates that works.",
)
@click.option(
    "--gang-scheduler",
    default="",
    metavar="NAME",
    help="The scheduler of pods in gangs, if it is not volcano or scheduler-plugins-scheduler.",
)
@click.option("--policy", default="fulfilment", show_default=True, metavar="NAME", help="How jobs share what there is.")
@click.option(
    "--max-load",
    type=click.FloatRange(0.1, 1.0),
    default=1.0,
    show_default=True,
    help="How much of what the nodes offer may be used before jobs stop growing.",
)
@click.option(
    "--rest",
    type=Duration(),
    default="30s",
    show_default=True,
    metavar="D",
    help="How long a job that was resized does not grow.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How logs are written."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged at all.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="How many jobs are looked at at the same time.",
)
def command(
    kubeconfig: str | None,
    context: str | None,
    named: tuple[tuple[str, ...], ...],
    leader_elect: bool,
    lease_name: str | None,
    lease_namespace: str | None,
    install_crds: bool,
    address: tuple[str, int],
    webhooks: bool,
    webhook_address: tuple[str, int],
    webhook_namespace: str | None,
    webhook_service: str,
    webhook_url: str | None,
    certificate_validity: float,
    image: str | None,
    kubectl_image: str | None,
    gpus_per_node: int,
    processing_units_per_node: int,
    autoscaler: bool,
    not_scaled: tuple[str, ...],
    capacity: "Amounts | None",
    gang: "Choice",
    gang_scheduler: str,
    policy: str,
    max_load: float,
    rest: float,
    log_format: str,
    log_level: str,
    workers: int,
) -> None:
    """Look after the jobs of a Kubernetes cluster, until SIGTERM or Ctrl-C.

    \b
    tw operator
    tw operator --kubeconfig ~/.kube/test --context kind --install-crds
    tw operator -n team-a,team-b --capacity cpu=64,memory=256Gi
    tw operator -n team --log-format json --metrics-address :8080
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    import asyncio
    from dataclasses import replace
    from datetime import timedelta

    from trainwright.api.mpi_job import NodeSize
    from trainwright.desired import KUBERNETES
    from trainwright.operator import log
    from trainwright.operator.certificates import Terms
    from trainwright.operator.scaling import Conduct
    from trainwright.operator.serve import Options, serve
    from trainwright.operator.webhooks import Webhooks

    log.setup("json" if log_format == "json" else "text", log_level)
    settings = replace(
        KUBERNETES,
        wait_image=image or KUBERNETES.wait_image,
        kubectl_image=kubectl_image or image or KUBERNETES.kubectl_image,
        kubectl_command=() if kubectl_image else KUBERNETES.kubectl_command,
        gang_scheduler=gang_scheduler,
        per_node=NodeSize(gpus_per_node, processing_units_per_node),
    )
    namespaces = tuple(sorted({name for names in named for name in names}))
    conduct = Conduct(_policy(policy), max_load, rest=rest, without=_kinds(not_scaled))
    hooks = Webhooks(
        *webhook_address,
        namespace=webhook_namespace or "",
        service=webhook_service,
        url=webhook_url or "",
        terms=Terms(timedelta(seconds=certificate_validity)),
    )
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        namespaces=namespaces,
        leader=_leadership(namespaces, lease_name, lease_namespace) if leader_elect else None,
        install_crds=install_crds,
        host=address[0],
        port=address[1],
        workers=workers,
        settings=settings,
        scaling=conduct if autoscaler else None,
        gang=gang,
        capacity=capacity,
        webhooks=hooks if webhooks else None,
    )
    asyncio.run(serve(options))


def _leadership(namespaces: tuple[str, ...], name: str | None, namespace: str | None) -> "Leadership":
    """Return which Lease is shared with whom."""
    from trainwright.operator.leader import Leadership, lease_name

    return Leadership(namespace or "", name or lease_name(namespaces))


def _kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of kinds as we know them, whatever their case; a usage error for one that is not there."""
    from trainwright.kinds import KINDS

    known = {kind.name.lower(): kind.name for kind in KINDS}
    for name in names:
        if name.lower() not in known:
            there = ", ".join(sorted(known.values()))
            raise click.BadParameter(
                f"there is no kind {name!r} (there are: {there})", param_hint="--no-autoscale-kind"
            )
    return tuple(known[name.lower()] for name in names)


def _policy(name: str) -> str:
    from trainwright.autoscaler import POLICIES

    if name not in POLICIES:
        there = ", ".join(POLICIES)
        raise click.BadParameter(f"there is no policy {name!r} (there are: {there})", param_hint="--policy")
    return name
