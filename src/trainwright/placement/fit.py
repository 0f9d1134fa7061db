"""Which pods fit on which nodes, all of them or none, and what is missing if they do not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainwright.placement.amounts import Amounts, minus, plus, show

CHOSEN_BY = ("cpu", "memory")
"""The resources by which one of several nodes is chosen that all have room."""


@dataclass(frozen=True)
class Claim:
    """One pod that wants a place."""

    name: str
    needs: Amounts
    nodes: frozenset[str] | None = None
    """The nodes that take it; None: all."""

    def fits(self, node: str, free: Amounts) -> bool:
        """Say whether a node takes it and has room for it."""
        return (self.nodes is None or node in self.nodes) and fits(self.needs, free)


@dataclass(frozen=True)
class Shortfall:
    """Why pods did not fit: the first resource that is short, in numbers."""

    resource: str
    needed: int
    free: int
    offered: int

    @property
    def forever(self) -> bool:
        """Say whether it would not fit even if nothing else ran."""
        return self.needed > self.offered

    def __str__(self) -> str:
        needed, free, offered = (show(self.resource, value) for value in (self.needed, self.free, self.offered))
        return f"needs {self.resource} {needed}, but {free} of {offered} is free"


def place(
    free: Mapping[str, Amounts], offered: Mapping[str, Amounts], claims: Sequence[Claim]
) -> dict[str, str] | Shortfall:
    """Return a node for every claim, or what is short if not all of them fit together.

    The hungriest claims choose first, each the fullest node that still holds it, so that large holes stay whole.
    """
    left = {node: dict(amounts) for node, amounts in free.items()}
    chosen: dict[str, str] = {}
    for claim in sorted(claims, key=lambda each: hunger(each.needs), reverse=True):
        fitting = [node for node, amounts in left.items() if claim.fits(node, amounts)]
        if not fitting:
            return _shortfall(_taking(free, claims), _taking(offered, claims), claims, claim)
        node = min(fitting, key=lambda name: (_room(left[name]), name))
        left[node] = minus(left[node], claim.needs)
        chosen[claim.name] = node
    return chosen


def _taking(nodes: Mapping[str, Amounts], claims: Sequence[Claim]) -> Mapping[str, Amounts]:
    """Return the nodes that take any of the claims."""
    if any(claim.nodes is None for claim in claims):
        return nodes
    taking = frozenset[str]().union(*(claim.nodes or () for claim in claims))
    return {name: amounts for name, amounts in nodes.items() if name in taking}


def fits(needs: Amounts, free: Amounts) -> bool:
    """Say whether one pod fits in what is free on one node."""
    return all(value <= free.get(name, 0) for name, value in needs.items() if value > 0)


def hunger(needs: Amounts) -> tuple[int, int, int]:
    """Return by what a pod is more or less demanding: devices first."""
    devices = sum(value for name, value in needs.items() if "/" in name)
    return devices, needs.get("cpu", 0), needs.get("memory", 0)


def _room(free: Amounts) -> tuple[int, ...]:
    return tuple(free.get(name, 0) for name in CHOSEN_BY)


def _shortfall(
    free: Mapping[str, Amounts], offered: Mapping[str, Amounts], claims: Sequence[Claim], stuck: Claim
) -> Shortfall:
    """Name the resource that is short for all claims together, else for the one pod that found no node."""
    together, free_in_all, offered_in_all = (
        _total(claim.needs for claim in claims),
        _total(free.values()),
        _total(offered.values()),
    )
    for name in sorted(together):
        if together[name] > free_in_all.get(name, 0):
            return Shortfall(name, together[name], free_in_all.get(name, 0), offered_in_all.get(name, 0))
    for name, needed in sorted(stuck.needs.items()):
        largest = max((amounts.get(name, 0) for amounts in free.values()), default=0)
        if needed > largest:
            return Shortfall(name, needed, largest, max((each.get(name, 0) for each in offered.values()), default=0))
    name = max(stuck.needs, key=lambda resource: stuck.needs[resource])
    return Shortfall(name, together[name], free_in_all.get(name, 0), offered_in_all.get(name, 0))


def _total(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        total = plus(total, part)
    return total
