"""Takes stock for the autoscaler: jobs, pods and nodes of a cluster as the values that it plans with.

It is told of every change once and keeps sums (what a node's pods hold, which pods a job has), so that a round costs
what has changed and not what there is. Pods that are not ours are nothing but a number on a node, or an amount that
waits. Nothing here does anything to a cluster; what one job looks like is in `demand.py`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trainwright.api import scaling
from trainwright.api.common import Job
from trainwright.autoscaler import Cluster, ElasticJob, Node
from trainwright.cluster.base import Change
from trainwright.core.names import AUTOSCALE_ANNOTATION
from trainwright.core.objects import Object, at, controller_uid, key, moment
from trainwright.core.whole import whole
from trainwright.operator.demand import PodFacts, elastic_job, facts
from trainwright.placement import Amounts, allocatable, minus, plus, usable
from trainwright.placement.taints import taints, tolerates
from trainwright.reconcile.kind import Kind

JobKey = tuple[str, str, str]
"""Kind, namespace and name."""

_ALL = "all nodes"
"""Where all pods count as being if nodes cannot be seen."""


@dataclass(frozen=True)
class Sight:
    """What there is, for one round."""

    cluster: Cluster
    jobs: tuple[ElasticJob, ...]
    look_again: datetime | None = None
    """When a job that was resized a moment ago may grow again."""


@dataclass
class _Sums:
    """What the pods of one node hold."""

    used: Amounts
    leaving: Amounts


@dataclass(frozen=True)
class Known:
    """One job, and what was worked out about it."""

    kind: Kind
    object: Object
    job: Job
    value: ElasticJob
    aside: str
    """Why its size is not ours to decide, in words; nothing if it is."""
    rests_until: datetime | None

    @property
    def scaled(self) -> bool:
        """Say whether it may be resized."""
        return self.value.elastic


class Stock:
    """Everything the autoscaler has to know, kept up to date by the changes it is told of."""

    def __init__(
        self,
        kinds: Iterable[Kind],
        without: Collection[str] = (),
        rest: timedelta = timedelta(),
        max_load: float = 1.0,
        capacity: Amounts | None = None,
        *,
        in_turn: bool = False,
    ) -> None:
        """Begin with nothing. With `capacity` nobody tells of nodes: pods count as if all were on one of that size."""
        self._kinds = {kind.name: kind for kind in kinds}
        self._without = frozenset(without)
        """Kinds whose jobs are never scaled."""
        self._rest = rest
        """For how long a job that was resized does not grow."""
        self._max_load = max_load
        self._in_turn = in_turn
        self._objects: dict[JobKey, Object] = {}
        self._named: defaultdict[str, set[JobKey]] = defaultdict(set)
        """Jobs by namespace and name: those of several kinds may share one."""
        self._known: dict[JobKey, Known] = {}
        """Those that need room."""
        self._stale: set[JobKey] = set()
        self._pods: dict[str, PodFacts] = {}
        self._members: defaultdict[str, dict[str, PodFacts]] = defaultdict(dict)
        """Pods with a job's label, by that job's namespace and name, then by uid."""
        self._waiting: dict[str, PodFacts] = {}
        self._nodes: dict[str, Object] = {}
        self._offers: dict[str, Amounts] = {}
        self._sums: defaultdict[str, _Sums] = defaultdict(lambda: _Sums({}, {}))
        self._values: dict[str, Node] = {}
        """Nodes as they were last told, until something changes on them."""
        self._scalers: dict[str, JobKey] = {}
        """Which job a horizontal pod autoscaler aims at, by its namespace and name."""
        self._unwritable: set[str] = set()
        self._together = capacity is not None
        if capacity is not None:
            self._nodes[_ALL] = {}
            self._offers[_ALL] = capacity

    # What happens

    def job_changed(self, change: Change) -> bool:
        """Take note of a job; say whether that may call for a round."""
        obj = whole(change.object)
        place = obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]
        self._stale |= self._named.get(key(obj), set())
        if change.type == "DELETED":
            self._objects.pop(place, None)
            self._known.pop(place, None)
            self._unwritable.discard(obj["metadata"]["uid"])
            self._named[key(obj)].discard(place)
            if not self._named[key(obj)]:
                del self._named[key(obj)]
            return True
        before = self._objects.get(place)
        self._objects[place] = obj
        self._named[key(obj)].add(place)
        self._stale.add(place)
        kind = self._kinds[place[0]]
        return before is None or _telling(kind, before) != _telling(kind, obj)

    def pod_changed(self, change: Change) -> bool:
        """Take note of a pod; say whether that may call for a round."""
        uid = change.object["metadata"]["uid"]
        before = self._pods.pop(uid, None)
        after = None if change.type == "DELETED" else self._placed(facts(change.object))
        if before is not None:
            self._forget(before)
        if after is not None:
            self._pods[uid] = after
            self._count(after)
        return before != after

    def node_changed(self, change: Change) -> bool:
        """Take note of a node; say whether that may call for a round."""
        name = change.object["metadata"]["name"]
        before, offered = self._nodes.pop(name, None), self._offers.pop(name, None)
        self._values.pop(name, None)
        if change.type == "DELETED":
            return True
        self._nodes[name] = change.object
        self._offers[name] = allocatable(change.object) if usable(change.object) else {}
        return before is None or (offered, taints(before)) != (self._offers[name], taints(change.object))

    def scaler_changed(self, change: Change) -> bool:
        """Take note of a horizontal pod autoscaler; say whether that may call for a round."""
        name = key(change.object)
        before, after = self._scalers.pop(name, None), None
        if change.type != "DELETED" and (after := self._target(change.object)):
            self._scalers[name] = after
        self._stale |= {place for place in (before, after) if place in self._objects}
        return before != after

    def cannot_store(self, job: Object) -> None:
        """Take note that a size we wrote was not kept: the kind's definition does not know the field."""
        self._unwritable.add(job["metadata"]["uid"])
        self._stale |= self._named.get(key(job), set())

    # What there is

    def look(self, now: datetime) -> Sight | None:
        """Return everything there is, at `now`; None if no job may be scaled or no node is there: nothing to plan."""
        self._refresh(now)
        scaled = [each for each in self._known.values() if each.scaled]
        if not scaled or not self._nodes:
            return None
        tolerated = [_tolerations(each) for each in scaled]
        nodes = tuple(self._node(name) for name in self._nodes if self._is_open(name, tolerated))
        waiting = tuple(pod.requests for pod in self._waiting.values() if not self._named.get(pod.job))
        jobs = tuple(each.value for each in self._known.values())
        rests = (each.rests_until for each in scaled if each.rests_until and each.rests_until > now)
        return Sight(Cluster(nodes, waiting, self._max_load, self._in_turn), jobs, min(rests, default=None))

    def jobs(self) -> Iterator[tuple[str, Known]]:
        """Yield the jobs that need room, as of the last look, by the keys they have there."""
        return ((each.value.key, each) for each in self._known.values())

    def _target(self, scaler: Object) -> JobKey | None:
        """Return the job that a horizontal pod autoscaler aims at, if it is one of ours."""
        target = at(scaler, ("spec", "scaleTargetRef")) or {}
        kind = self._kinds.get(target.get("kind", ""))
        if kind is None or str(target.get("apiVersion", "")).partition("/")[0] != kind.resource.group:
            return None
        return kind.name, scaler["metadata"]["namespace"], target.get("name", "")

    def _refresh(self, now: datetime) -> None:
        """Work out again whatever has changed, and who has rested long enough."""
        for place, known in self._known.items():
            if known.value.resting and known.rests_until and known.rests_until <= now:
                self._stale.add(place)
        for place in self._stale & self._objects.keys():
            if (found := self._work_out(place, now)) is not None:
                self._known[place] = found
            else:
                self._known.pop(place, None)
        self._stale.clear()

    def _work_out(self, place: JobKey, now: datetime) -> Known | None:
        """Return what there is to know of a job; None if it needs no room, as thousands that have finished."""
        kind, obj = self._kinds[place[0]], self._objects[place]
        job, name = kind.read(obj), key(obj)
        namesakes = self._named[name] - {place}
        others = {self._objects[each]["metadata"]["uid"] for each in namesakes}
        members = self._members.get(name, {}).values()
        pods = [pod for pod in members if pod.object and controller_uid(pod.object) not in others]
        aside = self._aside(place, job)
        last = scaling.last(obj)
        until = (moment(last.time) or now) + self._rest if last else None
        value = elastic_job(
            kind,
            job,
            pods,
            key=f"{name} ({kind.name})" if namesakes else name,
            steady=aside,
            resting=until is not None and now < until,
        )
        return None if value is None else Known(kind, obj, job, value, aside, until)

    def _aside(self, place: JobKey, job: Job) -> str:
        """Say why the size of a job is not ours to decide."""
        if at(job.object, ("metadata", "annotations", AUTOSCALE_ANNOTATION)) == "false":
            return f'its annotation {AUTOSCALE_ANNOTATION} is "false"'
        if place[0] in self._without:
            return f"jobs of kind {place[0]} are not scaled here"
        if scaler := next((name for name, target in self._scalers.items() if target == place), ""):
            return f"its size is decided by the HorizontalPodAutoscaler {scaler.partition('/')[2]}"
        if job.elastic is not None and job.elastic.metrics:
            return "its size is decided by a HorizontalPodAutoscaler, because it has metrics"
        if job.object["metadata"].get("uid") in self._unwritable:
            path = ".".join(self._kinds[place[0]].size_path)
            return f"{path} is not kept: the definition of {place[0]} in this cluster does not know the field"
        return ""

    # Pods and nodes

    def _placed(self, pod: PodFacts) -> PodFacts:
        """Return a pod on the node it is counted on."""
        return replace(pod, node=_ALL) if self._together and pod.node else pod

    def _count(self, pod: PodFacts) -> None:
        self._touch(pod)
        if pod.job:
            self._members[pod.job][pod.uid] = pod
        if pod.waits:
            self._waiting[pod.uid] = pod
        self._sum(pod, plus)

    def _forget(self, pod: PodFacts) -> None:
        self._touch(pod)
        if pod.job:
            self._members[pod.job].pop(pod.uid, None)
            if not self._members[pod.job]:
                del self._members[pod.job]
        self._waiting.pop(pod.uid, None)
        self._sum(pod, minus)

    def _sum(self, pod: PodFacts, add: Callable[[Amounts, Amounts], Amounts]) -> None:
        """Count what a pod holds of its node in, or out again."""
        if not pod.node or pod.ended:
            return
        sums = self._sums[pod.node]
        if pod.leaving:
            sums.leaving = add(sums.leaving, pod.requests)
        else:
            sums.used = add(sums.used, pod.requests)

    def _touch(self, pod: PodFacts) -> None:
        """Have worked out again what depends on a pod."""
        self._values.pop(pod.node, None)
        self._stale |= self._named.get(pod.job, set())

    def _node(self, name: str) -> Node:
        if name not in self._values:
            sums = self._sums[name]
            self._values[name] = Node(name, self._offers[name], sums.used, sums.leaving)
        return self._values[name]

    def _is_open(self, name: str, tolerated: Sequence[list[Object]]) -> bool:
        """Say whether a node takes pods, of those at least that may be scaled."""
        shut = taints(self._nodes[name])
        if not self._offers[name] or not shut:
            return bool(self._offers[name])
        return any(all(tolerates(each, taint) for taint in shut) for each in tolerated)


def _telling(kind: Kind, obj: Object) -> tuple[Any, ...]:
    """Return what of a job may call for a round; its counts do not, its pods do."""
    meta = obj["metadata"]
    phase = kind.face.standing(obj.get("status") or {}).phase
    return obj.get("spec"), meta.get("annotations"), meta.get("uid"), "deletionTimestamp" in meta, phase


def _tolerations(known: Known) -> list[Object]:
    elastic = known.job.elastic
    role = known.job.role(elastic.role) if elastic else None
    return list(at(role.template, ("spec", "tolerations")) or ()) if role else []
