"""What a pod's priority is: its own, or that of its PriorityClass, or that of the class which is the default."""

from collections.abc import Iterable

from trainwright.core.objects import Object

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that are there without anybody making them."""


def prioritised(pod: Object, classes: Iterable[Object]) -> Object:
    """Return a new pod with the priority of its class, as it is from now on; unchanged if nobody knows the class."""
    spec = pod.get("spec") or {}
    if spec.get("priority") is not None:
        return pod
    named, values = spec.get("priorityClassName"), dict(SYSTEM)
    for each in classes:
        values[each["metadata"]["name"]] = int(each.get("value") or 0)
        if each.get("globalDefault") and not named:
            named = each["metadata"]["name"]
    if named not in values:
        return pod
    return {**pod, "spec": {**spec, "priorityClassName": named, "priority": values[named]}}
