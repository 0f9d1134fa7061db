"""The autoscaler on a cluster: watches nodes, pods and jobs, has sizes planned, and writes those that change.

A round is run when something has changed that may matter, a moment later so that what belongs together is seen
together. A size is written at the kind's size path and nowhere else, under the version of the job it was planned from:
who has changed the job meanwhile wins, and the next round plans anew. The reason travels in the same write, as an
annotation; event and history are told from it. Killed in between, the next autoscaler finds the annotation and tells
them then: an event may be told twice, but no change is left without its reason.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trainwright.api import scaling
from trainwright.api.scaling import Scaling
from trainwright.autoscaler import DEFAULT_POLICY, Plan, plan
from trainwright.autoscaler import Change as Resize
from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.events import Recorder
from trainwright.cluster.informer import Informers
from trainwright.cluster.news import News
from trainwright.core.actions import Emit
from trainwright.core.errors import ClusterError, Conflict, NotFound
from trainwright.core.names import SCALED_ANNOTATION
from trainwright.core.objects import Object, at, key, nest, timestamp
from trainwright.core.resources import AUTOSCALER, NODE, POD, Resource
from trainwright.operator.log import logger
from trainwright.operator.measures import Measures
from trainwright.operator.stock import Known, Sight, Stock
from trainwright.operator.views import identity
from trainwright.placement import Amounts
from trainwright.reconcile.kind import Kind

AT_ONCE = 16
"""So many jobs are resized at a time."""
RETRY_SECONDS = 30.0
"""After so long a round that failed is tried again, if nothing else calls for one."""

log = logger(__name__)


@dataclass(frozen=True)
class Conduct:
    """By which rules sizes are decided, and how quickly they follow what happens."""

    policy: str = DEFAULT_POLICY
    max_load: float = 1.0
    """How much of what the nodes offer may be used before growth ends; above it jobs shrink."""
    settle: float = 2.0
    """Seconds from a change to the round that looks at it."""
    rest: float = 30.0
    """Seconds after a resize before the job may grow again; it may shrink at any time."""
    without: Collection[str] = ()
    """Kinds whose jobs keep their size."""
    capacity: Amounts | None = None
    """What there is to share where nodes cannot be seen; None: what the nodes offer."""
    in_turn: bool = False
    """Whether pods are placed in the order of a queue, as our own scheduler does."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Autoscaler:
    """Keeps the sizes of all elastic jobs as the policy wants them, while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Iterable[Kind],
        now: Callable[[], datetime] = _utc_now,
        *,
        conduct: Conduct | None = None,
        namespaces: Sequence[str] = (),
        measures: Measures | None = None,
    ) -> None:
        kinds = tuple(kinds)
        self._cluster = cluster
        self._now = now
        self._conduct = conduct or Conduct()
        self._measures = measures or Measures()
        self._events = Recorder(cluster, now)
        self._stock = Stock(
            kinds,
            self._conduct.without,
            timedelta(seconds=self._conduct.rest),
            self._conduct.max_load,
            self._conduct.capacity,
            in_turn=self._conduct.in_turn,
        )
        self._news = News()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._told: dict[str, Scaling] = {}
        """The last change told of each job, by uid: caches lag, and a definition may not keep the history."""
        self._left: dict[str, str] = {}
        """What was said of each job that is left alone, by uid."""
        self._waiting: dict[str, str] = {}
        """What was said of each job whose minimum is not met, by uid, as long as that is so."""
        self._informers = tuple(self._following(kinds, namespaces))

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there; none once sizes are planned."""
        return [each.resource for each in self._informers if not each.synced]

    def _following(self, kinds: Iterable[Kind], namespaces: Sequence[str]) -> Iterator[Informers]:
        for kind in kinds:
            yield self._news.follow(Informers(self._cluster, kind.resource, namespaces), self._job_changed)
        yield self._news.follow(Informers(self._cluster, POD, namespaces, keep=identity), self._stock.pod_changed)
        yield self._news.follow(Informers(self._cluster, AUTOSCALER, namespaces), self._stock.scaler_changed)
        if self._conduct.capacity is None:
            yield self._news.follow(Informers(self._cluster, NODE, keep=identity), self._stock.node_changed)

    def _job_changed(self, change: Change) -> bool:
        if change.type == "DELETED":
            self._told.pop(change.object["metadata"]["uid"], None)
            self._left.pop(change.object["metadata"]["uid"], None)
        return self._stock.job_changed(change)

    async def run(self) -> None:
        """Look after all sizes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            for informer in self._informers:
                await informer.until_synced()
            log.info("autoscaler started", policy=self._conduct.policy)
            wait: float | None = 0.0
            while True:
                await self._news.wait(wait, self._conduct.settle)
                wait = await self._round()

    async def _round(self) -> float | None:
        """Run a round, and return after how many seconds to run the next one even if nothing changes."""
        try:
            again = await self.scale()
        except ClusterError as error:
            log.warning("scaling failed and is tried again", seconds=RETRY_SECONDS, error=error)
            return RETRY_SECONDS
        except Exception as error:  # noqa: BLE001 - the jobs are looked after all the same
            log.error("scaling failed by a fault of ours", seconds=RETRY_SECONDS, trace=error)
            return RETRY_SECONDS
        return max(0.0, (again - self._now()).total_seconds()) if again else None

    async def scale(self) -> datetime | None:
        """Plan once and write what changes; return when to look again even if nothing changes."""
        now = self._now()
        sight = self._stock.look(now)
        jobs = dict(self._stock.jobs())
        for known in jobs.values():
            if known.job.elastic is not None:
                await self._catch_up(known)
        if sight is None:
            return None
        planned = self._plan(sight)
        await self._tell_waiting({job: (jobs[job].object, sentence) for job, sentence in planned.waiting.items()})
        failures = await asyncio.gather(
            *(self._resize(jobs[resize.job], resize, now) for resize in planned.changes), return_exceptions=True
        )
        for failure in failures:
            if failure is not None:
                raise failure
        return sight.look_again

    def _plan(self, sight: Sight) -> Plan:
        loop = asyncio.get_running_loop()
        began = loop.time()
        planned = plan(sight.cluster, sight.jobs, self._conduct.policy)
        self._measures.plan_seconds.observe(loop.time() - began)
        return planned

    async def _tell_waiting(self, waiting: Mapping[str, tuple[Object, str]]) -> None:
        """Say why the minimums of jobs are not met, once for as long as it stays the same."""
        before = self._waiting
        self._waiting = {job["metadata"]["uid"]: sentence for job, sentence in waiting.values()}
        for job, sentence in waiting.values():
            if before.get(job["metadata"]["uid"]) != sentence:
                await self._events.emit(job, Emit("Waiting", sentence))

    async def _resize(self, known: Known, resize: Resize, now: datetime) -> None:
        """Write one new size together with its reason, and tell it."""
        kind, meta = known.kind, known.object["metadata"]
        entry = Scaling(timestamp(now), resize.before, resize.after, resize.reason)
        patch = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "annotations": {SCALED_ANNOTATION: scaling.annotation(entry)},
            },
            **nest(kind.size_path, resize.after),
        }
        async with self._turns:
            try:
                job = await self._cluster.patch(kind.resource, meta["namespace"], meta["name"], patch)
            except NotFound:
                return
            except Conflict:  # somebody changed the job, maybe in a way that calls for no round by itself
                self._news.tell()
                return
            if at(job, kind.size_path) != resize.after:
                await self._take_back(kind, job)
                return
            self._measures.resizes.add(kind.name, "up" if resize.after > resize.before else "down")
            log.info("job resized", kind=kind.name, job=key(job), reason=resize.reason)
            await self._tell(kind, job, entry)

    async def _take_back(self, kind: Kind, job: Object) -> None:
        """Leave a job alone whose size was not kept, and remove the reason of what has not happened."""
        meta = job["metadata"]
        self._stock.cannot_store(job)
        self._news.tell()
        nothing = {"metadata": {"annotations": {SCALED_ANNOTATION: None}}}
        with suppress(NotFound):
            await self._cluster.patch(kind.resource, meta["namespace"], meta["name"], nothing)

    async def _catch_up(self, known: Known) -> None:
        """Tell what was done before we were killed, and say once why a job is left alone."""
        job = known.object
        last = scaling.last(job)
        if last is not None and last not in scaling.history(job.get("status")):
            await self._tell(known.kind, job, last)
        uid = job["metadata"]["uid"]
        if known.aside and self._left.get(uid) != known.aside:
            self._left[uid] = known.aside
            await self._events.emit(job, Emit("NotScaled", f"the autoscaler leaves its size alone: {known.aside}"))

    async def _tell(self, kind: Kind, job: Object, entry: Scaling) -> None:
        """Tell a change as an event and in the history; nobody else writes the history, so no version is asked for."""
        meta = job["metadata"]
        if self._told.get(meta["uid"]) == entry:
            return
        await self._events.emit(job, Emit("Scaled", entry.reason or ""))
        history = {scaling.HISTORY: scaling.lengthened(job.get("status"), entry)}
        with suppress(NotFound):
            await self._cluster.patch(
                kind.resource, meta["namespace"], meta["name"], {"status": history}, subresource="status"
            )
        self._told[meta["uid"]] = entry
