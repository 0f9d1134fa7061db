"""A cluster as an account sees it that has Roles in some namespaces and nothing else."""

from collections.abc import Collection
from typing import Any

from trainwright.core.resources import Resource


def confined(cluster: Any, namespaces: Collection[str]) -> Any:
    """Return a cluster that fails a test as soon as somebody looks into another namespace, or into all at once."""
    return _Confined(cluster, namespaces)


class _Confined:
    def __init__(self, cluster: Any, namespaces: Collection[str]) -> None:
        self._cluster = cluster
        self._namespaces = namespaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def list(self, resource: Resource, namespace: str = "", **selected: Any) -> Any:
        self._check(resource, namespace)
        return await self._cluster.list(resource, namespace, **selected)

    def watch(self, resource: Resource, namespace: str = "", **selected: Any) -> Any:
        self._check(resource, namespace)
        return self._cluster.watch(resource, namespace, **selected)

    def _check(self, resource: Resource, namespace: str) -> None:
        assert namespace in self._namespaces, f"{resource} in {namespace or 'all namespaces'}: that would be refused"
