"""Who failed first, what it said last, and what the others only suffered."""

import re
from collections.abc import Iterator, Sequence

from trainwright.core.objects import Object, at, moment
from trainwright.core.words import counted, listed
from trainwright.placement import amounts, show
from trainwright.reconcile.verdicts import Culprit, culprit, read_culprit
from trainwright.why.base import Facts, message_of, told_at

_JOINED = (
    re.compile(r"(?P<joined>\d+)/(?P<wanted>\d+) (?:clients|workers|nodes|ranks) joined"),
    re.compile(r"(?P<joined>\d+) of (?P<wanted>\d+) (?:clients|workers|nodes|ranks)? ?(?:have )?joined"),
)
"""How frameworks say that a meeting is not complete; the first is the store of torch.distributed."""
_AWAITS = re.compile(r"CreateSession still waiting for response from worker: (?P<peer>\S+)")
"""How TensorFlow says that it waits for a peer."""
NEVER_STARTED = ("StartError", "ContainerCannotRun", "CreateContainerError", "CreateContainerConfigError")
SENT_AWAY = ("Evicted", "Preempting", "Preempted")
LOST_WITH_NODE = ("TaintManagerEviction", "NodeNotReady")
"""Reasons by which pods, and events about them, say that somebody else has ended them."""
LAST_LINES = 5
PEAK = "OOMKilling"
"""The reason of the event by which a node tells how much memory a container had when it was killed for it."""


def blamed(facts: Facts) -> Culprit | None:
    """Return who failed first: whom the record names, else the first to fail among the pods that are known."""
    return read_culprit(facts.record.culprit) or culprit(facts.job, (*facts.pods, *facts.past))


def pod_of(facts: Facts, found: Culprit) -> Object | None:
    """Return the pod that a culprit is, the very one that failed so if it is known."""
    named = [pod for pod in (*facts.past, *facts.pods) if pod["metadata"]["name"] == found.pod]
    exact = [pod for pod in named if found.at in _ends(pod)]
    return next(reversed(exact or named), None)


def _ends(pod: Object) -> Iterator[str]:
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in ("state", "lastState"):
            yield str(at(each, (state, "terminated", "finishedAt"), ""))


def account(facts: Facts, found: Culprit) -> tuple[str, ...]:
    """Return what there is to say about a failure beyond its first sentence."""
    standing = facts.standing
    why = (standing.message,) if standing.finished and standing.phase != standing.outcome and standing.message else ()
    when = (f"it ended at {facts.clock(found.at)}",) if found.at else ()
    return (*why, *when, *last_words(facts, found), *suffered(facts, found), *restarts(facts))


def last_words(facts: Facts, found: Culprit) -> tuple[str, ...]:
    """Return what the culprit said last, as evidence."""
    return said_last(facts.label(found.pod), last_lines(facts, found)[-LAST_LINES:])


def last_lines(facts: Facts, found: Culprit) -> Sequence[str]:
    """Return the last lines of the run that failed; its termination message where they are not known."""
    pod = pod_of(facts, found)
    printed = facts.output.get(pod["metadata"].get("uid", "")) if pod else None
    said = () if printed is None else printed.before if pod and _runs_again(pod, found) else printed.lines
    return said or tuple(found.message.splitlines())


def said_last(rank: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Return the last lines of a rank as evidence; nothing if there are none."""
    many = f"the last {len(lines)} lines" if len(lines) > 1 else "the last line"
    return (f"{many} of {rank}:", *(f"| {line}" for line in lines)) if lines else ()


def _runs_again(pod: Object, found: Culprit) -> bool:
    """Say whether the container that failed runs again: then its last lines are those of the run before."""
    containers = at(pod, ("status", "containerStatuses")) or ()
    return any("running" in (each.get("state") or {}) for each in containers if each.get("name") == found.container)


def suffered(facts: Facts, found: Culprit) -> tuple[str, ...]:
    """Return who else failed, not before the culprit and so most likely because of it."""
    first, others = moment(found.at), dict[int, list[str]]()
    for pod in facts.ranks:
        later = first is None or pod.failed_at is None or pod.failed_at >= first
        if pod.name != found.pod and pod.phase == "Failed" and pod.code and later:
            others.setdefault(pod.code, []).append(facts.label(pod.name))
    return tuple(
        f"{listed(names)} ended after it with code {code}, most likely because of it" for code, names in others.items()
    )


def restarts(facts: Facts) -> tuple[str, ...]:
    """Return how often the job was restarted on the way, role by role."""
    told = [f"{role} {counted(kept.restarts, 'time')}" for role, kept in facts.record.roles.items() if kept.restarts]
    retries = int(facts.status.get("retryCount") or 0)
    whole = (f"its policies have restarted it {counted(retries, 'time')}",) if retries else ()
    return (*((f"restarted before: {listed(told)}",) if told else ()), *whole)


def disturbed(facts: Facts) -> tuple[str, ...]:
    """Return which pods of the job were sent away, or lost with their nodes, of which often only an event is left."""
    told = [event for event in facts.events if event.get("reason") in (*SENT_AWAY, *LOST_WITH_NODE)]
    return tuple(
        f"{at(event, ('involvedObject', 'name'))}, {facts.since(told_at(event))} ago: {message_of(event)}"
        for event in told[-LAST_LINES:]
    )


def restart_count(facts: Facts) -> int:
    """Return how often any part of the job was started again after a failure."""
    seen = sum(pod.restarts for pod in facts.ranks)
    return max(facts.record.restarts, seen, int(facts.status.get("retryCount") or 0))


def never_met(lines: Sequence[str]) -> str:
    """Return how many ranks have met, if the last lines of one say that some have not; nothing otherwise."""
    for line in reversed(lines):
        for pattern in _JOINED:
            if (found := pattern.search(line)) and int(found["joined"]) < int(found["wanted"]):
                return f"{found['joined']} of {found['wanted']} joined"
        if found := _AWAITS.search(line):
            return f"{found['peer']} does not answer"
    return ""


def memory(facts: Facts, found: Culprit) -> str:
    """Return how much memory the culprit might use and how much it had, as far as that is known."""
    parts = [f"its limit is {found.limit}"] if found.limit else []
    parts += [message_of(event) for event in facts.told(PEAK, pod=found.pod)[-1:]]
    return ", ".join(parts) or "no limit of its own is set, the node itself had no more"


def raised(limit: str) -> str:
    """Return twice a memory limit, as a user would write it."""
    return show("memory", 2 * amounts({"memory": limit})["memory"])


def failed_ago(facts: Facts, found: Culprit) -> str:
    """Return when the culprit failed, in words; nothing if that is not known."""
    return f" {facts.since(found.at)} ago" if moment(found.at) else ""
