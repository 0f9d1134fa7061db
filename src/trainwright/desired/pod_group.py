"""The PodGroup by which Volcano's scheduler knows how many pods of a job must fit together, and what they need."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from trainwright.api.common import Job, Role
from trainwright.core import quantity
from trainwright.core.names import PARTITION_LABEL, TASK_LABEL
from trainwright.core.objects import Object, at
from trainwright.core.resources import POD_GROUP
from trainwright.desired import support

ANNOTATION = "scheduling.k8s.io/group-name"


def name(job: Job) -> str:
    """Return the name of a job's PodGroup."""
    return f"{job.name}-{job.uid}"


def build(job: Job) -> Object:
    """Return the PodGroup of a job."""
    metadata: Object = job.object["metadata"]
    spec: Object = job.object.get("spec") or {}
    minimum = min(job.run_policy.gang_min if job.run_policy.gang_min is not None else job.total, job.total)
    wanted: Object = {
        "minMember": minimum,
        "minTaskMember": {role.name: role.needed for role in job.roles},
        "queue": spec.get("queue") or "default",
        "minResources": _resources(job, minimum),
    }
    for key in ("priorityClassName", "networkTopology"):
        if spec.get(key):
            wanted[key] = spec[key]
    if groups := list(_sub_groups(spec.get("tasks") or ())):
        wanted["subGroupPolicy"] = groups
    group = support.of(job, POD_GROUP, name(job), metadata.get("labels") or {})
    group["metadata"]["annotations"] = {**(metadata.get("annotations") or {})}
    return {**group, "spec": wanted}


def _sub_groups(tasks: Any) -> Iterator[Object]:
    for task in tasks:
        policy = task.get("partitionPolicy")
        if not policy:
            continue
        group = {
            "name": task["name"],
            "subGroupSize": policy["partitionSize"],
            "minSubGroups": policy.get("minPartitions", 0),
            "labelSelector": {"matchLabels": {TASK_LABEL: task["name"]}},
            "matchLabelKeys": [PARTITION_LABEL],
        }
        yield group | ({"networkTopology": policy["networkTopology"]} if policy.get("networkTopology") else {})


def _resources(job: Job, minimum: int) -> dict[str, str]:
    """Return what the pods that must fit together need, in the words of a quota."""
    total: dict[str, Decimal] = {}
    for role, count in _first(job, minimum):
        for key, amount in _usage(role).items():
            total[key] = total.get(key, Decimal(0)) + count * amount
    pods = {"pods": Decimal(minimum), "count/pods": Decimal(minimum)}
    return {key: quantity.show(amount, binary="memory" in key) for key, amount in {**total, **pods}.items()}


def _first(job: Job, minimum: int) -> Iterator[tuple[Role, int]]:
    """Yield how many replicas of each role count: what each role needs, then others in their order."""
    needs = {role.name: min(role.needed, role.replicas) for role in job.roles}
    if minimum < sum(needs.values()):
        needs = dict.fromkeys(needs, 0)
    left = minimum - sum(needs.values())
    for role in job.roles:
        more = min(left, role.replicas - needs[role.name])
        left -= more
        yield role, needs[role.name] + more


def _usage(role: Role) -> dict[str, Decimal]:
    usage: dict[str, Decimal] = {}
    for container in at(role.template, ("spec", "containers"), []) or ():
        limits: Mapping[str, Any] = at(container, ("resources", "limits"), {}) or {}
        requests = {**limits, **(at(container, ("resources", "requests"), {}) or {})}
        named = [(key, requests[key]) for key in requests]
        named += [(f"requests.{key}", requests[key]) for key in requests]
        named += [(f"limits.{key}", limits[key]) for key in limits if "/" not in key]
        for key, amount in named:
            usage[key] = usage.get(key, Decimal(0)) + quantity.parse(amount)
    return usage
