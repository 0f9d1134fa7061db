"""Elastic jobs: how they came to their size, and why they do not grow."""

from collections.abc import Iterator

from trainwright.api import scaling
from trainwright.api.scaling import Scaling
from trainwright.core.objects import Object
from trainwright.core.words import counted
from trainwright.why import room
from trainwright.why.base import Facts, Judge, Verdict, message_of


def below_minimum(facts: Facts) -> Verdict | None:
    """The autoscaler wants the job at its minimum at least, and there is no room for that."""
    told = facts.told("Waiting")
    elastic = facts.job.elastic
    if not told or elastic is None or _running(facts) >= elastic.minimum:
        return None
    sentence = f"{facts.name} waits for room: {message_of(told[-1])}"
    return Verdict(sentence, (_span(facts),), ("tw ps -A",))


def left_alone(facts: Facts) -> Verdict | None:
    """The autoscaler leaves the size of an elastic job alone, and says why."""
    told = facts.told("NotScaled")
    elastic = facts.job.elastic
    if not told or elastic is None or not facts.running:
        return None
    _, _, why = message_of(told[-1]).partition(": ")
    sentence = f"{facts.name} runs with {_size(facts)} and is not scaled: {why or message_of(told[-1])}"
    return Verdict(sentence, (_span(facts),), (f"{facts.command('scale')} N",))


def no_room_to_grow(facts: Facts) -> Verdict | None:
    """An elastic job runs below its maximum because one more rank would not fit."""
    elastic = facts.job.elastic
    role = facts.job.role(elastic.role) if elastic else None
    if elastic is None or role is None or not facts.running or role.replicas >= elastic.maximum:
        return None
    short = room.free_for(facts, role.template)
    if short is None:
        return None
    held = room.holders_of(facts, short)
    sentence = (
        f"{facts.name} runs with {_size(facts)} and does not grow to {elastic.maximum}: {short.words('one more needs')}"
    )
    return Verdict(f"{sentence}; {held}" if held else sentence, (_span(facts),), ("tw ps -A",))


def resized(facts: Facts) -> Verdict | None:
    """The job runs and was resized: from what to what, when, and what for."""
    changes = scaling.history(facts.status)
    if not changes or not facts.running:
        return None
    up = f"{len(facts.running)} of {facts.job.total} ranks run"
    return Verdict(
        f"{facts.name} was {_sentence(facts, changes[-1])}; {up}", (_span(facts),), (facts.command("logs") + " -f",)
    )


def history(facts: Facts) -> tuple[str, ...]:
    """Return every change of the job's size and every wait of its minimum, in the order of time."""
    waits = [(str(event.get("firstTimestamp") or ""), _waited(facts, event)) for event in facts.told("Waiting")]
    changes = [(change.time or "", _sentence(facts, change)) for change in scaling.history(facts.status)]
    aside = [message_of(event) for event in facts.told("NotScaled")[-1:]]
    return (*(sentence for _, sentence in sorted([*waits, *changes])), *aside, *_never(facts))


def _never(facts: Facts) -> Iterator[str]:
    if facts.job.elastic is not None and not scaling.history(facts.status) and not facts.told("Waiting", "NotScaled"):
        yield f"never resized; {_span(facts)}"


def _waited(facts: Facts, event: Object) -> str:
    return f"waited at {facts.clock(event.get('firstTimestamp'))} because {message_of(event)}"


def _sentence(facts: Facts, change: Scaling) -> str:
    """Return "scaled from 4 to 2 at 12:03:05 because …"; the reason repeats the sizes before its colon."""
    head, _, cause = (change.reason or "").partition(": ")
    because = f" because {cause or head}" if change.reason else ""
    return f"scaled from {change.before} to {change.after} at {facts.clock(change.time)}{because}"


def _span(facts: Facts) -> str:
    elastic = facts.job.elastic
    return f"{elastic.role.lower()} may be {elastic.minimum} to {elastic.maximum}" if elastic else ""


def _size(facts: Facts) -> str:
    elastic = facts.job.elastic
    return counted(facts.job.count(elastic.role), elastic.role.lower()) if elastic else ""


def _running(facts: Facts) -> int:
    elastic = facts.job.elastic
    return sum(pod.role == elastic.role for pod in facts.running) if elastic else 0


SIZES: tuple[Judge, ...] = (left_alone, resized, no_room_to_grow)
