"""Which nodes keep a pod away: by taints it does not tolerate, or because they are not what it asks for."""

from collections.abc import Iterable

from trainwright.core.objects import Object, at
from trainwright.placement.affinity import asks_for

_SHUT = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods away."""


def taints(node: Object) -> list[Object]:
    """Return the taints of a node that keep pods away."""
    return [taint for taint in at(node, ("spec", "taints")) or () if taint.get("effect") in _SHUT]


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Say whether one of the tolerations is meant for a taint."""
    return any(
        each.get("key") in (None, "", taint.get("key"))
        and each.get("effect") in (None, "", taint.get("effect"))
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in tolerations
    )


def keeps_away(node: Object, pod: Object) -> str:
    """Say in words what of a node keeps a pod away; nothing if nothing does."""
    spec = pod.get("spec") or {}
    for taint in taints(node):
        if not tolerates(spec.get("tolerations") or (), taint):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"has the taint {taint.get('key')}{value}:{taint.get('effect')}"
    labels = at(node, ("metadata", "labels")) or {}
    for name, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(name) != value:
            return f"has not the label {name}={value}"
    return "" if asks_for(spec, node) else "is none of those that its node affinity asks for"
