"""One round for one job: decide, write the status, act. The only place where a decision meets a cluster.

The status is written first and under the version the decision was made from: if somebody else has changed the job
meanwhile, nothing was done yet and the round starts over. Where it is written to says `keeping.py`. Actions are
repeatable, so a round that is cut short at any point is simply run again.

The opening round of a new job only makes its objects. There is nothing to remember of it yet, so nothing can be lost;
its status and its events follow in the next round, which is behind all others in the queue. When many jobs come at
once, all of them get their pods before anything is told of the first.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from trainwright.admission import review
from trainwright.cluster.base import Cluster
from trainwright.cluster.events import Recorder
from trainwright.core.actions import Action, Create, Decision, Delete, Emit, Patch
from trainwright.core.errors import AlreadyExists, ClusterError, Conflict, Ending, NotFound
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, Ref, controller_uid, ref
from trainwright.core.resources import Resource
from trainwright.core.whole import whole
from trainwright.desired import Gang, Settings
from trainwright.operator.adoption import label
from trainwright.operator.fill import filled
from trainwright.operator.keeping import Keeping
from trainwright.operator.log import Log, logger
from trainwright.reconcile.decide import decide, refuse
from trainwright.reconcile.diff import name_taken
from trainwright.reconcile.kind import Kind, Observed, commanded

AT_ONCE = 32
"""So many calls of one round are under way at a time."""
_TAKEN_NAME = timedelta(seconds=30)

log = logger(__name__)


@dataclass
class Trace:
    """What a round has done so far: what a cache that lags behind does not show yet."""

    job: Object | None = None
    created: list[Object] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """Uids that were deleted, or asked to go."""
    unsaid: tuple[Emit, ...] = ()
    """What the next round has to tell of what this one has done."""
    look_again: datetime | None = None


async def observe(
    cluster: Cluster, kind: Kind, namespace: str, name: str, gang: Gang = "none"
) -> tuple[Object, Observed]:
    """Read a job and everything that carries its label straight from the cluster."""
    job = await cluster.get(kind.resource, namespace, name)
    children = [await cluster.list(each, namespace, labels=f"{JOB_LABEL}={name}") for each in kind.owned(gang)]
    commands = (await cluster.list(kind.commands, namespace)).items if kind.commands else ()
    mine = (each for each in commands if commanded(kind, each) == name)
    return job, Observed((*(obj for listing in children for obj in listing.items), *mine))


async def reconcile_once(
    cluster: Cluster,
    kind: Kind,
    job: Object,
    seen: Observed,
    *,
    settings: Settings,
    now: datetime,
    events: Recorder,
    keeping: Keeping,
    opening: bool = False,
    unsaid: Sequence[Emit] = (),
    trace: Trace | None = None,
) -> datetime | None:
    """Do what there is to do for a job now; return when to look again. `trace` tells what was done even if it fails.

    `opening` says that it is the first look at a job without a status, `unsaid` what the round before has left to tell.
    """
    trace = trace if trace is not None else Trace()
    decision = _decision(kind, whole(job), seen, settings, now)
    trace.look_again = decision.look_again
    said = log.bind(kind=kind.name, job=f"{job['metadata']['namespace']}/{job['metadata']['name']}")
    actor = _Actor(cluster, kind, kind.owned(settings.gang), job, now, events, trace, said)
    if opening and (making := _making(decision)):
        await actor.act(making)
        trace.unsaid = tuple(each for each in decision.actions if isinstance(each, Emit))
        trace.look_again = now
    else:
        if not keeping.is_kept(job, decision.status):
            try:
                trace.job = await keeping.keep(kind, job, decision.status)
            except NotFound:
                return None
            said.debug("status written")
        await actor.act((*decision.actions, *(each for each in unsaid if each not in decision.actions)))
    if trace.created or trace.deleted:
        said.info("objects brought in line", created=len(trace.created), deleted=len(trace.deleted))
    return trace.look_again


def _decision(kind: Kind, job: Object, seen: Observed, settings: Settings, now: datetime) -> Decision:
    read = kind.read(job)
    if not (job.get("status") or read.run_policy.external or _has_any(job, seen)):
        # Where no webhook stands in front, this is the first time that anybody checks what the user wrote. Names that
        # are not known are a matter of admission: a job that has passed it leniently is not refused here.
        errors = [problem for problem in review(job, lenient=True) if problem.severity == "error"]
        if errors:
            return refuse(kind, job, errors, now)
    return decide(kind, read, seen, settings, now)


def _has_any(job: Object, seen: Observed) -> bool:
    """Say whether a job has objects of its own."""
    uid = job["metadata"].get("uid")
    return any(controller_uid(each) == uid for each in seen.objects)


def _making(decision: Decision) -> list[Create]:
    """Return what a decision makes, if there is nothing else to do."""
    acts = [each for each in decision.actions if not isinstance(each, Emit)]
    making = [each for each in acts if isinstance(each, Create)]
    return making if len(making) == len(acts) else []


class _Actor:
    """Carries out the actions of one decision."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        owned: Iterable[Resource],
        job: Object,
        now: datetime,
        events: Recorder,
        trace: Trace,
        said: Log,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._now = now
        self._events = events
        self._trace = trace
        self._log = said
        self._rows = (kind.resource, *owned, *([kind.commands] if kind.commands else []))
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def act(self, actions: Iterable[Action]) -> None:
        """Act in order; what is alike, such as the pods to create, in parallel. A failure is raised at the end."""
        failures: list[BaseException] = []
        for _, alike in groupby(actions, key=_sort):
            done = await asyncio.gather(*(self._one(action) for action in alike), return_exceptions=True)
            failures += [each for each in done if isinstance(each, BaseException)]
            if failures and not all(isinstance(each, ClusterError) for each in failures):
                break  # a fault of ours: go no further
        for failure in failures[1:]:
            if not isinstance(failure, Ending):
                self._log.warning("action failed", error=failure)
        if failures:
            raise failures[0]

    async def _one(self, action: Action) -> None:
        async with self._turns:
            await self._do(action)

    def _do(self, action: Action) -> Awaitable[None]:
        match action:
            case Create():
                return self._create(action)
            case Delete():
                return self._delete(action)
            case Patch():
                return self._patch(action)
            case Emit():
                return self._events.emit(self._job, action)

    async def _create(self, action: Create) -> None:
        wanted = ref(action.object)
        try:
            created = await self._cluster.create(self._row(wanted), await filled(action))
        except AlreadyExists:
            there = await self._there(wanted)
            if there is not None:
                self._trace.created.append(there)
            return
        except Ending:
            raise
        except ClusterError as error:
            await self._events.emit(self._job, Emit(f"FailedCreate{wanted.kind}", f"{wanted.name}: {error}", "Warning"))
            raise
        self._trace.created.append(created)
        self._log.debug("created", object=wanted)

    async def _there(self, wanted: Ref) -> Object | None:
        """Return the object that already has the name, if it is ours and only our cache did not know."""
        try:
            there = await self._cluster.get(self._row(wanted), wanted.namespace, wanted.name)
        except NotFound:
            there = None
        if there is not None and controller_uid(there) == self._job["metadata"].get("uid"):
            return await self._labelled(there)
        await self._events.emit(self._job, name_taken(wanted))
        later = self._now + _TAKEN_NAME
        self._trace.look_again = min(later, self._trace.look_again or later)
        return None

    async def _labelled(self, there: Object) -> Object:
        """Return an object of the job's own with our label: one that another operator has made has none."""
        patch, meta = label(there, self._job["metadata"]["name"]), there["metadata"]
        if not patch:
            return there
        self._log.info("object of another operator is taken over", object=ref(there))
        return await self._cluster.patch(self._row(ref(there)), meta["namespace"], meta["name"], patch)

    async def _delete(self, action: Delete) -> None:
        name = action.ref
        try:
            await self._cluster.delete(self._row(name), name.namespace, name.name, uid=action.uid)
        except (NotFound, Conflict):  # gone, or already another of that name: what was to go has gone
            self._log.debug("was gone", object=name)
        else:
            self._log.debug("deleted", object=name)
        if action.uid:
            self._trace.deleted.append(action.uid)

    async def _patch(self, action: Patch) -> None:
        name = action.ref
        try:
            await self._cluster.patch(self._row(name), name.namespace, name.name, action.patch)
        except NotFound:
            self._log.debug("was gone", object=name)
        else:
            self._log.debug("changed", object=name)

    def _row(self, name: Ref) -> Resource:
        for row in self._rows:
            if (row.api_version, row.kind) == (name.api_version, name.kind):
                return row
        raise KeyError(f"no resource is known for {name.api_version} {name.kind}")


def _sort(action: Action) -> tuple[Any, ...]:
    """Return what actions have in common that may run side by side."""
    match action:
        case Create():
            return "create", action.object["kind"]
        case Emit():
            return ("emit",)
        case _:
            return type(action).__name__, action.ref.kind
