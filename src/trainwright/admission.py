"""Default and check, once for all: `tw lint`, `tw run`, the webhooks and the local home call these two functions.

`review` says everything about an object; `admit` returns it as it is stored, or raises with every error. Objects of
built-in kinds that stand beside a job (a ConfigMap, a Service) pass as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trainwright.api import pod_template, reader
from trainwright.api.reader import show, walk
from trainwright.core.errors import ManifestError, Problem, did_you_mean
from trainwright.core.names import LENIENT_ANNOTATION
from trainwright.core.objects import Object, at
from trainwright.core.resources import BUILT_IN
from trainwright.kinds import COMMANDS, KINDS, Kind, kind_of

_ONLY_ON_CLUSTERS = {
    "v1": ("LimitRange", "PersistentVolume", "PersistentVolumeClaim", "ServiceAccount"),
    "apps/v1": ("DaemonSet", "Deployment", "ReplicaSet"),
    "batch/v1": ("CronJob",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "storage.k8s.io/v1": ("StorageClass",),
}


@dataclass(frozen=True)
class Admitted:
    """An object as it is stored, and what its author should know."""

    object: Object
    warnings: tuple[Problem, ...] = ()


def admit(obj: Any, old: Object | None = None, *, lenient: bool = False) -> Admitted:
    """Return an object with its defaults filled in, or raise ManifestError with everything that is wrong with it."""
    problems = review(obj, old, lenient=lenient)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ManifestError(errors)
    kind = kind_of(obj)
    return Admitted(kind.default(obj) if kind else obj, tuple(problems))


def review(obj: Any, old: Object | None = None, *, lenient: bool = False) -> list[Problem]:
    """Return every error and warning about an object; `old` is what an update replaces.

    Names that are not known are only warnings when `lenient`, or when the object's annotation says so. What was wrong
    with `old` in the same way does not stop an update: nobody could remove a finalizer from such an object any more.
    """
    if not isinstance(obj, dict):
        return [Problem("", f"expected a manifest, found {show(obj)}; write a mapping with apiVersion: and kind:")]
    kind = _kind(obj)
    problems = kind.check(obj, old) if kind else list(_review_other(obj))
    forgiven = set(kind.check(old, None)) if kind and old is not None else set()
    lenient = lenient or _says_lenient(obj)
    return [
        replace(problem, severity="warning")
        if problem in forgiven or (lenient and reader.is_unknown(problem))
        else problem
        for problem in problems
    ]


def _kind(obj: Object) -> Kind | None:
    return kind_of(obj) if isinstance(obj.get("apiVersion"), str) and isinstance(obj.get("kind"), str) else None


def _says_lenient(obj: Object) -> bool:
    said = at(obj, ("metadata", "annotations", LENIENT_ANNOTATION))
    return said is not None and said != "false"


def _review_other(obj: Object) -> Iterator[Problem]:
    """Review what is no job of ours: a built-in kind, or one that nobody knows."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        yield from _review_type(obj)
        return
    if any((row.api_version, row.kind) == (version, kind) for row in BUILT_IN):
        yield from _review_metadata(obj)
    elif command := next((row for row in COMMANDS if (row.api_version, row.kind) == (version, kind)), None):
        yield from COMMANDS[command](obj)
    elif kind in _ONLY_ON_CLUSTERS.get(version, ()):
        yield from _review_metadata(obj)
        yield Problem(
            "kind", f"{kind} only means something on a cluster; a run on this machine leaves it out", "warning"
        )
    else:
        yield _no_such_kind(version, kind)


def _review_type(obj: Object) -> Iterator[Problem]:
    example = KINDS[0].resource
    for name, right in (("apiVersion", example.api_version), ("kind", example.kind)):
        value = obj.get(name)
        if value is None:
            yield Problem(name, f"missing; write for example {name}: {right}")
        elif not isinstance(value, str):
            yield Problem(name, f"expected text, found {show(value)}; write for example {name}: {right}")


def _review_metadata(obj: Object) -> Iterator[Problem]:
    metadata = obj.get("metadata")
    yield from walk(pod_template.METADATA, {} if metadata is None else metadata, "metadata")
    yield from pod_template.check_metadata(metadata, "metadata")
    if not any(at(metadata, (name,)) for name in ("name", "generateName")):
        yield Problem("metadata.name", "missing; give the object a name")


def _no_such_kind(version: str, kind: str) -> Problem:
    """Say which kinds there are, and whether it is the version or the kind that is wrong."""
    ours = [row.resource for row in KINDS]
    there_are = ", ".join(f"{row.api_version} {row.kind}" for row in ours)
    served = [row.api_version for row in (*ours, *BUILT_IN) if row.kind == kind]
    served += [known for known, kinds in _ONLY_ON_CLUSTERS.items() if kind in kinds]
    if served:
        return Problem("apiVersion", f"there is no {kind} in {show(version)}; write {' or '.join(served)}")
    near = did_you_mean(kind, [row.kind for row in (*ours, *BUILT_IN)]) if len(kind) <= 100 else ""
    return Problem("kind", f"there is no kind {show(kind)} in {show(version)}{near} (jobs are: {there_are})")
