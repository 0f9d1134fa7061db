"""Garbage collection: children go when their owners have gone, in the three ways a deletion may ask for.

- Background: the owner goes at once; children whose owners are all gone are deleted afterwards.
- Foreground: the owner waits, marked, until the children that block it (`blockOwnerDeletion`) are gone.
- Orphan: the children are let go of, then the owner goes.

As kube-controller-manager does it, over the Cluster protocol only. Caches say where to look; before anything is
deleted the API itself is asked, because a cache may not know an owner yet.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from trainwright.cluster.base import FOREGROUND, ORPHAN, Change, Cluster, Propagation
from trainwright.cluster.informer import Informer
from trainwright.cluster.queue import Backoff, WorkQueue
from trainwright.core.errors import ClusterError, Conflict, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import Resource

log = logging.getLogger(__name__)


_REMEMBERED = 1000
"""So many uids of owners that are gone are remembered; a uid never comes back."""
_QUIET_FAILURES = 3


@dataclass(frozen=True)
class Item:
    """An object to look at."""

    resource: Resource
    namespace: str
    name: str


class GarbageCollector:
    """Removes what belongs to nobody any more, among these resources."""

    def __init__(
        self, cluster: Cluster, resources: Iterable[Resource], *, workers: int = 4, backoff: Backoff | None = None
    ) -> None:
        self._cluster = cluster
        self._workers = workers
        self._queue: WorkQueue[Item] = WorkQueue(backoff)
        self._informers = {row: Informer(cluster, row, index=_uids, backoff=backoff) for row in resources}
        self._gone: dict[str, None] = {}
        self._blocked: dict[str, frozenset[str]] = {}
        for row, informer in self._informers.items():
            informer.subscribe(partial(self._noticed, row))

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
            for informer in self._informers.values():
                await informer.synced.wait()
            for _ in range(self._workers):
                tasks.create_task(self._work())

    def _noticed(self, resource: Resource, change: Change) -> None:
        """Note whom a change concerns: the object itself, its children when it goes, an owner that waits for it."""
        obj = change.object
        meta = obj["metadata"]
        self._note_blocked(meta["uid"], [] if change.type == "DELETED" else _owners(obj))
        if change.type == "DELETED":
            self._remember_gone(meta["uid"])
        elif _leaving(obj) or not all(self._is_settled(owner) for owner in _owners(obj)):
            self._queue.add(_item(resource, obj))
        if change.type == "DELETED" or _leaving(obj):
            self._add(item for item, _ in self._known(f"of {meta['uid']}"))

    def _note_blocked(self, uid: str, owners: Iterable[Object]) -> None:
        """Remember whose deletion an object holds up; owners that it no longer holds up may go on."""
        before = self._blocked.pop(uid, frozenset())
        now = frozenset(owner["uid"] for owner in owners if owner.get("blockOwnerDeletion"))
        if now:
            self._blocked[uid] = now
        for owner_uid in before - now:
            self._add(item for item, known in self._known(f"is {owner_uid}") if _leaving(known))

    def _is_settled(self, owner: Object) -> bool:
        """Say whether an owner is known and stays, so that its child needs no look."""
        return any(not _leaving(known) for _, known in self._known(f"is {owner['uid']}"))

    def _known(self, value: str) -> Iterator[tuple[Item, Object]]:
        """Yield what the caches hold of an object ("is <uid>") or of its children ("of <uid>")."""
        for row, informer in self._informers.items():
            for obj in informer.indexed(value):
                yield _item(row, obj), obj

    def _add(self, items: Iterable[Item]) -> None:
        for item in items:
            self._queue.add(item)

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._look(item)
                self._queue.forget(item)
            except (ClusterError, OSError) as error:
                level = logging.WARNING if self._queue.failures(item) >= _QUIET_FAILURES else logging.DEBUG
                log.log(level, "cannot collect %s %s, trying again: %s", item.resource, item.name, error)
                self._queue.retry(item)
            finally:
                self._queue.done(item)

    async def _look(self, item: Item) -> None:
        """Do what one object needs now."""
        try:
            obj = await self._cluster.get(item.resource, item.namespace, item.name)
        except NotFound:
            return
        finalizers = obj["metadata"].get("finalizers", ())
        if not _leaving(obj):
            await self._keep_or_delete(item, obj)
        elif ORPHAN in finalizers:
            await self._let_children_go(item, obj)
        elif FOREGROUND in finalizers:
            await self._wait_for_children(item, obj)

    async def _keep_or_delete(self, item: Item, obj: Object) -> None:
        """Delete a child without living owners; from one that keeps some, take the references to the others."""
        states = [(owner, await self._state(item, owner)) for owner in _owners(obj)]
        dead = {owner["uid"] for owner, state in states if state != "there"}
        if not dead:
            return
        if len(dead) < len({owner["uid"] for owner, _ in states}):
            await self._patch(item, obj, ownerReferences=[owner for owner in _owners(obj) if owner["uid"] not in dead])
            return
        uid = obj["metadata"]["uid"]
        children = [*self._known(f"of {uid}")]
        how: Propagation = "Background"
        if children and any(state == "waits" for _, state in states):
            # The owner waits for this one, so this one waits for its own children; unless they wait for each other.
            how = "Foreground"
            for child_item, child in children:
                if _leaving(child):
                    await self._unblock(child_item, uid)
        elif ORPHAN in obj["metadata"].get("finalizers", ()):
            how = "Orphan"
        elif FOREGROUND in obj["metadata"].get("finalizers", ()):
            how = "Foreground"
        with contextlib.suppress(NotFound, Conflict):
            await self._cluster.delete(item.resource, item.namespace, item.name, uid=uid, propagation=how)

    async def _let_children_go(self, item: Item, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for child_item, child in await self._children(obj):
            others = [owner for owner in _owners(child) if owner["uid"] != uid]
            with contextlib.suppress(NotFound):
                await self._patch(child_item, child, ownerReferences=others)
        await self._drop_finalizer(item, obj, ORPHAN)

    async def _wait_for_children(self, item: Item, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        blocking = [child for _, child in self._known(f"of {uid}") if _blocks(child, uid)]
        # The caches may lag behind; only the API can say that nobody is left.
        blocking = blocking or [child for _, child in await self._children(obj) if _blocks(child, uid)]
        if not blocking:
            await self._drop_finalizer(item, obj, FOREGROUND)

    async def _unblock(self, item: Item, uid: str) -> None:
        """Make a child no longer hold up the deletion of the owner `uid`."""
        with contextlib.suppress(NotFound):
            child = await self._cluster.get(item.resource, item.namespace, item.name)
            if FOREGROUND in child["metadata"].get("finalizers", ()) and _blocks(child, uid):
                owners = [{**o, "blockOwnerDeletion": False} if o["uid"] == uid else o for o in _owners(child)]
                await self._patch(item, child, ownerReferences=owners)

    async def _children(self, owner: Object) -> list[tuple[Item, Object]]:
        """Return all children, from the API and not from the caches."""
        uid, namespace = owner["metadata"]["uid"], owner["metadata"].get("namespace", "")
        found = []
        for row in self._informers:
            if namespace and not row.namespaced:
                continue  # what has no namespace cannot belong to something that has one
            listing = await self._cluster.list(row, namespace)
            found += [(_item(row, obj), obj) for obj in listing.items if uid in (o["uid"] for o in _owners(obj))]
        return found

    async def _state(self, child: Item, owner: Object) -> Literal["there", "waits", "gone"]:
        """Say what became of an owner; one that cannot be judged counts as there."""
        row = self._row(owner)
        if row is None or (row.namespaced and not child.namespace):
            return "there"
        if owner["uid"] in self._gone:
            return "gone"
        try:
            found = await self._cluster.get(row, child.namespace if row.namespaced else "", owner["name"])
        except NotFound:
            found = None
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            self._remember_gone(owner["uid"])
            return "gone"
        waits = _leaving(found) and FOREGROUND in found["metadata"].get("finalizers", ())
        return "waits" if waits else "there"

    def _row(self, owner: Object) -> Resource | None:
        """Return the row of an owner's kind, in whatever version the reference names it."""
        group = owner["apiVersion"].rpartition("/")[0]
        return next((row for row in self._informers if (row.group, row.kind) == (group, owner["kind"])), None)

    def _remember_gone(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    async def _drop_finalizer(self, item: Item, obj: Object, finalizer: str) -> None:
        left = [name for name in obj["metadata"].get("finalizers", ()) if name != finalizer]
        await self._patch(item, obj, finalizers=left)

    async def _patch(self, item: Item, obj: Object, **fields: list[Any]) -> None:
        """Change metadata of an object that is still as it was read; Conflict otherwise, and it is looked at again."""
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"], **fields}
        await self._cluster.patch(item.resource, item.namespace, item.name, {"metadata": meta})


def _item(resource: Resource, obj: Object) -> Item:
    return Item(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _owners(obj: Object) -> list[Object]:
    owners: list[Object] = obj["metadata"].get("ownerReferences", [])
    return owners


def _leaving(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _blocks(child: Object, uid: str) -> bool:
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in _owners(child))


def _uids(obj: Object) -> list[str]:
    """Index an object by its own uid and by those of its owners."""
    return [f"is {obj['metadata']['uid']}", *(f"of {owner['uid']}" for owner in _owners(obj))]
