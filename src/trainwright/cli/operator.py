"""`tw operator`: look after the jobs of a Kubernetes cluster."""

import re

import click

from trainwright.cli.words import Duration


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


@click.command("operator")
@click.option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, or the account of this pod.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; otherwise its current one.")
@click.option("-n", "--namespace", default="", metavar="NS", help="Look after the jobs of this namespace only.")
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
    namespace: str,
    install_crds: bool,
    address: tuple[str, int],
    image: str | None,
    kubectl_image: str | None,
    gpus_per_node: int,
    processing_units_per_node: int,
    autoscaler: bool,
    not_scaled: tuple[str, ...],
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
    tw operator -n team --log-format json --metrics-address :8080
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    import asyncio
    from dataclasses import replace

    from trainwright.api.mpi_job import NodeSize
    from trainwright.desired import KUBERNETES
    from trainwright.operator import log
    from trainwright.operator.scaling import Conduct
    from trainwright.operator.serve import Options, serve

    log.setup("json" if log_format == "json" else "text", log_level)
    settings = replace(
        KUBERNETES,
        wait_image=image or KUBERNETES.wait_image,
        kubectl_image=kubectl_image or image or KUBERNETES.kubectl_image,
        kubectl_command=() if kubectl_image else KUBERNETES.kubectl_command,
        per_node=NodeSize(gpus_per_node, processing_units_per_node),
    )
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        install_crds=install_crds,
        host=address[0],
        port=address[1],
        workers=workers,
        settings=settings,
        scaling=Conduct(_policy(policy), max_load, rest=rest, without=_kinds(not_scaled)) if autoscaler else None,
    )
    asyncio.run(serve(options))


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
