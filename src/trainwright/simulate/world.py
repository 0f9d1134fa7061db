"""The simulated cluster: nodes, pods and who owns them, with every sum kept up to date as pods come and go.

Nothing here decides. Amounts are tuples in the order of `World.resources`. A pod waits, is bound and starts, runs, is
told to leave and keeps its room until it is gone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.placement import amounts

Vector = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """One node and the sums over its pods."""

    index: int
    name: str
    offers: Vector
    system: Vector
    used: list[int]
    """Of pods that stay, those of the system too."""
    leaving: list[int]
    up: bool = True
    pods: dict[int, "Pod"] = field(default_factory=dict)

    def free(self) -> Vector:
        """Return what is free now; room of leaving pods is not."""
        return tuple(map(_left, self.offers, self.used, self.leaving))

    def holds(self, needs: Vector) -> bool:
        """Say whether one more pod fits now."""
        return all(map(int.__ge__, self.free(), needs))


def _left(offers: int, used: int, leaving: int) -> int:
    return offers - used - leaving


@dataclass(slots=True, eq=False)
class Pod:
    """One pod, from the moment it is created."""

    order: int
    """Pods are counted as they are created."""
    needs: Vector
    start: float
    grace: float
    created: float
    changed: Callable[["Pod"], None]
    """Told whenever the pod is bound, runs, leaves or is gone."""
    turn: float
    """When the scheduler tries it, compared with others that wait."""
    node: Node | None = None
    running: bool = False
    leaving: bool = False
    gone: bool = False
    lost: bool = False
    """It went with its node; whoever owns it wants another."""


def gained(pod: Pod) -> int:
    """Return what the last change of a pod means for the number of those that run and stay: 1, 0 or -1."""
    if not pod.running:
        return 0
    if pod.gone:
        return 0 if pod.leaving else -1
    return -1 if pod.leaving else 1


class World:
    """All nodes, and the sums over all pods."""

    def __init__(self, names: Sequence[str]) -> None:
        self.resources = tuple(names)
        self.nodes: list[Node] = []
        self.running: list[int] = [0] * len(names)
        """Requests of all pods that run, leaving ones too, and of the system."""
        self.offered: list[int] = [0] * len(names)
        """What the nodes that are up offer."""
        self.changed_nodes: set[int] = set()
        """Nodes whose sums have changed since whoever looks at it last looked."""
        self._pods = 0

    def vector(self, quantities: Mapping[str, Any] | None) -> Vector:
        """Return quantities as a tuple of whole numbers."""
        whole = amounts(quantities)
        return tuple(whole.get(name, 0) for name in self.resources)

    def named(self, vector: Iterable[int]) -> dict[str, int]:
        """Return a tuple of whole numbers by the names of the resources."""
        return {name: value for name, value in zip(self.resources, vector, strict=True) if value}

    def add_node(self, name: str, offers: Vector, system: Vector) -> None:
        """Add a node that is up, with what the system takes of it."""
        node = Node(len(self.nodes), name, offers, system, list(system), [0] * len(offers))
        self.nodes.append(node)
        _add(self.offered, offers)
        _add(self.running, system)
        self.changed_nodes.add(node.index)

    def add_system(self, node: Node, needs: Vector) -> None:
        """Put one more pod of the system on a node."""
        node.system = tuple(map(int.__add__, node.system, needs))
        _add(node.used, needs)
        _add(self.running, needs)
        self.changed_nodes.add(node.index)

    def create(self, needs: Vector, start: float, grace: float, now: float, changed: Callable[[Pod], None]) -> Pod:
        """Make a pod that wants a place."""
        self._pods += 1
        return Pod(self._pods, needs, start, grace, now, changed, turn=self._pods)

    def bind(self, pod: Pod, node: Node) -> None:
        """Give a pod its place."""
        pod.node = node
        node.pods[pod.order] = pod
        _add(node.used, pod.needs)
        self._changed(pod)

    def start(self, pod: Pod) -> None:
        """Let a pod run, unless it was lost or told to leave meanwhile."""
        if pod.gone or pod.leaving:
            return
        pod.running = True
        _add(self.running, pod.needs)
        self._changed(pod)

    def leave(self, pod: Pod) -> bool:
        """Tell a pod to leave; say whether it holds its room for its grace."""
        if pod.node is None:
            pod.gone = True
            pod.changed(pod)
            return False
        pod.leaving = True
        _add(pod.node.used, pod.needs, -1)
        _add(pod.node.leaving, pod.needs)
        self._changed(pod)
        return True

    def remove(self, pod: Pod) -> None:
        """Take a pod away and free its room."""
        if pod.gone:
            return
        pod.gone = True
        if pod.node is not None:
            _add(pod.node.leaving if pod.leaving else pod.node.used, pod.needs, -1)
            del pod.node.pods[pod.order]
        if pod.running:
            _add(self.running, pod.needs, -1)
        self._changed(pod)

    def lose(self, node: Node) -> None:
        """Take a node away with everything on it."""
        node.up = False
        _add(self.offered, node.offers, -1)
        _add(self.running, node.system, -1)
        self.changed_nodes.add(node.index)
        for pod in list(node.pods.values()):
            pod.lost = not pod.leaving
            self.remove(pod)

    def restore(self, node: Node) -> None:
        """Bring a node back, empty but for the system."""
        node.up = True
        _add(self.offered, node.offers)
        _add(self.running, node.system)
        self.changed_nodes.add(node.index)

    def _changed(self, pod: Pod) -> None:
        if pod.node is not None:
            self.changed_nodes.add(pod.node.index)
        pod.changed(pod)


def _add(total: list[int], part: Sequence[int], times: int = 1) -> None:
    for place, value in enumerate(part):
        total[place] += value * times
