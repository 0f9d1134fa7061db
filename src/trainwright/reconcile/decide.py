"""The one entry: what to do next for a job. Reads as the life of a job, and asks the kind's row where kinds differ.

The decision carries the whole new status. Whoever carries it out writes the status first and acts then: what an action
destroys (a failed pod, a whole version) is counted by then, and doing it again after a crash changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trainwright.api.common import Job, RunPolicy
from trainwright.core.actions import Action, Delete, Emit
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, moment, ref
from trainwright.desired import Settings
from trainwright.reconcile import diff, policies, verdicts
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Counts, Kind, Observed, Sight, sort_out
from trainwright.reconcile.policies import Judgement
from trainwright.reconcile.record import Cause, Record
from trainwright.reconcile.status import Account, State, count, finished, suspended


@dataclass(frozen=True)
class Decision:
    """What to do: write this status if it differs, then act, then look again at that time at the latest."""

    status: Object
    actions: tuple[Action, ...] = ()
    look_again: datetime | None = None


@dataclass(frozen=True)
class _End:
    """How a job ends, in words."""

    state: State
    message: str
    cause: Cause = ""


def decide(kind: Kind, job: Job, seen: Observed, settings: Settings, now: datetime) -> Decision:
    """Say what to do next for `job`, given what is there at `now`."""
    before: Object = job.object.get("status") or {}
    if job.run_policy.external or "deletionTimestamp" in job.object["metadata"]:
        return Decision(before)
    record = records.read(before)
    sight = sort_out(kind, job, seen)
    if finished(before):
        return _after_the_end(job, before, record, sight, now)
    if job.run_policy.suspend:
        return _suspend(kind, job, before, record, sight, now)

    judged = policies.judge(job, record, sight.pods, now)
    counts = count(job, judged.record, sight.pods)
    resumed = suspended(before)
    started = now if resumed else moment(before.get("startTime")) or now
    deadline = _deadline(job, started)
    if end := _ending(kind, job, judged, counts, deadline, now):
        return _finish(kind, job, end, judged, counts, sight, now)

    state, message = _state(kind, job, judged, counts)
    status = kind.status(job, Account(judged.record, counts, state, message, resumed), now)
    actions = diff.difference(job, kind.build(job, settings, judged.record.version), sight, judged.record)
    news = (*_resumed(job, resumed), *_restarting(job, state, message))
    return Decision(status, (*actions, *news), _earliest(judged.look_again, deadline))


def refuse(kind: Kind, obj: Object, problems: Iterable[Problem], now: datetime) -> Decision:
    """Say what to do with a job that admission should not have let in: it fails, with every problem in words."""
    before: Object = obj.get("status") or {}
    if finished(before) or "deletionTimestamp" in obj["metadata"]:
        return Decision(before)
    meta = obj["metadata"]
    message = f"{kind.name} {meta['name']} is not valid: " + "; ".join(map(str, problems))
    job = _bare_job(kind, obj)
    status = kind.status(job, Account(Record(cause="Invalid"), {}, "Failed", message), now)
    return Decision(status, (Emit(f"{kind.name}Failed", message, "Warning"),))


def _bare_job(kind: Kind, obj: Object) -> Job:
    meta = obj["metadata"]
    return Job(
        kind.resource, meta.get("namespace", ""), meta["name"], meta.get("uid", ""), (), RunPolicy(), (), None, obj
    )


def _after_the_end(job: Job, before: Object, record: Record, sight: Sight, now: datetime) -> Decision:
    """Clean up, and remove the job itself when its time has come. The status stays as it was at the end."""
    actions = diff.leftovers(job, sight, record, stop=record.cause in ("BackoffLimit", "Deadline"))
    expiry = _expiry(job, before)
    if expiry and now >= expiry:
        return Decision(before, (*actions, Delete(ref(job.object), job.uid)))
    return Decision(before, actions, expiry)


def _suspend(kind: Kind, job: Job, before: Object, record: Record, sight: Sight, now: datetime) -> Decision:
    """Remove everything and wait. What had started begins again in the next version when the job is resumed."""
    news: tuple[Action, ...] = ()
    if not suspended(before):
        record = record.next_version() if "startTime" in before else record
        news = (Emit(f"{kind.name}Suspended", f"{kind.name} {job.name} is suspended."),)
    counts = {role.name: Counts() for role in job.roles}
    status = kind.status(job, Account(record, counts, "Suspended"), now)
    return Decision(status, (*diff.everything(sight), *news))


def _finish(
    kind: Kind,
    job: Job,
    end: _End,
    judged: Judgement,
    counts: dict[str, Counts],
    sight: Sight,
    now: datetime,
) -> Decision:
    # Nothing is made again any more, so a pod whose failure was the last one stays to be looked into.
    record = replace(judged.record, retired=judged.record.retired - {pod.uid for pod in judged.replaced})
    blamed = verdicts.culprit(job, (pod.object for pod in sight.pods)) if end.state == "Failed" else None
    message = end.message
    if blamed and end.cause != "Deadline":
        record = replace(record, culprit=blamed.as_json())
        message = f"{message} {blamed}."
    record = replace(record, cause=end.cause)
    status = kind.status(job, Account(record, counts, end.state, message), now)
    after = _after_the_end(job, status, record, sight, now)
    news = Emit(f"{kind.name}{end.state}", message, "Warning" if end.state == "Failed" else "Normal")
    return Decision(status, (*after.actions, news), after.look_again)


def _ending(
    kind: Kind,
    job: Job,
    judged: Judgement,
    counts: dict[str, Counts],
    deadline: datetime | None,
    now: datetime,
) -> _End | None:
    """Return how the job ends, if it does: success comes before any failure seen in the same look."""
    if kind.verdict(job, counts):
        return _End("Succeeded", f"{kind.name} {job.name} is successfully completed.")
    if pod := judged.final:
        role = job.role(pod.role)
        if role is not None and role.restart_policy == "ExitCode":
            return _End("Failed", f'job "{job.name}" is failing because "{pod.role}" replica(s) failed.', "Failure")
        failed = counts[pod.role].failed
        said = f"{kind.name} {job.name} is failed because {failed} {pod.role} replica(s) failed."
        return _End("Failed", said, "Failure")
    if policies.limit_reached(job, judged.record):
        said = f"Job {job.name} has failed because it has reached the specified backoff limit."
        return _End("Failed", said, "BackoffLimit")
    if deadline and now >= deadline:
        said = f"Job {job.name} has failed because it was active longer than specified deadline."
        return _End("Failed", said, "Deadline")
    return None


def _state(kind: Kind, job: Job, judged: Judgement, counts: dict[str, Counts]) -> tuple[State, str]:
    """Return whether the job runs or restarts, and for a restart why."""
    if judged.hub_lost:
        hub = job.elastic.role if job.elastic else ""
        said = f"job {job.name} is restarting because {hub} replica(s) failed."
        return "Restarting", f"{said} All start again together: {_hub_name(job)}, where they meet, was lost."
    for role in job.roles:
        failed = [pod for pod in judged.replaced if pod.role == role.name]
        if failed:
            blamed = verdicts.culprit(job, (pod.object for pod in failed))
            said = f"{kind.name} {job.name} is restarting because {len(failed)} {role.name} replica(s) failed."
            return "Restarting", f"{said} {blamed}." if blamed else said
    lead = kind.lead_role(job)
    is_up = lead is not None and counts[lead.name].active > 0 and not any(each.failed for each in counts.values())
    return ("Running", "") if is_up else ("", "")


def _hub_name(job: Job) -> str:
    hub = policies.hub_of(job)
    return f"{hub[0].lower()} {hub[1]}" if hub else ""


def _resumed(job: Job, resumed: bool) -> tuple[Emit, ...]:
    kind = job.resource.kind
    return (Emit(f"{kind}Resumed", f"{kind} {job.name} is resumed."),) if resumed else ()


def _restarting(job: Job, state: State, message: str) -> tuple[Emit, ...]:
    return (Emit(f"{job.resource.kind}Restarting", message, "Warning"),) if state == "Restarting" else ()


def _deadline(job: Job, started: datetime) -> datetime | None:
    seconds = job.run_policy.deadline_seconds
    return None if seconds is None else started + timedelta(seconds=seconds)


def _expiry(job: Job, status: Object) -> datetime | None:
    """Return when a finished job is removed."""
    if job.run_policy.ttl_seconds is None:
        return None
    ends = [each for each in status.get("conditions") or () if each["type"] in ("Succeeded", "Failed")]
    ended = moment(status.get("completionTime") or (ends[-1].get("lastTransitionTime") if ends else None))
    return ended + timedelta(seconds=job.run_policy.ttl_seconds) if ended else None


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time), default=None)
