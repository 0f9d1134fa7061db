"""Gangs with the stock scheduler: pods are made with a scheduling gate, and here the gates of one gang at a time open.

A gang goes in when all it must have fits on what nodes have free (`placement/gates.py` decides that), and the next one
when it has been placed. What our arithmetic does not know, such as affinities between pods, may keep the scheduler from
placing a gang that was let in; after `PATIENCE_SECONDS` others are let in all the same, as far as they fit beside it.

Why a gang waits is told as an event of its job and stands on the gang's first pod, as an annotation, because events
are forgotten. Gates are opened for good: whoever takes over from us goes on where we were, from the pods alone.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from trainwright.cluster.base import Cluster
from trainwright.cluster.events import Recorder
from trainwright.cluster.informer import Informers
from trainwright.cluster.news import News
from trainwright.core.actions import Emit
from trainwright.core.errors import ClusterError, Conflict, Invalid, NotFound
from trainwright.core.names import GANG_GATE, GANG_WAITS_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object, at
from trainwright.core.resources import BATCH_JOB, NODE, POD, STATEFUL_SET, Resource
from trainwright.operator.log import logger
from trainwright.operator.measures import Measures
from trainwright.operator.views import identity
from trainwright.placement import Amounts
from trainwright.placement.gangs import GangKey, Member, member
from trainwright.placement.gates import is_gated, opening
from trainwright.reconcile.kind import Kind
from trainwright.workloads.ledger import Ledger

AT_ONCE = 32
"""So many gates are opened at a time."""
PATIENCE_SECONDS = 30.0
"""So long a gang that was let in may take to be placed before others are let in beside it."""
SETTLE_SECONDS = 0.02
"""From a change to the look at it, so that what belongs together is seen together."""
SHARE = 0.2
"""The part of the time that looks may take: among thousands of pods one takes long, and changes come all the time."""
RETRY_SECONDS = 1.0
TELL_SECONDS = 2.0
"""So long a gang must have waited before that is worth telling: pods of a job are not made all at once."""
TELL_AGAIN_SECONDS = 60.0
"""Amounts that are free change often; a gang is told no more often than this why it waits."""

log = logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Gates:
    """Opens gates while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Iterable[Kind],
        now: Callable[[], datetime] = _utc_now,
        *,
        namespaces: Sequence[str] = (),
        capacity: Amounts | None = None,
        patience: float = PATIENCE_SECONDS,
        measures: Measures | None = None,
    ) -> None:
        """Make gates that see all nodes and pods, or, with `namespaces`, those pods only and no nodes."""
        self._cluster = cluster
        self._patience = patience
        self._sees_nodes = not namespaces and capacity is None
        self._ledger = Ledger(capacity, sees_nodes=self._sees_nodes)
        self._voice = _Voice(cluster, kinds, now)
        self._news = News()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._since: dict[GangKey, float] = {}
        """Since when gangs that were let in have not been placed."""
        self._waiting = 0
        self._pause = SETTLE_SECONDS
        """How long the next change waits until it is looked at."""
        self._measures = measures or Measures()
        self._measures.gangs_waiting.read = lambda: {(): self._waiting}
        self._telling: asyncio.Task[None] | None = None
        self._informers = [
            self._news.follow(Informers(cluster, POD, namespaces, keep=identity), self._ledger.pod_changed)
        ]
        if self._sees_nodes:
            self._informers.append(
                self._news.follow(Informers(cluster, NODE, keep=identity), self._ledger.node_changed)
            )

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there; none once gates are opened."""
        return [each.resource for each in self._informers if not each.synced]

    async def run(self) -> None:
        """Open gates until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._informers:
                    tasks.create_task(informer.run())
                for informer in self._informers:
                    await informer.until_synced()
                log.info("gates are looked after", by="nodes" if self._sees_nodes else "what is known without nodes")
                wait: float | None = 0.0
                while True:
                    await self._news.wait(wait, self._pause)
                    wait = await self._round(tasks)
        finally:
            self._measures.gangs_waiting.read = dict  # nobody looks after them any more

    async def _round(self, tasks: asyncio.TaskGroup) -> float | None:
        """Look once, and return after how many seconds to look again even if nothing changes."""
        try:
            return await self._look(tasks)
        except ClusterError as error:
            log.warning("opening gates failed and is tried again", seconds=RETRY_SECONDS, error=error)
        except Exception as error:  # noqa: BLE001 - jobs are looked after all the same
            log.error("opening gates failed by a fault of ours", seconds=RETRY_SECONDS, trace=error)
        return RETRY_SECONDS

    async def _look(self, tasks: asyncio.TaskGroup) -> float | None:
        """Let in who may go now and have the others told why they wait."""
        now = asyncio.get_running_loop().time()
        members = {each.uid: each for each in self._ledger.members()}
        late = {gang for gang, since in self._since.items() if now - since >= self._patience}
        found = opening(members.values(), self._ledger.room(), late)
        self._pause = max(SETTLE_SECONDS, (asyncio.get_running_loop().time() - now) * (1 / SHARE - 1))
        self._since = {gang: self._since.get(gang, now) for gang in found.under_way}
        self._waiting = len({each.gang for each in members.values() if is_gated(each)})
        if found.pods:
            await self._open([members[uid] for uid in found.pods])
        stuck = [each for each in members.values() if each.gang in late and each.homeless and not each.gates]
        waits = [(members[uid], sentence) for uid, sentence in found.waits.items()]
        again = [since + self._patience - now for gang, since in self._since.items() if gang not in late]
        if self._telling is None or self._telling.done():
            news = self._voice.news(waits, stuck, now)
            self._telling = tasks.create_task(self._voice.tell(news.told)) if news.told else None
            again += news.later
        else:  # who may go does not wait until others have been told that they may not
            again.append(RETRY_SECONDS)
        return min(again, default=None)

    async def _open(self, pods: Sequence[Member]) -> None:
        """Take the gates away; a pod that is gone meanwhile, or another one by now, is no matter."""
        for each in pods:
            self._ledger.let_in(each.uid)
        failures = await asyncio.gather(*map(self._open_one, pods), return_exceptions=True)
        for failure in failures:
            if failure is not None:
                raise failure
        self._news.tell()
        log.info("gang let in", namespace=pods[0].gang[0], gang=pods[0].gang[1], pods=len(pods))

    async def _open_one(self, pod: Member) -> None:
        patch: Object = {
            "metadata": {"uid": pod.uid, "annotations": {GANG_WAITS_ANNOTATION: None}},
            "spec": {"schedulingGates": None},
        }
        async with self._turns:
            try:
                await self._cluster.patch(POD, pod.gang[0], pod.name, patch)
            except (NotFound, Conflict, Invalid):
                self._ledger.kept_out(pod.uid)
            except ClusterError:
                self._ledger.kept_out(pod.uid)
                raise


async def left_behind(cluster: Cluster, namespaces: Sequence[str] = ()) -> list[str]:
    """Return the pods of jobs that wait behind our gate, which nobody opens where gangs are kept in another way."""
    found = [await cluster.list(POD, namespace, labels=JOB_LABEL) for namespace in namespaces or ("",)]
    held = (member(pod) for listing in found for pod in listing.items)
    return [f"{each.gang[0]}/{each.name}" for each in held if GANG_GATE in each.gates]


@dataclass
class _Said:
    """What was told of one gang that waits."""

    since: float
    sentence: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class _Tale:
    """One thing to tell: about whose gang, and what; nothing of one that was let in, where the scheduler knows."""

    pod: Member
    waits: str


@dataclass(frozen=True)
class _News:
    told: list[_Tale]
    later: list[float]
    """After how many seconds there will be more."""


class _Voice:
    """Tells users why gangs wait: when they have for a while, and again when the reason is another."""

    def __init__(self, cluster: Cluster, kinds: Iterable[Kind], now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._jobs = {(kind.resource.api_version, kind.name) for kind in kinds}
        self._events = Recorder(cluster, now)
        self._said: dict[str, _Said] = {}
        self._stuck: set[GangKey] = set()

    def news(self, waits: Sequence[tuple[Member, str]], stuck: Iterable[Member], now: float) -> _News:
        """Return what is worth telling now, and take it as told."""
        self._said = {pod.uid: self._said.get(pod.uid) or _Said(now) for pod, _ in waits}
        told, later = [], []
        for pod, sentence in waits:
            said = self._said[pod.uid]
            if said.sentence == sentence:
                continue
            due = said.at + TELL_AGAIN_SECONDS if said.sentence else said.since + TELL_SECONDS
            if now < due:
                later.append(due - now)
                continue
            told.append(_Tale(pod, sentence))
            said.sentence, said.at = sentence, now
        gangs = {pod.gang: pod for pod in stuck}
        told += [_Tale(pod, "") for gang, pod in gangs.items() if gang not in self._stuck]
        self._stuck = set(gangs)
        return _News(told, later)

    async def tell(self, told: Iterable[_Tale]) -> None:
        """Tell it; what cannot be told is logged and holds nothing up."""
        for each in told:
            try:
                await (self._tell_waiting(each.pod, each.waits) if each.waits else self._tell_stuck(each.pod))
            except (NotFound, Conflict):
                log.debug("a pod that waited is gone", pod=each.pod.name)
            except ClusterError as error:
                log.warning("it was not told why a gang waits", pod=each.pod.name, error=error)

    async def _tell_waiting(self, pod: Member, sentence: str) -> None:
        patch = {"metadata": {"uid": pod.uid, "annotations": {GANG_WAITS_ANNOTATION: sentence}}}
        stored = await self._cluster.patch(POD, pod.gang[0], pod.name, patch)
        if job := await self._job(stored):
            await self._events.emit(job, Emit("GangWaiting", sentence))

    async def _tell_stuck(self, pod: Member) -> None:
        stored = await self._cluster.get(POD, pod.gang[0], pod.name)
        conditions = at(stored, ("status", "conditions")) or ()
        words = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
        said = f"{pod.name} may go with its gang, but the scheduler finds no node for it"
        if job := await self._job(stored):
            await self._events.emit(job, Emit("GangNotPlaced", f"{said}: {words}" if words else said, "Warning"))

    async def _job(self, obj: Object) -> Object | None:
        """Return whose pod it is, as far as an event must know; between them there may be a StatefulSet or a Job."""
        owner = next((each for each in obj["metadata"].get("ownerReferences", ()) if each.get("controller")), None)
        if owner is None:
            return None
        namespace, who = obj["metadata"]["namespace"], (owner["apiVersion"], owner["kind"])
        if who in self._jobs:
            about = {"name": owner["name"], "namespace": namespace, "uid": owner["uid"]}
            return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": about}
        between = next((row for row in (STATEFUL_SET, BATCH_JOB) if who == (row.api_version, row.kind)), None)
        return await self._job(await self._cluster.get(between, namespace, owner["name"])) if between else None
