"""What `tw uninstall` prints: what we installed, in the order in which it goes without holding anything up.

First what asks the operator, then the operator, then its rights. A kind goes last, and only if nothing is stored under
it: to delete a definition is to delete every job of that kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.core.objects import Object
from trainwright.core.resources import LEASE
from trainwright.kinds import KINDS
from trainwright.operator.crds import definitions, is_ours
from trainwright.operator.leader import lease_name
from trainwright.operator.manifests import NAMESPACE, Installation, operator_manifests
from trainwright.operator.survey import Survey, some


@dataclass(frozen=True)
class Removal:
    """What to delete, in order, and what stays, each with why."""

    objects: tuple[Object, ...]
    kept: tuple[str, ...]


def removal(installation: Installation, found: Survey | None, *, force: bool = False) -> Removal:
    """Say what to delete; without a survey, or where jobs are, kinds only go by force."""
    own = [_lease(installation), *(each for each in operator_manifests(installation) if not _is_users_namespace(each))]
    kinds = list(_kinds(installation, found))
    kept = {each["metadata"]["name"]: why for each in kinds if (why := _why_kept(each, found, force=force))}
    going = [each for each in kinds if each["metadata"]["name"] not in kept]
    reasons = [f"{name} stays: {why}" for name, why in kept.items()]
    return Removal(
        tuple(_named(each) for each in (*reversed(own), *going)),
        (*reasons, *_namespaces_kept(installation)),
    )


def _kinds(installation: Installation, found: Survey | None) -> Iterator[Object]:
    """Yield the definitions that are there. Whoever installed for some namespaces has not brought them."""
    if not installation.watch:
        yield from (
            each for each in definitions(KINDS) if found is None or each["metadata"]["name"] in found.definitions
        )


def _why_kept(definition: Object, found: Survey | None, *, force: bool) -> str:
    """Say why a kind is not deleted; nothing if it is."""
    name = definition["metadata"]["name"]
    if found is None:
        return "" if force else "no cluster was asked whether it has jobs; --force deletes it, and them"
    if not is_ours(found.definitions[name]):
        return "somebody else has brought it"
    stored = found.objects.get(name, ())
    if stored and not force:
        there = f"{len(stored)} stored under it ({some(stored)})"
        return f"{there} would be deleted with it; delete them first, or use --force"
    return ""


def _lease(installation: Installation) -> Object:
    """Return the one object that the operator has made for itself."""
    metadata = {"name": lease_name(installation.watch), "namespace": installation.namespace}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}


def _is_users_namespace(obj: Object) -> bool:
    return obj["kind"] == "Namespace" and str(obj["metadata"]["name"]) != NAMESPACE


def _namespaces_kept(installation: Installation) -> Iterator[str]:
    if installation.namespace != NAMESPACE:
        yield f"the namespace {installation.namespace} stays: others may have something in it"


def _named(obj: Object) -> Object:
    """Return as much of an object as names it."""
    metadata = {part: obj["metadata"][part] for part in ("name", "namespace") if part in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
