"""Batch Job: pods that run to an end, so many at once, until enough have succeeded or too many have failed.

Decided as kube-controller-manager 1.36 does it. Every pod is counted exactly once, whatever is killed when: a pod
carries a finalizer until the status names it as uncounted, and the status counts it once the finalizer is gone. The
differences: names are computed from the Job and how many pods it had, and the pause after a failure is computed from
the failed pods that are still there, so one that somebody deletes is replaced at once. Indexed Jobs, pod failure
policies and success policies are refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trainwright.cluster.metadata import SUFFIX_LENGTH
from trainwright.core.actions import Action, Create, Decision, Delete, Emit
from trainwright.core.names import LABEL_LENGTH
from trainwright.core.objects import Object, at, moment, put, ref, timestamp
from trainwright.core.resources import BATCH_JOB
from trainwright.workloads.owned_pods import (
    TEMPLATE_SHAPES,
    Claim,
    Workload,
    claim,
    is_finished,
    is_leaving,
    is_over,
    letters,
    misshapen,
    phase,
    pod_of,
    ready_since,
    refusal,
    removal,
    unselected,
    without_finalizer,
)

FINALIZER = "batch.kubernetes.io/job-tracking"
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")

_CONTROLLER = "kubernetes.io/job-controller"
_FIRST_PAUSE = timedelta(seconds=10)
_LONGEST_PAUSE = timedelta(minutes=10)
_BACKOFF_LIMIT = 6
_SHAPES: dict[str, type] = {
    "spec": dict,
    "spec.parallelism": int,
    "spec.completions": int,
    "spec.backoffLimit": int,
    "spec.activeDeadlineSeconds": int,
    "spec.ttlSecondsAfterFinished": int,
    "spec.suspend": bool,
    **TEMPLATE_SHAPES,
}
_REFUSED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")


def decide(job: Object, pods: Sequence[Object], now: datetime) -> Decision:
    """Say what to do next for a Job, given the pods of its namespace at `now`."""
    status = job.get("status") or {}
    if at(job, ("spec", "managedBy"), _CONTROLLER) != _CONTROLLER:
        return Decision(status)
    if problems := [*_problems(job)]:
        return refusal(job, problems)
    owned = claim(job, _selector(job), pods, finalizer=FINALIZER)
    if is_leaving(job):
        return Decision(status, tuple(_let_go(owned.pods)))
    if ended := _ended(status):
        return _afterwards(job, ended, owned, now)
    return _go_on(job, owned, now)


def _problems(job: Object) -> Iterator[str]:
    if wrong := misshapen(job, _SHAPES):
        yield from wrong
        return
    spec = job.get("spec") or {}
    for name in _REFUSED:
        if spec.get(name) is not None:
            yield f"spec.{name}: is not supported here; leave it out"
    if spec.get("completionMode", "NonIndexed") != "NonIndexed":
        yield f"spec.completionMode: {spec['completionMode']} is not supported here; NonIndexed is"
    restart = at(spec, ("template", "spec", "restartPolicy"), "Always")
    if restart not in ("Never", "OnFailure"):
        yield f"spec.template.spec.restartPolicy: found {restart!r}; the pods of a Job need Never or OnFailure"
    yield from unselected(_selector(job), {**at(spec, ("template", "metadata", "labels"), {}), **_labels(job)})


def _selector(job: Object) -> Object:
    """Return what selects the pods; only who asks for it chooses it himself, as the API server would have it."""
    given: Object | None = at(job, ("spec", "selector"))
    return given or {"matchLabels": {UID_LABELS[0]: job["metadata"]["uid"]}}


# The end


def _ended(status: Object) -> Object | None:
    """Return the condition that says that a Job is over."""
    return _condition(status, "Complete") or _condition(status, "Failed")


def _afterwards(job: Object, ended: Object, owned: Claim, now: datetime) -> Decision:
    """Keep a Job that is over, until its time is up."""
    actions: tuple[Action, ...] = tuple(_let_go(owned.pods))
    ttl, since = job["spec"].get("ttlSecondsAfterFinished"), moment(ended["lastTransitionTime"])
    if ttl is None or since is None:
        return Decision(job["status"], actions)
    due = since + timedelta(seconds=ttl)
    if due > now:
        return Decision(job["status"], actions, due)
    return Decision(job["status"], (*actions, Delete(ref(job), uid=job["metadata"]["uid"])))


def _let_go(pods: Iterable[Object]) -> Iterator[Action]:
    return (without_finalizer(pod, FINALIZER) for pod in pods if _is_tracked(pod))


# The life


@dataclass(frozen=True)
class _Seen:
    """The pods of a Job, and the count of those that have ended."""

    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    terminating: tuple[Object, ...]
    counted: tuple[int, int]
    """How many have succeeded and failed, of those that carry the finalizer no more."""
    succeeded_uids: tuple[str, ...]
    failed_uids: tuple[str, ...]
    """Those that are to be counted once they carry it no more."""

    @property
    def succeeded(self) -> int:
        """Return how many have succeeded."""
        return self.counted[0] + len(self.succeeded_uids)

    @property
    def failed(self) -> int:
        """Return how many have failed."""
        return self.counted[1] + len(self.failed_uids)


def _see(job: Object, pods: tuple[Object, ...]) -> _Seen:
    """Count the pods of a Job, those named in its status and those that have ended since."""
    status = job.get("status") or {}
    tracked = {pod["metadata"]["uid"]: pod for pod in pods if _is_tracked(pod)}
    named = [at(status, ("uncountedTerminatedPods", part), ()) for part in ("succeeded", "failed")]
    new = {uid: pod for uid, pod in tracked.items() if uid not in named[0] and uid not in named[1]}
    held = [[uid for uid in part if uid in tracked] for part in named]
    unfinished = [pod for pod in pods if not is_over(pod)]
    return _Seen(
        pods,
        active=tuple(pod for pod in unfinished if not is_leaving(pod)),
        terminating=tuple(pod for pod in unfinished if is_leaving(pod)),
        counted=(
            status.get("succeeded", 0) + len(named[0]) - len(held[0]),
            status.get("failed", 0) + len(named[1]) - len(held[1]),
        ),
        succeeded_uids=(*held[0], *(uid for uid, pod in new.items() if phase(pod) == "Succeeded")),
        failed_uids=(*held[1], *(uid for uid, pod in new.items() if _has_failed(job, pod))),
    )


def _has_failed(job: Object, pod: Object) -> bool:
    """Say whether a pod counts as failed; one that is being deleted does at once, unless the Job asks to wait."""
    if phase(pod) == "Succeeded":
        return False
    return is_over(pod) or (is_leaving(pod) and not _waits_for_end(job))


def _waits_for_end(job: Object) -> bool:
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def _go_on(job: Object, owned: Claim, now: datetime) -> Decision:
    """Bring a Job that is not over one step further."""
    seen = _see(job, owned.pods)
    end = _end(job, seen, now)
    if end and end["type"] == "FailureTarget":
        # Nothing of a Job that has failed will succeed any more: what still runs has failed with it.
        known = {*seen.succeeded_uids, *seen.failed_uids}
        rest = [uid for pod in seen.pods if _is_tracked(pod) and (uid := pod["metadata"]["uid"]) not in known]
        seen = replace(seen, failed_uids=(*seen.failed_uids, *rest))
    status = _status(job, seen, end, now)
    actions: list[Action] = [*owned.actions, *_count(seen)]
    look_again = None
    if end is None:
        steps, look_again = _manage(job, seen, now)
        actions += steps
    else:
        actions += [removal(pod) for pod in seen.active]
    return Decision(status, (*actions, *_news(job, status)), look_again)


def _count(seen: _Seen) -> Iterator[Action]:
    """Yield what lets go of the pods that the status names: they are counted when it shows."""
    named = {*seen.succeeded_uids, *seen.failed_uids}
    return _let_go(pod for pod in seen.pods if pod["metadata"]["uid"] in named)


def _end(job: Object, seen: _Seen, now: datetime) -> Object | None:
    """Return the condition that says how a Job will end; it ends once its pods have and are counted."""
    status, spec = job.get("status") or {}, job["spec"]
    if decided := _condition(status, "SuccessCriteriaMet") or _condition(status, "FailureTarget"):
        return decided
    limit = spec.get("backoffLimit", _BACKOFF_LIMIT)
    if seen.failed > limit:
        words = f"{seen.failed} pods have failed, and backoffLimit is {limit}"
        return _new("FailureTarget", "BackoffLimitExceeded", words, now)
    if _restarts(job, seen) >= max(limit, 1):
        words = f"containers were restarted {_restarts(job, seen)} times, and backoffLimit is {limit}"
        return _new("FailureTarget", "BackoffLimitExceeded", words, now)
    deadline = _deadline(job)
    if deadline and now >= deadline:
        words = f"it was active for longer than {spec['activeDeadlineSeconds']} s (activeDeadlineSeconds)"
        return _new("FailureTarget", "DeadlineExceeded", words, now)
    if not seen.active and seen.succeeded >= _needed(job):
        return _new("SuccessCriteriaMet", "CompletionsReached", f"{seen.succeeded} pods have succeeded", now)
    return None


def _restarts(job: Object, seen: _Seen) -> int:
    """Return how often containers were restarted in place: with OnFailure these are the failures."""
    if job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure":
        return 0
    parts = ("initContainerStatuses", "containerStatuses")
    alive = (at(pod, ("status", part), ()) for pod in seen.pods if not is_finished(pod) for part in parts)
    return sum(container.get("restartCount", 0) for containers in alive for container in containers)


def _deadline(job: Object) -> datetime | None:
    seconds, started = job["spec"].get("activeDeadlineSeconds"), moment(at(job, ("status", "startTime")))
    if seconds is None or started is None or _is_suspended(job):
        return None
    return started + timedelta(seconds=seconds)


def _completions(job: Object) -> int | None:
    """Return how many pods must succeed; None: any one, of as many as run at once."""
    spec = job["spec"]
    if "completions" in spec or "parallelism" in spec:
        wanted: int | None = spec.get("completions")
        return wanted
    return 1


def _needed(job: Object) -> int:
    completions = _completions(job)
    return 1 if completions is None else completions


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


# Pods


def _manage(job: Object, seen: _Seen, now: datetime) -> tuple[list[Action], datetime | None]:
    """Return what brings the number of running pods to what it should be, and when to look again."""
    wanted = _wanted(job, seen)
    surplus = len(seen.active) - wanted
    deadline = _deadline(job)
    if surplus > 0:
        return [action for pod in _least_useful(seen.active)[:surplus] for action in _dismissed(pod)], deadline
    missing = -surplus - (len(seen.terminating) if _waits_for_end(job) else 0)
    if missing <= 0:
        return [], deadline
    pause = _pause(job, seen.pods)
    if pause and now < pause:
        return [], min(pause, deadline or pause)
    return [Create(_pod(job, name)) for name in _names(job, seen, missing)], deadline


def _wanted(job: Object, seen: _Seen) -> int:
    if _is_suspended(job):
        return 0
    parallelism: int = job["spec"].get("parallelism", 1)
    completions = _completions(job)
    if completions is not None:
        return max(min(parallelism, completions - seen.succeeded), 0)
    return len(seen.active) if seen.succeeded else parallelism


def _least_useful(pods: Iterable[Object]) -> list[Object]:
    """Return pods with those first that have done least: not bound, not ready, young."""
    return sorted(
        sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True),
        key=lambda pod: (bool(pod["spec"].get("nodeName")), ready_since(pod) is not None),
    )


def _dismissed(pod: Object) -> Iterator[Action]:
    """Yield what ends a pod that shall not be counted: it is let go of first."""
    if _is_tracked(pod):
        yield without_finalizer(pod, FINALIZER)
    yield removal(pod)


def _pause(job: Object, pods: Iterable[Object]) -> datetime | None:
    """Return until when no pod is made after failures: 10 s, and twice as long for each more since the last success."""
    pods = [*pods]
    success = max((_finished(pod) for pod in pods if phase(pod) == "Succeeded"), default=None)
    failures = [_finished(pod) for pod in pods if _has_failed(job, pod)]
    recent = [each for each in failures if success is None or each > success]
    if not recent:
        return None
    doublings = min(len(recent) - 1, 16)  # more would overflow, and the longest pause is reached long before
    return max(recent) + min(_FIRST_PAUSE * (1 << doublings), _LONGEST_PAUSE)


def _finished(pod: Object) -> datetime:
    """Return when a pod ended: when its last container did, else when it was asked to, else when it was made."""
    containers = at(pod, ("status", "containerStatuses"), ())
    ends = [moment(at(each, ("state", "terminated", "finishedAt"))) for each in containers]
    if known := [end for end in ends if end]:
        return max(known)
    meta = pod["metadata"]
    asked = moment(meta.get("deletionTimestamp"))
    if asked:
        return asked - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return moment(meta["creationTimestamp"]) or datetime.max


def _pod(job: Object, name: str) -> Object:
    return pod_of(job, name, _labels(job), finalizer=FINALIZER)


def _labels(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    return {**dict.fromkeys(UID_LABELS, meta["uid"]), **dict.fromkeys(NAME_LABELS, meta["name"])}


def _names(job: Object, seen: _Seen, count: int) -> Iterator[str]:
    """Yield names for so many new pods: the same ones if they are asked for again before any was made."""
    base = f"{job['metadata']['name']}-"[: LABEL_LENGTH - SUFFIX_LENGTH]
    taken = {pod["metadata"]["name"] for pod in seen.pods}
    number = seen.succeeded + seen.failed
    while count:
        name = base + letters(SUFFIX_LENGTH, job["metadata"]["uid"], str(number))
        number += 1
        if name not in taken:
            count -= 1
            yield name


def _is_tracked(pod: Object) -> bool:
    return FINALIZER in pod["metadata"].get("finalizers", ())


# Status


def _status(job: Object, seen: _Seen, end: Object | None, now: datetime) -> Object:
    before = job.get("status") or {}
    conditions = [*before.get("conditions", ())]
    started = before.get("startTime")
    if end is None:
        conditions, started = _suspension(job, conditions, started, now)
    uncounted = {"succeeded": [*seen.succeeded_uids], "failed": [*seen.failed_uids]}
    counts = {"active": len(seen.active), "succeeded": seen.counted[0], "failed": seen.counted[1]}
    status: Object = {
        **{name: number for name, number in counts.items() if number},
        "ready": sum(ready_since(pod) is not None for pod in seen.active),
        "terminating": len(seen.terminating),
        "uncountedTerminatedPods": {name: uids for name, uids in uncounted.items() if uids},
    }
    if end:
        started = started or timestamp(now)
        conditions = put(conditions, end, by="type")
        if not (seen.active or seen.terminating or status["uncountedTerminatedPods"]):
            kind = "Complete" if end["type"] == "SuccessCriteriaMet" else "Failed"
            conditions = put(conditions, _new(kind, end["reason"], end["message"], now), by="type")
            status |= {"completionTime": timestamp(now)} if kind == "Complete" else {}
    if started:
        status["startTime"] = started
    return {**status, "conditions": conditions} if conditions else status


def _suspension(job: Object, conditions: list[Any], started: str | None, now: datetime) -> tuple[list[Any], str | None]:
    """Return conditions and start as suspending and resuming leave them: a Job that is resumed starts anew."""
    was = _condition({"conditions": conditions}, "Suspended") is not None
    if _is_suspended(job):
        if not was:
            conditions = put(conditions, _new("Suspended", "JobSuspended", "the Job is suspended", now), by="type")
        return conditions, None
    if not was:
        return conditions, started or timestamp(now)
    resumed = {**_new("Suspended", "JobResumed", "the Job goes on", now), "status": "False"}
    return put(conditions, resumed, by="type"), timestamp(now)


def _new(kind: str, reason: str, message: str, now: datetime) -> Object:
    time = timestamp(now)
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }


def _condition(status: Object, kind: str) -> Object | None:
    """Return a condition that holds."""
    found: Iterable[Object] = status.get("conditions") or ()
    return next((each for each in found if each["type"] == kind and each["status"] == "True"), None)


def _news(job: Object, status: Object) -> Iterator[Action]:
    """Yield an event for each condition that has changed."""
    before = at(job, ("status", "conditions"), ())
    for condition in status.get("conditions", ()):
        if condition not in before and condition["type"] in ("Complete", "Failed", "Suspended"):
            kind = "Completed" if condition["type"] == "Complete" else condition["reason"]
            yield Emit(kind, condition["message"], "Warning" if condition["type"] == "Failed" else "Normal")


WORKLOAD = Workload(BATCH_JOB, decide, FINALIZER)
