"""Gangs: pods that start together or not at all, what they lack, and room on nodes that is given to them.

A gang is the pods of one namespace that carry the same gang label. As many of them as their gang-min annotation says
must have a place, or get one in this very pass, before any starts; the others follow one by one as they fit. A pod
without a gang is a gang of one. Who goes first is decided in `queue.py`, and with the stock scheduler in `gates.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object
from trainwright.placement.amounts import Amounts, minus, pod_bounds, pod_requests
from trainwright.placement.fit import Claim, Shortfall, place

GangKey = tuple[str, str]
"""The namespace and the name of a gang; a pod without a gang has one of its own."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod, as far as its gang is concerned."""

    uid: str
    name: str
    gang: GangKey
    minimum: int
    needs: Amounts
    node: str
    arrival: tuple[str, int, str]
    leaving: bool = False
    ended: bool = False
    gates: tuple[str, ...] = ()
    """What holds it back."""
    job: str = ""
    """The job it belongs to; nothing for a pod that is not ours."""
    priority: int = 0
    limits: Amounts = field(default_factory=dict)
    """The limits it states, where quotas ask for them."""
    unsaid: tuple[str, ...] = ()
    """What quotas may count of it and one of its containers does not state, such as "requests.cpu"."""

    @property
    def whose(self) -> GangKey:
        """Return what ends as a whole: its job, which may have several gangs, or else its gang."""
        return (self.gang[0], f"job {self.job}") if self.job else self.gang

    @property
    def placed(self) -> bool:
        """Say whether it has a place that it does not give up."""
        return bool(self.node) and not self.leaving

    @property
    def homeless(self) -> bool:
        """Say whether it is without a place and would take one."""
        return not (self.node or self.leaving or self.ended)


@dataclass(frozen=True)
class Gang:
    """Pods that start together or not at all."""

    key: GangKey
    waiting: Sequence[Member]
    placed: int
    minimum: int

    @property
    def missing(self) -> int:
        """Return how many more pods must get a place together."""
        return max(0, self.minimum - self.placed)

    @property
    def priority(self) -> int:
        """Return that of its most urgent pod."""
        return max(each.priority for each in self.waiting)

    @property
    def title(self) -> str:
        """Return by what users know it."""
        return title(self.key)


@dataclass
class Room:
    """What nodes offer, and how much of it is free as long as nobody else comes."""

    offered: Mapping[str, Amounts]
    free: dict[str, Amounts]
    takers: Callable[[Member], frozenset[str] | None] = lambda member: None  # noqa: ARG005 - most nodes take everybody
    """The nodes that take a pod; None: all."""

    def take(self, members: Sequence[Member]) -> dict[str, str] | Shortfall:
        """Give all of them a place, or none and say what is short."""
        result = place(self.free, self.offered, [Claim(each.uid, each.needs, self.takers(each)) for each in members])
        if isinstance(result, Shortfall):
            return result
        for each in members:
            self.free[result[each.uid]] = minus(self.free[result[each.uid]], each.needs)
        return result


def title(gang: GangKey) -> str:
    """Return namespace and name of a gang, or of the pod that is all of it."""
    return f"{gang[0]}/{gang[1].partition(' ')[2]}"


def gather(members: Iterable[Member], waits: Callable[[Member], bool]) -> list[Gang]:
    """Return the gangs that have members that wait, first come first."""
    groups: dict[GangKey, list[Member]] = {}
    for each in members:
        groups.setdefault(each.gang, []).append(each)
    gangs = (_gang(key, group, waits) for key, group in groups.items())
    return sorted((gang for gang in gangs if gang.waiting), key=lambda gang: gang.waiting[0].arrival)


def incomplete(gang: Gang) -> str:
    """Say how many pods of a gang are there, if these are not enough yet; nothing if they are."""
    there = gang.placed + len(gang.waiting)
    if there >= gang.minimum:
        return ""
    return f"waiting for the rest of the gang: {there} of {gang.minimum} pods are there"


def lacking(short: Shortfall, pods: int) -> str:
    """Say what so many pods that want to start together lack."""
    who = f"a gang of {pods} pods" if pods > 1 else "one pod"
    never = "; it can never fit here" if short.forever else ""
    return f"{who} {short}{never}"


def member(pod: Object) -> Member:
    """Return what counts of a pod."""
    meta, spec = pod["metadata"], pod["spec"]
    gang = (meta.get("labels") or {}).get(GANG_LABEL)
    least = (meta.get("annotations") or {}).get(GANG_MIN_ANNOTATION, "1")
    name = meta["name"]
    return Member(
        uid=str(meta["uid"]),
        name=name,
        gang=(meta["namespace"], f"gang {gang}" if gang else f"pod {name}"),
        minimum=int(least) if least.isdigit() else 1,
        needs=pod_requests(pod),
        node=spec.get("nodeName") or "",
        arrival=(meta.get("creationTimestamp", ""), len(name), name),
        leaving=bool(meta.get("deletionTimestamp")),
        ended=(pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        job=(meta.get("labels") or {}).get(JOB_LABEL, ""),
        priority=int(spec.get("priority") or 0),
    )


def accounted(pod: Object) -> Member:
    """Return what counts of a pod, also for quotas."""
    return replace(member(pod), limits=pod_bounds(pod), unsaid=_unsaid(pod["spec"]))


def _unsaid(spec: Object) -> tuple[str, ...]:
    found = dict[str, None]()
    for container in spec.get("containers") or ():  # steps are ours as often as the user's, and soon over
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        for name in ("cpu", "memory"):
            found |= {f"requests.{name}": None} if name not in requests else {}
            found |= {f"limits.{name}": None} if name not in limits else {}
    return tuple(found)


def usable(node: Object) -> bool:
    """Say whether a node takes pods at all: it is ready, and nobody has cordoned it."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("unschedulable")


def _gang(key: GangKey, members: Sequence[Member], waits: Callable[[Member], bool]) -> Gang:
    waiting = sorted(filter(waits, members), key=lambda each: each.arrival)
    placed = sum(each.placed for each in members)
    return Gang(key, waiting, placed, max((each.minimum for each in waiting), default=1))
