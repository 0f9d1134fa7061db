"""What clients ask first: which groups, versions and resources there are; in one document, or in many."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from trainwright import __version__
from trainwright.core.objects import Object
from trainwright.server.api import metrics
from trainwright.server.api.served import POD_STREAMS, VERBS, Served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": f"v1.36.0+trainwright-{__version__}",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""Which Kubernetes clients may take us for."""

_CREATED_ONLY = {
    ("authorization.k8s.io", "v1"): (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ),
    ("authentication.k8s.io", "v1"): (("selfsubjectreviews", "SelfSubjectReview"),),
}
"""Questions that are put by creating an object which is not kept."""


class Discovery:
    """The documents about everything that is served, made once."""

    def __init__(self, rows: Iterable[Served]) -> None:
        self._groups: dict[str, dict[str, list[Object]]] = {}
        for row in rows:
            resources = self._groups.setdefault(row.group, {}).setdefault(row.version, [])
            resources += [_resource(row), *(_subresource(row, name) for name in row.subresources)]
        for (group, version), reviews in _CREATED_ONLY.items():
            self._groups[group] = {version: [_review(*names) for names in reviews]}
        self._groups[metrics.PATH[1]] = {metrics.PATH[2]: [metrics.RESOURCE]}

    def versions(self) -> Object:
        """Return what /api says."""
        return {"kind": "APIVersions", "versions": list(self._groups.get("", {})), "serverAddressByClientCIDRs": []}

    def groups(self) -> Object:
        """Return what /apis says."""
        listed = [self.group(name) for name in self._groups if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

    def group(self, name: str) -> Object:
        """Return what /apis/GROUP says; KeyError if there is no such group."""
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._groups[name]]
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": name,
            "versions": versions,
            "preferredVersion": versions[0],
        }

    def resources(self, group: str, version: str) -> Object:
        """Return what /apis/GROUP/VERSION says; KeyError if it is not served."""
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": self._groups[group][version],
        }

    def aggregated(self, *, legacy: bool) -> Object:
        """Return everything about the group without name, or about all others."""
        groups = [name for name in self._groups if (not name) is legacy]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [_aggregated(name, self._groups[name]) for name in groups],
        }


def _resource(row: Served) -> Object:
    return {
        "name": row.resource.plural,
        "singularName": row.singular,
        "namespaced": row.resource.namespaced,
        "kind": row.kind,
        "verbs": list(VERBS),
        **({"shortNames": list(row.short_names)} if row.short_names else {}),
        **({"categories": list(row.categories)} if row.categories else {}),
    }


def _subresource(row: Served, name: str) -> Object:
    kinds: dict[str, dict[str, Any]] = {
        "status": {"kind": row.kind, "verbs": ["get", "patch", "update"]},
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
        "log": {"kind": row.kind, "verbs": ["get"]},
        **{stream: {"kind": kind, "verbs": ["create", "get"]} for stream, kind in POD_STREAMS.items()},
    }
    whole = f"{row.resource.plural}/{name}"
    return {"name": whole, "singularName": "", "namespaced": row.resource.namespaced, **kinds[name]}


def _review(plural: str, kind: str) -> Object:
    return {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}


def _aggregated(group: str, versions: dict[str, list[Object]]) -> Object:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {"version": version, "resources": _nested(group, version, resources), "freshness": "Current"}
            for version, resources in versions.items()
        ],
    }


def _nested(group: str, version: str, resources: list[Object]) -> list[Object]:
    """Return resources with their subresources below them."""
    nested = []
    for _, family in groupby(resources, key=lambda each: each["name"].partition("/")[0]):
        main, *subresources = family
        described: Object = {
            "resource": main["name"],
            "responseKind": {"group": group, "version": version, "kind": main["kind"]},
            "scope": "Namespaced" if main["namespaced"] else "Cluster",
            "singularResource": main["singularName"],
            "verbs": main["verbs"],
            **{name: main[name] for name in ("shortNames", "categories") if name in main},
        }
        if subresources:
            described["subresources"] = [_nested_one(group, version, each) for each in subresources]
        nested.append(described)
    return nested


def _nested_one(group: str, version: str, subresource: Object) -> Object:
    kind = {"group": group, "version": version, "kind": subresource["kind"]}
    own = {name: subresource[name] for name in ("group", "version") if name in subresource}
    return {
        "subresource": subresource["name"].partition("/")[2],
        "responseKind": {**kind, **own},
        "verbs": subresource["verbs"],
    }
