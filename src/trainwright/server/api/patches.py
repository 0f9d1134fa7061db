"""The three patches kubectl sends, as pure functions from an object to a new one.

    application/merge-patch+json            RFC 7386; `cluster.metadata` has it
    application/json-patch+json             RFC 6902: a list of operations
    application/strategic-merge-patch+json  built-in kinds only: some lists are merged by a key, not replaced

Unchanged parts are shared with the object, and nothing is changed in place.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trainwright.cluster.metadata import merge
from trainwright.core.errors import BadRequest, Invalid
from trainwright.core.objects import Object

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""By what items of a list are told apart, as the API's types say it; lists that are not here are replaced."""
_SERVICE_KEYS = {**_KEYS, "ports": "port"}
_SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of words that are merged: what is new is added."""
_REJECTED = "the server rejected our request due to an error in our request"
"""All that is said of a path that leads nowhere, or to something else than a test expects."""
_DIRECTIVE = "$patch"
_DELETED_WORDS = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAINED = "$retainKeys"


def patched(kind: str, obj: Object, data: bytes, form: str) -> Object:
    """Return an object of a kind as a patch of one of the three forms makes it."""
    try:
        patch = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from error
    if form == JSON:
        return json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise BadRequest(f"error decoding patch: expected an object, found {type(patch).__name__}")
    if form == STRATEGIC:
        return strategic(obj, patch, _SERVICE_KEYS if kind == "Service" else _KEYS)
    merged: Object = merge(obj, patch)
    return merged


# JSON patch


def json_patch(obj: Object, operations: Any) -> Object:
    """Return what a list of operations makes of an object."""
    if not isinstance(operations, list):
        raise BadRequest(f"error decoding patch: expected a list of operations, found {type(operations).__name__}")
    changed: Any = obj
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise BadRequest(f"error decoding patch: expected an operation with op and path, found {operation!r}")
        changed = _operated(changed, operation)
    if not isinstance(changed, dict):
        raise BadRequest("the patch leaves no object")
    return changed


def _operated(obj: Any, operation: Object) -> Any:
    op, steps = operation.get("op"), _steps(operation["path"])
    if op == "test":
        if _found(obj, steps) != operation.get("value"):
            raise Invalid(_REJECTED)
        return obj
    if op == "remove":
        return _at(obj, steps, _remove)
    if op in ("move", "copy"):
        source = _steps(str(operation.get("from", "")))
        value = _found(obj, source)
        return _at(_at(obj, source, _remove) if op == "move" else obj, steps, _add(value))
    if op in ("add", "replace") and "value" in operation:
        return _at(obj, steps, (_add if op == "add" else _replace)(operation["value"]))
    raise BadRequest(f"error decoding patch: unknown operation {op!r}, or one without its value")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise BadRequest(f"error decoding patch: a path begins with '/', found {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


Change = Callable[[Any, str], Any]
"""From a mapping or list and the last step into it to a new one."""


def _at(obj: Any, steps: list[str], change: Change) -> Any:
    """Return `obj` with the container that the last step leads into changed."""
    if not steps:
        return change({"": obj}, "").get("")
    step, *rest = steps
    if not rest:
        return change(obj, step)
    below = _at(_item(obj, step), rest, change)
    if isinstance(obj, list):
        return [below if place == _place(obj, step) else item for place, item in enumerate(obj)]
    return {**obj, step: below}


def _found(obj: Any, steps: list[str]) -> Any:
    for step in steps:
        obj = _item(obj, step)
    return obj


def _item(obj: Any, step: str) -> Any:
    if isinstance(obj, list):
        return obj[_place(obj, step)]
    if not isinstance(obj, dict) or step not in obj:
        raise Invalid(_REJECTED)
    return obj[step]


def _place(items: list[Any], step: str, *, end: bool = False) -> int:
    if end and step == "-":
        return len(items)
    if not step.isdecimal() or int(step) >= len(items) + end:
        raise Invalid(_REJECTED)
    return int(step)


def _add(value: Any) -> Change:
    def add(obj: Any, step: str) -> Any:
        if isinstance(obj, list):
            place = _place(obj, step, end=True)
            return [*obj[:place], value, *obj[place:]]
        if not isinstance(obj, dict):
            raise Invalid(_REJECTED)
        return {**obj, step: value}

    return add


def _replace(value: Any) -> Change:
    def replace(obj: Any, step: str) -> Any:
        _item(obj, step)
        if isinstance(obj, list):
            return [value if place == int(step) else item for place, item in enumerate(obj)]
        return {**obj, step: value}

    return replace


def _remove(obj: Any, step: str) -> Any:
    _item(obj, step)
    if isinstance(obj, list):
        return [item for place, item in enumerate(obj) if place != int(step)]
    return {name: value for name, value in obj.items() if name != step}


# Strategic merge patch


def strategic(obj: Any, patch: Mapping[str, Any], keys: Mapping[str, str] = _KEYS) -> Object:
    """Return `obj` changed by a strategic merge patch; `keys` say which lists are merged, and by what."""
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    result = dict(obj) if isinstance(obj, dict) and directive != "replace" else {}
    if retained := patch.get(_RETAINED):
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETED_WORDS):
            listed = name.removeprefix(_DELETED_WORDS)
            result[listed] = [word for word in result.get(listed) or () if word not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = strategic(result.get(name), value, keys)
        elif isinstance(value, list):
            order = patch.get(f"{_ORDER}{name}")
            result[name] = _merged_list(result.get(name) or [], value, name, keys, order)
        else:
            result[name] = value
    return result


def _merged_list(old: list[Any], new: list[Any], name: str, keys: Mapping[str, str], order: Any) -> list[Any]:
    if name in _SETS:
        return list(dict.fromkeys((*old, *new)))
    if name not in keys or not all(isinstance(item, dict) for item in (*old, *new)):
        return new
    if any(item.get(_DIRECTIVE) == "replace" for item in new):
        return [item for item in new if _DIRECTIVE not in item]
    by = keys[name]
    merged = {_key(item, by): item for item in old}
    for item in new:
        key = _key(item, by)
        if item.get(_DIRECTIVE) == "delete":
            merged.pop(key, None)
        else:
            merged[key] = strategic(merged.get(key), item, keys)
    return _ordered(merged, [_key(item, by) for item in order]) if isinstance(order, list) else list(merged.values())


def _key(item: Any, by: str) -> str:
    if not isinstance(item, dict) or by not in item:
        raise BadRequest(f"error decoding patch: an item of a merged list has no {by}: {item!r}")
    return msgspec.json.encode(item[by]).decode()


def _ordered(items: dict[str, Any], order: list[str]) -> list[Any]:
    """Return items in the order a patch wants; those it does not name keep their place after the one before them."""
    places = {key: place for place, key in enumerate(order)}
    named = iter(sorted((key for key in items if key in places), key=lambda key: places[key]))
    return [items[next(named)] if key in places else items[key] for key in items]
