"""`tw install`: everything a Kubernetes cluster needs to run our kinds, as manifests."""

import sys

import click


@click.command("install")
@click.option(
    "-n",
    "--namespace",
    default="trainwright-system",
    show_default=True,
    metavar="NS",
    help="The namespace the operator lives in.",
)
@click.option("--image", metavar="IMAGE", help="The image of the operator and of the init containers it adds.")
@click.option(
    "--install-crds", is_flag=True, help="Leave the kinds out, and give the operator the rights to register them."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="YAML documents, or one JSON List.",
)
def command(namespace: str, image: str | None, install_crds: bool, output: str) -> None:
    """Print the kinds, the operator's account and rights, its Deployment and its Service. Nothing is applied.

    \b
    tw install | kubectl apply -f -
    tw install --namespace training --image registry.example/trainwright:1
    tw install | kubectl diff -f -
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli.output import stream
    from trainwright.desired import KUBERNETES
    from trainwright.operator.manifests import Installation, manifests

    installation = Installation(namespace, image or KUBERNETES.wait_image, install_crds)
    sys.stdout.write(stream(manifests(installation), output))
    sys.stdout.flush()
