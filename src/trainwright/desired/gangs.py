"""How pods that must start together are told to whoever places them: one row per strategy, for jobs of every kind.

A `Team` is the pods of a job that start together; a `Strategy` says which object makes it known to a scheduler and what
its pods carry. Mostly all pods of a job are one team, whose minimum grows with the stages that may start. Where an
object cannot be changed each stage is a team of its own, of those pods that it must have; the others come later.

Every pod has the team's name as a label and its minimum as an annotation, whatever the strategy: our own scheduler and
our gates go by these, and people read them. Which strategy a cluster offers is found out in `operator/gangs.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainwright.api.common import After, Job, Role
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, at
from trainwright.core.resources import NATIVE_POD_GROUP, PLUGIN_POD_GROUP, POD_GROUP, Resource
from trainwright.desired import pod_group, support
from trainwright.desired.base import Gang, Settings

PLUGIN_LABEL = "scheduling.x-k8s.io/pod-group"
_GROUP_FIELD = "schedulingGroup"
_POLICY = ("spec", "runPolicy", "schedulingPolicy")


@dataclass(frozen=True)
class Team:
    """Pods of one job that start together or not at all."""

    name: str
    minimum: int
    """How many must fit before any starts."""
    group: str = ""
    """The object by which a scheduler knows it; nothing where there is none."""
    first: Mapping[str, int] | None = None
    """How many pods of each role are in it, those with the lowest indices; None: all."""

    def has(self, role: Role, index: int) -> bool:
        """Say whether a replica is in it."""
        return self.first is None or index < self.first.get(role.name, 0)


@dataclass(frozen=True)
class Marks:
    """What a pod carries to be one of its team, beyond the label and the annotation that all have."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Fields it gets where its template says nothing; lists are put behind those of the template."""


def _no_marks(team: Team, role: Role) -> Marks:  # noqa: ARG001 - every strategy is asked so
    return Marks()


@dataclass(frozen=True)
class Strategy:
    """One way to keep teams together."""

    why: str
    """Why pods carry what they carry, in words."""
    resource: Resource | None = None
    """The object a team gets; None: it needs none."""
    spec: Callable[[Job, int], Object] = lambda job, minimum: {}  # noqa: ARG005 - only asked where there is an object
    """The job and the minimum of the team to what the object says."""
    marks: Callable[[Team, Role], Marks] = _no_marks
    scheduler: str = ""
    """Who schedules the pods where neither they nor the operator's settings name somebody; nothing: the usual one."""
    by_version: bool = False
    """Each run of a job has its own object: pods of the last run that are stopping must not count for the next."""
    forgets: bool = False
    """Pods that have ended do not count: as many fewer make the minimum."""
    by_stage: bool = False
    """The object cannot be changed, nor removed while pods that it is for go on: each stage has its own."""


def _native_spec(job: Job, minimum: int) -> Object:  # noqa: ARG001
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}}


def _native_marks(team: Team, role: Role) -> Marks:  # noqa: ARG001
    return Marks(spec={_GROUP_FIELD: {"podGroupName": team.group}})


def _volcano_marks(team: Team, role: Role) -> Marks:
    return Marks(annotations={pod_group.ANNOTATION: team.group, names.TASK_LABEL: role.label})


def _plugin_spec(job: Job, minimum: int) -> Object:
    policy: Object = at(job.object, _POLICY) or {}
    asked = {key: policy[key] for key in ("minResources", "scheduleTimeoutSeconds") if policy.get(key) is not None}
    return {"minMember": minimum, **asked}


def _plugin_marks(team: Team, role: Role) -> Marks:  # noqa: ARG001
    return Marks(labels={PLUGIN_LABEL: team.group})


def _gate(team: Team, role: Role) -> Marks:  # noqa: ARG001
    """Hold a pod back, unless it waits for nobody."""
    return Marks(spec={"schedulingGates": [{"name": names.GANG_GATE}]} if team.minimum > 1 else {})


STRATEGIES: Mapping[Gang, Strategy] = {
    "none": Strategy("pods are placed one by one"),
    "labels": Strategy("our own scheduler goes by labels"),
    "gates": Strategy("held back until the whole gang fits", marks=_gate),
    "native": Strategy(
        "the scheduler places the pods of a PodGroup together",
        NATIVE_POD_GROUP,
        _native_spec,
        _native_marks,
        by_version=True,
        by_stage=True,
    ),
    "volcano": Strategy(
        "Volcano places the pods of a PodGroup together", POD_GROUP, pod_group.spec, _volcano_marks, "volcano"
    ),
    "scheduler-plugins": Strategy(
        "the coscheduling plugin places the pods of a PodGroup together",
        PLUGIN_POD_GROUP,
        _plugin_spec,
        _plugin_marks,
        "scheduler-plugins-scheduler",
        by_version=True,
        forgets=True,
    ),
}


def strategy(settings: Settings) -> Strategy:
    """Return how a home keeps teams together."""
    return STRATEGIES[settings.gang]


def priority(job: Job, role: Role, settings: Settings) -> dict[str, str]:  # noqa: ARG001 - every kind is asked so
    """Return the priority class of the scheduling policy, where it is our own scheduler that sees nothing but pods."""
    wanted = at(job.object, (*_POLICY, "priorityClass"))
    return {"priorityClassName": wanted} if wanted and settings.gang == "labels" else {}


def minimum(job: Job) -> int:
    """Return how many pods must fit before any starts: as asked, the elastic minimum, or all; never more than all."""
    if job.run_policy.gang_min is not None:
        return min(job.run_policy.gang_min, job.total)
    if job.elastic is None:
        return job.total
    others = job.total - job.count(job.elastic.role)
    return min(job.elastic.minimum + others, job.total)


def stages(job: Job) -> list[tuple[Role, ...]]:
    """Return the roles that may start at the same time, stage by stage."""
    found: dict[After | None, list[Role]] = {}
    for role in job.roles:
        found.setdefault(role.after, []).append(role)
    return [tuple(roles) for roles in found.values()]


def teams(job: Job, settings: Settings, version: int, group: str = "") -> dict[str, Team]:
    """Return the team of each role; `group` is what its object is called unless each run of the job has one."""
    chosen = strategy(settings)
    name = f"{job.name}-v{version}" if chosen.by_version else group or job.name
    if chosen.by_stage:
        return {role.name: team for stage, team in _by_stage(job, name) for role in stage}
    whole = Team(job.name, minimum(job), name if chosen.resource else "")
    return {role.name: whole for role in job.roles}


def _by_stage(job: Job, name: str) -> Iterator[tuple[tuple[Role, ...], Team]]:
    found = stages(job)
    for stage in found:
        least = minimum(job)
        if len(found) > 1:
            least = max(1, min(least, sum(min(role.needed, role.replicas) for role in stage)))
        first = {role.name: count for role, count in pod_group.first(replace(job, roles=stage), least)}
        yield stage, Team(job.name, least, name if stage is found[0] else f"{name}-{stage[0].label}", first)


def objects(job: Job, settings: Settings, teams: Iterable[Team]) -> tuple[Create, ...]:
    """Return what makes teams known to their scheduler, if anything does."""
    chosen = strategy(settings)
    if chosen.resource is None:
        return ()
    named = {team.group: team for team in teams if team.group}
    return tuple(Create(_object(job, chosen, chosen.resource, team)) for team in named.values())


def _object(job: Job, chosen: Strategy, resource: Resource, team: Team) -> Object:
    own: Object = job.object["metadata"]
    group = support.of(job, resource, team.group, own.get("labels") or {})
    if resource == POD_GROUP:  # Volcano reads wishes from there
        group["metadata"]["annotations"] = {**(own.get("annotations") or {})}
    return {**group, "spec": chosen.spec(job, team.minimum)}


def freed(pod: Object) -> Object:
    """Return a pod that does not wait for its team: that has started long ago, or some of it have even ended."""
    return {**pod, "spec": {name: value for name, value in pod["spec"].items() if name != _GROUP_FIELD}}


def marks(settings: Settings, team: Team, role: Role, index: int) -> Marks:
    """Return what a replica's pod carries to be one of its team."""
    chosen = strategy(settings)
    if (chosen.resource is not None and not team.group) or not team.has(role, index):
        return Marks()
    found = chosen.marks(team, role)
    scheduler = settings.gang_scheduler or chosen.scheduler
    return Marks(found.labels, found.annotations, {"schedulerName": scheduler, **found.spec}) if scheduler else found
