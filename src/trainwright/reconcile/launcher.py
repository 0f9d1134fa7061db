"""The life of an MPIJob: workers first, the launcher once they are ready, and its end is the end of the job.

The launcher's batch Job is made at most once for each version of a job. Its uid is remembered when it is first seen;
from then on it is never made again, and a launcher that is gone without having ended means that the job has failed.
What has ended stays ended: nothing but the status is asked about that.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from trainwright.api import mpi_job as api
from trainwright.api.common import Job
from trainwright.api.faces import outcome_of
from trainwright.api.mpi_job import LAUNCHER, WORKER
from trainwright.core.actions import Action, Decision, Delete, Emit, Patch
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at, holds, moment, ref
from trainwright.core.resources import BATCH_JOB, STATEFUL_SET
from trainwright.desired import Desired, Settings
from trainwright.desired import mpi_job as objects
from trainwright.frameworks import mpirun
from trainwright.reconcile import diff, mpirun_words, policies, verdicts
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Counts, Kind, Pod, Sight
from trainwright.reconcile.policies import Judgement
from trainwright.reconcile.record import Cause, Record
from trainwright.reconcile.status import Account, State, kubeflow, suspended
from trainwright.reconcile.verdicts import Culprit

WORKER_LIMIT = 6
"""So often worker pods may fail, all together, before the job does."""


@dataclass(frozen=True)
class Launched:
    """A job lives as long as its launcher: workers are there for it before it starts and until it ends."""

    def step(self, kind: Kind, job: Job, sight: Sight, settings: Settings, now: datetime) -> Decision:
        """Say what to do next for a job."""
        before: Object = job.object.get("status") or {}
        record = records.read(before)
        job = api.read(job.object, settings.per_node)
        if outcome_of(before):
            return _after_the_end(job, before, sight, now)
        sizing = api.sizing_of(job, settings.per_node)
        if isinstance(sizing, Problem):
            return _end(
                kind, job, "Failed", f"{kind.name} {job.name} is not valid: {sizing}", "Invalid", record, sight, now
            )
        if job.run_policy.suspend and not policies.cancelled(job):
            return _suspend(kind, job, before, record, sight, now)
        return _Look(kind, job, sight, settings, now, record, resumed=suspended(before)).decide(sizing.words)

    def refuse(self, job: Job, message: str, now: datetime) -> Object:
        """Return the status of a job that fails because it is not valid."""
        return kubeflow(job, Account(Record(cause="Invalid"), {}, "Failed", message), now)


@dataclass(frozen=True)
class _Look:
    """One look at a job that goes on."""

    kind: Kind
    job: Job
    sight: Sight
    settings: Settings
    now: datetime
    record: Record
    resumed: bool

    def decide(self, words: str) -> Decision:
        launcher = _launcher(self.job, self.sight)
        known = self.record.role(LAUNCHER).seen.get(0)
        if launcher is not None and (outcome := _outcome(launcher)):
            return self._ended(launcher, outcome)
        if said := policies.cancelled(self.job):
            return self._end("Failed", said, "Cancelled", launcher)
        if known and (launcher is None or launcher["metadata"].get("uid") != known):
            said = f"its launcher {objects.launcher_name(self.job)} was deleted; a job is not started a second time"
            return self._end(
                "Failed", f"{self.kind.name} {self.job.name} has failed because {said}.", "Failure", launcher
            )

        record = self._remembered(launcher)
        judged = self._judged(record)
        record = judged.record
        if record.role(WORKER).restarts > WORKER_LIMIT and self._plain_workers:
            said = f"its workers have failed {record.role(WORKER).restarts} times"
            return self._end(
                "Failed", f"{self.kind.name} {self.job.name} has failed because {said}.", "BackoffLimit", launcher
            )

        counts = self._counts(launcher)
        state: State = "Running" if self._is_up(counts) else ""
        status = self._status(Account(record, counts, state, resumed=self.resumed), launcher)
        desired = objects.wanted(self.job, self.settings, record.version, launcher)
        wanted, look_again = policies.rested(self.job, self._startable(desired, launcher), judged, self.now)
        actions = diff.difference(self.job, wanted, self.sight, record)
        is_new = not self.job.object.get("status")
        news = (Emit(f"{self.kind.name}Created", f"{self.kind.name} {self.job.name} is {words}."),) if is_new else ()
        return Decision(status, (*actions, *news), look_again)

    @cached_property
    def _spec(self) -> api.Spec:
        return api.spec_of(self.job)

    @property
    def _plain_workers(self) -> bool:
        return self._spec.mpi_replica_specs is not None

    def _remembered(self, launcher: Object | None) -> Record:
        """Return the record with the launcher that is there, how often it was tried again, and how it last failed.

        A launcher's pod may be gone when its Job gives up, and with it what it said last.
        """
        if launcher is None:
            return self.record
        kept = self.record.role(LAUNCHER)
        blamed = self._blamed()
        failed = int(at(launcher, ("status", "failed"), 0) or 0)
        seen = replace(kept, seen={0: launcher["metadata"].get("uid", "")}, restarts=max(kept.restarts, failed))
        culprit = blamed.as_json() if blamed else self.record.culprit
        return replace(self.record, roles={**self.record.roles, LAUNCHER: seen}, culprit=culprit)

    def _blamed(self) -> Culprit | None:
        """Return how the launcher failed, with mpirun's words about the rank in the place of all it printed last."""
        launchers = [_before_it_was_stopped(pod) for pod in self.sight.pods if pod.role == LAUNCHER]
        blamed = verdicts.culprit(self.job, launchers)
        fault = self._fault()
        return replace(blamed, message="", behind=str(fault) if fault else "") if blamed else None

    def _judged(self, record: Record) -> Judgement:
        """Count worker pods that failed and have them made again; those of a StatefulSet are its own controller's."""
        worker = self.job.role(WORKER)
        if worker is None or not self._plain_workers:
            return Judgement(record)
        plain = replace(self.job, roles=(replace(worker, restart_policy="OnFailure"),))
        kept = replace(record, roles={name: role for name, role in record.roles.items() if name == WORKER})
        judged = policies.judge(plain, kept, tuple(pod for pod in self.sight.pods if pod.role == WORKER), self.now)
        return replace(judged, record=replace(judged.record, roles={**record.roles, **judged.record.roles}))

    def _startable(self, desired: Desired, launcher: Object | None) -> Desired:
        """Leave the launcher out while it must not start yet."""
        if launcher is not None or self._may_launch():
            return desired
        around = tuple(each for each in desired.support if each.object["kind"] != BATCH_JOB.kind)
        return replace(desired, support=around)

    def _may_launch(self) -> bool:
        by_exec = dict(self.job.requests[0].options)["transport"] == "exec"
        waits = by_exec or self._spec.launcher_creation_policy == "WaitForWorkersReady"
        ready = sum(_is_ready(pod) for pod in self._workers())
        return not waits or ready >= self.job.count(WORKER)

    def _workers(self) -> list[Pod]:
        return [pod for pod in self.sight.pods if pod.role == WORKER and pod.index < self.job.count(WORKER)]

    def _counts(self, launcher: Object | None) -> dict[str, Counts]:
        started = [pod for pod in self.sight.pods if pod.role == LAUNCHER]
        phases = [pod.phase for pod in self._workers()]
        told = (launcher or {}).get("status") or {}
        counts = {
            LAUNCHER: Counts(
                active=sum(pod.phase == "Running" for pod in started),
                succeeded=int(told.get("succeeded") or 0),
                failed=int(told.get("failed") or 0),
            )
        }
        if self.job.role(WORKER):
            counts[WORKER] = Counts(phases.count("Running"), phases.count("Succeeded"), phases.count("Failed"))
        return counts

    def _is_up(self, counts: dict[str, Counts]) -> bool:
        workers = counts.get(WORKER, Counts()).active
        return counts[LAUNCHER].active > 0 and workers == self.job.count(WORKER)

    def _status(self, account: Account, launcher: Object | None) -> Object:
        status = _status(self.job, account, self.now)
        if self._plain_workers:
            return status
        told = (launcher or {}).get("status") or {}
        status["workerReplicas"] = sum(_is_ready(pod) for pod in self._workers())
        for word, number in (("Active", "active"), ("Succeeded", "succeeded"), ("Failed", "failed")):
            if int(told.get(number) or 0) > 0:
                status["launcherStatus"] = word
                break
        return status

    # The end

    def _ended(self, launcher: Object, outcome: Object) -> Decision:
        name = f"{self.kind.name} {self.job.name}"
        if outcome["type"] == "Complete":
            return self._end("Succeeded", f"{name} is successfully completed.", "", launcher)
        reason = str(outcome.get("reason") or "")
        cause: Cause = "Deadline" if reason == "DeadlineExceeded" else "BackoffLimit"
        said = f"{name} has failed: {outcome.get('message') or 'its launcher failed'}."
        fault = str((self._remembered(launcher).culprit or {}).get("behind", ""))
        if fault:
            said = f"{said} {fault[0].upper()}{fault[1:]}."
        return self._end("Failed", said, cause, launcher)

    def _fault(self) -> mpirun_words.Fault | None:
        """Return the rank that failed, by the last words of the launcher that was tried last."""
        options = mpirun.Options(**self.job.requests[0].options)
        hosts = mpirun.hosts(self.job, options)
        tried = [pod for pod in self.sight.pods if pod.role == LAUNCHER and pod.failed_at is not None]
        for pod in sorted(tried, key=lambda pod: pod.failed_at or self.now, reverse=True):
            for words in _last_words(pod.object):
                if found := mpirun_words.fault(words, hosts, options.slots):
                    return found
        return None

    def _end(self, state: State, message: str, cause: Cause, launcher: Object | None) -> Decision:
        counts = self._counts(launcher)
        record = self._remembered(launcher)
        decision = _end(self.kind, self.job, state, message, cause, record, self.sight, self.now, counts)
        if self._plain_workers:
            return decision
        ended: Object = {"launcherStatus": state, "workerReplicas": 0}
        if at(launcher, ("status", "startTime")):
            ended["startTime"] = decision.status.get("startTime") or at(launcher, ("status", "startTime"))
        return replace(decision, status={**decision.status, **ended})


def _end(
    kind: Kind,
    job: Job,
    state: State,
    message: str,
    cause: Cause,
    record: Record,
    sight: Sight,
    now: datetime,
    counts: dict[str, Counts] | None = None,
) -> Decision:
    record = replace(record, cause=cause, culprit=record.culprit if state == "Failed" else None)
    status = _status(job, Account(record, counts or {}, state, message), now)
    after = _after_the_end(job, status, sight, now)
    news = Emit(f"{kind.name}{state}", message, "Warning" if state == "Failed" else "Normal")
    return Decision(status, (*after.actions, news), after.look_again)


def _after_the_end(job: Job, status: Object, sight: Sight, now: datetime) -> Decision:
    """Let the workers go as the job asks for; the launcher stays for its logs, unless the job was cancelled."""
    stop = records.read(status).cause == "Cancelled"
    actions: list[Action] = [*_release(job, sight, stop=stop), *(_halted(sight) if stop else ()), *diff.groups(sight)]
    if job.run_policy.ttl_seconds is None:
        return Decision(status, tuple(actions))
    ended = moment(status.get("completionTime")) or now
    expiry = ended + timedelta(seconds=job.run_policy.ttl_seconds)
    if now >= expiry:
        return Decision(status, (*actions, Delete(ref(job.object), job.uid)))
    return Decision(status, tuple(actions), expiry)


def _release(job: Job, sight: Sight, *, stop: bool) -> list[Action]:
    """Let the workers go; where the job was cut short (`stop`) none goes on whatever the policy says."""
    sets = [obj for name, obj in sight.support.items() if name.kind == STATEFUL_SET.kind]
    scaled: list[Action] = [
        Patch(ref(obj), {"spec": {"replicas": 0}}) for obj in sets if at(obj, ("spec", "replicas")) != 0
    ]
    if sets or (job.run_policy.clean_pods == "None" and not stop):
        return scaled
    everyone = job.run_policy.clean_pods == "All"
    return [*diff.delete_pods(pod for pod in sight.pods if pod.role == WORKER and (everyone or not pod.ended))]


def _halted(sight: Sight) -> list[Delete]:
    """Return what ends the launcher."""
    launchers = [obj for name, obj in sight.support.items() if name.kind == BATCH_JOB.kind]
    return [diff.remove(obj) for obj in launchers if "deletionTimestamp" not in obj["metadata"]]


def _suspend(kind: Kind, job: Job, before: Object, record: Record, sight: Sight, now: datetime) -> Decision:
    """Remove workers and launcher and wait; hosts, rights and keys stay. It starts anew when the job is resumed."""
    news: tuple[Action, ...] = ()
    if not suspended(before):
        record = record.next_version() if "startTime" in before else record
        news = (Emit(f"{kind.name}Suspended", f"{kind.name} {job.name} is suspended."),)
    status = _status(job, Account(record, {role.name: Counts() for role in job.roles}, "Suspended"), now)
    going = diff.delete_pods(pod for pod in sight.pods if pod.role == WORKER)
    return Decision(status, (*going, *_halted(sight), *diff.groups(sight), *news))


def _launcher(job: Job, sight: Sight) -> Object | None:
    """Return the launcher's batch Job, unless it is going."""
    for name, obj in sight.support.items():
        if (name.kind, name.name) == (BATCH_JOB.kind, objects.launcher_name(job)):
            return None if "deletionTimestamp" in obj["metadata"] else obj
    return None


def _outcome(launcher: Object) -> Object | None:
    """Return the condition with which a batch Job has ended."""
    for condition in at(launcher, ("status", "conditions")) or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return dict(condition)
    return None


def _status(job: Job, account: Account, now: datetime) -> Object:
    """Return the whole status of a job, with the labels its pods really have."""
    status = kubeflow(job, account, now)
    for role, counts in status["replicaStatuses"].items():
        wanted = sorted(objects.labels(job, role).items())
        counts["selector"] = ",".join(f"{key}={value}" for key, value in wanted)
    return status


def _is_ready(pod: Pod) -> bool:
    return holds(pod.object, "Ready") and pod.phase == "Running" and not pod.terminating


def _before_it_was_stopped(pod: Pod) -> Object:
    """Return a pod without what became of its containers after it was told to go, if they had failed before."""
    if not pod.terminating:
        return pod.object
    containers = [
        {**each, "state": {}} if at(each, ("lastState", "terminated", "exitCode")) else each
        for each in at(pod.object, ("status", "containerStatuses")) or ()
    ]
    return {**pod.object, "status": {**pod.object["status"], "containerStatuses": containers}}


def _last_words(pod: Object) -> list[str]:
    return [
        str(ended["message"])
        for each in at(pod, ("status", "containerStatuses")) or ()
        for state in ("state", "lastState")
        if (ended := at(each, (state, "terminated"))) and ended.get("message")
    ]
