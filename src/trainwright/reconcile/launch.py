"""Launch order: which roles may start now, and how many pods must fit together by then.

A role that is to start after others waits until enough of their replicas are ready; once made, its pods stay whatever
becomes of the others. Pods of later stages do not exist yet, so the gang counts only the stages that may start: order
and gangs never wait for each other.
"""

from collections.abc import Iterable
from dataclasses import replace

from trainwright.api.common import Job, Role
from trainwright.core.resources import POD_GROUP
from trainwright.desired import Desired
from trainwright.reconcile.kind import Pod, Sight
from trainwright.reconcile.record import Record

_WAITS = ("", "Pending")
"""Phases of a PodGroup whose pods the scheduler does not want to see yet."""


def startable(job: Job, record: Record, pods: Iterable[Pod]) -> frozenset[str]:
    """Return the names of the roles whose pods may be made now."""
    ready = {role.name: len(record.role(role.name).done) for role in job.roles}
    for pod in pods:
        if pod.role in ready and pod.index not in record.role(pod.role).done and _is_ready(pod, record):
            ready[pod.role] += 1
    up = {role.name for role in job.roles if ready[role.name] >= min(role.needed, role.replicas)}
    return frozenset(role.name for role in job.roles if _may_start(job, role, up))


def staged(job: Job, roles: frozenset[str], record: Record, pods: Iterable[Pod]) -> Job:
    """Return the job with the gang of the stages that may start: as many pods as can be there together."""
    wanted = job.total if job.run_policy.gang_min is None else min(job.run_policy.gang_min, job.total)
    if any(role.name not in roles for role in job.roles):
        wanted = min(wanted, sum(min(role.needed, role.replicas) for role in job.roles if role.name in roles))
    there = {(pod.role, pod.index) for pod in pods}
    over = sum((role.name, index) not in there for role in job.roles for index in record.role(role.name).done)
    return replace(job, run_policy=replace(job.run_policy, gang_min=max(1, wanted - over)))


def launched(desired: Desired, roles: frozenset[str], sight: Sight) -> Desired:
    """Return what should exist now: no pods of later stages, and none while the scheduler holds the gang back."""
    if _is_held_back(desired, sight):
        return replace(desired, pods=())
    return replace(desired, pods=tuple(pod for pod in desired.pods if pod.role in roles))


def _may_start(job: Job, role: Role, up: set[str]) -> bool:
    if role.after is None:
        return True
    known = [name for name in role.after.roles if job.role(name) is not None]
    met = [name in up for name in known]
    return any(met) if role.after.any and len(met) > 1 else all(met)


def _is_ready(pod: Pod, record: Record) -> bool:
    if pod.version != record.version or pod.uid in record.retired or pod.terminating:
        return False
    containers = (pod.object.get("status") or {}).get("containerStatuses") or ()
    return pod.phase == "Running" and all(each.get("ready") for each in containers)


def _is_held_back(desired: Desired, sight: Sight) -> bool:
    wanted = any(each.object["kind"] == POD_GROUP.kind for each in desired.support)
    groups = [obj for name, obj in sight.support.items() if name.kind == POD_GROUP.kind]
    phases = [(group.get("status") or {}).get("phase") or "" for group in groups]
    return wanted and (not phases or phases[0] in _WAITS)
