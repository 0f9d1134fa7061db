"""Launch order: which roles may start now, and how many pods must fit together by then.

A role that is to start after others waits until enough of their replicas are ready; once made, its pods stay whatever
becomes of the others. Pods of later stages do not exist yet, so the gang counts only the stages that may start: order
and gangs never wait for each other.
"""

from collections.abc import Iterable
from dataclasses import replace

from trainwright.api.common import Job, Role
from trainwright.core.resources import POD_GROUP
from trainwright.desired import Desired, Settings, WantedPod, gangs
from trainwright.reconcile.kind import Place, Pod, Sight
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


def staged(job: Job, settings: Settings, roles: frozenset[str], record: Record, pods: Iterable[Pod]) -> Job:
    """Return the job with the gang of the stages that may start: as many pods as can be there together."""
    if gangs.strategy(settings).by_stage:
        return job
    wanted = gangs.minimum(job)
    if any(role.name not in roles for role in job.roles):
        wanted = min(wanted, sum(min(role.needed, role.replicas) for role in job.roles if role.name in roles))
    over = len(_over(job, record, pods, forgets=gangs.strategy(settings).forgets))
    return replace(job, run_policy=replace(job.run_policy, gang_min=max(1, wanted - over)))


def _over(job: Job, record: Record, pods: Iterable[Pod], *, forgets: bool) -> set[Place]:
    """Return the replicas that are over and nobody counts any more: their pods are gone, or have only ended."""
    places = {(pod.role, pod.index): pod for pod in pods}
    done = {(role.name, index) for role in job.roles for index in record.role(role.name).done}
    if not forgets:
        return done - places.keys()
    ended = {place for place, pod in places.items() if pod.ended and _counts(pod, record) and job.role(place[0])}
    return done | ended


def launched(desired: Desired, roles: frozenset[str], sight: Sight) -> Desired:
    """Return what should exist now: no pods of later stages, and none while the scheduler holds the gang back."""
    if _is_held_back(desired, sight):
        return replace(desired, pods=())
    return replace(desired, pods=tuple(pod for pod in desired.pods if pod.role in roles))


def joining(desired: Desired, job: Job, settings: Settings, record: Record, pods: Iterable[Pod]) -> Desired:
    """Return what should exist now where each stage is a gang of its own that cannot be changed.

    Until a stage has begun there are only those that it must have: others would take their room. Who is made later, or
    again, waits for nobody, since some of those it would wait for may have ended.
    """
    if not gangs.strategy(settings).by_stage:
        return desired
    busy = {pod.role for pod in pods if pod.started and _counts(pod, record)}
    begun = {
        role.name
        for stage in gangs.stages(job)
        if any(each.name in busy or record.role(each.name).done for each in stage)
        for role in stage
    }
    wanted = (pod for pod in desired.pods if pod.first or pod.role in begun)
    return replace(desired, pods=tuple(_freed(pod) if pod.role in begun else pod for pod in wanted))


def _freed(pod: WantedPod) -> WantedPod:
    return replace(pod, make=lambda: gangs.freed(pod.make()))


def _may_start(job: Job, role: Role, up: set[str]) -> bool:
    if role.after is None:
        return True
    known = [name for name in role.after.roles if job.role(name) is not None]
    met = [name in up for name in known]
    return any(met) if role.after.any and len(met) > 1 else all(met)


def _is_ready(pod: Pod, record: Record) -> bool:
    if not _counts(pod, record) or pod.terminating:
        return False
    containers = (pod.object.get("status") or {}).get("containerStatuses") or ()
    return pod.phase == "Running" and all(each.get("ready") for each in containers)


def _counts(pod: Pod, record: Record) -> bool:
    """Say whether a pod is of the run that is under way, and stays."""
    return pod.version == record.version and pod.uid not in record.retired


def _is_held_back(desired: Desired, sight: Sight) -> bool:
    """Say whether Volcano's scheduler does not want to see the pods yet; others say nothing of the kind."""
    wanted = any(each.object["apiVersion"] == POD_GROUP.api_version for each in desired.support)
    groups = [obj for name, obj in sight.support.items() if name.api_version == POD_GROUP.api_version]
    phases = [(group.get("status") or {}).get("phase") or "" for group in groups]
    return wanted and (not phases or phases[0] in _WAITS)
