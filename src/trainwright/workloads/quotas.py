"""Keeps ResourceQuotas: refuses objects beyond their number, and writes down how much is used.

What pods may use is kept by the scheduler, which lets gangs wait (`placement/quotas.py` says which key is which).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.informer import Informer
from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.cluster.news import News
from trainwright.core.errors import Conflict, Forbidden, Invalid, ManifestError, NotFound
from trainwright.core.objects import Object, at
from trainwright.core.resources import RESOURCE_QUOTA, Resource
from trainwright.placement import quotas
from trainwright.placement.gangs import Member

SETTLE_SECONDS = 0.2
"""From a change to the count, so that many changes are counted once."""


def counting(cluster: MemoryCluster) -> Admit:
    """Return what checks quotas on their way in, and refuses objects of which a namespace may have no more."""

    def admitted(resource: Resource, new: Object, old: Object | None) -> Object:
        if resource == RESOURCE_QUOTA and (problems := list(quotas.problems(new, cluster.resources))):
            raise ManifestError(problems)
        if old is None and resource.namespaced:
            for quota in cluster.glance(RESOURCE_QUOTA, new["metadata"]["namespace"]):
                _check(cluster, resource, new, quota)
        return new

    return admitted


def _check(cluster: MemoryCluster, resource: Resource, new: Object, quota: Object) -> None:
    meta = new["metadata"]
    for key, hard in quotas.counts(quota).items():
        if quotas.counted(key) != str(resource):
            continue
        used = len(cluster.glance(resource, meta["namespace"]))
        if used >= hard:
            told = f"requested: {key}=1, used: {key}={used}, limited: {key}={hard}"
            raise Forbidden(
                f'{resource} "{meta["name"]}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, {told}'
            )


class QuotaKeeper:
    """Writes into the status of every quota how much of it is used, while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        resources: Iterable[Resource],
        found: Informer,
        holding: Callable[[], Collection[Member]],
    ) -> None:
        """Make a keeper of the quotas that are `found`; `holding` returns the pods that have a place."""
        self._cluster = cluster
        self._rows = {str(row): row for row in resources}
        self._quotas = found
        self._holding = holding
        self._news = News()
        self._counted: dict[str, Informer] = {}
        """Objects of which some quota allows a number only, by the name of their kind."""

    def look_again(self) -> None:
        """Take note that something has changed that may be counted."""
        self._news.tell()

    async def run(self) -> None:
        """Keep writing until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._news.wait(None, SETTLE_SECONDS)
                for quota in self._quotas.items():
                    await self._follow(quotas.counts(quota), tasks)
                    await self._write(quota)

    async def _follow(self, keys: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        """Begin to count objects that nobody has counted before."""
        for kind in map(quotas.counted, keys):
            if kind in self._rows and kind not in self._counted:
                informer = self._counted[kind] = Informer(self._cluster, self._rows[kind])
                informer.subscribe(self._noticed)
                tasks.create_task(informer.run())
                await informer.synced.wait()

    def _noticed(self, change: Change) -> None:
        if change.type != "MODIFIED":
            self._news.tell()

    async def _write(self, quota: Object) -> None:
        meta = quota["metadata"]
        theirs = (each for each in self._holding() if each.gang[0] == meta["namespace"])
        used = quotas.total(quotas.read(quota), theirs)
        used |= {key: self._number(quotas.counted(key), meta["namespace"]) for key in quotas.counts(quota)}
        status = quotas.status(quota, used)
        if status == (quota.get("status") or {}):
            return
        # A merge patch: keys that the quota no longer has are taken out by name.
        gone = {part: dict.fromkeys(at(quota, ("status", part)) or {}) for part in status}
        patch = {"metadata": {"uid": meta["uid"]}, "status": {part: {**gone[part], **status[part]} for part in status}}
        with suppress(NotFound, Conflict, Invalid):
            await self._cluster.patch(RESOURCE_QUOTA, meta["namespace"], meta["name"], patch, subresource="status")

    def _number(self, kind: str, namespace: str) -> int:
        items = self._counted[kind].items() if kind in self._counted else ()
        return sum(each["metadata"].get("namespace") == namespace for each in items)
