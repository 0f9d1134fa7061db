"""What the API server asks of every object's metadata, and the JSON merge patch: pure functions of the memory cluster.

The wording of problems is the API server's, so that a message seen here can be looked up like one seen there.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from trainwright.core.names import LABEL_LENGTH
from trainwright.core.objects import Object
from trainwright.core.resources import Resource

NAME_LENGTH = 253
SUFFIX_LENGTH = 5
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and none of 0, 1, 3: a generated name spells no word and is read aloud without doubt."""
ANNOTATIONS_SIZE = 256 * 1024

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"^{_LABEL}(\.{_LABEL})*\Z")
_WORD = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_BARE_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")


def merge(target: Any, patch: Any) -> Any:
    """Return `target` changed by a JSON merge patch (RFC 7386); unchanged parts are shared, not copied."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def shape_problem(meta: Any) -> str:
    """Say what in the metadata has a type that could not even be decoded, or nothing."""
    if not isinstance(meta, dict):
        return "metadata: expected an object"
    for field in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if not isinstance(meta.get(field) or "", str):
            return f"metadata.{field}: expected a string, found {meta[field]!r}"
    for field in ("labels", "annotations"):
        values = meta.get(field) or {}
        if not isinstance(values, dict):
            return f"metadata.{field}: expected an object of strings"
        for key, value in values.items():
            if not isinstance(value, str):
                return f"metadata.{field}.{key}: expected a string, found {value!r}; write it in quotes"
    finalizers = meta.get("finalizers") or []
    if not isinstance(finalizers, list) or not all(isinstance(item, str) for item in finalizers):
        return "metadata.finalizers: expected a list of strings"
    owners = meta.get("ownerReferences") or []
    if not isinstance(owners, list) or not all(isinstance(item, dict) for item in owners):
        return "metadata.ownerReferences: expected a list of objects"
    return ""


def problems(resource: Resource, meta: Object) -> Iterator[str]:
    """Yield everything the API server would refuse in metadata of the right shape."""
    if not is_name(meta["name"]):
        yield (
            f'metadata.name: Invalid value: "{meta["name"]}": a lowercase RFC 1123 subdomain must consist of lower '
            "case alphanumeric characters, '-' or '.', must start and end with an alphanumeric character, and be no "
            f"more than {NAME_LENGTH} characters"
        )
    if meta.get("namespace") and not is_namespace(meta["namespace"]):
        yield (
            f'metadata.namespace: Invalid value: "{meta["namespace"]}": a lowercase RFC 1123 label must consist of '
            "lower case alphanumeric characters or '-', must start and end with an alphanumeric character, and be no "
            f"more than {LABEL_LENGTH} characters"
        )
    for key, value in (meta.get("labels") or {}).items():
        yield from _label_problems(key, value)
    yield from _annotation_problems(meta.get("annotations") or {})
    yield from _owner_problems(meta.get("ownerReferences") or ())
    for finalizer in meta.get("finalizers") or ():
        yield from _finalizer_problems(resource, finalizer)


@lru_cache(4096)
def is_name(name: str) -> bool:
    """Say whether this can name an object: a DNS subdomain."""
    return len(name) <= NAME_LENGTH and bool(_SUBDOMAIN.match(name))


@lru_cache(1024)
def is_namespace(name: str) -> bool:
    """Say whether this can name a namespace: one DNS label."""
    return len(name) <= LABEL_LENGTH and "." not in name and bool(_SUBDOMAIN.match(name))


@lru_cache(4096)
def is_qualified(key: str) -> bool:
    """Say whether this can be the key of a label or annotation: "name" or "example.com/name"."""
    prefix, slash, name = key.rpartition("/")
    if slash and not is_name(prefix):
        return False
    return len(name) <= LABEL_LENGTH and bool(_WORD.match(name))


@lru_cache(4096)
def is_label_value(value: str) -> bool:
    """Say whether a label may have this value."""
    return not value or (len(value) <= LABEL_LENGTH and bool(_WORD.match(value)))


def _label_problems(key: str, value: str) -> Iterator[str]:
    if not is_qualified(key):
        yield f'metadata.labels: Invalid value: "{key}": {_QUALIFIED}'
    if not is_label_value(value):
        yield (
            f'metadata.labels: Invalid value: "{value}": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', must start and end with an alphanumeric character, and be no "
            f"more than {LABEL_LENGTH} characters"
        )


def _annotation_problems(annotations: dict[str, str]) -> Iterator[str]:
    for key in annotations:
        if not is_qualified(key.lower()):
            yield f'metadata.annotations: Invalid value: "{key}": {_QUALIFIED}'
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_SIZE:
        yield f"metadata.annotations: Too long: may not be more than {ANNOTATIONS_SIZE} bytes"


def _owner_problems(owners: list[Object] | tuple[Object, ...]) -> Iterator[str]:
    for position, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield f'metadata.ownerReferences[{position}].{field}: Invalid value: "": must not be empty'
    if sum(owner.get("controller") is True for owner in owners) > 1:
        yield "metadata.ownerReferences: Invalid value: only one reference can have controller set to true"


def _finalizer_problems(resource: Resource, finalizer: str) -> Iterator[str]:
    if not is_qualified(finalizer):
        yield f'metadata.finalizers: Invalid value: "{finalizer}": {_QUALIFIED}'
    elif "/" not in finalizer and finalizer not in _BARE_FINALIZERS and not _is_custom(resource):
        yield (
            f'metadata.finalizers: Invalid value: "{finalizer}": name is neither a standard finalizer name nor '
            "is it fully qualified (example.com/name)"
        )


def _is_custom(resource: Resource) -> bool:
    """Say whether a definition brought this kind: its group is then a domain, and k8s.io is Kubernetes' own."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")


_QUALIFIED = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', start and end with an alphanumeric "
    "character and be no more than 63 characters, with an optional DNS subdomain prefix and '/' (example.com/name)"
)
