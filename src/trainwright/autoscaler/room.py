"""Room on nodes while a plan is made: what is free now, what will be free, and which node holds one more pod.

Two views of every node. `now` is what no pod holds; `later` is what will be free when everything that is stopping, or
will be told to stop by this plan, has left. Only nodes that somebody leaves have a `later` of their own. Who grows must
fit both, so that nobody is squeezed in front of those for whom the room is being made.

Amounts are lists of whole numbers, one per resource that anybody asks for, because a plan compares them millions of
times. Nodes are kept in order of what is free and are put in their right place only when a search meets them: claims
are many, searches are few.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainwright.autoscaler.base import Node

NO_NODE = -1

Vector = list[int]
Needs = Sequence[tuple[int, int]]
"""Pairs of a resource's number and an amount above nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What pods that ask for the same ask for."""

    needs: Needs
    """What must be free on a node: requests."""
    counted: Needs
    """What growth counts: limits for pods without devices, requests for those with."""
    excess: Needs
    """How much more its limits are than its requests, whatever growth counts."""
    devices: int
    cpu: int
    memory: int

    @property
    def scarcest(self) -> tuple[int, int]:
        """Return the need by which nodes are searched: devices first, since few nodes have them."""
        return self.needs[0]

    @property
    def hunger(self) -> tuple[int, int, int]:
        """Return what decides between equals: devices, then cpu, then memory."""
        return self.devices, self.cpu, self.memory


def fits(needs: Needs, free: Sequence[int]) -> bool:
    """Say whether one pod fits."""
    for resource, amount in needs:  # noqa: SIM110 - a generator would take twice as long, and this is asked most
        if free[resource] < amount:
            return False
    return True


def subtract(free: Vector, needs: Needs, times: int = 1) -> None:
    """Take so many pods' needs away."""
    for resource, amount in needs:
        free[resource] -= amount * times


def slots(needs: Needs, free: Sequence[int], wanted: int) -> int:
    """Return how many of the wanted pods fit."""
    for resource, amount in needs:
        wanted = min(wanted, free[resource] // amount)
    return max(0, wanted)


class Holes:
    """One view of the nodes, and the fullest of them that still holds a pod."""

    def __init__(self, free: dict[int, Vector]) -> None:
        self.free = free
        self._orders: dict[int, list[tuple[int, int]]] = {}
        self._filed: dict[int, dict[int, int]] = {}
        self._cursors: dict[Shape, tuple[int, int]] = {}

    def find(self, shape: Shape, also: Mapping[int, Vector]) -> int:
        """Return the fullest node that holds one more pod, here and in the other view, or NO_NODE."""
        key, least = shape.scarcest
        beginning = (least, NO_NODE)
        cursor = self._cursors.get(shape, beginning)
        node = self._scan(shape, key, cursor, also)
        if node == NO_NODE and cursor != beginning:  # nodes may have moved to where this shape has been already
            node = self._scan(shape, key, beginning, also)
        return node

    def take(self, node: int, needs: Needs, times: int = 1) -> None:
        """Claim room; the node's place in the orders is put right when a search meets it."""
        subtract(self.free[node], needs, times)

    def give(self, node: int, needs: Needs, times: int = 1) -> None:
        """Add room."""
        subtract(self.free[node], needs, -times)
        self._file(node)

    def add(self, node: int, free: Vector) -> None:
        """Begin to keep one more node."""
        self.free[node] = free
        self._file(node)

    def _file(self, node: int) -> None:
        self._cursors.clear()
        for key, order in self._orders.items():
            filed = self._filed[key]
            if node in filed:
                del order[bisect_left(order, (filed[node], node))]
            filed[node] = self.free[node][key]
            entry = (filed[node], node)
            order.insert(bisect_left(order, entry), entry)

    def _scan(self, shape: Shape, key: int, start: tuple[int, int], also: Mapping[int, Vector]) -> int:
        order, filed, needs = self._order(key), self._filed[key], shape.needs
        position = bisect_left(order, start)
        while position < len(order):
            entry = value, node = order[position]
            free = self.free[node]
            if free[key] != value:
                del order[position]
                filed[node] = free[key]
                entry = (free[key], node)
                order.insert(bisect_left(order, entry), entry)
            if fits(needs, free) and (node not in also or fits(needs, also[node])):
                self._cursors[shape] = entry
                return node
            position += 1
        return NO_NODE

    def _order(self, key: int) -> list[tuple[int, int]]:
        if key not in self._orders:
            self._filed[key] = {node: free[key] for node, free in self.free.items()}
            self._orders[key] = sorted((value, node) for node, value in self._filed[key].items())
        return self._orders[key]


class Room:
    """What is free on all nodes, now and later."""

    def __init__(self, nodes: Sequence[Node], resources: Sequence[str]) -> None:
        self.nodes = nodes
        self.offered = [0] * len(resources)
        self.used = [0] * len(resources)
        now: dict[int, Vector] = {}
        later: dict[int, Vector] = {}
        offered, used = self.offered, self.used
        columns = list(enumerate(resources))
        for index, node in enumerate(nodes):
            offers, holds, free = node.offers, node.used, []
            for column, name in columns:
                offer, held = offers.get(name, 0), holds.get(name, 0)
                offered[column] += offer
                used[column] += held
                free.append(offer - held)
            now[index] = free
            if node.leaving:
                later[index] = free
                now[index] = [amount - node.leaving.get(name, 0) for amount, name in zip(free, resources, strict=True)]
        self.now = Holes(now)
        self.later = Holes(later)
        self.stopping = any(free != now[index] for index, free in later.items())
        """Whether pods were on their way out before anything was planned."""
        self._open: dict[Shape, int] = {}
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a node, or NO_NODE if it takes no pods."""
        if not self._numbers:
            self._numbers = {node.name: index for index, node in enumerate(self.nodes)}
        return self._numbers.get(name, NO_NODE)

    def find_now(self, shape: Shape) -> int:
        """Return a node where a pod can start at once."""
        node = self._open.get(shape, NO_NODE)
        later = self.later.free
        if (
            node != NO_NODE
            and fits(shape.needs, self.now.free[node])
            and (node not in later or fits(shape.needs, later[node]))
        ):
            return node
        node = self._open[shape] = self.now.find(shape, later)
        return node

    def find_later(self, shape: Shape) -> int:
        """Return a node that holds a pod as soon as others have left."""
        return self.later.find(shape, {})

    def holds(self, node: int, needs: Needs, wanted: int) -> int:
        """Return how many of the wanted pods can start at once on one node."""
        count = slots(needs, self.now.free[node], wanted)
        return slots(needs, self.later.free[node], count) if node in self.later.free else count

    def hole(self, node: int) -> Vector:
        """Return what will be free on a node."""
        return self.later.free.get(node) or self.now.free[node]

    def claim_now(self, node: int, needs: Needs, times: int = 1) -> None:
        """Give pods room that is free."""
        self.now.take(node, needs, times)
        if node in self.later.free:
            self.later.take(node, needs, times)

    def claim_later(self, node: int, needs: Needs, times: int = 1) -> None:
        """Give pods room that will be free."""
        self.later.take(node, needs, times)

    def vacate(self, node: int, needs: Needs) -> None:
        """Count on a pod to leave its node."""
        if node not in self.later.free:
            self.later.add(node, list(self.now.free[node]))
        self.later.give(node, needs)

    def stay(self, node: int, needs: Needs) -> None:
        """Count on a pod to stay after all."""
        self.later.take(node, needs)

    def release(self, node: int, needs: Needs, times: int, *, now: bool) -> None:
        """Undo a claim."""
        if now:
            self.now.give(node, needs, times)
        if not now or node in self.later.free:
            self.later.give(node, needs, times)
