"""Which nodes a pod asks for by its node affinity: only what is required counts, what is preferred does not."""

from collections.abc import Mapping, Sequence

from trainwright.core.objects import Object, at

_REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def asks_for(spec: Object, node: Object) -> bool:
    """Say whether a pod of that spec may be on a node, as far as its node affinity is concerned."""
    terms = at(spec, _REQUIRED)
    return terms is None or any(_matches(term, node) for term in terms)


def _matches(term: Object, node: Object) -> bool:
    """Say whether a node is as a term wants it; one that says nothing wants no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    labels = at(node, ("metadata", "labels")) or {}
    name = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and (
        all(_holds(each, labels) for each in expressions) and all(_holds(each, name) for each in fields)
    )


def _holds(expression: Object, values: Mapping[str, str]) -> bool:
    value, wanted = values.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _beyond(value, wanted) > 0
        case "Lt":
            return _beyond(value, wanted) < 0
    return False


def _beyond(value: str | None, wanted: Sequence[str]) -> int:
    """Return by how much a number is more than the one it is compared with; nothing if they are no numbers."""
    try:
        return int(value or "") - int(wanted[0])
    except (ValueError, IndexError):
        return 0
