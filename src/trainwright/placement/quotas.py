"""Quotas of namespaces: what a ResourceQuota allows, and what of it a pod or another object counts for.

What pods use (`requests.cpu`, `cpu`, `limits.memory`, `requests.nvidia.com/gpu`, `pods`) is counted for pods that have
a place: a gang for which it is not enough waits in the queue, since half of a gang would be of no use. How many objects
there are (`count/pytorchjobs.kubeflow.org`, `services`) is decided when one is made, as an API server does.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at
from trainwright.core.resources import Resource
from trainwright.placement.amounts import Amounts, amounts, plus, written
from trainwright.placement.gangs import Member

COUNT = "count/"
_PLAIN = ("cpu", "memory", "ephemeral-storage")
"""Resources whose requests may be asked for without saying "requests."."""
_PODS = "pods"
_CORE_COUNTS = ("configmaps", "persistentvolumeclaims", "resourcequotas", "secrets", "services")
"""Kinds that may be counted without saying "count/"."""
_NOT_KEPT = ("requests.storage",)
_SCOPES = ("scopes", "scopeSelector")


@dataclass(frozen=True)
class Quota:
    """What one ResourceQuota allows the pods of its namespace together."""

    namespace: str
    name: str
    hard: Amounts
    """By the keys of the quota, those that pods use."""

    def used(self, pod: Member) -> dict[str, int]:
        """Return what a pod that has a place counts for."""
        return {key: _used(key, pod) for key in self.hard}

    def unsaid(self, pod: Member) -> str:
        """Return the field that a pod would have to state so that it can be counted; nothing if it states all."""
        return next((_full(key) for key in self.hard if _full(key) in pod.unsaid), "")


def read(obj: Object) -> Quota:
    """Return what of a ResourceQuota limits pods."""
    hard = {key: number(key, value) for key, value in _hard(obj).items() if not counted(key)}
    return Quota(obj["metadata"]["namespace"], obj["metadata"]["name"], hard)


def counts(obj: Object) -> dict[str, int]:
    """Return how many objects a ResourceQuota allows, by its keys."""
    return {key: number(key, value) for key, value in _hard(obj).items() if counted(key)}


def counted(key: str) -> str:
    """Return which objects a key counts, as in "pytorchjobs.kubeflow.org"; nothing if it is about what pods use."""
    if key.startswith(COUNT):
        return key.removeprefix(COUNT)
    return key if key in _CORE_COUNTS else ""


def total(quota: Quota, pods: Iterable[Member]) -> dict[str, int]:
    """Return what pods that have a place use of a quota together."""
    used = dict.fromkeys(quota.hard, 0)
    for pod in pods:
        used = plus(used, quota.used(pod))
    return used


def status(obj: Object, used: Amounts) -> Object:
    """Return the status of a ResourceQuota, of which so much is used."""
    hard = _hard(obj)
    return {"hard": dict(hard), "used": {key: written(resource(key), used.get(key, 0)) for key in hard}}


def resource(key: str) -> str:
    """Return the resource that a key is about."""
    return key.removeprefix("requests.").removeprefix("limits.")


def number(key: str, value: Any) -> int:
    """Return a value of a quota as a whole number, in the units of amounts."""
    return amounts({resource(key): value})[resource(key)]


def problems(obj: Object, resources: Iterable[Resource]) -> Iterator[Problem]:
    """Yield what is wrong with a ResourceQuota, or cannot be kept."""
    for name in _SCOPES:
        if at(obj, ("spec", name)):
            yield Problem(f"spec.{name}", "quotas are kept for whole namespaces here; leave it out")
    known = {str(row) for row in resources if row.namespaced}
    for key, value in _hard(obj).items():
        path = f"spec.hard[{key}]"
        if objects := counted(key):
            if objects not in known:
                yield Problem(
                    path, f"there are no {objects} to count; write for example count/pytorchjobs.kubeflow.org"
                )
        elif key in _NOT_KEPT or not (key in (_PODS, *_PLAIN) or key.startswith(("requests.", "limits."))):
            there_are = "cpu, memory, pods, requests.NAME, limits.NAME, count/KIND"
            yield Problem(path, f"this cannot be limited here (there are: {there_are})")
        try:
            number(key, value)
        except ValueError as error:
            yield Problem(path, str(error))


def _hard(obj: Object) -> Mapping[str, Any]:
    return at(obj, ("spec", "hard")) or {}


def _used(key: str, pod: Member) -> int:
    if key.startswith("limits."):
        return pod.limits.get(resource(key), 0)
    return pod.needs.get(resource(key), 0)


def _full(key: str) -> str:
    return f"requests.{key}" if key in _PLAIN else key
