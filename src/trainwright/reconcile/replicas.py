"""The life of jobs whose replicas restart by themselves: Kubeflow's PyTorchJob and its like.

Reads from top to bottom as such a life: judged, ended or gone on with, suspended, cleaned up after the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trainwright.api.common import Job, Role
from trainwright.api.faces import outcome_of
from trainwright.core.actions import Action, Decision, Delete, Emit
from trainwright.core.objects import Object, moment, ref
from trainwright.core.words import span
from trainwright.desired import Settings
from trainwright.reconcile import diff, launch, policies, verdicts
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Counts, Kind, Sight
from trainwright.reconcile.policies import Judgement
from trainwright.reconcile.record import Cause, Record
from trainwright.reconcile.status import Account, State, count, kubeflow, suspended


@dataclass(frozen=True)
class _End:
    """How a job ends, in words."""

    state: State
    message: str
    cause: Cause = ""


@dataclass(frozen=True)
class Replicas:
    """A job lives as long as its replicas need: they restart by their policies until they succeed or a limit is met."""

    verdict: Callable[[Job, Mapping[str, Counts]], bool]
    """Whether a job has succeeded, given how many replicas of each role have."""
    lead: tuple[str, ...]
    """Roles in whose name a job runs, the most important first: the job runs when the first it has is active."""

    def step(self, kind: Kind, job: Job, sight: Sight, settings: Settings, now: datetime) -> Decision:
        """Say what to do next for a job."""
        before: Object = job.object.get("status") or {}
        record = records.read(before)
        if outcome_of(before):
            return _after_the_end(job, before, record, sight, now)
        if job.run_policy.suspend and not policies.cancelled(job):
            return _suspend(kind, job, before, record, sight, now)

        judged = policies.judge(job, record, sight.pods, now)
        counts = count(job, judged.record, sight.pods)
        resumed = suspended(before)
        started = now if resumed else moment(before.get("startTime")) or now
        deadline = _deadline(job, started)
        if end := self._ending(kind, job, judged, counts, deadline, now):
            return _finish(kind, job, end, judged, counts, sight, now)

        state, message = _state(kind, job, self._lead(job), judged, counts)
        if state == "Running" and policies.resting(judged.record, now):
            state = ""  # it goes on restarting
        status = kubeflow(job, Account(judged.record, counts, state, message, resumed), now)
        everyone = frozenset(role.name for role in job.roles)
        staged = launch.staged(job, settings, everyone, judged.record, sight.pods)
        desired = launch.launched(kind.build(staged, settings, judged.record.version), everyone, sight)
        desired = launch.joining(desired, job, settings, judged.record, sight.pods)
        desired, look_again = policies.rested(job, desired, judged, now)
        actions = diff.difference(job, desired, sight, judged.record)
        news = (*_resumed(job, resumed), *_restarting(job, state, message))
        return Decision(status, (*actions, *news), _earliest(look_again, deadline))

    def refuse(self, job: Job, message: str, now: datetime) -> Object:
        """Return the status of a job that fails because it is not valid."""
        return kubeflow(job, Account(Record(cause="Invalid"), {}, "Failed", message), now)

    def _lead(self, job: Job) -> Role | None:
        return next((role for name in self.lead if (role := job.role(name)) is not None), None)

    def _ending(
        self,
        kind: Kind,
        job: Job,
        judged: Judgement,
        counts: dict[str, Counts],
        deadline: datetime | None,
        now: datetime,
    ) -> _End | None:
        """Return how the job ends, if it does: success comes before any failure seen in the same look."""
        if self.verdict(job, counts):
            return _End("Succeeded", f"{kind.name} {job.name} is successfully completed.")
        if said := policies.cancelled(job):
            return _End("Failed", said, "Cancelled")
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


def _after_the_end(job: Job, before: Object, record: Record, sight: Sight, now: datetime) -> Decision:
    """Clean up, and remove the job itself when its time has come. The status stays as it was at the end."""
    actions = diff.leftovers(job, sight, record, stop=record.cause in ("BackoffLimit", "Deadline", "Cancelled"))
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
    status = kubeflow(job, Account(record, counts, "Suspended"), now)
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
    if blamed and end.cause not in ("Deadline", "Cancelled"):
        record = replace(record, culprit=blamed.as_json())
        message = f"{message} {blamed}."
    record = replace(record, cause=end.cause)
    status = kubeflow(job, Account(record, counts, end.state, message), now)
    after = _after_the_end(job, status, record, sight, now)
    news = Emit(f"{kind.name}{end.state}", message, "Warning" if end.state == "Failed" else "Normal")
    return Decision(status, (*after.actions, news), after.look_again)


def _state(kind: Kind, job: Job, lead: Role | None, judged: Judgement, counts: dict[str, Counts]) -> tuple[State, str]:
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
            said = f"{said} {blamed}." if blamed else said
            rest = policies.longest_rest(judged.record, failed)
            return "Restarting", f"{said} The next try is in {span(rest.total_seconds())}." if rest else said
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
