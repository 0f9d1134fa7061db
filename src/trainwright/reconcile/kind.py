"""Kind, Life, Observed, Pod, Decision: what `decide` must be told, and what it answers.

A `Kind` is a row: the functions that differ from kind to kind. Its `Life` is how its jobs go from new to finished;
several kinds may live alike. `Observed` is every object that carries the job's label; `Pod` is one of them as far as
decisions look at it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from trainwright.api.common import Job
from trainwright.api.faces import Face
from trainwright.api.reader import Shape
from trainwright.core import names
from trainwright.core.actions import Decision
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, Ref, at, controller_uid, moment, ref
from trainwright.core.resources import Resource
from trainwright.desired import Desired, Gang, Settings
from trainwright.desired.gangs import STRATEGIES

Place = tuple[str, int]
"""A role's name and an index."""


@dataclass(frozen=True)
class Counts:
    """How many replicas of a role there are in each state; what has succeeded counts also when its pod is gone."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    doc: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False
    """Only `kubectl get -o wide` shows it."""


@dataclass(frozen=True)
class Definition:
    """What an API server must be told to serve a kind, beyond its names."""

    doc: str
    spec: type[Any]
    status: type[Any]
    columns: tuple[Column, ...]
    active_path: str
    """Where the scale subresource reads how many replicas there are."""
    selector_path: str
    """Where it reads which pods they are."""
    command: Shape | None = None
    """What an object of the kind's `commands` looks like, where there are any."""


@dataclass(frozen=True)
class Kind:
    """One job kind: everything the loop, admission and the commands need to know of it."""

    face: Face
    """What its jobs say about themselves."""
    default: Callable[[Object], Object]
    check: Callable[[Object, Object | None], list[Problem]]
    read: Callable[[Object], Job]
    build: Callable[[Job, Settings, int], Desired]
    """The job, the home's settings and the version of its pods to everything it should have."""
    life: "Life"
    """How a job of this kind goes from new to finished."""
    container: str
    """The container whose exit code is the replica's."""
    place: Callable[[Job, Object], Place | None]
    """Which replica a pod is; None for a pod that is none of the job's."""
    owns: tuple[Resource, ...]
    """The kinds of objects a job of this kind may have, beside that which keeps gangs together."""
    definition: Definition
    hindered: Callable[[Job, Settings], Iterable[Problem]] = lambda job, settings: ()  # noqa: ARG005 - most are not
    """What a home with these settings cannot do for a job that is right in itself."""
    resizable: bool = True
    """Whether a job of this kind can be elastic: resized by the autoscaler while it runs."""
    expires: bool = True
    """Whether a job of this kind can ask to be removed some time after its end."""

    @property
    def resource(self) -> Resource:
        """Return the kind as the API serves it."""
        return self.face.resource

    @property
    def name(self) -> str:
        """Return the kind's name, "PyTorchJob"."""
        return self.face.name

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Return every apiVersion under which users write this kind."""
        return self.face.api_versions

    @property
    def also_served(self) -> tuple[str, ...]:
        """Return the other versions of the API under which users write this kind."""
        return self.face.also_served

    @property
    def commands(self) -> Resource | None:
        """Return the objects by which users tell a job of this kind what to do, if there are any."""
        return self.face.commands

    def owned(self, gang: Gang) -> tuple[Resource, ...]:
        """Return the kinds of objects a job may have where gangs are kept together so: not every cluster has all."""
        group = STRATEGIES[gang].resource
        return (group, *self.owns) if group else self.owns

    @property
    def size_path(self) -> tuple[str, ...]:
        """Return where a job of this kind says how large it shall be."""
        return self.resource.size_path


class Life(Protocol):
    """How the jobs of a kind live. A life is a value with the rules of the kinds that share it; it keeps nothing."""

    def step(self, kind: Kind, job: Job, sight: "Sight", settings: Settings, now: datetime) -> Decision:
        """Say what to do next for a job that is there and ours to look after."""

    def refuse(self, job: Job, message: str, now: datetime) -> Object:
        """Return the status of a job that admission should not have let in, `message` saying why."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the job, as far as decisions look at it."""

    object: Object
    name: str
    uid: str
    role: str
    index: int
    version: int
    phase: str
    terminating: bool
    restarts: int
    """Of all containers, init containers included."""
    main_restarts: int
    """Of the containers alone."""
    down: bool
    """The main container has failed and was not started again yet, though the pod lives on."""
    code: int | None
    """The main container's exit code, or the first other one's that is not 0; None if that is not known."""
    failed_at: datetime | None
    """When a container last ended with a failure."""

    @property
    def started(self) -> bool:
        """Say whether its containers have run, or tried to."""
        return self.phase in ("Running", "Succeeded", "Failed") or self.restarts > 0

    @property
    def ended(self) -> bool:
        """Say whether its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True)
class Observed:
    """Every object with the job's label that the cluster has, as read in one go."""

    objects: tuple[Object, ...] = ()


@dataclass(frozen=True)
class Sight:
    """What was observed, sorted out."""

    pods: tuple[Pod, ...] = ()
    support: Mapping[Ref, Object] = field(default_factory=dict)
    strangers: frozenset[Ref] = frozenset()
    """Objects that another owner controls; they may hold a name we want."""
    commands: tuple[Object, ...] = ()
    """What somebody has told the job to do."""


def sort_out(kind: Kind, job: Job, seen: Observed) -> Sight:
    """Tell the job's own pods from its other objects and from what is not its own."""
    order = {role.name: place for place, role in enumerate(job.roles)}
    pods: list[Pod] = []
    support: dict[Ref, Object] = {}
    strangers: set[Ref] = set()
    commands: list[Object] = []
    children = {obj["metadata"].get("uid", "") for obj in seen.objects if controller_uid(obj) == job.uid}
    for obj in seen.objects:
        owner = controller_uid(obj)
        if kind.commands is not None and obj["kind"] == kind.commands.kind:
            if at(obj, ("target", "uid")) in (None, "", job.uid):  # else it is for an earlier job of that name
                commands.append(obj)
        elif owner != job.uid and not (obj["kind"] == "Pod" and owner in children):
            strangers.add(ref(obj))
        elif obj["kind"] != "Pod":
            support[ref(obj)] = obj
        elif (place := kind.place(job, obj)) is not None:
            pods.append(look(obj, place, kind.container))
    pods.sort(key=lambda pod: (order.get(pod.role, len(order)), pod.index))
    return Sight(tuple(pods), support, frozenset(strangers), tuple(commands))


def commanded(kind: Kind, obj: Object) -> str:
    """Return the name of the job a command is for; nothing if it is not for a job of this kind."""
    target = obj.get("target") or {}
    mine = (target.get("apiVersion"), target.get("kind")) == (kind.resource.api_version, kind.resource.kind)
    return str(target.get("name") or "") if mine else ""


def look(obj: Object, place: Place, main: str) -> Pod:
    """Return what decisions need to know of a pod."""
    meta, status = obj["metadata"], obj.get("status") or {}
    containers = status.get("containerStatuses") or ()
    steps = status.get("initContainerStatuses") or ()
    main_restarts = sum(each.get("restartCount", 0) for each in containers)
    version = (meta.get("labels") or {}).get(names.VERSION_LABEL, "0")
    return Pod(
        object=obj,
        name=meta["name"],
        uid=meta.get("uid", ""),
        role=place[0],
        index=place[1],
        version=int(version) if version.isdecimal() else 0,
        phase=status.get("phase") or "Pending",
        terminating="deletionTimestamp" in meta,
        restarts=main_restarts + sum(each.get("restartCount", 0) for each in steps),
        main_restarts=main_restarts,
        down=_is_down(containers, main),
        code=_exit_code(containers, main),
        failed_at=_failed_at((*containers, *steps)),
    )


def _main_first(containers: Sequence[Object], main: str) -> list[Object]:
    return sorted(containers, key=lambda each: each.get("name") != main)


def _exit_code(containers: Sequence[Object], main: str) -> int | None:
    codes = [
        ((each.get("state") or {}).get("terminated") or {}).get("exitCode") for each in _main_first(containers, main)
    ]
    if not codes or codes[0] is None:
        return None
    return next((int(code) for code in codes if code), 0)


def _is_down(containers: Sequence[Object], main: str) -> bool:
    for each in _main_first(containers, main)[:1]:
        state = each.get("state") or {}
        if "waiting" in state:
            state = each.get("lastState") or {}
        return bool((state.get("terminated") or {}).get("exitCode"))
    return False


def _failed_at(containers: Sequence[Object]) -> datetime | None:
    ends = [
        end
        for each in containers
        for state in ("state", "lastState")
        if (ended := (each.get(state) or {}).get("terminated"))
        and ended.get("exitCode")
        and (end := moment(ended.get("finishedAt"))) is not None
    ]
    return max(ends, default=None)
