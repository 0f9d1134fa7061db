"""The life of a TrainingJob: master, parameter servers, trainers, one after the other; the trainers' end is its end.

A plain job needs all its trainers: the first that fails or is lost ends it, and it succeeds when all have. In a
fault-tolerant job a trainer that fails or is lost is made again with the same rank; it fails when all trainers have
failed, none running again, or when they fail too often, and it succeeds when one has and nobody works any more. Once
one has succeeded nobody is made again: the work is done.

At the end everything that still runs goes, and the Service; pods that have ended stay, for their logs.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from trainwright.api import training_job as api
from trainwright.api.common import Job, RestartPolicy
from trainwright.api.faces import Outcome
from trainwright.api.training_template import MASTER, PSERVER, TRAINER
from trainwright.core.actions import Action, Decision, Emit
from trainwright.core.objects import Object
from trainwright.desired import Desired, Settings
from trainwright.reconcile import diff, launch, policies, training_status, verdicts
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Kind, Pod, Sight
from trainwright.reconcile.policies import Judgement
from trainwright.reconcile.record import Cause, Record
from trainwright.reconcile.training_status import Account, Tally

LIMIT = 6
"""So often master and servers may restart; and trainers of a fault-tolerant job may fail, beside once each of them."""


@dataclass(frozen=True)
class _End:
    """How a job ends, in words."""

    outcome: Outcome
    reason: str
    cause: Cause = ""


@dataclass(frozen=True)
class Stages:
    """A job lives in stages: each role starts when those before it are ready, and the last one's end is the end."""

    def step(self, kind: Kind, job: Job, sight: Sight, settings: Settings, now: datetime) -> Decision:
        """Say what to do next for a job."""
        before: Object = job.object.get("status") or {}
        if kind.face.standing(before).finished:
            return Decision(before, _release(sight))
        fault_tolerant = bool(job.requests[0].options["fault_tolerant"])
        return _Look(kind, job, sight, settings, now, fault_tolerant).decide(records.read(before))

    def refuse(self, job: Job, message: str, now: datetime) -> Object:
        """Return the status of a job that fails because it is not valid."""
        return training_status.write(job, Account("failed", message, Record(cause="Invalid"), {}), now)


@dataclass(frozen=True)
class _Look:
    """One look at a job that goes on."""

    kind: Kind
    job: Job
    sight: Sight
    settings: Settings
    now: datetime
    fault_tolerant: bool

    def decide(self, before: Record) -> Decision:
        judged = self._judged(before)
        record = judged.record
        tallies = training_status.count(self.job, record, self.sight.pods)
        if end := self._ending(judged, tallies[TRAINER]):
            return self._finish(end, judged)
        ready = launch.startable(self.job, record, self.sight.pods)
        phase, reason = self._phase(tallies)
        status = training_status.write(self.job, Account(phase, reason, record, tallies), self.now)
        job = launch.staged(self.job, self.settings, ready, record, self.sight.pods)
        desired = self.kind.build(job, self.settings, record.version)
        launched = launch.launched(desired, ready, self.sight)
        wanted = self._startable(launch.joining(launched, self.job, self.settings, record, self.sight.pods), record)
        wanted, look_again = policies.rested(self.job, wanted, judged, self.now)
        actions = diff.difference(self.job, wanted, self.sight, record)
        return Decision(status, (*actions, *self._news(phase, judged)), look_again)

    # What has happened

    def _judged(self, record: Record) -> Judgement:
        """Count what is new; a failed trainer is made again in a fault-tolerant job, until one has succeeded."""
        is_replaced = self.fault_tolerant and not record.role(TRAINER).completed
        restart: RestartPolicy = "OnFailure" if is_replaced else "Never"
        roles = tuple(
            replace(role, restart_policy=restart) if role.name == TRAINER else role for role in self.job.roles
        )
        judged = policies.judge(replace(self.job, roles=roles), record, self.sight.pods, self.now)
        return replace(judged, record=self._with_failures(record, judged)) if self.fault_tolerant else judged

    def _with_failures(self, before: Record, judged: Judgement) -> Record:
        """Remember who has failed and does not run again yet, and that one has succeeded, also when it has left since.

        A trainer that was only lost is nobody's failure.
        """
        kept, was, failed = judged.record.role(TRAINER), before.role(TRAINER), _failed(judged)
        down = {
            index: uid
            for index, uid in {**was.failed, **{pod.index: pod.uid for pod in failed}}.items()
            if index < self.job.count(TRAINER) and index not in kept.seen and index not in kept.done
        }
        counted = was.restarts + sum(pod.code is not None for pod in failed)
        completed = was.completed or bool(kept.done)
        kept = replace(kept, failed=down, restarts=counted, completed=completed)
        return replace(judged.record, roles={**judged.record.roles, TRAINER: kept})

    # Whether it has ended

    def _ending(self, judged: Judgement, trainers: Tally) -> _End | None:
        """Return how the job ends, if it does: success comes before any failure seen in the same look."""
        end = self._tolerant_ending(judged, trainers) if self.fault_tolerant else self._plain_ending(judged)
        if end is not None:
            return end
        if said := policies.cancelled(self.job):
            return _End("Failed", said, "Cancelled")
        restarts = sum(judged.record.role(role).restarts for role in (MASTER, PSERVER))
        if restarts > LIMIT:
            return _End("Failed", f"master and parameter servers have restarted {restarts} times.", "BackoffLimit")
        return None

    def _plain_ending(self, judged: Judgement) -> _End | None:
        trainers = judged.record.role(TRAINER)
        if len(trainers.done) >= self.job.count(TRAINER):
            return _End("Succeeded", "all trainer have succeeded!")
        if judged.final is not None:
            return _End("Failed", "at least one trainer failed!", "Failure")
        if trainers.restarts:
            return _End("Failed", "at least one trainer failed! It was deleted, or lost with its node.", "Failure")
        return None

    def _tolerant_ending(self, judged: Judgement, trainers: Tally) -> _End | None:
        kept, count = judged.record.role(TRAINER), self.job.count(TRAINER)
        if kept.completed and not trainers.running:
            return _End("Succeeded", "Success!")
        if len(kept.failed) >= count:
            return _End("Failed", "all trainer have failed!", "Failure")
        if kept.restarts > LIMIT + count:
            return _End("Failed", f"trainers have failed {kept.restarts} times.", "BackoffLimit")
        return None

    def _finish(self, end: _End, judged: Judgement) -> Decision:
        # Nothing is made again any more, so a pod whose failure was the last one stays to be looked into.
        record = replace(judged.record, retired=judged.record.retired - {pod.uid for pod in judged.replaced})
        reason = end.reason
        if end.outcome == "Failed" and end.cause != "Cancelled":
            blamed = verdicts.culprit(self.job, (pod.object for pod in self.sight.pods))
            record = replace(record, culprit=blamed.as_json() if blamed else None)
            reason = f"{reason} {blamed}." if blamed else reason
        record = replace(record, cause=end.cause)
        tallies = training_status.count(self.job, record, self.sight.pods)
        account = Account("succeeded" if end.outcome == "Succeeded" else "failed", reason, record, tallies)
        status = training_status.write(self.job, account, self.now)
        news = Emit(f"{self.kind.name}{end.outcome}", reason, "Warning" if end.outcome == "Failed" else "Normal")
        return Decision(status, (*_release(self.sight), news))

    # Whether it goes on

    def _phase(self, tallies: dict[str, Tally]) -> tuple[api.Phase, str]:
        """Return the phase and its reason: a job that runs goes on running while lost trainers come back."""
        behind = [
            f"{role.name} ({tallies[role.name].up} of {role.needed} up)"
            for role in self.job.roles
            if tallies[role.name].up < role.needed
        ]
        was = (self.job.object.get("status") or {}).get("phase")
        if not behind:
            return "running", "all pods are running"
        return ("running" if was == "running" else "creating"), f"waiting for {', '.join(behind)}"

    def _startable(self, desired: Desired, record: Record) -> Desired:
        """Leave out trainers once one has succeeded in a fault-tolerant job: nobody is made again then."""
        if not record.role(TRAINER).completed:
            return desired
        return replace(desired, pods=tuple(pod for pod in desired.pods if pod.role != TRAINER))

    def _news(self, phase: api.Phase, judged: Judgement) -> list[Action]:
        was = (self.job.object.get("status") or {}).get("phase")
        who = f"{self.kind.name} {self.job.name}"
        news: list[Action] = []
        if was is None:
            why = api.why_fixed(api.spec_of(self.job))
            news.append(Emit(f"{self.kind.name}Created", f"{who} is created.{f' {why}.' if why else ''}"))
        if phase == "running" != was:
            news.append(Emit(f"{self.kind.name}Running", f"{who} is running."))
        if failed := _failed(judged):
            blamed = verdicts.culprit(self.job, (pod.object for pod in failed))
            said = f"{blamed}; " if blamed else ""
            ranks = ", ".join(pod.name for pod in failed)
            news.append(Emit(f"{self.kind.name}Restarting", f"{said}{ranks} is made again.", "Warning"))
        return news


def _failed(judged: Judgement) -> list[Pod]:
    """Return the trainers that have failed and are made again."""
    return [pod for pod in judged.replaced if pod.role == TRAINER]


def _release(sight: Sight) -> tuple[Action, ...]:
    """Return what lets go of everything but pods that have ended, which keep their logs."""
    return (*diff.unfinished(sight), *diff.around(sight, keep=""))
