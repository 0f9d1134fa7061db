"""Volcano's Job (batch.volcano.sh/v1alpha1): what is filled in, what is refused, and the Job it becomes.

The fields are in `volcano_spec.py`, the rules in `volcano_checks.py`. No plugin is known here: a job's plugins become
requests, and whether there is such a plugin with such flags is for the frameworks to say. What differs from the
released system, and why, is in docs/kinds/volcano-job.md.
"""

from dataclasses import replace
from typing import Any

from trainwright.api import duration, faces, volcano_checks
from trainwright.api.common import After, Elastic, Job, Policy, Request, RestartPolicy, Role, RunPolicy
from trainwright.api.envelope import without_nulls
from trainwright.api.reader import build
from trainwright.api.volcano_spec import LifecyclePolicy, Spec, Status, Task
from trainwright.core.errors import Problem
from trainwright.core.names import ELASTIC_ANNOTATION
from trainwright.core.objects import Object, at

__all__ = ["COMMAND", "RESOURCE", "Spec", "Status", "check", "default", "read", "resizable"]

RESOURCE = faces.VOLCANO_JOB.resource
COMMAND = faces.COMMAND
QUEUE, SCHEDULER, RETRIES = "default", "volcano", 3


# Defaults


def default(obj: Object) -> Object:
    """Return the job as it is stored: what the user left out is written down, null counts as left out."""
    if not isinstance(obj.get("spec"), dict):
        return obj
    spec = without_nulls(obj["spec"])
    metadata = {"metadata": without_nulls(obj["metadata"])} if isinstance(obj.get("metadata"), dict) else {}
    _fill(spec, queue=QUEUE, schedulerName=SCHEDULER, maxRetry=RETRIES)
    _default_topology(spec)
    if isinstance(tasks := spec.get("tasks"), list):
        spec["tasks"] = [_default_task(task, i) if isinstance(task, dict) else task for i, task in enumerate(tasks)]
        _fill(spec, minAvailable=sum(_needed(task) for task in spec["tasks"]))
        _default_size(spec, at(metadata, ("metadata", "annotations", ELASTIC_ANNOTATION)))
    return {**obj, **metadata, "spec": spec}


def _fill(spec: Object, **values: Any) -> None:
    """Write values where nothing stands yet, or what Go cannot tell from nothing."""
    for name, value in values.items():
        if spec.get(name) in (None, "", 0) and not isinstance(spec.get(name), bool | float):
            spec[name] = value


def _default_task(task: Object, index: int) -> Object:
    task = {**task}
    _fill(task, name=f"default{index}", maxRetry=RETRIES)
    if isinstance(partition := task.get("partitionPolicy"), dict):
        task["partitionPolicy"] = partition = {"minPartitions": 0, **partition}
        _default_topology(partition)
    if "minAvailable" not in task:
        task["minAvailable"] = _partitioned(task) or _count(task.get("replicas"))
    pod = at(task, ("template", "spec"))
    if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
        task["template"] = {**task["template"], "spec": {**pod, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return task


def _default_topology(holder: Object) -> None:
    if isinstance(topology := holder.get("networkTopology"), dict):
        holder["networkTopology"] = {"mode": "hard", **topology}


def _default_size(spec: Object, elastic: Any) -> None:
    """Say how large the elastic task is: `kubectl scale` cannot read a size that is not there."""
    for task in spec["tasks"]:
        if elastic and at(task, ("name",)) == elastic and "elasticReplicas" not in spec:
            spec["elasticReplicas"] = _count(task.get("replicas"))


def _partitioned(task: Object) -> int:
    """Return how many pods the groups make that the job needs; 0 where none are asked for."""
    policy = task.get("partitionPolicy")
    return _count(at(policy, ("minPartitions",))) * _count(at(policy, ("partitionSize",)))


def _needed(task: Any) -> int:
    return _count(at(task, ("minAvailable",)))


def _count(value: Any) -> int:
    """Return a number of pods; 0 for what is none."""
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0


# Checks


def check(obj: Object, old: Object | None = None) -> list[Problem]:
    """Return everything that is wrong with a job, or that looks like a trap; `old` is what an update replaces."""
    stored = default(obj)
    found = [*volcano_checks.problems(volcano_checks.look_at(obj, stored, is_new=old is None))]
    if old is not None:
        found += volcano_checks.changes(stored.get("spec"), default(old).get("spec"))
    return list(dict.fromkeys(found))


# Reading


def read(obj: Object) -> Job:
    """Return the job that an admitted object describes."""
    stored = default(obj)
    spec = build(Spec, stored["spec"])
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    job = Job(
        resource=RESOURCE,
        namespace=metadata.get("namespace") or "default",
        name=name,
        uid=metadata.get("uid") or "",
        roles=tuple(_read_task(task) for task in spec.tasks),
        run_policy=RunPolicy(
            ttl_seconds=spec.ttl_seconds_after_finished,
            gang_min=spec.min_available,
            min_success=spec.min_success,
            max_retry=spec.max_retry,
            policies=_read_policies(spec.policies),
        ),
        requests=tuple(Request(plugin, flags=flags) for plugin, flags in (spec.plugins or {}).items()),
        elastic=None,
        object=obj,
        domain=name,
    )
    return resizable(job, at(metadata, ("annotations", ELASTIC_ANNOTATION), ""))


def resizable(job: Job, task: str) -> Job:
    """Return the job with one task that may be resized between its minAvailable and its replicas.

    The annotation names such a task; a framework whose workers come and go as they like may name one too.
    """
    role = job.role(task)
    if role is None or job.elastic is not None:
        return job
    size = at(job.object, RESOURCE.size_path)
    now = replace(role, replicas=role.replicas if size is None else min(_count(size), role.replicas))
    sized = replace(
        job,
        elastic=Elastic(task, min(role.needed, role.replicas), role.replicas),
        roles=tuple(now if each is role else each for each in job.roles),
    )
    needed = min(job.run_policy.gang_min or 0, sized.total)
    return replace(sized, run_policy=replace(job.run_policy, gang_min=needed))


def _read_task(task: Task) -> Role:
    template = task.template or {}
    own: RestartPolicy = at(template, ("spec", "restartPolicy")) or "Always"
    after = task.depends_on
    return Role(
        name=task.name or "",
        replicas=_count(task.replicas),
        template=template,
        restart_policy=own,
        minimum=task.min_available,
        after=After(after.name, any=after.iteration == "any") if after and after.name else None,
        policies=_read_policies(task.policies),
        max_retry=task.max_retry,
        partition_size=task.partition_policy.partition_size if task.partition_policy else None,
    )


def _read_policies(policies: tuple[LifecyclePolicy, ...]) -> tuple[Policy, ...]:
    return tuple(
        Policy(
            action=policy.action or "",
            events=volcano_checks.events(policy),
            exit_code=policy.exit_code,
            delay_seconds=duration.seconds(policy.timeout) if policy.timeout else None,
        )
        for policy in policies
    )
