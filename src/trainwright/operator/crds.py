"""CustomResourceDefinitions: made from the rows of `kinds.py`, and registered where an API server lacks them.

One that is there is never changed: another version of us, or the kind's original project, may have brought it. Ours
carry a label by which they are told from the original project's.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from trainwright.api.schema import document, schema
from trainwright.cluster.base import Cluster
from trainwright.core.errors import AlreadyExists, HomeError, NotFound
from trainwright.core.objects import Object, holds
from trainwright.core.resources import Resource
from trainwright.operator.log import logger
from trainwright.operator.rights import CUSTOM_RESOURCE
from trainwright.reconcile.kind import Column, Kind

NAME = "trainwright"
LABELS = {"app.kubernetes.io/name": NAME}
"""What everything has that we install."""
CATEGORY = "training"
"""`kubectl get training` lists the jobs of every kind."""
ESTABLISHED_SECONDS = 30.0
_POLL_SECONDS = 0.1

log = logger(__name__)


class Versioned(Protocol):
    """A cluster that can be asked in which versions it serves a kind."""

    async def versions(self, resource: Resource) -> Sequence[str]:
        """Return the versions in which a kind is served; none if it is not."""


def definitions(kinds: Iterable[Kind]) -> Iterator[Object]:
    """Yield the CustomResourceDefinitions of kinds, and of the commands that their jobs are given."""
    for kind in kinds:
        yield definition(kind)
        if kind.commands and kind.definition.command:
            yield _definition(kind.commands, schema(kind.definition.command))


def definition(kind: Kind) -> Object:
    """Return the CustomResourceDefinition of a kind."""
    told = kind.definition
    return _definition(
        kind.resource,
        document(told.spec, told.status, told.doc),
        names={
            **({"shortNames": list(kind.face.short_names)} if kind.face.short_names else {}),
            "categories": [CATEGORY],
        },
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": "".join(f".{step}" for step in kind.size_path),
                "statusReplicasPath": told.active_path,
                "labelSelectorPath": told.selector_path,
            },
        },
        additionalPrinterColumns=[_column(each) for each in told.columns],
        also=kind.face.also_served,
    )


def _definition(
    resource: Resource, described: Object, names: Object | None = None, also: Iterable[str] = (), **served: Any
) -> Object:
    """Return a definition whose versions differ in nothing but their names; the resource's own is the stored one."""
    return {
        "apiVersion": CUSTOM_RESOURCE.api_version,
        "kind": CUSTOM_RESOURCE.kind,
        "metadata": {"name": str(resource), "labels": LABELS},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                **(names or {}),
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == resource.version,
                    "schema": {"openAPIV3Schema": described},
                    **served,
                }
                for version in (resource.version, *also)
            ],
        },
    }


def is_ours(obj: Object) -> bool:
    """Say whether an object is one that we installed."""
    return (obj["metadata"].get("labels") or {}).items() >= LABELS.items()


def _column(column: Column) -> Object:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path, "description": column.doc}
    return {**shown, "priority": 1} if column.wide else shown


async def understood(cluster: Versioned, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds to look after: not those that a definition of somebody else serves in other versions only.

    A kind that is not there at all may still come.
    """
    found = []
    for kind in kinds:
        served = await cluster.versions(kind.resource)
        if served and kind.resource.version not in served:
            log.warning(
                "a kind is left out: its definition is somebody else's and does not serve the version that is read "
                "here; tw install --plan says what can be done",
                crd=str(kind.resource),
                served=", ".join(served),
                read=kind.resource.version,
            )
        else:
            found.append(kind)
    return tuple(found)


async def register(cluster: Cluster, kinds: Iterable[Kind], seconds: float = ESTABLISHED_SECONDS) -> None:
    """Register the kinds an API server lacks; HomeError when it does not serve one of them after so many seconds."""
    for wanted in definitions(kinds):
        name = wanted["metadata"]["name"]
        try:
            async with asyncio.timeout(seconds):
                await _ensure(cluster, wanted)
                while not await _is_served(cluster, name):  # noqa: ASYNC110 - what it waits for is elsewhere
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise HomeError(
                f"{name} is registered, but not served after {seconds:g} s; see: kubectl describe crd {name}"
            ) from None


async def _ensure(cluster: Cluster, wanted: Object) -> None:
    name = wanted["metadata"]["name"]
    try:
        await cluster.get(CUSTOM_RESOURCE, "", name)
    except NotFound:
        try:
            await cluster.create(CUSTOM_RESOURCE, wanted)
        except AlreadyExists:
            return  # another operator was quicker
        log.info("kind registered", crd=name)


async def _is_served(cluster: Cluster, name: str) -> bool:
    return holds(await cluster.get(CUSTOM_RESOURCE, "", name), "Established")
