"""What several commands take on their command lines: values such as capacities, and options that are always alike."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trainwright.cli.settings import SettingType

if TYPE_CHECKING:
    from trainwright.placement import Amounts

_Command = TypeVar("_Command", bound=Callable[..., Any])

PODS = 1_000_000
"""How many pods there may be in a capacity that does not say it: nobody counts them."""


class Names(click.ParamType[tuple[str, ...]]):
    """Several namespaces in one word: "team-a,team-b"."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names, or fail with what would be right."""
        if isinstance(value, tuple):
            return value
        from trainwright.core.names import is_dns_label

        found = tuple(name.strip() for name in value.split(",") if name.strip())
        for name in found:
            if not is_dns_label(name):
                self.fail(f"{name!r} cannot be a namespace; write namespaces such as team-a,team-b", param, ctx)
        return found


class Capacity(click.ParamType["Amounts"]):
    """How much there is to share: "cpu=16,memory=64Gi,nvidia.com/gpu=4"."""

    name = "capacity"

    def convert(self, value: "str | Amounts", param: click.Parameter | None, ctx: click.Context | None) -> "Amounts":
        """Return the amounts, or fail with what would be right."""
        if not isinstance(value, str):
            return value
        from trainwright.placement import amounts

        pairs = [part.strip().partition("=") for part in value.split(",") if part.strip()]
        if not pairs or not all(name and quantity for name, _, quantity in pairs):
            self.fail(f"expected resources such as cpu=16,memory=64Gi,nvidia.com/gpu=4, found {value!r}", param, ctx)
        try:
            return {"pods": PODS, **amounts({name: quantity for name, _, quantity in pairs})}
        except ValueError as error:
            self.fail(str(error), param, ctx)


def together(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return several options as one, which are listed in this order."""

    def added(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


set_option = click.option(
    "--set", "sets", multiple=True, type=SettingType(), metavar="PATH=VALUE", help="Change a value of the jobs first."
)
lenient_option = click.option("--lenient", is_flag=True, help="Only warn about fields that are not known.")
stream_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="YAML documents, or one JSON List.",
)
operator_namespace_option = click.option(
    "-n",
    "--namespace",
    default="trainwright-system",
    show_default=True,
    metavar="NS",
    help="The namespace the operator lives in.",
)
asked_cluster_options = together(
    click.option("--kubeconfig", metavar="FILE", help="Which cluster to ask; else $KUBECONFIG or ~/.kube/config."),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig; otherwise its current one."),
)
home_options = together(
    click.option(
        "--isolation",
        type=click.Choice(["auto", "net", "ports"]),
        default="auto",
        show_default=True,
        help="How pods are kept apart: own network and processes each, or plain processes on distinct ports.",
    ),
    click.option("--cpu", metavar="QUANTITY", help="Offer so many cores to jobs, instead of what this machine has."),
    click.option("--memory", metavar="QUANTITY", help="Offer so much memory, such as 16Gi."),
    click.option("--gpu", metavar="NUMBER", help="Offer so many GPUs."),
    click.option("--no-autoscale", is_flag=True, help="Leave elastic jobs at the size they ask for."),
    lenient_option,
)
"""What a home on this machine is like."""
