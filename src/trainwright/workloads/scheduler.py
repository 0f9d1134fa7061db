"""Binds waiting pods to nodes, gangs whole or not at all. What fits is decided in `placement`; this only acts."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.informer import Informer
from trainwright.core.errors import ClusterError, Conflict, Invalid, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import NODE, POD
from trainwright.placement.gangs import schedule

log = logging.getLogger(__name__)


class Scheduler:
    """Looks at all pods and nodes whenever one of them changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods = Informer(cluster, POD)
        self._nodes = Informer(cluster, NODE)
        self._changed = asyncio.Event()
        self._bound: dict[str, str] = {}
        """Pods bound by us whose binding the cache does not show yet, by uid: they count as bound."""

    async def run(self) -> None:
        """Keep binding until cancelled."""
        self._pods.subscribe(self._notice)
        self._nodes.subscribe(self._notice)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            tasks.create_task(self._nodes.run())
            await self._pods.synced.wait()
            await self._nodes.synced.wait()
            while True:
                self._changed.clear()
                try:
                    await self._pass()
                except ClusterError as error:
                    log.warning("scheduling failed and is tried again: %s", error)
                    self._changed.set()
                    await asyncio.sleep(1)
                await self._changed.wait()

    def _notice(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.type == "DELETED" or change.object.get("spec", {}).get("nodeName"):
            self._bound.pop(meta.get("uid", ""), None)
        self._changed.set()

    async def _pass(self) -> None:
        pods = [self._as_bound(pod) for pod in self._pods.items()]
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        decided = schedule(self._nodes.items(), pods)
        for uid, node in decided.bindings.items():
            await self._bind(by_uid[uid], node)
        for uid, sentence in decided.waits.items():
            await self._explain(by_uid[uid], sentence)

    def _as_bound(self, pod: Object) -> Object:
        node = self._bound.get(pod["metadata"]["uid"])
        return {**pod, "spec": {**pod["spec"], "nodeName": node}} if node else pod

    async def _bind(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "spec": {"nodeName": node}}
        self._bound[meta["uid"]] = node
        try:
            await self._cluster.patch(POD, meta["namespace"], meta["name"], patch)
        except (NotFound, Conflict, Invalid):  # gone, or another pod of that name by now: the cache will tell
            self._bound.pop(meta["uid"], None)

    async def _explain(self, pod: Object, sentence: str) -> None:
        """Write why a pod waits where kubectl and people look for it."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": sentence}
        conditions = (pod.get("status") or {}).get("conditions") or []
        if any(_same(each, condition) for each in conditions):
            return
        others = [each for each in conditions if each["type"] != "PodScheduled"]
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"phase": "Pending", "conditions": [*others, condition]}}
        try:
            await self._cluster.patch(POD, meta["namespace"], meta["name"], patch, subresource="status")
        except (NotFound, Conflict, Invalid):
            log.debug("a waiting pod changed under the scheduler: %s", meta["name"])


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return _picked(left, right) == right


def _picked(source: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: source.get(name) for name in names}
