"""What the contract suite is told about a cluster: everything else it learns through the protocol.

To run the suite on another home, yield a `ClusterUnderTest` for it in `conftest.py`.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Any

from trainwright.cluster.base import Change, Cluster
from trainwright.core.objects import Object
from trainwright.core.resources import POD, Resource

WIDGET = Resource("contract.trainwright.dev", "v1", "widgets", "Widget", size_path=("spec", "replicas"))
"""A custom resource with a status subresource and no rules: a home installs it before the suite runs."""

PATIENCE = 20.0
"""Seconds until something that must happen eventually counts as missing; only a failing test waits so long."""


@dataclass
class ClusterUnderTest:
    """A cluster, two namespaces of this test's own, and what the home around the cluster does."""

    cluster: Cluster
    namespace: str
    other_namespace: str
    expired: Callable[[Resource], Awaitable[str]]
    """Return a version of a resource from which the home can no longer watch."""
    settle: Callable[[], Awaitable[None]]
    """Give the home's controllers time to do what they should not."""
    collects_garbage: bool = True
    _names: "itertools.count[int]" = field(default_factory=itertools.count)

    def name(self, base: str = "thing") -> str:
        """Return a name no other object of this test has."""
        return f"{base}-{next(self._names)}"

    async def create(self, resource: Resource, name: str = "", namespace: str = "", **fields: Any) -> Object:
        """Create an object; keyword arguments are metadata, but `spec`, `status` and `data` stand beside it."""
        return await self.cluster.create(resource, self.build(resource, name, namespace, **fields))

    def build(self, resource: Resource, name: str = "", namespace: str = "", **fields: Any) -> Object:
        """Return an object that is not created yet."""
        body: Object = {part: fields.pop(part) for part in ("spec", "status", "data") if part in fields}
        if not name and "generateName" not in fields:
            name = self.name()
        meta = {"name": name} if name else {}
        if resource.namespaced:
            meta["namespace"] = namespace or self.namespace
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {**meta, **fields}, **body}

    async def pod(self, name: str = "", node: str = "", grace: int | None = None, **fields: Any) -> Object:
        """Create a pod, on a node no kubelet answers for."""
        spec: Object = {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}
        if node:
            spec["nodeName"] = node
        if grace is not None:
            spec["terminationGracePeriodSeconds"] = grace
        return await self.create(POD, name, spec=spec, **fields)

    async def get(self, obj: Object, resource: Resource = WIDGET) -> Object:
        """Return an object as it is now."""
        return await self.cluster.get(resource, self.namespace, obj["metadata"]["name"])

    async def patch(self, obj: Object, patch: Object, resource: Resource = WIDGET, **options: Any) -> Object:
        """Patch an object."""
        return await self.cluster.patch(resource, self.namespace, obj["metadata"]["name"], patch, **options)

    async def delete(self, obj: Object, resource: Resource = WIDGET, **options: Any) -> None:
        """Delete an object."""
        await self.cluster.delete(resource, self.namespace, obj["metadata"]["name"], **options)

    async def names(self, resource: Resource = WIDGET, namespace: str | None = None, **selectors: str) -> list[str]:
        """Return the names a list shows."""
        namespace = self.namespace if namespace is None else namespace
        listing = await self.cluster.list(resource, namespace, **selectors)
        return [obj["metadata"]["name"] for obj in listing.items]

    async def version(self, resource: Resource = WIDGET) -> str:
        """Return the version of everything now."""
        return (await self.cluster.list(resource, self.namespace)).version

    @contextlib.asynccontextmanager
    async def watching(
        self, since: str, resource: Resource = WIDGET, namespace: str | None = None, **selectors: str
    ) -> AsyncIterator["Watching"]:
        """Watch, and close the watch at the end."""
        namespace = self.namespace if namespace is None else namespace
        watch = self.cluster.watch(resource, namespace, since=since, **selectors)
        try:
            yield Watching(watch, () if namespace else (self.namespace, self.other_namespace))
        finally:
            if close := getattr(watch, "aclose", None):
                await close()


class Watching:
    """Reads a watch without ever waiting for ever."""

    def __init__(self, watch: AsyncIterator[Change], namespaces: Container[str] = ()) -> None:
        self.watch = watch
        self.namespaces = namespaces
        """Of a watch of all namespaces, those of this test: others may use the home at the same time."""

    async def next(self) -> Change:
        """Return the next change that is no bookmark."""
        async with asyncio.timeout(PATIENCE):
            while True:
                change = await anext(self.watch)
                if change.type != "BOOKMARK" and self._concerns(change):
                    return change

    def _concerns(self, change: Change) -> bool:
        return not self.namespaces or change.object["metadata"].get("namespace") in self.namespaces

    async def take(self, count: int) -> list[str]:
        """Return the next changes as "TYPE name"."""
        changes = [await self.next() for _ in range(count)]
        return [f"{change.type} {change.object['metadata']['name']}" for change in changes]


async def eventually(what: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while not await what():  # noqa: ASYNC110 - a cluster can only be asked
            await asyncio.sleep(0.01)
