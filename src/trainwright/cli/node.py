"""`tw node`: make this machine a node of a Kubernetes cluster, whose pods are processes."""

import re
from pathlib import Path
from typing import Literal

import click

from trainwright.cli.words import Duration


class _Label(click.ParamType[tuple[str, str]]):
    """A label as kubectl writes it: "disk=fast"."""

    name = "label"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, text = value.partition("=")
        if not sign or not key:
            self.fail(f"expected a label such as disk=fast, found {value!r}", param, ctx)
        return key, text


class _Name(click.ParamType[str]):
    """The name of a node: that of an object without namespace."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", value):
            self.fail(
                f"expected lower case letters, digits, '-' and '.', such as gpu-box-1, found {value!r}", param, ctx
            )
        return value


@click.command("node")
@click.option("--name", type=_Name(), help="The node's name; otherwise this machine's host name.")
@click.option("--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, or the account of this pod.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; otherwise its current one.")
@click.option(
    "--isolation",
    type=click.Choice(["auto", "net", "ports"]),
    default="auto",
    show_default=True,
    help="How pods are kept apart: own network and processes each, or plain processes.",
)
@click.option("--cpu", metavar="QUANTITY", help="Offer so many cores, instead of what this machine has.")
@click.option("--memory", metavar="QUANTITY", help="Offer so much memory, such as 16Gi.")
@click.option("--gpu", metavar="NUMBER", help="Offer so many GPUs.")
@click.option("--label", "labels", type=_Label(), multiple=True, metavar="KEY=VALUE", help="Label the node.")
@click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where pods keep files and logs."
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, help="This machine's address, as the API server reaches it."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where logs and exec are served; 0: a free one.")
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The API server's certificate for nodes, or its issuer's: who may ask for logs and exec.",
)
@click.option("--anonymous", is_flag=True, help="Answer logs and exec to everybody who can connect.")
@click.option("--heartbeat", type=Duration(), default="10s", show_default=True, help="How often to say that it lives.")
@click.option("--grace", type=Duration(), default="30s", show_default=True, help="How long pods may take at the end.")
@click.option("--rights", is_flag=True, help="Only print an account for nodes and the rights it needs, as YAML.")
def command(
    name: str | None,
    kubeconfig: str | None,
    context: str | None,
    isolation: Literal["auto", "net", "ports"],
    cpu: str | None,
    memory: str | None,
    gpu: str | None,
    labels: tuple[tuple[str, str], ...],
    root: Path | None,
    address: str,
    port: int,
    client_ca: Path | None,
    anonymous: bool,
    heartbeat: float,
    grace: float,
    rights: bool,
) -> None:
    """Make this machine a node of a cluster: pods that are bound to it run as processes, until SIGTERM or Ctrl-C.

    Images are not pulled: a pod's command runs in the folder and with the environment this command was started in.

    \b
    tw node --name box-1 --client-ca /etc/kubernetes/pki/apiserver-kubelet-client.crt
    tw node --name test --kubeconfig ~/.kube/test --anonymous --cpu 4
    tw node --rights | kubectl apply -f -
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    if rights:
        from trainwright.cli.output import stream
        from trainwright.node.rights import manifests

        click.echo(stream(manifests(), "yaml"), nl=False)
        return

    import asyncio
    import os
    import platform

    from trainwright.cli.runs import state
    from trainwright.cluster.kubernetes import KubernetesCluster
    from trainwright.node.agent import AgentOptions, run
    from trainwright.operator import log

    log.setup("text", "info")
    if client_ca and anonymous:
        raise click.UsageError("--client-ca says who may ask, --anonymous that everybody may; give one of them")
    name = name or platform.node().lower()
    cluster = KubernetesCluster.from_config(kubeconfig, context)
    server = cluster.access.server.parts
    options = AgentOptions(
        name=name,
        cluster=cluster.access.server.url,
        root=root or state().parent / "nodes" / name,
        cwd=Path.cwd(),
        environment=dict(os.environ),
        isolation=isolation,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        labels=dict(labels),
        address=address,
        port=port,
        clients=client_ca,
        anonymous=anonymous,
        api_server=(server.hostname or "", server.port or 443),
        issue_token=cluster.issue_token,
        heartbeat=heartbeat,
        grace=grace,
    )

    async def serve() -> None:
        async with cluster:
            await run(cluster, options, lambda sentence: click.echo(f"tw: {sentence}", err=True))

    asyncio.run(serve())
