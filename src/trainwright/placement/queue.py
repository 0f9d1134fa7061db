"""Who of those that wait starts now: the more urgent first, then who came first, and nobody at the cost of those ahead.

The queue is gone through once. What has begun and lacks pods comes first, whatever its priority: it holds room and may
not end without them. Then come the others, in order of priority and arrival, and last the pods by which elastic jobs
grow beyond their minimum: no job grows while another waits to begin. Whoever fits starts. Who does not is kept room for
(`reserve.py`), and those behind it may only take what it can never miss: that is back-fill.

Nobody starts later for it. Take gangs of equal priority, which run as long as they run, and compare with a queue in
which nobody passes anybody. There a gang D starts at a time at which all ahead of it have started, and fits beside
those of them that have not ended, S. By then all ahead of D have started here too, and not later, and so have ended not
later: what of them is left here is part of S. Beside it there may be gangs that passed D. Each of them was let through
only since D would fit beside it and whoever was there or ahead, in any selection: such as those left now and whoever
had passed before. So D fits, and starts now at the latest. That holds gang by gang, from the first on.

What it does not say: a gang that comes later with a higher priority, or is completed later, or loses a pod, finds those
that passed running like all others. Nothing is ended for it. On several nodes a gang that may be on more than one of
them keeps all of these to itself until it starts, since by sums alone nobody knows which pods will fit; there only
those ahead at that time are sure to lose nothing.

Nobody waits behind a gang that can never fit, that has to wait for pods of its own, is not complete, or exceeds the
quota of its namespace. The last holds up whoever comes after it in the same namespace, by the same arithmetic, and
joins the queue at its place when it can.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from trainwright.core.words import counted, listed
from trainwright.placement import quotas
from trainwright.placement.amounts import Amounts, left, plus, show
from trainwright.placement.fit import Claim, Shortfall, fits, place
from trainwright.placement.gangs import Gang, GangKey, Member, incomplete, lacking, title
from trainwright.placement.quotas import Quota
from trainwright.placement.reserve import Reserve

Reason = Literal["GangIncomplete", "Queued", "QuotaExceeded", "Unschedulable"]
OVER_QUOTA: Reason = "QuotaExceeded"
Arrival = tuple[str, int]
"""When the job of a gang was made, to the second, and the how manieth it was in that second."""

_Asked = tuple[GangKey | None, tuple[tuple[tuple[str, int], ...], ...]]
_NAMED = 3
"""So many holders are named."""


@dataclass(frozen=True)
class Wait:
    """Why a pod does not start: for programs, and in words."""

    reason: Reason
    sentence: str


@dataclass(frozen=True)
class Pass:
    """What one look at the queue decides, by pod uid."""

    bindings: Mapping[str, str] = field(default_factory=dict)
    """Which node each pod that may start now gets."""
    waits: Mapping[str, Wait] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """Everything that one look is decided by."""

    offered: Mapping[str, Amounts]
    """What each node that takes pods has."""
    holding: Sequence[Member]
    """Every pod that holds something of a node."""
    gangs: Sequence[Gang]
    """Those with members that wait."""
    arrivals: Mapping[GangKey, Arrival] = field(default_factory=dict)
    """Since when gangs want to start, where that is not the time at which their pods were made."""
    elastic: Collection[GangKey] = ()
    """Gangs that can do without the pods beyond their minimum."""
    quotas: Sequence[Quota] = ()


@dataclass(frozen=True)
class _Unit:
    """Pods of a gang that must start together: what it lacks to its minimum, or one more."""

    gang: Gang
    pods: Sequence[Member]

    @property
    def whose(self) -> GangKey:
        """Return what it is part of."""
        return self.pods[0].whose


def schedule(scene: Scene) -> Pass:
    """Return who may start now and where, and why the others wait."""
    look = _Look(scene)
    waits: dict[str, Wait] = {}
    whole: list[Gang] = []
    begun = {each.whose for each in scene.holding if each.placed}
    for gang in sorted(scene.gangs, key=lambda each: _turn(each, begun, scene.arrivals)):
        if sentence := incomplete(gang):
            waits |= {each.uid: Wait("GangIncomplete", sentence) for each in gang.waiting}
        else:
            whole.append(gang)
    stuck: dict[GangKey, Wait] = {}
    for unit in (*_needed(whole, scene.elastic), *_growth(whole, scene.elastic)):
        wait = stuck.get(unit.gang.key) or look.seat(unit)
        if wait is not None:  # nobody of a gang goes before those of it that should have gone first
            stuck[unit.gang.key] = wait
            waits |= {each.uid: wait for each in unit.pods}
    return Pass(look.bindings, waits)


def _turn(
    gang: Gang, begun: Collection[GangKey], arrivals: Mapping[GangKey, Arrival]
) -> tuple[bool, int, Arrival, tuple[str, int, str]]:
    first = gang.waiting[0]
    waits_whole = not gang.placed and first.whose not in begun
    return waits_whole, -gang.priority, arrivals.get(gang.key, (first.arrival[0], 0)), first.arrival


def _needed(gangs: Iterable[Gang], elastic: Collection[GangKey]) -> Iterator[_Unit]:
    for gang in gangs:
        if gang.missing:
            yield _Unit(gang, gang.waiting[: gang.missing])
        if gang.key not in elastic:
            yield from _beyond(gang)


def _growth(gangs: Iterable[Gang], elastic: Collection[GangKey]) -> Iterator[_Unit]:
    return (unit for gang in gangs if gang.key in elastic for unit in _beyond(gang))


def _beyond(gang: Gang) -> Iterator[_Unit]:
    return (_Unit(gang, [each]) for each in gang.waiting[gang.missing :])


@dataclass
class _Allowance:
    """A quota while the queue is gone through."""

    quota: Quota
    reserve: Reserve
    free: Amounts

    @classmethod
    def of(cls, quota: Quota, holding: Iterable[Member]) -> "_Allowance":
        used = [quota.used(each) for each in holding if each.gang[0] == quota.namespace]
        return cls(quota, Reserve(quota.hard, used), left(quota.hard, used))


class _Look:
    """What is free and what is kept for those ahead, while the queue is gone through."""

    def __init__(self, scene: Scene) -> None:
        self.bindings: dict[str, str] = {}
        self._offered = scene.offered
        self._holding = list(scene.holding)
        self._held: defaultdict[str, list[Amounts]] = defaultdict(list)
        self._own: defaultdict[GangKey, list[Member]] = defaultdict(list)
        for each in scene.holding:
            self._held[each.node].append(each.needs)
            self._own[each.whose].append(each)
        self._free: dict[str, Amounts] = {
            node: left(offered, self._held[node]) for node, offered in self._offered.items()
        }
        self._reserves = {node: Reserve(offered, self._held[node]) for node, offered in self._offered.items()}
        self._allowances: defaultdict[str, list[_Allowance]] = defaultdict(list)
        for quota in scene.quotas:
            self._allowances[quota.namespace].append(_Allowance.of(quota, scene.holding))
        self._ahead: list[str] = []
        """Who waits for room, first the first."""
        self._holders: dict[str, Counter[str]] = {}
        self._refusals: dict[_Asked, tuple[Wait, bool]] = {}
        """What was said to those who found no room, and whether it helps to keep some, until somebody starts."""

    def seat(self, unit: _Unit) -> Wait | None:
        """Let pods start that may, or say why they wait and keep room for them."""
        if over := self._exceeded(unit):
            return over
        asked = self._asked(unit)
        if asked not in self._refusals:
            room = {node: self._reserves[node].within(free) for node, free in self._free.items()}
            found = place(room, self._offered, _claims(unit))
            if not isinstance(found, Shortfall):
                self._start(unit, found)
                return None
            self._refusals[asked] = self._refusal(unit), self._helps(unit)
        refusal, helps = self._refusals[asked]
        if not helps:
            return refusal
        position = self._position()
        self._keep(unit)
        return Wait(refusal.reason, f"{position}; {refusal.sentence}")

    def _asked(self, unit: _Unit) -> _Asked:
        """Return what decides whether pods find room: others that ask for the same find none either."""
        own = unit.whose if unit.whose in self._own else None
        return own, tuple(tuple(sorted(each.needs.items())) for each in unit.pods)

    def _start(self, unit: _Unit, nodes: Mapping[str, str]) -> None:
        self.bindings.update(nodes)
        self._refusals.clear()
        self._holders.clear()
        for each in unit.pods:
            node = nodes[each.uid]
            self._free[node] = left(self._free[node], [each.needs])
            self._reserves[node].take(each.needs)
            placed = replace(each, node=node)
            self._holding.append(placed)
            self._own[each.whose].append(placed)
        for allowance in self._allowances[unit.gang.key[0]]:
            for each in unit.pods:
                used = allowance.quota.used(each)
                allowance.free = left(allowance.free, [used])
                allowance.reserve.take(used)

    # Room

    def _refusal(self, unit: _Unit) -> Wait:
        """Say why pods find no room, whoever they are."""
        if not self._offered:
            return Wait("Unschedulable", "no node takes pods: none is ready, or all are cordoned")
        short = place(self._free, self._offered, _claims(unit))
        if not isinstance(short, Shortfall):
            return Wait("Queued", f"there is room, but it is kept for {self._kept_for(unit)}, which is ahead")
        words = lacking(short, len(unit.pods))
        if isinstance(place(self._offered, self._offered, _claims(unit)), Shortfall):
            return Wait("Unschedulable", words if short.forever else f"{words}; it can never fit here")
        return Wait("Queued", f"{words}{self._held_by(short.resource)}")

    def _helps(self, unit: _Unit) -> bool:
        """Say whether pods would find room if nobody but their own job were there, so that it helps to keep some."""
        own: defaultdict[str, list[Amounts]] = defaultdict(list)
        for each in self._own.get(unit.whose, ()):
            own[each.node].append(each.needs)
        alone = {node: left(offered, own[node]) for node, offered in self._offered.items()}
        return not isinstance(place(alone, self._offered, _claims(unit)), Shortfall)

    def _keep(self, unit: _Unit) -> None:
        self._ahead.append(unit.gang.title)
        needs = [each.needs for each in unit.pods]
        nodes = [name for name, offered in self._offered.items() if any(fits(each, offered) for each in needs)]
        for node in nodes:
            self._reserves[node].keep_for(unit.gang.title, needs, only_here=len(nodes) == 1)
        self._keep_quota(unit)

    def _kept_for(self, unit: _Unit) -> str:
        """Return who ahead needs what pods would take."""
        needs: Amounts = {}
        for each in unit.pods:
            needs = plus(needs, each.needs)
        found = (reserve.kept_for(needs) for reserve in self._reserves.values())
        return next(filter(None, found), self._ahead[0])

    def _position(self) -> str:
        place = len(self._ahead) + 1
        behind = f" behind {self._ahead[-1]}" if self._ahead else ""
        return f"{_ordinal(place)} in the queue{behind}"

    def _held_by(self, resource: str) -> str:
        """Say who holds a resource, those who hold most of it first."""
        if resource not in self._holders:
            held = Counter[str]()
            for each in self._holding:
                held[title(each.gang)] += each.needs.get(resource, 0)
            self._holders[resource] = +held
        most = self._holders[resource].most_common(_NAMED)
        if not most:
            return ""
        told = [f"{who} holds {show(resource, amount)}" for who, amount in most]
        if others := len(self._holders[resource]) - len(most):
            told.append(f"{counted(others, 'other')} the rest")
        return f" ({listed(told)})"

    # Quotas

    def _exceeded(self, unit: _Unit) -> Wait | None:
        """Say which quota of its namespace does not let a unit start, and keep its place there if one day it may."""
        for allowance in self._allowances[unit.gang.key[0]]:
            quota = allowance.quota
            if silent := next((each for each in unit.pods if quota.unsaid(each)), None):
                field_ = f"resources.{quota.unsaid(silent)}"
                words = f"the quota {quota.name} counts it, so every container of {silent.name} must state {field_}"
                return Wait(OVER_QUOTA, words)
            needs = quotas.total(quota, unit.pods)
            if never := _short(needs, quota.hard):
                return Wait(OVER_QUOTA, f"{_over(allowance, never, needs)}; it can never start")
            if short := _short(needs, allowance.reserve.within(allowance.free)):
                own = quotas.total(quota, self._own.get(unit.whose, ()))
                if not _short(needs, left(quota.hard, [own])):
                    self._keep_quota(unit)
                return Wait(OVER_QUOTA, _over(allowance, short, needs))
        return None

    def _keep_quota(self, unit: _Unit) -> None:
        for allowance in self._allowances[unit.gang.key[0]]:
            allowance.reserve.keep_for(unit.gang.title, [allowance.quota.used(each) for each in unit.pods])


def _claims(unit: _Unit) -> list[Claim]:
    return [Claim(each.uid, each.needs) for each in unit.pods]


def _short(needs: Amounts, free: Amounts) -> str:
    """Return the first key of a quota of which there is too little."""
    return next((key for key, value in needs.items() if value > max(0, free.get(key, 0))), "")


def _over(allowance: _Allowance, key: str, needs: Amounts) -> str:
    quota, name = allowance.quota, quotas.resource(key)
    needed, hard, used = (
        show(name, value) for value in (needs[key], quota.hard[key], quota.hard[key] - allowance.free[key])
    )
    kept = "" if needs[key] > allowance.free[key] else "; the rest is kept for those ahead"
    return f"the quota {quota.name} of {quota.namespace} allows {key} {hard}, {used} is used and {needed} needed{kept}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
