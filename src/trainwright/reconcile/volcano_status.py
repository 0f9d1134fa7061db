"""The status of a Volcano Job: counts, phase and conditions as users of Volcano and their tools read them.

A replica that has ended is counted for as long as the job remembers its end, also when its pod is gone or belongs to an
earlier version. A pod that is going, or about to, counts as terminating and as nothing else.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, at, moment, timestamp
from trainwright.core.resources import VOLUME_CLAIM
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Pod
from trainwright.reconcile.record import Record
from trainwright.reconcile.transitions import PHASES, STOPPING, Phase

_UNNAMED = ("hcclrank",)
"""Plugins that Volcano does not list among the controlled resources."""


@dataclass(frozen=True)
class Tally:
    """How many pods there are in each state, of each role."""

    roles: Mapping[str, Counter[str]]
    terminating: int = 0

    def __getitem__(self, phase: str) -> int:
        return sum(counts[phase] for counts in self.roles.values())


@dataclass(frozen=True)
class Move:
    """Into which phase a job goes, and why; the phase it is in if it stays."""

    phase: Phase
    reason: str = ""
    message: str = ""


def phase_of(status: Object) -> Phase:
    """Return the phase a status tells; that of a new job where it tells none we know."""
    told = at(status, ("state", "phase"))
    return next((phase for phase in PHASES if phase == told), "Pending")


def tally(job: Job, record: Record, pods: Iterable[Pod]) -> Tally:
    """Count the pods by role and phase."""
    roles: dict[str, Counter[str]] = {role.name: Counter() for role in job.roles}
    for name, counts in roles.items():
        kept = record.role(name)
        counts.update(Succeeded=len(kept.done), Failed=len(kept.failed))
    terminating = 0
    for pod in pods:
        kept = record.role(pod.role)
        if pod.index in kept.done or kept.failed.get(pod.index) == pod.uid:
            continue
        if pod.terminating or record.is_past(pod.version, ended=pod.ended) or pod.uid in record.retired:
            terminating += 1
        elif pod.role in roles:
            roles[pod.role][pod.phase] += 1
    return Tally(roles, terminating)


def volcano(
    job: Job, record: Record, counts: Tally, move: Move, retries: int, support: Iterable[Create], now: datetime
) -> Object:
    """Return the whole status of a Volcano Job after a round."""
    before: Object = job.object.get("status") or {}
    moved = at(before, ("state", "phase")) != move.phase
    state = _state(move, now) if moved else before["state"]
    status: Object = {
        **before,
        "state": state,
        "minAvailable": job.run_policy.gang_min if job.run_policy.gang_min is not None else job.total,
        "taskStatusCount": {
            name: {"phase": {phase: count for phase, count in sorted(each.items()) if count}}
            for name, each in counts.roles.items()
            if any(each.values())
        },
        **{phase.lower(): counts[phase] for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")},
        "terminating": counts.terminating,
        "version": record.version,
        "retryCount": retries,
        "controlledResources": {**_controlled(job, support)},
        "conditions": _conditions(before, move.phase, now) if moved else before.get("conditions", []),
        "record": records.write(record),
    }
    if moved and (move.phase in STOPPING.values() or move.phase == "Failed"):
        status["runningDuration"] = _duration(job, now)
    if job.elastic is not None:
        status["elasticReplicas"] = counts.roles[job.elastic.role]["Running"]
        labels = {names.VOLCANO_JOB_LABEL: job.name, names.TASK_LABEL: job.elastic.role}
        status["elasticSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
    return status


def _state(move: Move, now: datetime) -> Object:
    said = {"reason": move.reason, "message": move.message}
    return {
        "phase": move.phase,
        **{name: text for name, text in said.items() if text},
        "lastTransitionTime": timestamp(now),
    }


def _conditions(before: Object, phase: Phase, now: datetime) -> list[Object]:
    """Return one entry for each phase there was; that of a phase which comes again moves to the end."""
    others = [each for each in before.get("conditions") or () if each["status"] != phase]
    return [*others, {"status": phase, "lastTransitionTime": timestamp(now)}]


def _controlled(job: Job, support: Iterable[Create]) -> Object:
    plugins = (request.framework for request in job.requests if request.framework not in _UNNAMED)
    made = (each.object["metadata"]["name"] for each in support if each.object["kind"] == VOLUME_CLAIM.kind)
    own = (each.get("volumeClaimName") for each in at(job.object, ("spec", "volumes")) or ())
    return {
        **{f"plugin-{name}": name for name in plugins},
        **{f"volume-pvc-{name}": name for name in (*made, *filter(None, own))},
    }


def _duration(job: Job, now: datetime) -> str:
    """Return how long the job has been there, as Go writes a duration: 1h2m3s."""
    created = moment(job.object["metadata"].get("creationTimestamp")) or now
    seconds = max(now - created, timedelta()) // timedelta(seconds=1)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{seconds % 60}s"
