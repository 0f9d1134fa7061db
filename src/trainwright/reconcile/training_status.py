"""The status of a TrainingJob: phase, reason, scale_status, replica_statuses, spelled as its users know them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api import training_job as api
from trainwright.api.common import Job, Role
from trainwright.api.training_template import TRAINER
from trainwright.core.objects import Object, at, timestamp
from trainwright.desired.training_job import LABELS
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Pod
from trainwright.reconcile.record import Record

_STATES = {"Pending": "starting", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_KEPT = 20
"""So many changes of the number of trainers are remembered."""


@dataclass(frozen=True)
class Tally:
    """How many replicas of a role are in each state; what has succeeded counts also when its pod is gone."""

    states: Mapping[str, int] = field(default_factory=Counter)

    @property
    def running(self) -> int:
        """Return how many run."""
        return self.states.get("running", 0)

    @property
    def up(self) -> int:
        """Return how many run or have done their work."""
        return self.running + self.states.get("succeeded", 0)


@dataclass(frozen=True)
class Account:
    """What a round found out: all that the status is written from."""

    phase: api.Phase
    reason: str
    record: Record
    tallies: Mapping[str, Tally]


def count(job: Job, record: Record, pods: Iterable[Pod]) -> dict[str, Tally]:
    """Count the replicas of each role by their state; pods that are going, or about to, do not count."""
    states: dict[str, Counter[str]] = {role.name: Counter() for role in job.roles}
    for name, found in states.items():
        if done := record.role(name).done:
            found["succeeded"] = len(done)
    for pod in pods:
        kept = record.role(pod.role)
        if pod.role not in states or pod.index in kept.done or pod.terminating or pod.uid in record.retired:
            continue
        states[pod.role][_STATES.get(pod.phase, "starting")] += 1
    return {name: Tally(found) for name, found in states.items()}


def write(job: Job, account: Account, now: datetime) -> Object:
    """Return the whole status of a TrainingJob after a round."""
    before: Object = job.object.get("status") or {}
    status: Object = {
        **before,
        "phase": account.phase,
        "reason": account.reason,
        "replica_statuses": [_replica_status(role, account) for role in job.roles],
        "record": records.write(account.record),
    }
    status.setdefault("startTime", timestamp(now))
    if account.phase in ("succeeded", "failed"):
        status["completionTime"] = timestamp(now)
    if job.role(TRAINER) is None:  # it could not be read at all
        return status
    running = 0 if account.phase in ("succeeded", "failed") else account.tallies[TRAINER].running
    status |= {"elasticReplicas": running, "elasticSelector": f"{LABELS[TRAINER]}={job.name}"}
    status["scale_status"] = _scale_status(job, running)
    if resized := _resized(job, before, now):
        status["scale_records"] = resized
    return status


def _replica_status(role: Role, account: Account) -> Object:
    tally = account.tallies.get(role.name, Tally())
    states = {state: number for state, number in sorted(tally.states.items()) if number}
    return {"training_resource_type": role.name.upper(), "state": _state(role, tally), "resource_states": states}


def _state(role: Role, tally: Tally) -> str:
    if not any(tally.states.values()):
        return ""
    if tally.states.get("failed"):
        return "failed"
    if tally.states.get("succeeded", 0) >= role.needed:
        return "succeeded"
    return "running" if tally.up >= role.needed else "starting"


def _scale_status(job: Job, running: int) -> Object:
    spec = api.spec_of(job)
    trainer = spec.trainer or api.TrainerSpec()
    found: Object = {
        "elastic": job.elastic is not None,
        "min_instance": trainer.min_instance,
        "max_instance": trainer.max_instance,
        "wanted": job.count(TRAINER),
        "running": running,
    }
    return {**found, "reason": why} if (why := api.why_fixed(spec)) else found


def _resized(job: Job, before: Object, now: datetime) -> Object:
    """Return the changes of the number of trainers, with the one that is new in this round."""
    old: list[Object] = at(before, ("scale_records", "ScaleRecords")) or []
    was, wanted = at(before, ("scale_status", "wanted")), job.count(TRAINER)
    if was is None or was == wanted:
        return {"ScaleRecords": old} if old else {}
    reason = f"spec.elasticReplicas: {was} trainers became {wanted}"
    new = {"scaleTimestamp": timestamp(now), "additional": wanted - was, "status": "True", "reason": reason}
    return {"ScaleRecords": [*old, new][-_KEPT:]}
