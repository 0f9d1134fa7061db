"""What a job object says about itself, whatever its kind: phase, why, since when."""

from datetime import datetime

from trainwright.api.faces import Standing
from trainwright.core.objects import Object, at, moment
from trainwright.kinds import kind_of


def state(job: Object) -> Standing:
    """Return where a job stands, in its kind's own words."""
    kind = kind_of(job)
    return kind.face.standing(job.get("status") or {}) if kind else Standing("Unknown")


def lasted(job: Object, now: datetime) -> float | None:
    """Return for how many seconds a job has run, or did."""
    started = moment(at(job, ("status", "startTime")) or at(job, ("metadata", "creationTimestamp")))
    ended = moment(at(job, ("status", "completionTime"))) or now
    return max((ended - started).total_seconds(), 0) if started else None
