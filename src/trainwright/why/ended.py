"""Jobs that have ended: who decided a success, and who failed first, of what."""

from collections.abc import Iterator

from trainwright.core.names import CANCEL_ANNOTATION
from trainwright.core.objects import Object, at, moment
from trainwright.core.words import counted, listed, span
from trainwright.reconcile.verdicts import Culprit, signal_name
from trainwright.why import blame
from trainwright.why.base import Facts, Judge, Verdict, message_of

_COMMANDED = "CommandIssued"
_NAMED = 5
"""So many ranks are named."""
_STOPPED = "Terminated"
"""The reason of a pod whose node stops."""
_NODE_GONE = ("NodeLost", "NodeShutdown", "Shutdown", "ContainerStatusUnknown", "NodeAffinity")
"""Further reasons by which a pod or a container ended because of its node."""
_TAKEN_BY_NODE = ("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
_FOR_OTHERS = ("PreemptionByScheduler", "EvictionByEvictionAPI")
"""Reasons of the condition DisruptionTarget, by which Kubernetes says why it ends a pod."""
_MADE_ROOM = ("PreemptionByScheduler", "Preempting", "Preempted")


def succeeded(facts: Facts) -> Verdict | None:
    """The job has succeeded: after how long, and whose success decided it."""
    if facts.standing.outcome != "Succeeded":
        return None
    sentence = f"{facts.name} succeeded{_lasted(facts)}: {_decided(facts)}"
    said = (facts.standing.message,) if facts.standing.message else ()
    return Verdict(sentence, (*said, *blame.restarts(facts)), (facts.command("logs"),))


def _decided(facts: Facts) -> str:
    """Say whose success made the job a success."""
    done = {role.name: _done(facts, role.name) for role in facts.job.roles if role.replicas}
    whole = [role for role in facts.job.roles if role.replicas and done[role.name] >= role.replicas]
    total = facts.job.total
    if len(whole) == len(done):
        return f"all {counted(total, 'rank')} ended with success" if total > 1 else "its one rank ended with success"
    if whole:
        open_ = [
            f"{done[role.name]} of {counted(role.replicas, role.label)}"
            for role in facts.job.roles
            if role not in whole
        ]
        return f"{listed(role.label for role in whole)} ended with success and decides; by then {listed(open_)} had"
    return f"{sum(done.values())} of {total} ranks ended with success, and that is enough"


def _done(facts: Facts, role: str) -> int:
    there = {pod.index for pod in facts.ranks if pod.role == role and pod.phase == "Succeeded"}
    return len(facts.record.role(role).done | there)


def late(facts: Facts) -> Verdict | None:
    """The job ran longer than its deadline allows."""
    if not facts.standing.late and facts.record.cause != "Deadline":
        return None
    limit = facts.job.run_policy.deadline_seconds
    allowed = f"its activeDeadlineSeconds of {limit}" if limit is not None else "it may"
    said = (facts.standing.message,) if facts.standing.message else ()
    still = [facts.label(pod.name) for pod in facts.ranks if not pod.ended or pod.phase == "Failed"]
    behind = (f"not done by then: {listed(still)}",) if still else ()
    next_ = (facts.command("logs"), "raise activeDeadlineSeconds, then: " + facts.command("retry"))
    sentence = f"{facts.name} failed: it ran longer than {allowed}"
    return Verdict(sentence, (*said, *behind, *blame.restarts(facts)), next_)


def commanded(facts: Facts) -> Verdict | None:
    """Somebody has stopped the job by a command; an aborted one can be resumed."""
    if facts.standing.reason != _COMMANDED:
        return None
    told = facts.told(_COMMANDED)
    said = message_of(told[-1]) if told else facts.standing.message.rstrip(".")
    next_ = "resume" if facts.standing.phase == "Aborted" else "retry"
    return Verdict(f"{facts.name} is {facts.standing.phase}: {said}", blame.restarts(facts), (facts.command(next_),))


def cancelled(facts: Facts) -> Verdict | None:
    """Somebody has cancelled the job."""
    if facts.record.cause != "Cancelled":
        return None
    who = at(facts.object, ("metadata", "annotations", CANCEL_ANNOTATION))
    sentence = f"{facts.name} was cancelled{f' by {who}' if who else ''}"
    said = (facts.standing.message,) if facts.standing.message else ()
    return Verdict(sentence, (*said, *blame.restarts(facts)), (facts.command("retry"),))


def too_few(facts: Facts) -> Verdict | None:
    """Every rank has ended and fewer have succeeded than minSuccess asks for."""
    goal = facts.job.run_policy.min_success
    if goal is None or facts.record.cause != "Failure":
        return None
    done = sum(_done(facts, role.name) for role in facts.job.roles)
    if done >= goal:
        return None
    found = blame.blamed(facts)
    sentence = f"{facts.name} failed: {done} of {facts.job.total} ranks succeeded, and minSuccess is {goal}"
    if found is None:
        return Verdict(sentence, next=(facts.command("logs"),))
    return Verdict(f"{sentence}; {found} first", blame.account(facts, found), _look(facts, found))


def out_of_memory(facts: Facts) -> Verdict | None:
    """A rank used more memory than its limit and was killed for it."""
    found = blame.blamed(facts)
    if found is None or found.reason != "OOMKilled":
        return None
    sentence = f"{facts.name} failed: {found.pod} ran out of memory ({blame.memory(facts, found)})"
    advice = (
        f"raise resources.limits.memory, to {blame.raised(found.limit)} say" if found.limit else "set a memory limit"
    )
    return Verdict(sentence, blame.account(facts, found), (*_look(facts, found), advice))


def never_met(facts: Facts) -> Verdict | None:
    """A rank gave up because not all had joined: the others never came, and are named."""
    found = blame.blamed(facts)
    joined = blame.never_met(blame.last_lines(facts, found)) if found else ""
    if found is None or not joined:
        return None
    away = [f"{facts.label(pod.name)} is {pod.phase}" for pod in facts.ranks if pod.name != found.pod]
    sentence = f"{facts.name} failed: its ranks did not all meet, {joined}, says {found.pod}"
    next_ = (facts.command("logs"), facts.command("retry"))
    return Verdict(sentence, (*away[:_NAMED], *blame.account(facts, found)), next_)


def evicted(facts: Facts) -> Verdict | None:
    """A pod was sent away by its node, or made room for one of higher priority."""
    for pod, reason, message in _disrupted(facts):
        if reason in (*blame.SENT_AWAY, *_FOR_OTHERS):
            how = "made room for others" if reason in _MADE_ROOM else "was evicted"
            sentence = f"{facts.name} failed: {pod} {how}{f': {message}' if message else ''}"
            return Verdict(sentence, blame.restarts(facts), (facts.command("events"), facts.command("retry")))
    return None


def node_lost(facts: Facts) -> Verdict | None:
    """The node of a rank was lost, or stopped, and took the rank with it."""
    for pod, reason, message in _disrupted(facts):
        if facts.home == "kept" and reason == _STOPPED:  # every run ends what is left in it
            continue
        if reason in (_STOPPED, *_NODE_GONE, *_TAKEN_BY_NODE, *blame.LOST_WITH_NODE):
            node = _node_of(facts, pod)
            where = f" with node {node}" if node else " with its node"
            sentence = f"{facts.name} failed: {pod} was lost{where}{f' ({message})' if message else ''}"
            return Verdict(sentence, blame.restarts(facts), ("kubectl get nodes", facts.command("retry")))
    return None


def _disrupted(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield the pods that did not end by themselves: name, reason and message, whom the record blames first."""
    found = blame.blamed(facts)
    if found is not None:
        pod = blame.pod_of(facts, found)
        yield from _ended_by_others(pod) if pod else ()
        yield found.pod, found.reason, found.message
        if found.code is not None:  # what ended by itself was the cause, whatever became of the others
            return
    for pod in (*facts.pods, *facts.past):
        yield from _ended_by_others(pod)
    for event in facts.events:  # of a pod that is gone often nothing else is left
        if event.get("reason") in (*blame.SENT_AWAY, *blame.LOST_WITH_NODE):
            yield str(at(event, ("involvedObject", "name"))), str(event["reason"]), message_of(event)


def _ended_by_others(pod: Object) -> Iterator[tuple[str, str, str]]:
    status, name = pod.get("status") or {}, str(pod["metadata"]["name"])
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            yield name, str(condition.get("reason", "")), str(condition.get("message", ""))
    if status.get("phase") == "Failed" and status.get("reason"):
        yield name, str(status["reason"]), str(status.get("message") or "")


def _node_of(facts: Facts, name: str) -> str:
    known = (pod for pod in (*facts.pods, *facts.past) if pod["metadata"]["name"] == name)
    return str(next((at(pod, ("spec", "nodeName"), "") for pod in known), ""))


def failed_its_probe(facts: Facts) -> Verdict | None:
    """A liveness or startup probe failed too often and the container was ended for it."""
    found = blame.blamed(facts)
    if found is None:
        return None
    ended = [event for event in facts.told("Killing", pod=found.pod) if "probe" in message_of(event)]
    if not ended:
        return None
    answers = [message_of(event) for event in facts.told("Unhealthy", pod=found.pod)]
    sentence = f"{facts.name} failed: {found.pod} was ended because its probe failed: {message_of(ended[-1])}"
    return Verdict(sentence, (*answers[-1:], *blame.account(facts, found)), _look(facts, found))


def not_started(facts: Facts) -> Verdict | None:
    """A container could not be started at all: no command, no such program, a folder that is not there."""
    found = blame.blamed(facts)
    if found is None or found.reason not in blame.NEVER_STARTED:
        return None
    sentence = f"{facts.name} failed: {found.pod} could not be started: {found.message or found.reason}"
    return Verdict(sentence, blame.restarts(facts), (facts.command("events"), "tw apply -f FILE, once it is corrected"))


def worn_out(facts: Facts) -> Verdict | None:
    """It failed as often as it may: the failures that count, and who failed last."""
    if facts.record.cause != "BackoffLimit":
        return None
    found = blame.blamed(facts)
    times, limit = _failures(facts), _limit(facts)
    allowed = f", and its limit is {limit}" if limit else ""
    sentence = f"{facts.name} failed: it failed {counted(times, 'time')}{allowed}"
    if found is None:
        return Verdict(sentence, (facts.standing.message, *blame.restarts(facts)), (facts.command("logs"),))
    return Verdict(f"{sentence}; last, {found}", blame.account(facts, found), _look(facts, found))


def _failures(facts: Facts) -> int:
    return max(int(facts.status.get("retryCount") or 0), facts.record.restarts)


def _limit(facts: Facts) -> str:
    policy = facts.job.run_policy
    known = (("backoffLimit", policy.backoff_limit), ("maxRetry", policy.max_retry))
    return next((f"{name} {value}" for name, value in known if value is not None), "")


def killed(facts: Facts) -> Verdict | None:
    """A rank was killed by a signal: it crashed, or somebody killed it."""
    found = blame.blamed(facts)
    if found is None or not found.signal:
        return None
    sentence = f"{facts.name} failed: {found.pod} was killed by {signal_name(found.signal)}{_behind(found)}"
    return Verdict(sentence, blame.account(facts, found), _look(facts, found))


def exited(facts: Facts) -> Verdict | None:
    """A rank ended with an exit code of its own: the first to fail is named, not those it took along."""
    found = blame.blamed(facts)
    if found is None or found.code is None:
        return None
    sentence = f"{facts.name} failed: {found.pod} exited with code {found.code}{_behind(found)}"
    return Verdict(sentence, blame.account(facts, found), _look(facts, found))


def _behind(found: Culprit) -> str:
    return f": {found.behind}" if found.behind else ""


def failed(facts: Facts) -> Verdict | None:
    """It failed and no rank is to blame: what the job itself says."""
    found = blame.blamed(facts)
    said = str(found) if found else facts.standing.message or facts.standing.reason or "no reason is known"
    return Verdict(f"{facts.name} failed: {said}", blame.restarts(facts), (facts.command("events"),))


def _look(facts: Facts, found: Culprit) -> tuple[str, ...]:
    return facts.command("logs", facts.label(found.pod)), facts.command("retry")


def _lasted(facts: Facts) -> str:
    """Say how long the job took; nothing if that is not known."""
    started = moment(facts.status.get("startTime") or at(facts.object, ("metadata", "creationTimestamp")))
    ended = moment(facts.status.get("completionTime") or at(facts.status, ("state", "lastTransitionTime")))
    if started is None or ended is None:
        return ""
    seconds = (ended - started).total_seconds()
    return f" after {span(seconds)}" if seconds >= 1 else " in less than a second"


ENDED: tuple[Judge, ...] = (
    succeeded,
    late,
    commanded,
    cancelled,
    too_few,
    out_of_memory,
    failed_its_probe,
    not_started,
    never_met,
    evicted,
    node_lost,
    worn_out,
    killed,
    exited,
    failed,
)
