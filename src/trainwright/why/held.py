"""Jobs with which nothing goes on, whatever their pods do: going, refused, left to others, suspended, unattended."""

from datetime import timedelta

from trainwright.core.objects import at, moment
from trainwright.core.words import counted, listed
from trainwright.why.base import Facts, Judge, Verdict, message_of

_UNATTENDED = timedelta(seconds=10)
"""A job without a status is new for so long; later nobody looks after it."""
_CHILDREN_FIRST = ("foregroundDeletion", "orphan")
"""Finalizers that the home itself takes away once the job's objects are gone, or let go of."""


def being_deleted(facts: Facts) -> Verdict | None:
    """The job is being deleted and a finalizer, or pods that are stopping, hold it."""
    since = at(facts.object, ("metadata", "deletionTimestamp"))
    if not since:
        return None
    told = f"{facts.name} was told to go {facts.since(since)} ago"
    foreign = [each for each in facts.object["metadata"].get("finalizers") or () if each not in _CHILDREN_FIRST]
    if foreign:
        whose = "the finalizer" if len(foreign) == 1 else "the finalizers"
        sentence = f"{told} and is held by {whose} {listed(foreign)}: whoever set it has to remove it"
        return Verdict(sentence, next=(f"kubectl edit {facts.kind.resource} {facts.name}{facts.flags}",))
    stopping = [facts.label(pod.name) for pod in facts.leaving]
    if stopping:
        return Verdict(f"{told} and waits for {counted(len(stopping), 'pod')} to stop: {listed(stopping)}")
    return Verdict(f"{told}; its objects are being removed")


def refused(facts: Facts) -> Verdict | None:
    """The manifest is not valid and nothing stood in front to refuse it: every problem is named."""
    if facts.record.cause != "Invalid":
        return None
    first, _, problems = facts.standing.message.partition(" is not valid: ")
    said = [problem for problem in (problems or first).split("; ") if problem]
    sentence = f"{facts.name} was refused: {said[0]}"
    more = tuple(said[1:])
    return Verdict(sentence, more, (f"tw delete {facts.name}{facts.flags}", "tw apply -f FILE, once it is corrected"))


def managed_elsewhere(facts: Facts) -> Verdict | None:
    """The job names another controller that looks after it: it is left alone completely."""
    if not facts.job.run_policy.external:
        return None
    manager = at(facts.object, ("spec", "runPolicy", "managedBy"))
    return Verdict(f"{facts.name} is left alone: its managedBy says that {manager} looks after it")


def suspended(facts: Facts) -> Verdict | None:
    """The user has suspended the job: it has no pods until it is resumed."""
    if facts.standing.finished or not (facts.job.run_policy.suspend or facts.standing.phase == "Suspended"):
        return None
    said = [each for each in facts.status.get("conditions") or () if each.get("type") == "Suspended"]
    when = f" since {facts.clock(said[-1].get('lastTransitionTime'))}" if said else ""
    stopping = [facts.label(pod.name) for pod in facts.leaving]
    evidence = (f"still stopping: {listed(stopping)}",) if stopping else ()
    return Verdict(f"{facts.name} is suspended{when}: somebody has set suspend", evidence, (facts.command("resume"),))


def unattended(facts: Facts) -> Verdict | None:
    """Nobody has written a status: no operator looks after jobs of this kind here."""
    created = moment(at(facts.object, ("metadata", "creationTimestamp")))
    if facts.status or created is None or facts.home == "kept" or facts.now - created < _UNATTENDED:
        return None
    failed = facts.told("FailedCreatePod")
    sentence = f"nobody looks after {facts.name}: it is {facts.since(created)} old and no operator has written a status"
    helps = ("tw doctor",) if facts.home != "cluster" else ("tw doctor", "tw install | kubectl apply -f -")
    return Verdict(sentence, tuple(map(message_of, failed[-1:])), helps)


HELD: tuple[Judge, ...] = (being_deleted, refused, managed_elsewhere, suspended, unattended)
