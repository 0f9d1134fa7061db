"""The environment of a container: the caller's variables, then what the manifest says, in the order it says it.

An image would bring variables of its own (PATH, HOME, …); here the caller's environment takes that place, and the
manifest overrides it. As on a cluster, `$(VAR)` refers only to variables the manifest declares: what the caller happens
to have set is not expanded, so that a manifest does not work here and fail there.

OMP_NUM_THREADS: numeric libraries start a thread per core of the machine. On a cluster one pod has a node to itself
often enough; here all ranks share one machine, and eight ranks of eight threads each crawl. So a container that says
how much cpu it wants (limit, else request) gets that many threads, rounded up, unless the caller or the manifest sets
the variable. A container that says nothing is left alone.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING
from typing import Any

from trainwright.core import quantity
from trainwright.core.objects import Object
from trainwright.node.base import User
from trainwright.node.refusals import Refused
from trainwright.node.sources import Facts, Found, Reference, SourceKind, all_entries, field, one_entry, resource_field

_VARIABLE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_SOURCES: Mapping[str, SourceKind] = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
_NO_PROXY = ("no_proxy", "NO_PROXY")
_PROXY = frozenset(f"{scheme}_proxy" for scheme in ("http", "https", "all", "ftp", "no"))
_SHARED = frozenset(("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME"))
"""What is as true for one user of the machine as for another."""
_SHELL_OWN = ("OLDPWD", "PWD", "SHLVL", "_")
"""What a shell says about itself; stale in a process that starts elsewhere."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with each `$(VAR)` replaced; an unknown one stays as it is, and `$$` is a dollar sign."""
    return _VARIABLE.sub(lambda match: "$" if match[1] else variables.get(match[2], match[0]), text)


def of_user(caller: Mapping[str, str], user: User) -> dict[str, str]:
    """Return what another user finds in place of the caller's variables: only what says nothing about the caller."""
    shared = {name: value for name, value in caller.items() if _is_shared(name)}
    return {**shared, "HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell}


def _is_shared(name: str) -> bool:
    return name in _SHARED or name.startswith("LC_") or name.lower() in _PROXY


def references(container: Object) -> Iterator[Reference]:
    """Yield the ConfigMaps and Secrets the environment of a container is made from."""
    for source in container.get("envFrom") or ():
        if "configMapRef" in source:
            yield "ConfigMap", source["configMapRef"].get("name", "")
        if "secretRef" in source:
            yield "Secret", source["secretRef"].get("name", "")
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        if "configMapKeyRef" in origin:
            yield "ConfigMap", origin["configMapKeyRef"].get("name", "")
        if "secretKeyRef" in origin:
            yield "Secret", origin["secretKeyRef"].get("name", "")


def declared(container: Object, facts: Facts, found: Found) -> dict[str, str]:
    """Return the variables the manifest declares: `envFrom` first, then `env`; later ones win and see earlier ones."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for key, value in _from_source(source, found):
            if "=" not in prefix + key and "\0" not in value:
                variables[prefix + key] = value
    for variable in container.get("env") or ():
        declaration = _value(variable, container, facts, found, variables)
        if declaration is not None:
            variables[variable["name"]] = declaration
    return variables


def complete(
    caller: Mapping[str, str],
    manifest: Mapping[str, str],
    container: Object,
    *,
    hostname: str,
    devices: str | None,
    peers: Iterable[str] = (),
) -> dict[str, str]:
    """Return everything a container's processes find in their environment.

    `devices` is the value of CUDA_VISIBLE_DEVICES handed to this container, None where the node has no GPUs to share.
    `peers` are names that no proxy can reach: gRPC, too, obeys the proxy variables.
    """
    variables = {name: value for name, value in caller.items() if name not in _SHELL_OWN}
    threads = _threads(container)
    if threads:
        variables.setdefault("OMP_NUM_THREADS", threads)
    if devices is not None:
        variables["CUDA_VISIBLE_DEVICES"] = devices
    for name in _NO_PROXY:
        if name in variables:
            variables[name] = ",".join((variables[name], *peers))
    return {**variables, "HOSTNAME": hostname, **manifest}


def _from_source(source: Mapping[str, Any], found: Found) -> Iterable[tuple[str, str]]:
    for name, kind in _SOURCES.items():
        if name in source:
            optional = bool(source[name].get("optional"))
            data = all_entries(kind, source[name].get("name", ""), found, optional=optional)
            return [(key, _text(value)) for key, value in data.items()]
    raise Refused("envFrom: neither configMapRef nor secretRef is given; write one of them")


def _value(
    variable: Mapping[str, Any], container: Object, facts: Facts, found: Found, so_far: Mapping[str, str]
) -> str | None:
    origin = variable.get("valueFrom")
    if not origin:
        value = variable.get("value")
        return "" if value is None else expand(str(value), so_far)
    if "fieldRef" in origin:
        return field(origin["fieldRef"].get("fieldPath", ""), facts)
    if "resourceFieldRef" in origin:
        return resource_field(origin["resourceFieldRef"], container, facts)
    if "configMapKeyRef" in origin:
        return _optional(one_entry("ConfigMap", origin["configMapKeyRef"], found))
    if "secretKeyRef" in origin:
        return _optional(one_entry("Secret", origin["secretKeyRef"], found))
    kinds = ", ".join(origin)
    raise Refused(f"env {variable['name']}: valueFrom {kinds} is not known here; write the value")


def _optional(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


def _text(value: bytes) -> str:
    return os.fsdecode(value)


def _threads(container: Object) -> str:
    resources = container.get("resources") or {}
    cpu = (resources.get("limits") or {}).get("cpu") or (resources.get("requests") or {}).get("cpu")
    return str(max(1, int(quantity.parse(cpu).to_integral_value(ROUND_CEILING)))) if cpu else ""
