"""The face of each kind: what a job object says about itself, and how a job of that kind is told to stop or go on.

A face knows names, phases and counts as they stand in the object; nothing is read, checked or built. `kinds.py` joins
it with all the rest of a kind. It stands apart and imports next to nothing, because what only looks (`tw ps`, the
completion of names) has to answer at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainwright.core.actions import Create, Patch
from trainwright.core.errors import Conflict
from trainwright.core.names import CANCEL_ANNOTATION, ELASTIC_ANNOTATION
from trainwright.core.objects import Object, at, nest, ref
from trainwright.core.resources import BUILT_IN, SUPPORTING, Resource

Outcome = Literal["", "Succeeded", "Failed"]
"""How a job has ended, in the same two words for every kind; nothing while it has not."""

Wish = Literal["suspend", "resume", "cancel"]
"""What a user may want of a job that is there."""
Order = Callable[[Object, str], Create | Patch]
"""Given the job and who wants it: the object to make, or the change of the job, by which it is told."""

OWN_SIZE = ("spec", "elasticReplicas")
"""Where kinds keep their size whose original has no place for it: only our definitions know this field."""


@dataclass(frozen=True)
class Standing:
    """Where a job stands, in its kind's own words."""

    phase: str
    outcome: Outcome = ""
    reason: str = ""
    message: str = ""
    late: bool = False
    """It failed because its time was up."""
    cancelled: bool = False
    """It failed because somebody wanted it to end."""
    resumable: bool = False
    """It has ended for now, but may be told to go on."""

    @property
    def finished(self) -> bool:
        """Say whether nothing more will happen."""
        return self.outcome != ""


@dataclass(frozen=True)
class Ranks:
    """How many ranks of a job are up or done, of how many, and how often any was started again."""

    ready: int = 0
    wanted: int | None = None
    """None: nobody has looked at the job yet."""
    restarts: int = 0


@dataclass(frozen=True)
class Face:
    """What can be said of the jobs of a kind by looking at them."""

    resource: Resource
    standing: Callable[[Object], Standing]
    """Where a job stands, from its status; an empty one is that of a new job."""
    ranks: Callable[[Object], Ranks]
    """How many of a job's ranks are up, from the whole object."""
    going: str
    """The field selector that leaves out jobs that have ended for good, where an API server knows its fields."""
    orders: Mapping[Wish, Order] = field(default_factory=dict)
    """How a job is told; what is not there cannot be asked of this kind."""
    also_served: tuple[str, ...] = ()
    """Other versions of the API under which users write this kind; all are stored as the one of `resource`."""
    short_names: tuple[str, ...] = ()
    """By which the kind is also found."""
    stretch: str = ""
    """What a user writes to make a job of this kind elastic; nothing where no job can be."""
    commands: Resource | None = None
    """Objects by which users tell a job of this kind what to do, each carried out once; None: there are none."""

    @property
    def name(self) -> str:
        """Return the kind's name, "PyTorchJob"."""
        return self.resource.kind

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Return every apiVersion under which users write this kind."""
        return (self.resource.api_version, *(f"{self.resource.group}/{version}" for version in self.also_served))


def _patched(path: tuple[str, ...], value: object) -> Order:
    return lambda job, who: Patch(ref(job), nest(path, value))  # noqa: ARG005 - a field does not say who


def _cancelled(job: Object, who: str) -> Patch:
    return Patch(ref(job), nest(("metadata", "annotations", CANCEL_ANNOTATION), who))


def _restarts(status: Object) -> int:
    told = status.get("restarts")
    roles = at(status, ("record", "roles")) or {}
    return int(told if told is not None else sum(role.get("restarts", 0) for role in roles.values()))


# Kubeflow's kinds: conditions tell

_COMPLETION = "status.completionTime"
_TELLING = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
"""Condition types from the most telling to the least; the first that holds is the phase."""
_BY_RUN_POLICY: Mapping[Wish, Order] = {
    "suspend": _patched(("spec", "runPolicy", "suspend"), True),
    "resume": _patched(("spec", "runPolicy", "suspend"), False),
    "cancel": _cancelled,
}


def outcome_of(status: Mapping[str, object] | None) -> Outcome:
    """Return Succeeded or Failed if the conditions say that a job has ended so, else nothing."""
    for condition in conditions(status):
        if condition["type"] in ("Succeeded", "Failed") and condition["status"] == "True":
            return "Failed" if condition["type"] == "Failed" else "Succeeded"
    return ""


def conditions(status: Mapping[str, object] | None) -> list[Object]:
    """Return the conditions of a status; none if it has none, or something else in their place."""
    found = (status or {}).get("conditions")
    return found if isinstance(found, list) else []


def _conditional(status: Object) -> Standing:
    holding = {each["type"]: each for each in conditions(status) if each.get("status") == "True"}
    name = next((name for name in _TELLING if name in holding), "")
    if not name:
        return Standing("Pending")
    cause = at(status, ("record", "cause")) if name == "Failed" else ""
    return Standing(
        "Cancelled" if cause == "Cancelled" else name,
        outcome_of(status),
        holding[name].get("reason", ""),
        holding[name].get("message", ""),
        late=cause == "Deadline",
        cancelled=cause == "Cancelled",
        resumable=name == "Suspended",
    )


def _replica_ranks(job: Object) -> Ranks:
    status: Object = job.get("status") or {}
    counted = ("succeeded",) if outcome_of(status) else ("active", "succeeded")
    _, _, wanted = str(status.get("active") or "").partition("/")
    roles = (status.get("replicaStatuses") or {}).values()
    ready = sum(int(role.get(state) or 0) for role in roles for state in counted)
    return Ranks(ready, int(wanted) if wanted.isdecimal() else None, _restarts(status))


def _with_replica_specs(wish: Wish) -> Order:
    """Return how an MPIJob of the newer form is told; the older one has no field for it."""

    def order(job: Object, who: str) -> Create | Patch:
        if "mpiReplicaSpecs" not in job["spec"]:
            name = job["metadata"]["name"]
            raise Conflict(
                f"{name} is written as v1alpha1 has it, without mpiReplicaSpecs, and cannot {wish}; cancel it"
            )
        return _BY_RUN_POLICY[wish](job, who)

    return order


PYTORCH_JOB = Face(
    Resource(
        "kubeflow.org",
        "v1",
        "pytorchjobs",
        "PyTorchJob",
        size_path=("spec", "pytorchReplicaSpecs", "Worker", "replicas"),
        selectable=(_COMPLETION,),
    ),
    _conditional,
    _replica_ranks,
    f"{_COMPLETION}=",
    _BY_RUN_POLICY,
    stretch="spec.elasticPolicy with minReplicas and maxReplicas",
)

MPI_JOB = Face(
    Resource(
        "kubeflow.org",
        "v2beta1",
        "mpijobs",
        "MPIJob",
        size_path=("spec", "mpiReplicaSpecs", "Worker", "replicas"),
        selectable=(_COMPLETION,),
    ),
    _conditional,
    _replica_ranks,
    f"{_COMPLETION}=",
    {**_BY_RUN_POLICY, "suspend": _with_replica_specs("suspend"), "resume": _with_replica_specs("resume")},
    also_served=("v1alpha1",),
    short_names=("mj", "mpij"),
)


# Volcano's Job: the state tells, and commands are objects of their own

COMMAND = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command", status=False)
"""What can be asked of a job once, such as to abort; its fields are in `volcano_command.py`."""
_VOLCANO_PHASES: Mapping[str, Outcome] = {
    "Pending": "",
    "Running": "",
    "Restarting": "",
    "Completing": "",
    "Completed": "Succeeded",
    "Aborting": "",
    "Aborted": "Failed",
    "Terminating": "",
    "Terminated": "Failed",
    "Failed": "Failed",
}


def _commanded(action: str) -> Order:
    def order(job: Object, who: str) -> Create:
        meta = job["metadata"]
        target = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        }
        return Create(
            {
                "apiVersion": COMMAND.api_version,
                "kind": COMMAND.kind,
                "metadata": {"generateName": f"{meta['name']}-{action.lower()}-", "namespace": meta["namespace"]},
                "action": action,
                "target": target,
                "message": f"asked for by {who}",
            }
        )

    return order


def _by_state(status: Object) -> Standing:
    state: Object = status.get("state") or {}
    phase = state.get("phase") if state.get("phase") in _VOLCANO_PHASES else "Pending"
    return Standing(
        str(phase),
        _VOLCANO_PHASES[str(phase)],
        state.get("reason", ""),
        state.get("message", ""),
        cancelled=phase == "Terminated",
        resumable=phase == "Aborted",
    )


def _task_ranks(job: Object) -> Ranks:
    status: Object = job.get("status") or {}
    if "state" not in status:
        return Ranks()
    tasks = at(job, ("spec", "tasks")) or ()
    size = at(job, OWN_SIZE)
    elastic = str(status.get("elasticSelector") or "").rpartition("=")[2] if size is not None else ""
    wanted = sum(int(size if task.get("name") == elastic else task.get("replicas", 1)) for task in tasks)
    ready = sum(int(status.get(state) or 0) for state in ("running", "succeeded"))
    return Ranks(ready, wanted, _restarts(status) + int(status.get("retryCount") or 0))


VOLCANO_JOB = Face(
    Resource(
        "batch.volcano.sh",
        "v1alpha1",
        "jobs",
        "Job",
        size_path=OWN_SIZE,
        selectable=("status.state.phase",),
    ),
    _by_state,
    _task_ranks,
    ",".join(f"status.state.phase!={phase}" for phase in ("Completed", "Terminated", "Failed")),
    {"suspend": _commanded("AbortJob"), "resume": _commanded("ResumeJob"), "cancel": _commanded("TerminateJob")},
    short_names=("vcjob", "vj"),
    stretch=f"the annotation {ELASTIC_ANNOTATION}: TASK, where the task has a minAvailable below its replicas",
    commands=COMMAND,
)


# TrainingJob: the phase tells, and only trainers have ranks

_TRAINING_PHASES = {"": "Pending", "creating": "Creating", "running": "Running"}
_TRAINING_OUTCOMES: Mapping[str, Outcome] = {"succeeded": "Succeeded", "failed": "Failed"}


def _by_phase(status: Object) -> Standing:
    phase = status.get("phase") or ""
    outcome = _TRAINING_OUTCOMES.get(phase, "")
    cancelled = outcome == "Failed" and at(status, ("record", "cause")) == "Cancelled"
    shown = "Cancelled" if cancelled else outcome or _TRAINING_PHASES.get(phase, phase)
    return Standing(shown, outcome, message=status.get("reason") or "", cancelled=cancelled)


def _trainer_ranks(job: Object) -> Ranks:
    status: Object = job.get("status") or {}
    roles = status.get("replica_statuses") or ()
    trainers: Object = next((role for role in roles if role.get("training_resource_type") == "TRAINER"), {})
    states: Object = trainers.get("resource_states") or {}
    counted = ("succeeded",) if status.get("phase") in _TRAINING_OUTCOMES else ("running", "succeeded")
    ready = sum(int(states.get(state) or 0) for state in counted)
    return Ranks(ready, at(status, ("scale_status", "wanted")), _restarts(status))


TRAINING_JOB = Face(
    Resource(
        "paddlepaddle.org",
        "v1",
        "trainingjobs",
        "TrainingJob",
        size_path=OWN_SIZE,
        selectable=("status.phase",),
    ),
    _by_phase,
    _trainer_ranks,
    ",".join(f"status.phase!={phase}" for phase in _TRAINING_OUTCOMES),
    {"cancel": _cancelled},
    short_names=("tj",),
    stretch="fault_tolerant: true, and a max-instance of the trainer above its min-instance",
)

FACES: tuple[Face, ...] = (PYTORCH_JOB, MPI_JOB, VOLCANO_JOB, TRAINING_JOB)

RESOURCES: tuple[Resource, ...] = (*BUILT_IN, *SUPPORTING, *(face.resource for face in FACES), COMMAND)
"""Every kind of object that a home on this machine keeps."""


def face_of(obj: Object) -> Face | None:
    """Return the face for an object's apiVersion and kind, or None if it is no job of ours."""
    for face in FACES:
        if face.name == obj.get("kind") and obj.get("apiVersion") in face.api_versions:
            return face
    return None
