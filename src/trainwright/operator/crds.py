"""CustomResourceDefinitions: made from the rows of `kinds.py`, and registered where an API server lacks them.

One that is there is never changed: another version of us, or the kind's original project, may have brought it.
"""

import asyncio
from collections.abc import Iterable

from trainwright.api.schema import document
from trainwright.cluster.base import Cluster
from trainwright.core.errors import AlreadyExists, HomeError, NotFound
from trainwright.core.objects import Object
from trainwright.operator.log import logger
from trainwright.operator.rights import CUSTOM_RESOURCE
from trainwright.reconcile.kind import Column, Kind

CATEGORY = "training"
"""`kubectl get training` lists the jobs of every kind."""
ESTABLISHED_SECONDS = 30.0
_POLL_SECONDS = 0.1

log = logger(__name__)


def definition(kind: Kind) -> Object:
    """Return the CustomResourceDefinition of a kind."""
    resource, told = kind.resource, kind.definition
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": document(told.spec, told.status, told.doc)},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": "".join(f".{step}" for step in kind.size_path),
                "statusReplicasPath": told.active_path,
                "labelSelectorPath": told.selector_path,
            },
        },
        "additionalPrinterColumns": [_column(each) for each in told.columns],
    }
    return {
        "apiVersion": CUSTOM_RESOURCE.api_version,
        "kind": CUSTOM_RESOURCE.kind,
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def _column(column: Column) -> Object:
    return {"name": column.name, "type": column.type, "jsonPath": column.path, "description": column.doc}


async def register(cluster: Cluster, kinds: Iterable[Kind], seconds: float = ESTABLISHED_SECONDS) -> None:
    """Register the kinds an API server lacks; HomeError when it does not serve one of them after so many seconds."""
    for kind in kinds:
        name = str(kind.resource)
        try:
            async with asyncio.timeout(seconds):
                await _ensure(cluster, definition(kind))
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
    there = await cluster.get(CUSTOM_RESOURCE, "", name)
    conditions = (there.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
