"""Which pods leave their gates next: one gang at a time, when all it must have fits on what is free.

A gate that was taken away cannot be put back, so this errs on the side of waiting. Whoever is past its gate and without
a place is in the hands of the scheduler, as are pods of others: what fits of them has its place reserved before anybody
else is looked at, and nobody else is let in until the gang that is under way has been placed. Of a gang whose pods ask
for different amounts the hungriest go first, so that small ones do not take the holes that large ones need.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainwright.core.names import GANG_GATE
from trainwright.placement.fit import Shortfall, hunger
from trainwright.placement.gangs import Gang, GangKey, Member, Room, gather, incomplete, lacking


@dataclass(frozen=True)
class Opening:
    """What one look at the gates decides."""

    pods: tuple[str, ...] = ()
    """Uids of the pods that may leave their gates now, all of one gang."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Why gangs wait, in words, by the uid of the first pod of each."""
    under_way: frozenset[GangKey] = frozenset()
    """Gangs that are past their gates and not all placed: nobody else is let in, unless they take too long."""


def opening(members: Iterable[Member], room: Room | None, given_up: Collection[GangKey] = ()) -> Opening:
    """Return who may leave the gates now, and why others wait.

    Without `room` nobody knows what fits, and a gang is let in as soon as all of it is there. Gangs that were
    `given_up` hold nobody up any longer; what they may still take is reserved all the same.
    """
    members = list(members)
    queued = sorted((each for each in members if each.homeless and not each.gates), key=lambda each: each.arrival)
    if room is not None:
        _reserve(queued, room)
    under_way = frozenset(each.gang for each in queued if each.minimum > 1)
    if under_way - frozenset(given_up):
        return Opening(under_way=under_way)
    waits: dict[str, str] = {}
    for gang in sorted(gather(members, is_gated), key=_turn):
        found = _let_in(gang, room)
        if not isinstance(found, str):
            return Opening(found, waits, under_way)
        waits[gang.waiting[0].uid] = found
    return Opening((), waits, under_way)


def _reserve(members: Iterable[Member], room: Room) -> None:
    """Set aside what pods that the scheduler has before it will take, as far as they fit one by one."""
    refused = set()
    for each in members:
        asked = tuple(sorted(each.needs.items())), room.takers(each)
        if asked not in refused and isinstance(room.take([each]), Shortfall):
            refused.add(asked)  # room only gets less: there may be thousands that ask for the same


def is_gated(member: Member) -> bool:
    """Say whether our gate is all that holds a pod back."""
    return member.homeless and member.gates == (GANG_GATE,)


def _turn(gang: Gang) -> tuple[bool, int, tuple[str, int, str]]:
    """Return when it is a gang's turn: what has been begun is completed first, then what is urgent, then who came."""
    return not (gang.placed and gang.missing), -gang.priority, gang.waiting[0].arrival


def _let_in(gang: Gang, room: Room | None) -> tuple[str, ...] | str:
    """Return those who may leave their gates, or why nobody may."""
    if sentence := incomplete(gang):
        return sentence
    together = gang.waiting[: gang.missing]
    if room is None:
        return tuple(each.uid for each in together or gang.waiting)
    if not together:
        return _one_by_one(gang.waiting, room)
    result = room.take(together)
    return lacking(result, len(together)) if isinstance(result, Shortfall) else _hungriest(together)


def _one_by_one(members: Sequence[Member], room: Room) -> tuple[str, ...] | str:
    """Return those beyond the minimum that fit, the first first, or why not even the first does."""
    fitting: list[str] = []
    for each in members:
        result = room.take([each])
        if isinstance(result, Shortfall):
            return tuple(fitting) or lacking(result, 1)
        fitting.append(each.uid)
    return tuple(fitting)


def _hungriest(members: Sequence[Member]) -> tuple[str, ...]:
    def asked(each: Member) -> tuple[tuple[int, ...], list[tuple[str, int]]]:
        return hunger(each.needs), sorted(each.needs.items())

    most = max(map(asked, members))
    return tuple(each.uid for each in members if asked(each) == most)
