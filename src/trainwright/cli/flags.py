"""What several commands take on their command lines: lists of namespaces, and capacities."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trainwright.placement import Amounts

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
