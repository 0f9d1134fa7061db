"""The one loop that acts: watches jobs of every kind and their children, and runs a round for each that changed.

Caches lag behind what we did ourselves, so what a round created, deleted or wrote is laid over the cache until the
cache shows it: a slow watch never makes us create twice or count from an old record.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.beside import beside
from trainwright.cluster.events import Recorder
from trainwright.cluster.informer import Informers
from trainwright.cluster.queue import Closed, WorkQueue
from trainwright.core.actions import Emit
from trainwright.core.errors import ClusterError, Conflict, Ending
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, moment
from trainwright.core.resources import Resource
from trainwright.core.whole import whole
from trainwright.desired import Settings
from trainwright.operator.keeping import Keeping
from trainwright.operator.log import logger
from trainwright.operator.measures import Measures
from trainwright.operator.round import Trace, reconcile_once
from trainwright.reconcile.kind import Kind, Observed, commanded

Key = tuple[str, str, str]
"""Kind, namespace and name of a job."""

_FORGET_AFTER = 60.0
"""Seconds after which a cache is believed even if it never showed what we did."""

log = logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Operator:
    """Keeps every job as it should be, while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Iterable[Kind],
        settings: Settings,
        now: Callable[[], datetime] = _utc_now,
        *,
        workers: int = 8,
        namespaces: Sequence[str] = (),
        measures: Measures | None = None,
    ) -> None:
        self._cluster = cluster
        self._kinds = {kind.name: kind for kind in kinds}
        self._settings = settings
        self._now = now
        self._workers = workers
        self._events = Recorder(cluster, now)
        self._keeping = Keeping(cluster)
        self._ending: set[str] = set()
        """Namespaces of which it was said that they are being deleted."""
        self._measures = measures or Measures()
        self._queue: WorkQueue[Key] = WorkQueue(waited=self._measures.queue_seconds.observe)
        self._overlays: dict[Key, _Overlay] = {}
        self._jobs = {name: Informers(cluster, kind.resource, namespaces) for name, kind in self._kinds.items()}
        owned = dict.fromkeys(row for kind in self._kinds.values() for row in kind.owned(settings.gang))
        self._children: dict[Resource, Informers] = {
            row: Informers(cluster, row, namespaces, labels=JOB_LABEL, index=_by_job) for row in owned
        }
        self._commands = {
            name: Informers(cluster, kind.commands, namespaces, index=_by_target(kind))
            for name, kind in self._kinds.items()
            if kind.commands is not None
        }
        self._measures.queue_depth.read = lambda: {(): len(self._queue)}
        self._measures.jobs.read = self._census

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there; none once the operator works."""
        return [each.resource for each in self._informers() if not each.synced]

    def stop(self) -> None:
        """Begin no more rounds: `run` returns when those under way are over."""
        self._queue.close()

    async def run(self) -> None:
        """Look after all jobs until stopped or cancelled."""
        for name, jobs in self._jobs.items():
            jobs.subscribe(lambda change, name=name: self._job_changed(name, change))  # type: ignore[misc]
        for children in self._children.values():
            children.subscribe(self._child_changed)
        for name, commands in self._commands.items():
            commands.subscribe(lambda change, name=name: self._command_changed(name, change))  # type: ignore[misc]
        try:
            async with beside(*(informer.run() for informer in self._informers())):
                for informer in self._informers():
                    await informer.until_synced()
                log.info("operator started", kinds=", ".join(self._kinds))
                async with asyncio.TaskGroup() as workers:
                    for _ in range(self._workers):
                        workers.create_task(self._work())
        finally:
            self._queue.close()

    def _informers(self) -> list[Informers]:
        return [*self._jobs.values(), *self._children.values(), *self._commands.values()]

    def _census(self) -> Counter[tuple[str, ...]]:
        """Count the jobs of each kind and phase."""
        return Counter(
            (name, self._kinds[name].face.standing(whole(job).get("status") or {}).phase)
            for name, jobs in self._jobs.items()
            for job in jobs.items()
        )

    def _job_changed(self, kind: str, change: Change) -> None:
        meta = change.object["metadata"]
        key = kind, meta["namespace"], meta["name"]
        if change.type == "DELETED":
            self._overlays.pop(key, None)
            self._queue.forget(key)
        else:
            self._queue.add(key)

    def _child_changed(self, change: Change) -> None:
        """Wake the jobs of that name: the owner, and whoever waits for a name that somebody else holds."""
        meta = change.object["metadata"]
        for kind, jobs in self._jobs.items():
            name = meta["labels"][JOB_LABEL]
            if jobs.get(meta["namespace"], name) is not None:
                key = kind, meta["namespace"], name
                if change.type == "DELETED" and key in self._overlays:
                    self._overlays[key].gone(meta["uid"])
                self._queue.add(key)

    def _command_changed(self, kind: str, change: Change) -> None:
        """Wake the job that a command is for."""
        meta = change.object["metadata"]
        key = kind, meta["namespace"], commanded(self._kinds[kind], change.object)
        if self._jobs[kind].get(key[1], key[2]) is None:
            return
        if change.type == "DELETED" and key in self._overlays:
            self._overlays[key].gone(meta["uid"])
        self._queue.add(key)

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except Closed:
                return
            try:
                await self._round(key)
            finally:
                self._queue.done(key)

    async def _round(self, key: Key) -> None:
        began = asyncio.get_running_loop().time()
        result = await self._result(key)
        self._measures.round_seconds.observe(asyncio.get_running_loop().time() - began, key[0])
        self._measures.rounds.add(key[0], result)

    async def _result(self, key: Key) -> str:
        """Run a round, ask for the next one, and return in a word how it went."""
        said = log.bind(kind=key[0], job=f"{key[1]}/{key[2]}")
        try:
            look_again = await self._reconcile(key)
        except Conflict:
            self._queue.retry(key)  # somebody changed the job meanwhile; nothing was done yet
            return "conflict"
        except Ending:
            self._queue.retry(key)  # until the namespace takes the job away
            self._note_ending(key[1])
            return "ending"
        except ClusterError as error:
            said.warning("round failed and is tried again", seconds=round(self._queue.retry(key), 2), error=error)
            return "refused"
        except Exception as error:  # noqa: BLE001 - a fault in one job must not stop the others
            said.error("round failed by a fault of ours", trace=error, seconds=round(self._queue.retry(key), 2))
            return "fault"
        self._queue.forget(key)
        self._ending.discard(key[1])
        if look_again is not None:
            self._queue.add_after(key, (look_again - self._now()).total_seconds())
        return "done"

    def _note_ending(self, namespace: str) -> None:
        if namespace not in self._ending:
            self._ending.add(namespace)
            log.info("a namespace is being deleted: its jobs get nothing new and go with it", namespace=namespace)

    async def _reconcile(self, key: Key) -> datetime | None:
        kind = self._kinds[key[0]]
        cached = self._jobs[key[0]].get(key[1], key[2])
        if cached is None:
            return None
        overlay = self._overlays.setdefault(key, _Overlay())
        job = overlay.job(cached)
        seen = Observed(tuple(overlay.children(self._cached(kind, key), asyncio.get_running_loop().time())))
        opening = not whole(job).get("status") and not overlay.opened
        overlay.opened = True
        overlay.starting = overlay.starting or opening
        trace = Trace()
        try:
            look_again = await reconcile_once(
                self._cluster,
                kind,
                job,
                seen,
                settings=self._settings,
                now=self._now(),
                events=self._events,
                keeping=self._keeping,
                opening=opening,
                unsaid=overlay.unsaid,
                trace=trace,
            )
        finally:
            overlay.add(trace, asyncio.get_running_loop().time())
        overlay.unsaid = trace.unsaid
        if overlay.starting:
            overlay.starting = False
            self._note_start(key, job, overlay)
        if not opening and overlay.is_empty:
            self._overlays.pop(key, None)
        return look_again

    def _note_start(self, key: Key, job: Object, overlay: "_Overlay") -> None:
        """Measure how long a new job waited for all its pods, if it got any: it may be suspended, or not valid."""
        created = moment(job["metadata"].get("creationTimestamp"))
        if created and overlay.created:
            self._measures.start_seconds.observe((self._now() - created).total_seconds(), key[0])

    def _cached(self, kind: Kind, key: Key) -> Iterator[Object]:
        for row in kind.owned(self._settings.gang):
            yield from self._children[row].indexed(f"{key[1]}/{key[2]}")
        if kind.commands is not None:
            yield from self._commands[key[0]].indexed(f"{key[1]}/{key[2]}")


@dataclass
class _Overlay:
    """What we did for one job that the cache may not show yet."""

    opened: bool = False
    """The job has been looked at."""
    starting: bool = False
    """No round has yet done all there is to do for a new job."""
    unsaid: tuple[Emit, ...] = ()
    """What the last round has left to tell."""
    written: Object | None = None
    created: dict[str, tuple[Object, float]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Say whether the cache shows all that was done; then there is nothing to lay over it."""
        return not (self.written or self.created or self.deleted or self.unsaid)

    def job(self, cached: Object) -> Object:
        """Return the newer one of the cached job and the one we wrote last."""
        if self.written is not None and not _is_newer(self.written, cached):
            self.written = None
        return self.written or cached

    def children(self, cached: Iterable[Object], moment: float) -> Iterator[Object]:
        """Yield the job's objects as they will be once the cache has caught up."""
        self._expire(moment)
        known = set()
        for obj in cached:
            meta = obj["metadata"]
            known.add((obj["kind"], meta["name"]))
            self.created.pop(meta["uid"], None)
            if meta["uid"] not in self.deleted:
                yield obj
            elif "deletionTimestamp" in meta:
                del self.deleted[meta["uid"]]
                yield obj
            else:
                yield {**obj, "metadata": {**meta, "deletionTimestamp": ""}}
        for obj, _ in list(self.created.values()):
            if (obj["kind"], obj["metadata"]["name"]) not in known:
                yield obj

    def gone(self, uid: str) -> None:
        """Forget an object that the cache saw go."""
        self.created.pop(uid, None)
        self.deleted.pop(uid, None)

    def add(self, trace: Trace, moment: float) -> None:
        """Remember what a round did."""
        self.written = trace.job or self.written
        self.created.update({obj["metadata"]["uid"]: (_slim(obj), moment) for obj in trace.created})
        self.deleted.update(dict.fromkeys(trace.deleted, moment))

    def _expire(self, moment: float) -> None:
        self.created = {uid: kept for uid, kept in self.created.items() if moment - kept[1] < _FORGET_AFTER}
        self.deleted = {uid: since for uid, since in self.deleted.items() if moment - since < _FORGET_AFTER}


def _slim(obj: Object) -> Object:
    """Return a pod without its spec: nobody asks for that, and there are thousands while many jobs start at once."""
    return {name: value for name, value in obj.items() if name != "spec"} if obj["kind"] == "Pod" else obj


def _is_newer(written: Object, cached: Object) -> bool:
    """Say whether what we wrote is newer than the cache; versions of one object only grow."""
    ours, theirs = written["metadata"], cached["metadata"]
    if ours.get("uid") != theirs.get("uid"):
        return False
    try:
        return int(ours["resourceVersion"]) > int(theirs["resourceVersion"])
    except ValueError:
        return False


def _by_job(obj: Object) -> Iterator[str]:
    meta = obj["metadata"]
    yield f"{meta.get('namespace', '')}/{meta['labels'][JOB_LABEL]}"


def _by_target(kind: Kind) -> Callable[[Object], Iterator[str]]:
    """Return the function by which commands are found: the job each is for."""

    def index(obj: Object) -> Iterator[str]:
        if name := commanded(kind, obj):
            yield f"{obj['metadata'].get('namespace', '')}/{name}"

    return index
