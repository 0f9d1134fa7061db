"""The API server as commands see it: jobs with their whole status, also where a definition keeps only a part of it."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from trainwright.cluster.base import Change, Listing
from trainwright.cluster.kubernetes.client import KubernetesCluster
from trainwright.core.objects import Object
from trainwright.core.resources import Resource
from trainwright.core.whole import whole


class WholeCluster(KubernetesCluster):
    """What is read is made whole; what is written goes through as it is."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object."""
        return whole(await super().get(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects that match."""
        found = await super().list(resource, namespace, labels=labels, fields=fields)
        return replace(found, items=[whole(each) for each in found.items])

    async def watch(
        self, resource: Resource, namespace: str = "", *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[Change, None]:
        """Yield every change."""
        changes = super().watch(resource, namespace, since=since, labels=labels, fields=fields)
        try:
            async for change in changes:
                yield replace(change, object=whole(change.object))
        finally:
            if close := getattr(changes, "aclose", None):
                await close()
