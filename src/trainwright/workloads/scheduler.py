"""Binds waiting pods to nodes, gangs whole or not at all, in the order of the queue. `placement/queue.py` decides it.

Why a pod waits stands in its PodScheduled condition: a reason for programs (`GangIncomplete`, `Queued`,
`QuotaExceeded`, `Unschedulable`) and a sentence, with the place in the queue, for people. Places change whenever
somebody starts, so sentences are written in rounds, with a pause after each that grows with the number of pods that
wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.informer import Informer
from trainwright.cluster.news import News
from trainwright.core.errors import ClusterError, Conflict, Invalid, NotFound
from trainwright.core.objects import Object, at
from trainwright.core.resources import NODE, POD, RESOURCE_QUOTA, Resource, resource_of
from trainwright.placement import quotas
from trainwright.placement.gangs import Gang, GangKey, accounted, gather
from trainwright.placement.queue import Arrival, Pass, Scene, Wait, schedule
from trainwright.workloads.ledger import Ledger
from trainwright.workloads.quotas import QuotaKeeper

PACE_SECONDS = 0.02
"""So long after a look nobody looks again: what happens meanwhile is seen together."""
HESITATE_SECONDS = 0.2
"""So long it takes until it is told why pods wait: most do not wait any more by then."""
TELL_AGAIN_SECONDS = 1.0
TELLINGS_PER_SECOND = 100
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


class Scheduler:
    """Goes through the queue whenever a pod, a node or a quota has changed."""

    def __init__(
        self,
        cluster: Cluster,
        resources: Iterable[Resource] = (),
        grows: Callable[[Object], bool] = lambda job: False,  # noqa: ARG005 - most need all their pods
    ) -> None:
        """Make a scheduler.

        `resources` are the kinds that may own pods: pods come when their job came. `grows` says of a job whether it
        can do without the pods beyond its minimum.
        """
        self._cluster = cluster
        self._resources = tuple(resources)
        self._grows = grows
        self._ledger = Ledger(read=accounted)
        self._pods = Informer(cluster, POD)
        self._nodes = Informer(cluster, NODE)
        self._quotas = Informer(cluster, RESOURCE_QUOTA)
        self._keeper = QuotaKeeper(cluster, self._resources, self._quotas, self._ledger.holding)
        self._news = News()
        self._jobs: dict[GangKey, _Job] = {}
        self._numbers = count()
        self._tell_at: float | None = None
        self._silent_until = 0.0

    async def run(self) -> None:
        """Keep binding until cancelled."""
        self._pods.subscribe(self._when(self._ledger.pod_changed))
        self._nodes.subscribe(self._when(self._ledger.node_changed))
        self._quotas.subscribe(self._when(lambda change: True))  # noqa: ARG005 - quotas are few
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._pods, self._nodes, self._quotas):
                tasks.create_task(informer.run())
                await informer.synced.wait()
            tasks.create_task(self._keeper.run())
            wait: float | None = 0.0
            while True:
                await self._news.wait(wait)
                wait = await self._look()
                await asyncio.sleep(PACE_SECONDS)

    def _when(self, note: Callable[[Change], bool]) -> Callable[[Change], None]:
        def changed(change: Change) -> None:
            if note(change):
                self._news.tell()
                self._keeper.look_again()

        return changed

    async def _look(self) -> float | None:
        """Go through the queue once; return after how many seconds to do so again even if nothing changes."""
        try:
            decided = await self._decide()
            for uid, node in decided.bindings.items():
                await self._bind(uid, node)
            return await self._tell(decided.waits)
        except ClusterError as error:
            log.warning("scheduling failed and is tried again: %s", error)
            return RETRY_SECONDS

    async def _decide(self) -> Pass:
        gangs = gather(self._ledger.members(), lambda each: each.homeless and not each.gates)
        self._jobs = {gang.key: self._jobs.get(gang.key) or await self._job(gang) for gang in gangs}
        if not gangs:
            return Pass()
        return schedule(
            Scene(
                self._ledger.offered(),
                tuple(self._ledger.holding()),
                gangs,
                {gang: job.arrival for gang, job in self._jobs.items()},
                {gang for gang, job in self._jobs.items() if job.grows},
                [quotas.read(each) for each in self._quotas.items()],
            )
        )

    # Whose gang it is

    async def _job(self, gang: Gang) -> "_Job":
        """Return what counts of a gang's job; pods that are made again keep its place in the queue."""
        first = gang.waiting[0]
        pod = self._pods.get(gang.key[0], first.name)
        job = await self._top(pod) if pod else None
        made = at(job, ("metadata", "creationTimestamp"), first.arrival[0])
        return _Job((made, next(self._numbers)), grows=job is not None and self._grows(job))

    async def _top(self, obj: Object) -> Object:
        """Return the object that all this was made for."""
        meta = obj["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller"):
                with suppress(NotFound, KeyError):
                    resource = resource_of(owner, self._resources)
                    return await self._top(await self._cluster.get(resource, meta["namespace"], owner["name"]))
        return obj

    # What is done

    async def _bind(self, uid: str, node: str) -> None:
        pod = self._ledger.pod(uid)
        if pod is None:
            return
        self._ledger.bound(uid, node)
        try:
            patch = {"metadata": {"uid": uid}, "spec": {"nodeName": node}}
            await self._cluster.patch(POD, pod.gang[0], pod.name, patch)
        except (NotFound, Conflict, Invalid):  # gone, or another pod of that name by now: the cache will tell
            self._ledger.bound(uid, "")
        except ClusterError:
            self._ledger.bound(uid, "")
            raise

    async def _tell(self, waits: Mapping[str, Wait]) -> float | None:
        """Write why pods wait where kubectl and people look for it; return after how many seconds there is more."""
        now = asyncio.get_running_loop().time()
        news = [(pod, wait) for uid, wait in waits.items() if (pod := self._cached(uid)) and not _says(pod, wait)]
        if not news:
            self._tell_at = None
            return None
        if self._tell_at is None:
            self._tell_at = max(now + HESITATE_SECONDS, self._silent_until)
        if now < self._tell_at:
            return self._tell_at - now
        for pod, wait in news:
            await self._explain(pod, wait)
        self._tell_at = None
        self._silent_until = now + max(TELL_AGAIN_SECONDS, len(news) / TELLINGS_PER_SECOND)
        return None

    def _cached(self, uid: str) -> Object | None:
        pod = self._ledger.pod(uid)
        return self._pods.get(pod.gang[0], pod.name) if pod else None

    async def _explain(self, pod: Object, wait: Wait) -> None:
        others = [each for each in at(pod, ("status", "conditions")) or () if each["type"] != "PodScheduled"]
        condition = {"type": "PodScheduled", "status": "False", "reason": wait.reason, "message": wait.sentence}
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"phase": "Pending", "conditions": [*others, condition]}}
        try:
            await self._cluster.patch(POD, meta["namespace"], meta["name"], patch, subresource="status")
        except (NotFound, Conflict, Invalid):
            log.debug("a waiting pod changed under the scheduler: %s", meta["name"])


@dataclass(frozen=True)
class _Job:
    """What counts of the job of a gang that waits."""

    arrival: Arrival
    grows: bool


def _says(pod: Object, wait: Wait) -> bool:
    """Say whether a pod says already why it waits."""
    said = [each for each in at(pod, ("status", "conditions")) or () if each["type"] == "PodScheduled"]
    return any((each.get("reason"), each.get("message")) == (wait.reason, wait.sentence) for each in said)
