"""The one entry: what to do next for a job. What every kind shares stands here; how its jobs live says the kind's row.

The decision carries the whole new status. Who carries it out writes the status before anything is removed: what an
action destroys (a failed pod, a whole version) is counted by then, and doing it again after a crash changes nothing.
"""

from collections.abc import Iterable
from datetime import datetime

from trainwright.api.common import Job, RunPolicy
from trainwright.core.actions import Decision, Emit
from trainwright.core.errors import Problem
from trainwright.core.objects import Object
from trainwright.desired import Settings
from trainwright.reconcile.kind import Kind, Observed, sort_out


def decide(kind: Kind, job: Job, seen: Observed, settings: Settings, now: datetime) -> Decision:
    """Say what to do next for `job`, given what is there at `now`."""
    if job.run_policy.external or "deletionTimestamp" in job.object["metadata"]:
        return Decision(job.object.get("status") or {})
    return kind.life.step(kind, job, sort_out(kind, job, seen), settings, now)


def refuse(kind: Kind, obj: Object, problems: Iterable[Problem], now: datetime) -> Decision:
    """Say what to do with a job that admission should not have let in: it fails, with every problem in words."""
    before: Object = obj.get("status") or {}
    if kind.face.standing(before).finished or "deletionTimestamp" in obj["metadata"]:
        return Decision(before)
    message = f"{kind.name} {obj['metadata']['name']} is not valid: " + "; ".join(map(str, problems))
    status = kind.life.refuse(_bare_job(kind, obj), message, now)
    return Decision(status, (Emit(f"{kind.name}Failed", message, "Warning"),))


def _bare_job(kind: Kind, obj: Object) -> Job:
    meta = obj["metadata"]
    return Job(
        kind.resource, meta.get("namespace", ""), meta["name"], meta.get("uid", ""), (), RunPolicy(), (), None, obj
    )
