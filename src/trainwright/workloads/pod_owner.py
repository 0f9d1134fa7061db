"""The loop of the controllers that own pods: StatefulSets and Jobs of the local home.

Whatever changes only says which object to look at. A round then reads the object and the pods from the API and not
from a cache, so that nothing is made or counted twice; it writes the status first, under the version it was decided
from, and then acts. A round that is cut short at any call is simply run again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.events import Recorder
from trainwright.cluster.informer import Informer
from trainwright.cluster.queue import Backoff, WorkQueue
from trainwright.core.actions import Action, Create, Decision, Delete, Emit, Patch
from trainwright.core.errors import AlreadyExists, ClusterError, Conflict, NotFound
from trainwright.core.objects import Object, Ref, controller_uid, merge_patch, ref
from trainwright.core.resources import POD, Resource
from trainwright.workloads.owned_pods import Workload, without_finalizer

log = logging.getLogger(__name__)

_QUIET_FAILURES = 3


@dataclass(frozen=True)
class Item:
    """An object to look at."""

    workload: Workload
    namespace: str
    name: str


class PodOwner:
    """Keeps the pods of these workloads as their objects want them."""

    def __init__(
        self,
        cluster: Cluster,
        workloads: Iterable[Workload],
        *,
        now: Callable[[], datetime],
        workers: int = 4,
        backoff: Backoff | None = None,
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._workers = workers
        self._events = Recorder(cluster, now)
        self._queue: WorkQueue[Item] = WorkQueue(backoff)
        self._pods = Informer(cluster, POD, backoff=backoff)
        self._informers = {each: Informer(cluster, each.resource, backoff=backoff) for each in workloads}
        self._pods.subscribe(self._pod_changed)
        for workload, informer in self._informers.items():
            informer.subscribe(partial(self._changed, workload))

    async def run(self) -> None:
        """Look after them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._pods, *self._informers.values()):
                tasks.create_task(informer.run())
            for _ in range(self._workers):
                tasks.create_task(self._work())

    def _changed(self, workload: Workload, change: Change) -> None:
        meta = change.object["metadata"]
        self._queue.add(Item(workload, meta["namespace"], meta["name"]))

    def _pod_changed(self, change: Change) -> None:
        """Have the owner of a pod looked at; a pod that is nobody's may concern everybody beside it."""
        namespace = change.object["metadata"]["namespace"]
        owner = _controller(change.object)
        for workload, informer in self._informers.items():
            if owner is None:
                for obj in informer.items():
                    if obj["metadata"]["namespace"] == namespace:
                        self._changed(workload, Change("MODIFIED", obj))
            elif _is_of(owner, workload.resource):
                self._queue.add(Item(workload, namespace, owner["name"]))

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._round(item)
                self._queue.forget(item)
            except (ClusterError, OSError) as error:
                level = logging.WARNING if self._queue.failures(item) >= _QUIET_FAILURES else logging.DEBUG
                log.log(level, "%s %s is tried again: %s", item.workload.resource, item.name, error)
                self._queue.retry(item)
            finally:
                self._queue.done(item)

    async def _round(self, item: Item) -> None:
        now = self._now()
        later = await look_after(self._cluster, item.workload, item.namespace, item.name, now, self._events)
        if later is not None:
            self._queue.add_after(item, (later - now).total_seconds())


async def look_after(
    cluster: Cluster, workload: Workload, namespace: str, name: str, now: datetime, events: Recorder
) -> datetime | None:
    """Do what there is to do for one object now; return when to look again."""
    obj = await _found(cluster, workload.resource, namespace, name)
    pods = (await cluster.list(POD, namespace)).items
    actor = _Actor(cluster, workload.resource, obj, events)
    for pod in pods:
        if _is_left_behind(pod, workload, name, obj):
            await actor.act(without_finalizer(pod, workload.finalizer))
    if obj is None:
        return None
    decision = workload.decide(obj, pods, now)
    if not await _write_status(cluster, workload.resource, obj, decision):
        return None
    for action in decision.actions:
        await actor.act(action)
    return decision.look_again


async def _found(cluster: Cluster, resource: Resource, namespace: str, name: str) -> Object | None:
    try:
        return await cluster.get(resource, namespace, name)
    except NotFound:
        return None


def _is_left_behind(pod: Object, workload: Workload, name: str, obj: Object | None) -> bool:
    """Say whether a pod waits to be counted by an owner of that name that is no more."""
    owner = _controller(pod)
    if owner is None or owner["name"] != name or not _is_of(owner, workload.resource):
        return False
    is_gone = obj is None or owner["uid"] != obj["metadata"]["uid"]
    return is_gone and workload.finalizer in pod["metadata"].get("finalizers", ())


async def _write_status(cluster: Cluster, resource: Resource, obj: Object, decision: Decision) -> bool:
    """Write the status if it differs; False if the object is gone, Conflict if it has changed since it was read."""
    patch = merge_patch(obj.get("status") or {}, decision.status)
    if not patch:
        return True
    meta = obj["metadata"]
    body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": patch}
    try:
        await cluster.patch(resource, meta["namespace"], meta["name"], body, subresource="status")
    except NotFound:
        return False
    return True


class _Actor:
    """Carries out what was decided for one object."""

    def __init__(self, cluster: Cluster, resource: Resource, obj: Object | None, events: Recorder) -> None:
        self._cluster = cluster
        self._rows = (POD, resource)
        self._obj = obj
        self._events = events

    async def act(self, action: Action) -> None:
        """Carry out one action; what is done already is done."""
        match action:
            case Create():
                await self._create(action.object)
            case Delete():
                await self._delete(action)
            case Patch():
                await self._patch(action)
            case Emit():
                await self._say(action)

    async def _create(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._cluster.create(POD, pod)
        except AlreadyExists:
            if await self._is_ours(ref(pod)):
                return
            await self._say(Emit("FailedCreate", f"pod {name} is there already and belongs to another", "Warning"))
            raise
        except ClusterError as error:
            await self._say(Emit("FailedCreate", f"pod {name}: {error}", "Warning"))
            raise
        await self._say(Emit("SuccessfulCreate", f"created pod {name}"))

    async def _is_ours(self, name: Ref) -> bool:
        there = await _found(self._cluster, POD, name.namespace, name.name)
        return there is not None and self._obj is not None and controller_uid(there) == self._obj["metadata"]["uid"]

    async def _delete(self, action: Delete) -> None:
        name = action.ref
        try:
            await self._cluster.delete(self._row(name), name.namespace, name.name, uid=action.uid)
        except (NotFound, Conflict):  # gone, or already another of that name: what was to go has gone
            return
        if name.kind == POD.kind:
            await self._say(Emit("SuccessfulDelete", f"deleted pod {name.name}"))

    async def _patch(self, action: Patch) -> None:
        name = action.ref
        try:
            await self._cluster.patch(self._row(name), name.namespace, name.name, action.patch)
        except NotFound:
            log.debug("%s was gone", name)

    async def _say(self, emit: Emit) -> None:
        if self._obj is not None:
            await self._events.emit(self._obj, emit)

    def _row(self, name: Ref) -> Resource:
        return next(row for row in self._rows if (row.api_version, row.kind) == (name.api_version, name.kind))


def _controller(pod: Object) -> Object | None:
    """Return the reference to the object that controls a pod."""
    return next((each for each in pod["metadata"].get("ownerReferences", ()) if each.get("controller")), None)


def _is_of(owner: Object, resource: Resource) -> bool:
    return (owner["apiVersion"], owner["kind"]) == (resource.api_version, resource.kind)
