"""What Volcano's scheduler is told of a team: how many of its pods must fit together, and what they need."""

from collections.abc import Iterator, Sequence
from typing import Any

from trainwright.api.common import Job, Role
from trainwright.core.names import PARTITION_LABEL, TASK_LABEL
from trainwright.core.objects import Object, at
from trainwright.placement.amounts import plus, pod_requests, written

ANNOTATION = "scheduling.k8s.io/group-name"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
_CONTAINERS = ("containers", "initContainers")


def spec(job: Job, minimum: int) -> Object:
    """Return the spec of a team's PodGroup. Volcano's own Job says what it wishes in other fields than Kubeflow's."""
    own: Object = job.object.get("spec") or {}
    wishes: Object = at(own, ("runPolicy", "schedulingPolicy")) or {}
    annotations: Object = job.object["metadata"].get("annotations") or {}
    wanted: Object = {
        "minMember": minimum,
        "minTaskMember": {role.label: role.needed for role in job.roles},
        "queue": own.get("queue") or wishes.get("queue") or annotations.get(QUEUE_ANNOTATION) or "default",
        "minResources": wishes.get("minResources") or _resources(job, minimum),
    }
    if priority := own.get("priorityClassName") or wishes.get("priorityClass"):
        wanted["priorityClassName"] = priority
    if own.get("networkTopology"):
        wanted["networkTopology"] = own["networkTopology"]
    if groups := list(_sub_groups(own.get("tasks") or ())):
        wanted["subGroupPolicy"] = groups
    return wanted


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
    total: dict[str, int] = {}
    for role, count in first(job, minimum):
        total = plus(total, {key: count * amount for key, amount in _usage(role).items()})
    total = {**total, "pods": minimum, "count/pods": minimum}
    return {key: written(key.removeprefix("requests.").removeprefix("limits."), total[key]) for key in total}


def first(job: Job, minimum: int) -> Iterator[tuple[Role, int]]:
    """Yield how many replicas of each role count: what each role needs, then others, both in the manifest's order.

    What a priority class is worth is not known here, so no role goes before another because of its class.
    """
    needs = {role.name: min(role.needed, role.replicas) for role in job.roles}
    if minimum < sum(needs.values()):
        needs = dict.fromkeys(needs, 0)
    left = minimum - sum(needs.values())
    for role in job.roles:
        more = min(left, role.replicas - needs[role.name])
        left -= more
        yield role, needs[role.name] + more


def _usage(role: Role) -> dict[str, int]:
    """Return what one pod counts for: requests under two names, and limits of what is no device."""
    spec: Object = role.template.get("spec") or {}
    requests, limits = _asks(spec), _asks({**spec, **{part: _limits(spec.get(part)) for part in _CONTAINERS}})
    return {
        **{key: requests[key] for key in sorted(requests)},
        **{f"requests.{key}": requests[key] for key in sorted(requests)},
        **{f"limits.{key}": limits[key] for key in sorted(limits) if "/" not in key},
    }


def _asks(spec: Object) -> dict[str, int]:
    return {key: amount for key, amount in pod_requests({"spec": spec}).items() if key != "pods"}


def _limits(containers: Sequence[Object] | None) -> list[Object]:
    """Return containers that ask for nothing but their limits."""
    return [{**each, "resources": {"limits": at(each, ("resources", "limits"))}} for each in containers or ()]
