"""The ConfigMaps and Secrets a pod mentions, and what it may ask about itself (`fieldRef`, `resourceFieldRef`).

Environment and volumes both read from here, so that `optional`, missing keys and base64 mean the same in both.
"""

import base64
import binascii
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal

from trainwright.cluster.base import Cluster
from trainwright.core import quantity
from trainwright.core.errors import NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, SECRET
from trainwright.node.refusals import Missing, Refused

SourceKind = Literal["ConfigMap", "Secret"]
Reference = tuple[SourceKind, str]
Found = Mapping[Reference, Object]
"""The objects that exist; a reference that is not in it has no object."""

_RESOURCES = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


@dataclass(frozen=True)
class Facts:
    """What a pod may ask about itself and its node."""

    pod: Object
    node: str = ""
    pod_ip: str = ""
    host_ip: str = ""
    allocatable: Mapping[str, str] = dataclasses.field(default_factory=dict)


async def fetch(cluster: Cluster, namespace: str, references: Iterable[Reference]) -> Found:
    """Return those of the objects that exist."""
    found: dict[Reference, Object] = {}
    for kind, name in sorted(set(references)):
        try:
            found[kind, name] = await cluster.get(_RESOURCES[kind], namespace, name)
        except NotFound:
            continue
    return found


def entries(kind: SourceKind, obj: Object) -> dict[str, bytes]:
    """Return the data of a ConfigMap or Secret as bytes."""
    plain, encoded = ("data", "binaryData") if kind == "ConfigMap" else ("stringData", "data")
    return {
        **{key: _decoded(kind, obj, key, value) for key, value in (obj.get(encoded) or {}).items()},
        **{key: str(value).encode() for key, value in (obj.get(plain) or {}).items()},
    }


def all_entries(kind: SourceKind, name: str, found: Found, *, optional: bool) -> dict[str, bytes]:
    """Return all keys of an object; of a missing one nothing if it is optional, else Missing."""
    obj = found.get((kind, name))
    if obj is not None:
        return entries(kind, obj)
    if optional:
        return {}
    raise Missing(f"there is no {kind} {name!r}")


def one_entry(kind: SourceKind, selector: Mapping[str, Any], found: Found) -> bytes | None:
    """Return the key a `configMapKeyRef` or `secretKeyRef` names; None if it is not there and optional."""
    name, key, optional = selector.get("name", ""), selector.get("key", ""), bool(selector.get("optional"))
    data = all_entries(kind, name, found, optional=optional)
    if key in data:
        return data[key]
    if optional:
        return None
    raise Missing(f"{kind} {name!r} has no key {key!r} (there are: {', '.join(sorted(data)) or 'none'})")


def field(path: str, facts: Facts) -> str:
    """Return what a `fieldRef` stands for; Refused when there is no such field."""
    meta, spec = facts.pod["metadata"], facts.pod.get("spec") or {}
    if match := _SUBSCRIPT.match(path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted((meta.get(path.removeprefix("metadata.")) or {}).items())
        return "\n".join(f"{key}={json.dumps(str(value), ensure_ascii=False)}" for key, value in pairs)
    known = {
        "metadata.name": meta.get("name", ""),
        "metadata.namespace": meta.get("namespace", ""),
        "metadata.uid": meta.get("uid", ""),
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    if path not in known:
        raise Refused(f"fieldRef: unknown field {path!r} (there are: {', '.join(sorted(known))}, labels['…'])")
    return str(known[path])


def resource_field(selector: Mapping[str, Any], container: Object, facts: Facts) -> str:
    """Return what a `resourceFieldRef` stands for: in units of the divisor, rounded up.

    A limit that is not set is what the node offers, a request that is not set is the limit: both as Kubernetes says.
    """
    named = selector.get("containerName")
    if named:
        container = _container(facts.pod, named)
    which, _, name = str(selector.get("resource", "")).partition(".")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if which == "limits":
        value = limits.get(name, facts.allocatable.get(name, 0))
    elif which == "requests":
        value = requests.get(name, limits.get(name, 0))
    else:
        resource = selector.get("resource")
        raise Refused(f"resourceFieldRef: unknown resource {resource!r}; write limits.cpu, requests.memory or alike")
    divisor = quantity.parse(selector.get("divisor") or 1) or Decimal(1)
    return str(int((quantity.parse(value) / divisor).to_integral_value(ROUND_CEILING)))


def _container(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        if container.get("name") == name:
            found: Object = container
            return found
    raise Refused(f"resourceFieldRef: there is no container {name!r} in this pod")


def _decoded(kind: SourceKind, obj: Object, key: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        name = obj["metadata"].get("name")
        raise Missing(f"{kind} {name!r}: the value of {key!r} is not base64; use stringData for text") from error
