"""A cache of the objects a loop looks at: list once, then watch, and never lose a deletion.

Whatever interrupts the watch (a version that expired, a connection that broke, a server that restarted), the informer
lists again and reports the difference to what it knew as ordinary changes, deletions included. Objects in the cache
are shared: nobody changes one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from trainwright.cluster.base import Change, Cluster, Listing
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import ClusterError, Expired
from trainwright.core.objects import Object
from trainwright.core.resources import Resource

log = logging.getLogger(__name__)

Key = tuple[str, str]
Index = Callable[[Object], Iterable[str]]

_QUIET_FAILURES = 3
"""So many failures in a row are nobody's concern: connections break."""


class Informer:
    """The objects of one resource that match the selectors, kept up to date while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        index: Index | None = None,
        keep: Callable[[Object], Object] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """Make an empty cache. `keep` says what stays of an object whose subscribers have been told everything."""
        self.resource = resource
        self.synced = asyncio.Event()
        """Set once everything that is there has been seen."""
        self._cluster = cluster
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._index = index
        self._keep = keep
        self._backoff = backoff or Backoff(first=0.1, longest=30.0)
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[str, dict[Key, Object]] = {}
        self._failures = 0
        self._callbacks: list[Callable[[Change], None]] = []

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Have `callback` told of every change, after the cache shows it; what is there already comes first."""
        self._callbacks.append(callback)
        for obj in self._objects.values():
            callback(Change("ADDED", obj))

    def get(self, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        return self._objects.get((namespace, name))

    def items(self) -> list[Object]:
        """Return all objects, in no particular order."""
        return list(self._objects.values())

    def indexed(self, value: str) -> list[Object]:
        """Return the objects for which the index function yields `value`."""
        return list(self._indexed.get(value, {}).values())

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                listing = await self._list()
                self._replace(listing.items)
                self.synced.set()
                await self._follow(listing.version)
            except Expired as error:
                log.debug("listing %s again: %s", self.resource, error)
            except (ClusterError, OSError) as error:
                level = logging.WARNING if self._failures >= _QUIET_FAILURES else logging.DEBUG
                log.log(level, "cannot list or watch %s, trying again: %s", self.resource, error)
            if loop.time() - started > self._backoff.longest:
                self._failures = 0
            self._failures += 1
            await asyncio.sleep(self._backoff.seconds(self._failures))

    async def _list(self) -> Listing:
        return await self._cluster.list(self.resource, self._namespace, labels=self._labels, fields=self._fields)

    async def _follow(self, since: str) -> None:
        """Apply what a watch reports, until it breaks. One that ends by itself is as good as broken."""
        watch = self._cluster.watch(
            self.resource, self._namespace, since=since, labels=self._labels, fields=self._fields
        )
        try:
            async for change in watch:
                self._failures = 0
                if change.type == "DELETED":
                    self._remove(_key(change.object), change.object)
                elif change.type != "BOOKMARK":
                    self._put(change.object)
        finally:
            if close := getattr(watch, "aclose", None):
                await close()

    def _replace(self, items: Iterable[Object]) -> None:
        """Take a fresh list for the truth, and report how it differs from what was known."""
        listed = {_key(obj): obj for obj in items}
        for key in self._objects.keys() - listed.keys():
            self._remove(key, self._objects[key])
        for obj in listed.values():
            self._put(obj)

    def _put(self, obj: Object) -> None:
        key = _key(obj)
        known = self._objects.get(key)
        if known:
            if known["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
                return
            if known["metadata"]["uid"] != obj["metadata"]["uid"]:
                self._remove(key, known)  # another object of the same name: nobody told us that the first one went
                known = None
        self._store(key, obj)
        self._tell(Change("MODIFIED" if known else "ADDED", obj))

    def _remove(self, key: Key, last: Object) -> None:
        if key in self._objects:
            self._store(key, None)
            self._tell(Change("DELETED", last))

    def _store(self, key: Key, obj: Object | None) -> None:
        """Replace one object in the cache and in the index."""
        old = self._objects.pop(key, None)
        if self._index and old:
            for value in self._index(old):
                entries = self._indexed.get(value, {})
                entries.pop(key, None)
                if not entries:
                    self._indexed.pop(value, None)
        if obj is None:
            return
        self._objects[key] = self._keep(obj) if self._keep else obj
        if self._index:
            for value in self._index(obj):
                self._indexed.setdefault(value, {})[key] = obj

    def _tell(self, change: Change) -> None:
        for callback in self._callbacks:
            callback(change)


class Informers:
    """The objects of one resource in several namespaces, or in all: as many informers behind one face.

    Whoever may look into some namespaces only is refused a list of all; so there is one list and one watch for each.
    """

    def __init__(self, cluster: Cluster, resource: Resource, namespaces: Iterable[str] = (), **selected: Any) -> None:
        """Make empty caches; no namespace is all of them. `selected` is what `Informer` takes."""
        self.resource = resource
        self._each = tuple(
            Informer(cluster, resource, namespace, **selected) for namespace in tuple(namespaces) or ("",)
        )

    @property
    def synced(self) -> bool:
        """Say whether everything that is there has been seen."""
        return all(each.synced.is_set() for each in self._each)

    async def until_synced(self) -> None:
        """Wait until everything that is there has been seen."""
        for each in self._each:
            await each.synced.wait()

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Have `callback` told of every change."""
        for each in self._each:
            each.subscribe(callback)

    def get(self, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        return next((found for each in self._each if (found := each.get(namespace, name))), None)

    def items(self) -> list[Object]:
        """Return all objects, in no particular order."""
        return [obj for each in self._each for obj in each.items()]

    def indexed(self, value: str) -> list[Object]:
        """Return the objects for which the index function yields `value`."""
        return [obj for each in self._each for obj in each.indexed(value)]

    async def run(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._each:
                tasks.create_task(each.run())


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]
