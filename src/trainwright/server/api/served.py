"""What is served: every resource under each of its versions, with the names and columns kubectl shows.

Job kinds come from their rows and definitions; built-in kinds have a row here, as the API server has one for each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from trainwright.core.objects import Object, at
from trainwright.core.resources import (
    AUTOSCALER,
    BATCH_JOB,
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Resource,
)
from trainwright.kinds import Kind
from trainwright.operator.crds import definitions
from trainwright.server.api import events

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
POD_STREAMS = {"attach": "PodAttachOptions", "exec": "PodExecOptions", "portforward": "PodPortForwardOptions"}


@dataclass(frozen=True)
class Scale:
    """How the scale subresource of a resource reads an object."""

    size: tuple[str, ...]
    active: tuple[str, ...]
    selector: tuple[str, ...]

    def selected(self, obj: Object) -> str:
        """Return the label selector of the replicas, as text."""
        found = at(obj, self.selector)
        if isinstance(found, Mapping):
            return ",".join(f"{name}={value}" for name, value in sorted((found.get("matchLabels") or {}).items()))
        return found or ""


@dataclass(frozen=True)
class Served:
    """One resource under one version."""

    resource: Resource
    """As it is stored."""
    version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scale: Scale | None = None
    definition: Object = field(default_factory=dict)
    """The version's part of the CustomResourceDefinition; empty for built-in kinds."""
    group: str = ""
    outward: Callable[[Object], Object] = lambda obj: obj
    """From the object as it is stored to the one that this version shows."""
    inward: Callable[[Object], Object] = lambda obj: obj

    @property
    def api_version(self) -> str:
        """Return "v1" or "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kind(self) -> str:
        """Return the kind's name."""
        return self.resource.kind

    @property
    def singular(self) -> str:
        """Return the word for one of them."""
        return self.resource.kind.lower()

    @property
    def custom(self) -> bool:
        """Say whether a definition brought this kind."""
        return bool(self.definition)

    @property
    def subresources(self) -> tuple[str, ...]:
        """Return what is served below one object."""
        streams = ("log", *POD_STREAMS) if self.resource == POD else ()
        return (*(("status",) if self.resource.status else ()), *(("scale",) if self.scale else ()), *streams)

    def shown(self, obj: Object) -> Object:
        """Return a stored object as this version shows it."""
        if obj.get("apiVersion") != self.api_version:
            obj = {**self.outward(obj), "apiVersion": self.api_version}
        return obj

    def stored(self, obj: Object) -> Object:
        """Return what somebody wrote in this version as it is stored."""
        if self.api_version == self.resource.api_version or obj.get("apiVersion") not in (None, self.api_version):
            return obj  # in the version of the store, or in a wrong one, which the store refuses
        return {**self.inward(obj), "apiVersion": self.resource.api_version}


_ALL = ("all",)
_BUILT_IN: dict[Resource, dict[str, Any]] = {
    POD: {"short_names": ("po",), "categories": _ALL},
    SERVICE: {"short_names": ("svc",), "categories": _ALL},
    CONFIG_MAP: {"short_names": ("cm",)},
    SECRET: {},
    EVENT: {"short_names": ("ev",)},
    NODE: {"short_names": ("no",)},
    NAMESPACE: {"short_names": ("ns",)},
    SERVICE_ACCOUNT: {"short_names": ("sa",)},
    VOLUME_CLAIM: {"short_names": ("pvc",)},
    STATEFUL_SET: {
        "short_names": ("sts",),
        "categories": _ALL,
        "scale": Scale(("spec", "replicas"), ("status", "replicas"), ("spec", "selector")),
    },
    BATCH_JOB: {"categories": _ALL},
    AUTOSCALER: {"short_names": ("hpa",), "categories": _ALL},
    NETWORK_POLICY: {"short_names": ("netpol",)},
    POD_GROUP: {"short_names": ("pg",)},
    RESOURCE_QUOTA: {"short_names": ("quota",)},
    PRIORITY_CLASS: {"short_names": ("pc",)},
}


def served(resources: Iterable[Resource], kinds: Iterable[Kind]) -> tuple[Served, ...]:
    """Return everything that is served, of the resources a cluster has."""
    custom = {resource: [*rows] for resource, rows in groupby(_custom(tuple(kinds)), key=lambda row: row.resource)}
    rows: list[Served] = []
    for resource in resources:
        built_in = Served(resource, resource.version, group=resource.group, **_BUILT_IN.get(resource, {}))
        rows += custom.get(resource, [built_in])
        if resource == EVENT:
            rows.append(Served(EVENT, "v1", ("ev",), group=events.GROUP, outward=events.outward, inward=events.inward))
    return tuple(rows)


def _custom(kinds: Iterable[Kind]) -> Iterator[Served]:
    """Yield what definitions bring: each kind under each of its versions, the one that is stored first."""
    resources = {(row.group, row.kind): row for kind in kinds for row in (kind.resource, kind.commands) if row}
    for made in definitions(kinds):
        spec, names = made["spec"], made["spec"]["names"]
        for version in spec["versions"]:
            yield Served(
                resources[spec["group"], names["kind"]],
                version["name"],
                tuple(names.get("shortNames", ())),
                tuple(names.get("categories", ())),
                _scale(version),
                version,
                spec["group"],
            )


def _scale(version: Object) -> Scale | None:
    paths = at(version, ("subresources", "scale"))
    if not paths:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return Scale(*(tuple(paths[name].strip(".").split(".")) for name in names))
