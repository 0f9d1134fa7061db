"""The objects of a Volcano Job: what its plugins bring, its volume claims, a PodGroup where one is wanted, the pods.

A pod without plugins is its template with labels and nothing else: no name resolves, no variable is set.
"""

import hashlib
from collections.abc import Iterator, Mapping

from trainwright import frameworks
from trainwright.api.common import Job, Role
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, at
from trainwright.core.resources import VOLUME_CLAIM
from trainwright.desired import gangs, pod_group, pods, support
from trainwright.desired.base import Desired, Injection, Settings
from trainwright.frameworks import plugins
from trainwright.frameworks.base import Mount

SCHEDULER = gangs.STRATEGIES["volcano"].scheduler
_COPIED_LABELS = (f"{names.VOLCANO}/preemptable", f"{names.VOLCANO}/cooldown-time")
_COPIED_ANNOTATIONS = (*_COPIED_LABELS, f"{names.VOLCANO}/revocable-zone")
_BUDGETS = (f"{names.VOLCANO}/jdb-min-available", f"{names.VOLCANO}/jdb-max-unavailable")


def build(job: Job, settings: Settings, version: int = 0) -> Desired:
    """Return everything a Volcano Job should have while it runs."""
    group = pods.group_objects(job, SHAPE, settings, version)
    claims = [Create(claim) for claim in _claims(job)]
    around = [support.owned(job, each) for each in frameworks.objects(job, settings.net)]
    notes = tuple(Injection(job.name, *row) for row in (*plugins.implied(job), *_left_out(job, settings)))
    return Desired((*group, *claims, *around), pods.wanted(job, SHAPE, settings, version), notes=notes)


def job_labels(job: Job) -> dict[str, str]:
    """Return the labels by which all pods of a job are selected."""
    return {names.VOLCANO_JOB_LABEL: job.name, names.VOLCANO_NAMESPACE_LABEL: job.namespace}


def role_labels(job: Job, role: Role) -> dict[str, str]:
    """Return the labels by which the pods of one task are selected."""
    return {**job_labels(job), names.TASK_LABEL: role.name}


def _labels(job: Job, role: Role, index: int) -> dict[str, str]:
    labels = {**role_labels(job, role), names.TASK_INDEX_LABEL: str(index), names.QUEUE_LABEL: _queue(job)}
    if role.partition_size is not None:
        labels[names.PARTITION_LABEL] = str(index // max(role.partition_size, 1))
    return {**labels, **_copied(job, "labels", _COPIED_LABELS)}


def _annotations(job: Job, role: Role, index: int, version: int) -> dict[str, str]:
    budget = _copied(job, "annotations", _BUDGETS)
    found = {
        names.VOLCANO_JOB_LABEL: job.name,
        pod_group.ANNOTATION: _group(job),
        names.TASK_LABEL: role.name,
        names.TASK_INDEX_LABEL: str(index),
        names.QUEUE_LABEL: _queue(job),
        f"{names.VOLCANO}/job-version": str(version),
        f"{names.VOLCANO}/job-retry-count": str(at(job.object, ("status", "retryCount"), 0) or 0),
        f"{names.VOLCANO}/template-uid": f"{job.name}-{role.name}",
        **_copied(job, "annotations", _COPIED_ANNOTATIONS),
        **dict(list(budget.items())[:1]),
    }
    if topology := _task(job, role).get("topologyPolicy"):
        found[f"{names.VOLCANO}/numa-topology-policy"] = topology
    return found


def _group(job: Job) -> str:
    """Return the name of a job's PodGroup: pods have it as an annotation, also where no such object is made."""
    return f"{job.name}-{job.uid}"


def _copied(job: Job, part: str, keys: tuple[str, ...]) -> dict[str, str]:
    own: Mapping[str, str] = at(job.object, ("metadata", part), {}) or {}
    return {key: own[key] for key in keys if key in own} if own else {}


def _queue(job: Job) -> str:
    return at(job.object, ("spec", "queue")) or "default"


def _task(job: Job, role: Role) -> Object:
    tasks: list[Object] = at(job.object, ("spec", "tasks"), [])
    return next((task for task in tasks if task.get("name") == role.name), {})


def _spec(job: Job, role: Role, settings: Settings) -> dict[str, str]:  # noqa: ARG001 - every kind is asked so
    """Return what a pod takes over from the job; Volcano's scheduler only where it is the one that is used."""
    spec: Object = job.object.get("spec") or {}
    keys = ("priorityClassName",) if _another_schedules(job, settings) else ("schedulerName", "priorityClassName")
    return {key: spec[key] for key in keys if spec.get(key)}


def _another_schedules(job: Job, settings: Settings) -> bool:
    return settings.gang != "volcano" and at(job.object, ("spec", "schedulerName")) == SCHEDULER


def _left_out(job: Job, settings: Settings) -> Iterator[tuple[str, str, str, str]]:
    """Yield what the job says and its pods do not get: the path, the value, the source and the reason."""
    if _another_schedules(job, settings):
        why = "not passed on: the pods would wait for a scheduler that only the gang strategy volcano uses"
        yield "spec.schedulerName", SCHEDULER, pods.JOB, why


def _volumes(job: Job) -> Iterator[tuple[str, Object]]:
    """Yield the claims of a job and how the job mentions them; a claim that is mentioned again is left out."""
    seen: set[str] = set()
    for volume in at(job.object, ("spec", "volumes"), []) or ():
        claim = volume.get("volumeClaimName") or _claim_name(job, volume["mountPath"])
        if claim not in seen:
            seen.add(claim)
            yield claim, volume


def _claim_name(job: Job, path: str) -> str:
    """Return the name of a claim that the job brings itself: the same whenever it is worked out."""
    return f"{job.name}-pvc-{hashlib.sha256(path.encode()).hexdigest()[:12]}"


def _claims(job: Job) -> Iterator[Object]:
    for claim, volume in _volumes(job):
        if volume.get("volumeClaim"):
            yield {**support.of(job, VOLUME_CLAIM, claim, {}), "spec": volume["volumeClaim"]}


def _mounts(job: Job) -> tuple[Mount, ...]:
    """Return the claims as pods mount them; claims that a pod shares with others have one name in all of them."""
    return tuple(
        Mount(
            {"name": f"{job.name}-{index}", "persistentVolumeClaim": {"claimName": claim}},
            volume["mountPath"],
            f"spec.volumes[{index}] of the job",
        )
        for index, (claim, volume) in enumerate(_volumes(job))
    )


SHAPE = pods.Shape("", _labels, _annotations, _spec, _mounts, _group, named=False)
