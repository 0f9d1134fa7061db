"""A plan in the making: every job's planned size, the room left, and who gave units up for what.

Arithmetic only: which job is asked, and in which order, is a policy's business. Everything taken or claimed can be
undone, because a gang that does not fit as a whole must leave no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from trainwright.autoscaler.base import NOWHERE, Ask, Change, Cluster, ElasticJob, Plan
from trainwright.autoscaler.room import NO_NODE, Needs, Room, Shape, fits, slots, subtract
from trainwright.placement import Amounts, show

SMALL = Fraction(3, 4)
"""A node is small if it offers less than this share of what nodes offer on average."""


class Row:
    """One job in a draft."""

    __slots__ = ("cap", "causes", "gained", "granted", "high", "job", "low", "places", "rank", "ready", "shape", "size")

    def __init__(self, job: ElasticJob, shape: Shape, places: Sequence[str]) -> None:
        self.job = job
        self.shape = shape
        self.places = places
        """Nodes of the units that have one; those at the end leave first."""
        self.low, self.high = (max(0, job.minimum), job.maximum) if job.elastic else (job.size, job.size)
        self.size = min(len(places), self.high)
        """The planned size: units that have room, or are counted on to get it."""
        self.granted = job.size
        """The size it may have at once; more may be planned, for which room is still being made."""
        self.cap = self.high
        self.ready = True
        """Whether what it has stands, so that it may grow at once."""
        self.gained = False
        self.causes: list[str | Row] = []
        """Why it gave units up: sentences, or the jobs that were behind it."""
        self.rank = 0

    @property
    def gives(self) -> bool:
        """Say whether a unit may be taken from it."""
        return self.size > self.low and not self.gained and not self.job.resizing


@dataclass(frozen=True, slots=True)
class Gang:
    """What a job lacks so that its minimum is met: it gets all of it or nothing."""

    row: Row
    missing: Sequence[tuple[Shape, int]]
    """The hungriest first."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A unit that a job gives up."""

    row: Row
    node: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """Room that pods are counted on to get."""

    shape: Shape
    node: int
    times: int
    now: bool


class Draft:
    """What is planned so far."""

    def __init__(self, cluster: Cluster, jobs: Sequence[ElasticJob]) -> None:
        self._resources: dict[str, int] = {}
        self._shapes: dict[object, Shape] = {}
        self._limits_differ = False
        self.rows: list[Row] = []
        """Jobs that may be scaled."""
        self.gangs: list[Gang] = []
        self.promised: list[tuple[Shape, int]] = []
        """Units above the minimum that a resize in flight will bring."""
        self.others = [self._shape(requests, {}) for requests in cluster.waiting]
        """Pods that are not ours and wait."""
        self.waiting: dict[str, str] = {}
        over: list[tuple[Shape, int]] = []
        leaving: list[tuple[Shape, str]] = []
        for job in jobs:
            self._read(job, over, leaving)
        self.room = Room(cluster.nodes, tuple(self._resources))
        self._kept_free = self._headroom(Fraction(str(cluster.max_load)))
        self.spare = [
            offered - used - kept
            for offered, used, kept in zip(self.room.offered, self.room.used, self._kept_free, strict=True)
        ]
        """What may still be used of each resource; below nothing, somebody has to shrink."""
        self.unlimited = list(self.spare)
        """The same counted by limits, if those differ from requests anywhere: below nothing, nobody grows."""
        for shape, times in over:
            subtract(self.unlimited, shape.excess, times)
        for shape, place in leaving:
            self._leaves(shape, place)
        self.gangs.sort(key=lambda gang: (-gang.row.job.priority, gang.row.job.created, gang.row.job.key))

    def shape(self, ask: Ask) -> Shape:
        """Return the shape of pods that ask for this."""
        shape = self._shapes.get(id(ask))  # the jobs outlive the draft, so an identity is never used again
        if shape is None:
            shape = self._shapes[id(ask)] = self._shape(ask.requests, ask.limits)
        return shape

    def resources(self) -> list[tuple[str, int]]:
        """Return the resources that anybody asks for with their numbers, by name: who asked first must not matter."""
        return sorted(self._resources.items())

    def obtainable(self) -> list[int]:
        """Return what is not used, in sum, if everybody shrank to their minimum."""
        left = [spare + kept for spare, kept in zip(self.spare, self._kept_free, strict=True)]
        for row in self.rows:
            if row.gives:
                subtract(left, row.shape.needs, row.low - row.size)
        return left

    def words(self, shape: Shape) -> str:
        """Return what pods of a shape ask for, as a user would write it."""
        names = tuple(self._resources)
        return ", ".join(f"{names[resource]} {show(names[resource], amount)}" for resource, amount in shape.needs)

    def larger_nodes(self, shape: Shape) -> set[int]:
        """Return the nodes that are not small for pods of a shape; none if all are alike."""
        if not shape.needs:
            return set()
        name = tuple(self._resources)[shape.scarcest[0]]
        offers = {number: node.offers.get(name, 0) for number, node in enumerate(self.room.nodes)}
        having = [offered for offered in offers.values() if offered > 0]
        least = SMALL * sum(having) / max(1, len(having))
        if all(offered >= least for offered in having):
            return set()
        return {number for number, offered in offers.items() if offered >= least}

    def ranked(self) -> list[Row]:
        """Return the rows in the order that decides between equally fulfilled jobs; each knows its place in it."""
        rows = sorted(self.rows, key=lambda row: (row.shape.hunger, row.job.created, row.job.key))
        for rank, row in enumerate(rows):
            row.rank = rank
        return rows

    def claim(self, shape: Shape, count: int) -> list[Claimed]:
        """Give up to so many pods room, first what is free now."""
        claims: list[Claimed] = []
        while count and shape.needs:
            node, now = self.room.find_now(shape), True
            if node == NO_NODE:
                node, now = self.room.find_later(shape), False
            if node == NO_NODE:
                break
            claims.append(self.claim_on(node, shape, count, now=now))
            count -= claims[-1].times
        return claims

    def claim_on(self, node: int, shape: Shape, wanted: int, *, now: bool) -> Claimed:
        """Give pods room on one node that holds one of them or more."""
        room = self.room
        if now:
            times = room.holds(node, shape.needs, wanted)
            room.claim_now(node, shape.needs, times)
        else:
            times = slots(shape.needs, room.hole(node), wanted)
            room.claim_later(node, shape.needs, times)
        self._spend(shape, times)
        return Claimed(shape, node, times, now)

    def claim_one(self, node: int, shape: Shape, *, now: bool) -> None:
        """Give one pod room on a node that holds it: what is done most often."""
        if now:
            self.room.claim_now(node, shape.needs)
        else:
            self.room.claim_later(node, shape.needs)
        self._spend(shape, 1)

    def affords(self, shape: Shape) -> bool:
        """Say whether one more pod stays within the load that is allowed, by requests and by what growth counts."""
        if not fits(shape.needs, self.spare):
            return False
        return not self._limits_differ or fits(shape.counted, self.unlimited)

    def unclaim(self, claim: Claimed) -> None:
        """Undo a claim."""
        self.room.release(claim.node, claim.shape.needs, claim.times, now=claim.now)
        self._spend(claim.shape, -claim.times)

    def last(self, row: Row) -> int:
        """Return the node of the unit that leaves next."""
        return self.room.number(row.places[row.size - 1])

    def take(self, row: Row, cause: "str | Row") -> Taken:
        """Take a unit from a job."""
        node = self.last(row)
        row.size -= 1
        row.causes.append(cause)
        if node != NO_NODE:
            self.room.vacate(node, row.shape.needs)
            self._spend(row.shape, -1)
        return Taken(row, node)

    def give_back(self, taken: Taken) -> None:
        """Undo the last taking from a job."""
        row = taken.row
        row.size += 1
        row.causes.pop()
        if taken.node != NO_NODE:
            self.room.stay(taken.node, row.shape.needs)
            self._spend(row.shape, 1)

    def hand_over(self, giver: Row, taker: Row) -> bool:
        """Let a unit of one job take the place of another's that asks for the same; say whether the place is good."""
        node = self.last(giver)
        if node == NO_NODE or min(self.room.hole(node)) < 0:
            return False
        giver.size -= 1
        giver.causes.append(taker)
        return True

    def plan(self) -> Plan:
        """Return what the draft has come to."""
        changes = (_change(row) for row in self.rows)
        return Plan(tuple(change for change in changes if change), self.waiting)

    def _read(self, job: ElasticJob, over: list[tuple[Shape, int]], leaving: list[tuple[Shape, str]]) -> None:
        """Note what one job has, may have and lacks."""
        shape = self.shape(job.unit)
        places = job.places
        if not (job.running == job.size == len(places)):
            places = [place for place in places[: job.size] if place != NOWHERE]
            leaving += [(shape, place) for place in job.places[job.size :]]
        if shape.excess and not shape.devices:
            over.append((shape, len(places)))
        row = Row(job, shape, places)
        if job.elastic:
            self.rows.append(row)
            if len(places) > row.high:
                leaving += [(shape, place) for place in places[row.high :]]
        missing = [(self.shape(role.ask), role.count - role.bound) for role in job.fixed if role.bound < role.count]
        over += [(self.shape(role.ask), role.bound) for role in job.fixed if role.ask.limits]
        row.ready = not missing
        if row.size < row.low:
            missing.append((shape, row.low - row.size))
        if missing:
            self.gangs.append(Gang(row, sorted(missing, key=lambda part: part[0].hunger, reverse=True)))
        if max(row.size, row.low) < job.size <= row.high:  # what it has been given before must come first
            row.cap, row.ready = job.size, False
            if job.resizing:
                self.promised.append((shape, job.size - max(row.size, row.low)))

    def _leaves(self, shape: Shape, place: str) -> None:
        node = self.room.number(place)
        if node == NO_NODE:
            return
        self.room.vacate(node, shape.needs)
        self._spend(shape, -1)

    def _spend(self, shape: Shape, times: int) -> None:
        subtract(self.spare, shape.needs, times)
        if self._limits_differ:
            subtract(self.unlimited, shape.counted, times)

    def _headroom(self, load: Fraction) -> list[int]:
        """Return what is kept free; devices may always be used to the last."""
        return [
            0 if "/" in name else offered - int(offered * load)
            for name, offered in zip(self._resources, self.room.offered, strict=True)
        ]

    def _shape(self, requests: Amounts, limits: Amounts) -> Shape:
        key = (*requests.items(), None, *limits.items())
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._new_shape(requests, limits)
        return shape

    def _new_shape(self, requests: Amounts, limits: Amounts) -> Shape:
        requests = {name: amount for name, amount in {**limits, **requests}.items() if amount > 0}
        limits = {name: max(amount, limits.get(name, 0)) for name, amount in requests.items()}
        devices = sum(amount for name, amount in requests.items() if "/" in name)
        self._limits_differ |= limits != requests
        return Shape(
            needs=self._needs(requests),
            counted=self._needs(requests if devices else limits),
            excess=self._needs({name: limits[name] - requests[name] for name in requests}),
            devices=devices,
            cpu=requests.get("cpu", 0),
            memory=requests.get("memory", 0),
        )

    def _needs(self, amounts: Amounts) -> Needs:
        """Return amounts as pairs, those first that few nodes have."""
        names = sorted(amounts, key=lambda name: ("/" not in name, name != "cpu", name))
        numbers = self._resources
        return tuple((numbers.setdefault(name, len(numbers)), amounts[name]) for name in names if amounts[name] > 0)


def _change(row: Row) -> Change | None:
    """Return the new size of a job, if it gets one."""
    job = row.job
    if job.resizing:
        return None
    after = max(row.low, row.size if row.size < job.size else row.granted)
    if after == job.size:
        return None
    verb = "shrinks" if after < job.size else "grows"
    return Change(job.key, job.size, after, f"{verb} from {job.size} to {after}: {_reason(row, after)}")


def _reason(row: Row, after: int) -> str:
    job = row.job
    if after > job.size:
        return f"its minimum is {row.low}" if after == row.low else "there is room for it"
    if row.causes:
        return _together(list(dict.fromkeys(row.causes)))
    if job.size > row.high and after == row.high:
        return f"its maximum is {row.high}"
    return "no node has room for the others"


def _cause(cause: "str | Row") -> str:
    if isinstance(cause, str):
        return cause
    job = cause.job
    return f"job {job.key} has less of its range ({job.size} of {cause.low} to {cause.high})"


def _together(causes: "Sequence[str | Row]") -> str:
    if len(causes) > 2:
        return f"{_cause(causes[0])}, and {len(causes) - 1} more such"
    return "; ".join(map(_cause, causes))
