"""Keeps account of pods and nodes for whoever places gangs: what is free, which gangs wait, who would take them.

It is told of every change once and keeps sums, so that a look costs what waits and not what there is. Nothing here does
anything to a cluster; who may go is decided in `placement`, by `queue.py` for our own scheduler and by `gates.py` where
another one places pods.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from trainwright.cluster.base import Change
from trainwright.core.objects import Object
from trainwright.placement import Amounts, allocatable, minus, plus, usable
from trainwright.placement.gangs import GangKey, Member, Room, member
from trainwright.placement.taints import keeps_away

_ALL = "all nodes"
"""Where all pods count as being if nodes cannot be seen."""
_RULES = ("tolerations", "nodeSelector", "affinity")
"""What of a pod decides which nodes take it, beside what it asks for."""


class Ledger:
    """What there is, as of the last change that was told."""

    def __init__(
        self,
        capacity: Amounts | None = None,
        *,
        sees_nodes: bool = True,
        read: Callable[[Object], Member] = member,
    ) -> None:
        """Begin with nothing. With `capacity` pods count as if all were on one node of that size."""
        self._read = read
        self._sees_nodes = sees_nodes
        self._capacity = capacity
        self._members: dict[str, Member] = {}
        self._teams: defaultdict[GangKey, dict[str, Member]] = defaultdict(dict)
        self._homeless: dict[str, Member] = {}
        self._rules: dict[str, Object] = {}
        self._held: defaultdict[str, Amounts] = defaultdict(dict)
        self._nodes: dict[str, Object] = {}
        self._offered: dict[str, Amounts] = {}
        """What nodes offer that take pods at all."""
        self._let_in: set[str] = set()
        """Pods whose gate we took away and that the cache still shows with it."""
        self._bound: dict[str, str] = {}
        """Pods to which we gave a node and that the cache still shows without one."""
        self._holding: dict[str, Member] = {}

    # What happens

    def pod_changed(self, change: Change) -> bool:
        """Take note of a pod; say whether that may let somebody in."""
        uid = change.object["metadata"]["uid"]
        before = self._members.get(uid)
        after = None if change.type == "DELETED" else self._as_bound(self._read(change.object))
        if before == after:
            return False
        if before is not None:
            self._forget(before)
        if after is not None:
            self._note(after, change.object)
        if after is None or not after.gates:
            self._let_in.discard(uid)
        if after is None:
            self._bound.pop(uid, None)
        return True

    def node_changed(self, change: Change) -> bool:
        """Take note of a node; say whether that may let somebody in."""
        name = change.object["metadata"]["name"]
        before = self._nodes.pop(name, None)
        self._offered.pop(name, None)
        if change.type != "DELETED":
            self._nodes[name] = change.object
            if usable(change.object):
                self._offered[name] = allocatable(change.object)
        return before is None or change.type == "DELETED" or _telling(before) != _telling(change.object)

    def let_in(self, uid: str) -> None:
        """Take note that a pod's gate is gone, whatever the cache shows for now."""
        if uid in self._members:
            self._let_in.add(uid)

    def kept_out(self, uid: str) -> None:
        """Take note that a pod's gate could not be taken away."""
        self._let_in.discard(uid)

    def bound(self, uid: str, node: str) -> None:
        """Take note that a pod has a node, whatever the cache shows for now; or that it has none after all."""
        before, rules = self._members.get(uid), self._rules.get(uid, {})
        self._bound.pop(uid, None)
        if before is None:
            return
        if node:
            self._bound[uid] = node
        self._forget(before)
        self._note(replace(before, node=node), {"spec": rules})

    def _as_bound(self, each: Member) -> Member:
        if each.node:
            self._bound.pop(each.uid, None)
        return replace(each, node=self._bound[each.uid]) if each.uid in self._bound else each

    # What there is

    def members(self) -> Iterator[Member]:
        """Yield the pods that wait for a place, and all that belong to a gang with one that does."""
        gangs = dict.fromkeys(each.gang for each in self._homeless.values())
        for gang in gangs:
            for uid, each in self._teams[gang].items():
                yield replace(each, gates=()) if uid in self._let_in else each

    def pod(self, uid: str) -> Member | None:
        """Return a pod, if it is still there."""
        return self._members.get(uid)

    def holding(self) -> Collection[Member]:
        """Return the pods that hold something of a node: they have one, and have not ended."""
        return self._holding.values()

    def offered(self) -> Mapping[str, Amounts]:
        """Return what each node has that takes pods."""
        return self._offered

    def room(self) -> Room | None:
        """Return what is free, for one look; None if nobody knows."""
        if self._capacity is not None:
            return Room({_ALL: self._capacity}, {_ALL: minus(self._capacity, self._held[_ALL])})
        if not self._sees_nodes:
            return None
        offered = dict(self._offered)
        free: dict[str, Amounts] = {name: minus(amounts, self._held[name]) for name, amounts in offered.items()}
        taken: dict[str, frozenset[str]] = {}

        def takers(each: Member) -> frozenset[str]:
            rules = self._rules.get(each.uid, {})
            known = repr(rules)
            if known not in taken:
                pod = {"spec": rules}
                taken[known] = frozenset(name for name in offered if not keeps_away(self._nodes[name], pod))
            return taken[known]

        return Room(offered, free, takers)

    def _note(self, each: Member, pod: Object) -> None:
        self._members[each.uid] = each
        self._teams[each.gang][each.uid] = each
        if each.homeless:
            self._homeless[each.uid] = each
            self._rules[each.uid] = {name: pod["spec"][name] for name in _RULES if pod["spec"].get(name)}
        self._count(each, 1)

    def _forget(self, each: Member) -> None:
        del self._members[each.uid]
        del self._teams[each.gang][each.uid]
        if not self._teams[each.gang]:
            del self._teams[each.gang]
        self._homeless.pop(each.uid, None)
        self._rules.pop(each.uid, None)
        self._count(each, -1)

    def _count(self, each: Member, sign: int) -> None:
        """Count what a pod holds of its node in, or out again; one that is stopping holds it until it is gone."""
        if each.node and not each.ended:
            node = each.node if self._capacity is None else _ALL
            self._held[node] = (plus if sign > 0 else minus)(self._held[node], each.needs)
            if sign > 0:
                self._holding[each.uid] = each
            else:
                del self._holding[each.uid]


def _telling(node: Object) -> tuple[object, ...]:
    """Return what of a node decides who fits on it."""
    status = node.get("status") or {}
    spec = node.get("spec") or {}
    labels = node["metadata"].get("labels")
    return usable(node), status.get("allocatable"), status.get("capacity"), spec.get("taints"), labels
