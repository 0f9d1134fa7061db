"""What one job has and lacks, in the words of the autoscaler: a job and its pods become an `ElasticJob`. Pure.

It stands here and not beside the planner, which knows neither kinds nor objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trainwright.api.common import Job, Role
from trainwright.autoscaler import NOWHERE, Ask, ElasticJob, Fixed
from trainwright.core.names import GANG_GATE, JOB_LABEL
from trainwright.core.objects import Object, at, moment
from trainwright.placement import OVER_QUOTA, Amounts, pod_limits, pod_requests
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Kind
from trainwright.reconcile.record import RoleRecord

ENDING = "some of its pods have ended: it is about to finish"

_IDLE = ("Suspended", "Aborting", "Aborted", "Completing", "Terminating", "Terminated")
"""Phases in which a job has no pods, or is about to have none."""
_WHO = ("name", "namespace", "uid", "labels", "ownerReferences")
_NONE = Ask({})


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod, as far as room is concerned."""

    uid: str
    job: str
    """Namespace and name of the job it belongs to by its label; nothing for a pod that is not ours."""
    node: str
    requests: Amounts
    leaving: bool
    phase: str
    gated: bool
    """Somebody else holds it back on purpose: it wants no room yet. One that waits for its gang does."""
    object: Object | None = None
    """What tells which replica it is, of a pod of ours."""
    priority: int = 0
    over_quota: bool = False
    """It waits for the quota of its namespace, and not for room."""

    @property
    def ended(self) -> bool:
        """Say whether it has ended, so that it holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def waits(self) -> bool:
        """Say whether it wants room and has none."""
        return not (self.node or self.ended or self.leaving or self.gated)


def facts(pod: Object) -> PodFacts:
    """Return what counts of a pod."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    name = (meta.get("labels") or {}).get(JOB_LABEL, "")
    return PodFacts(
        uid=meta["uid"],
        job=f"{meta.get('namespace', '')}/{name}" if name else "",
        node=spec.get("nodeName") or NOWHERE,
        requests=pod_requests({"spec": spec}),
        leaving="deletionTimestamp" in meta,
        phase=(pod.get("status") or {}).get("phase") or "Pending",
        gated=any(gate.get("name") != GANG_GATE for gate in spec.get("schedulingGates") or ()),
        object={"metadata": {each: meta[each] for each in _WHO if each in meta}} if name else None,
        priority=int(spec.get("priority") or 0),
        over_quota=any(each.get("reason") == OVER_QUOTA for each in at(pod, ("status", "conditions")) or ()),
    )


_Placed = tuple[int, PodFacts]
"""A pod and its index."""


@dataclass(frozen=True)
class _Units:
    """The pods of the role that is resized."""

    staying: Mapping[int, PodFacts]
    leaving: int
    ended: frozenset[int]
    """Indices that have ended for good: nobody makes them again."""


def elastic_job(
    kind: Kind, job: Job, pods: Iterable[PodFacts], *, key: str, steady: str = "", resting: bool = False
) -> ElasticJob | None:
    """Return what the planner is told of a job; None if it needs no room: ended, suspended, over its quota, going."""
    status: Object = job.object.get("status") or {}
    standing = kind.face.standing(status)
    policy, meta = job.run_policy, job.object["metadata"]
    if standing.finished or standing.phase in _IDLE or policy.suspend or policy.external or "deletionTimestamp" in meta:
        return None
    pods = list(pods)
    if any(pod.over_quota for pod in pods) and not any(pod.node for pod in pods):
        return None
    record, places = records.read(status), _by_role(kind, job, pods)
    created = moment(meta.get("creationTimestamp"))
    scaled = job.role(job.elastic.role) if job.elastic else None
    rest = [role for role in job.roles if role is not scaled]
    whole = ElasticJob(
        key=key,
        unit=_NONE,
        minimum=0,
        maximum=0,
        size=0,
        fixed=tuple(_fixed(role, places.get(role.name, ()), record.role(role.name)) for role in rest),
        kind=kind.name,
        created=created.timestamp() if created else 0.0,
        priority=max((pod.priority for pod in pods), default=0),
        steady=steady,
        resting=resting,
    )
    if scaled is None or job.elastic is None:
        return whole
    units = _units(places.get(scaled.name, ()), record.role(scaled.name))
    return _with_units(whole, scaled, (job.elastic.minimum, job.elastic.maximum), units)


def _with_units(job: ElasticJob, role: Role, span: tuple[int, int], units: _Units) -> ElasticJob:
    """Return the job with the pods of the role that is resized."""
    wanted = set(range(role.replicas)) - units.ended
    if len(wanted) < role.replicas:  # more pods would come too late, and fewer would be those that still work
        span, job = (len(wanted), len(wanted)), replace(job, steady=job.steady or ENDING)
    staying = units.staying
    lasting = (index for index in range(max(staying, default=-1) + 1) if index not in units.ended)
    return replace(
        job,
        unit=_ask(role),
        minimum=span[0],
        maximum=span[1],
        size=len(wanted),
        places=tuple(staying[index].node if index in staying else NOWHERE for index in lasting),
        running=sum(pod.phase == "Running" for index, pod in staying.items() if index in wanted),
        leaving=units.leaving,
        ended=len(units.ended),
        # What is stopping counts as gone: the resize that stops it is carried out.
        resizing=max(staying, default=-1) >= role.replicas or not wanted <= staying.keys(),
    )


def _by_role(kind: Kind, job: Job, pods: Iterable[PodFacts]) -> dict[str, list[_Placed]]:
    found: dict[str, list[_Placed]] = {}
    for pod in pods:
        place = kind.place(job, pod.object) if pod.object else None
        if place is not None:
            found.setdefault(place[0], []).append((place[1], pod))
    return found


def _units(pods: Iterable[_Placed], record: RoleRecord) -> _Units:
    there = [(index, pod) for index, pod in pods if not pod.ended]
    return _Units(
        staying={index: pod for index, pod in there if not pod.leaving},
        leaving=sum(pod.leaving for _, pod in there),
        ended=_ended(pods, record),
    )


def _fixed(role: Role, pods: Iterable[_Placed], record: RoleRecord) -> Fixed:
    """Return a role whose pods are always the same; one that has ended needs no room any more."""
    count = len(set(range(role.replicas)) - _ended(pods, record))
    bound = {index for index, pod in pods if pod.node and not pod.leaving and not pod.ended and index < role.replicas}
    return Fixed(_ask(role), count, min(count, len(bound)))


def _ended(pods: Iterable[_Placed], record: RoleRecord) -> frozenset[int]:
    """Return the indices that nobody makes again: what succeeded, and what failed and is left as it is."""
    succeeded = (index for index, pod in pods if pod.phase == "Succeeded")
    return frozenset((*record.done, *record.failed, *succeeded))


def _ask(role: Role) -> Ask:
    pod = {"spec": role.template.get("spec") or {}}
    return Ask(pod_requests(pod), pod_limits(pod))
