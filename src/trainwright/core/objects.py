"""Plain Kubernetes objects: keys, owners, and adding env, ports and volumes.

Objects are dicts as they come from JSON. They are shared between readers, so nobody changes one in place; a changed
object is a new dict that may share the unchanged parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
_MAPPINGS = (dict, Mapping)  # asked in this order: almost all are dicts, and an abstract class takes four times as long


@dataclass(frozen=True, order=True)
class Ref:
    """Names one object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def ref(obj: Object) -> Ref:
    """Return what names this object."""
    meta = obj["metadata"]
    return Ref(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])


def key(obj: Object) -> str:
    """Return "namespace/name", or the bare name of an object without namespace."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def owner_reference(owner: Object) -> Object:
    """Return the reference by which `owner` controls a child."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_uid(obj: Object) -> str:
    """Return the uid of the object that controls this one, or nothing."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""


def put(items: Iterable[Mapping[str, Any]], new: Mapping[str, Any], by: str = "name") -> list[Any]:
    """Return `items` with `new` in the place of the item of the same name, or at the end."""
    kept = list(items)
    for position, item in enumerate(kept):
        if item.get(by) == new.get(by):
            kept[position] = new
            return kept
    return [*kept, new]


def at(obj: Any, path: Iterable[str], default: Any = None) -> Any:
    """Return what stands at a path of keys, or `default` where the path ends early."""
    for step in path:
        if not isinstance(obj, _MAPPINGS) or step not in obj:
            return default
        obj = obj[step]
    return obj


def holds(obj: Object, condition: str) -> bool:
    """Say whether a condition in an object's status is true."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def nest(path: Iterable[str], value: Any) -> Any:
    """Return `value` wrapped in dicts along a path: the merge patch that sets it there."""
    for step in reversed(tuple(path)):
        value = {step: value}
    return value


def merge_patch(before: Object, after: Object) -> Object:
    """Return the JSON merge patch that turns one object into another; empty if they are the same."""
    patch: Object = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if changed := merge_patch(old, value):
                patch[name] = changed
        elif value != old or name not in before:
            patch[name] = value
    return patch


def timestamp(moment: datetime) -> str:
    """Return a moment as the API writes it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> datetime | None:
    """Return the moment an API timestamp stands for; with or without fractions of a second."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
