"""What a job object says about itself, whatever its kind: phase, why, since when."""

from dataclasses import dataclass
from datetime import datetime

from trainwright.core.objects import Object, at, moment
from trainwright.reconcile import record as records

_TELLING = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
"""Condition types from the most telling to the least; the first that holds is the phase."""


@dataclass(frozen=True)
class State:
    """Where a job stands."""

    phase: str
    reason: str = ""
    message: str = ""
    late: bool = False
    """It failed because its time was up."""

    @property
    def finished(self) -> bool:
        """Say whether nothing more will happen."""
        return self.phase in ("Succeeded", "Failed")


def state(job: Object) -> State:
    """Return where a job stands, by its conditions."""
    holding = {each["type"]: each for each in at(job, ("status", "conditions")) or () if each.get("status") == "True"}
    for name in _TELLING:
        if name in holding:
            late = name == "Failed" and records.read(job.get("status")).cause == "Deadline"
            return State(name, holding[name].get("reason", ""), holding[name].get("message", ""), late)
    return State("Pending")


def lasted(job: Object, now: datetime) -> float | None:
    """Return for how many seconds a job has run, or did."""
    started = moment(at(job, ("status", "startTime")) or at(job, ("metadata", "creationTimestamp")))
    ended = moment(at(job, ("status", "completionTime"))) or now
    return max((ended - started).total_seconds(), 0) if started else None
