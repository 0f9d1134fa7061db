"""MPIJob (kubeflow.org v1alpha1 and v2beta1): what a user may write, what is filled in, what is refused.

Both versions are one kind with one schema; which form a job has is read from its fields. In v1alpha1 a job says how
much it wants in one of three ways (`gpus`, `processingUnits`, `replicas`) and one template serves launcher and workers;
v2beta1 has `mpiReplicaSpecs`. How many units a node takes is the job's own figure or that of the home (`NodeSize`), so
`read` is told both.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwright.api import envelope, faces, kubeflow, pod_template
from trainwright.api.common import Job, Request, RestartPolicy, Role, RunPolicy
from trainwright.api.envelope import MOST_PODS, without_nulls
from trainwright.api.reader import OneOf, Shape, build, child, entry, show, walk
from trainwright.core import names, quantity
from trainwright.core.errors import Problem, did_you_mean
from trainwright.core.objects import Object, at

RESOURCE = faces.MPI_JOB.resource
LAUNCHER, WORKER = "Launcher", "Worker"
OURS = "kubeflow.org/mpi-operator"
TRANSPORT_ANNOTATION = f"{names.DOMAIN}/transport"
"""On a v2beta1 job: "exec" starts ranks as v1alpha1 does; without it they are started by ssh."""
GPU = "nvidia.com/gpu"
BACKOFF_LIMIT = 6
SSH_PATH = "/root/.ssh"

Implementation = Literal["OpenMPI", "Intel", "MPICH"]
CreationPolicy = Literal["AtStartup", "WaitForWorkersReady"]
Transport = Literal["exec", "ssh"]
Form = Literal["gpus", "processingUnits", "replicas", "mpiReplicaSpecs"]
_FORMS: tuple[Form, ...] = ("gpus", "processingUnits", "replicas", "mpiReplicaSpecs")


@dataclass(frozen=True)
class NodeSize:
    """What one worker takes where a job does not say it: the home's settings."""

    gpus: int = 8
    units: int = 1
    resource: str = GPU


@dataclass(frozen=True)
class Sizing:
    """How a job's wish was read: so many workers with so many units each."""

    workers: int
    units: int
    """Of `resource`, per worker; and of the launcher where it works too."""
    resource: str
    words: str
    """The sentence that says which form was read and what came of it."""


@dataclass(frozen=True)
class RunPolicySpec(kubeflow.RunPolicySpec):
    """How long the launcher may live, how often it may fail, and what is left of the job."""

    active_deadline_seconds: int | None = entry("How long the launcher may be active.", minimum=0, wide=True)
    managed_by: str | None = kubeflow.manager(OURS)


@dataclass(frozen=True)
class ReplicaSpec:
    """The pods of one role."""

    replicas: int | None = entry("How many pods the role has.", minimum=0, maximum=MOST_PODS)
    template: Object | None = entry("The pod template.", required=True, shape=pod_template.TEMPLATE)
    restart_policy: RestartPolicy | None = entry("What happens when a container ends: Never or OnFailure.")


@dataclass(frozen=True)
class Spec:
    """What the job shall be; the first eleven fields are those of v1alpha1, the others those of v2beta1."""

    ONE_OF = OneOf(
        _FORMS, "how large the job is", "gpus, processingUnits, replicas (v1alpha1) or mpiReplicaSpecs (v2beta1)"
    )

    gpus: int | None = entry("How many GPUs the job wants in all.", minimum=1, maximum=MOST_PODS)
    gpus_per_node: int | None = entry("How many GPUs one worker takes.", minimum=1, maximum=MOST_PODS)
    processing_units: int | None = entry(
        "How many units of any type the job wants in all.", minimum=1, maximum=MOST_PODS
    )
    processing_units_per_node: int | None = entry("How many units one worker takes.", minimum=1, maximum=MOST_PODS)
    processing_resource_type: str | None = entry("What a unit is.", shape=Shape("string", enum=(GPU, "cpu")))
    replicas: int | None = entry("How many workers the job wants.", minimum=1, maximum=MOST_PODS)
    launcher_on_master: bool | None = entry("Whether the launcher runs on a control-plane node.")
    backoff_limit: int | None = entry("How often the launcher is tried again.", minimum=0)
    active_deadline_seconds: int | None = entry("How long the launcher may be active.", minimum=0, wide=True)
    template: Object | None = entry("The pod template of launcher and workers.", shape=pod_template.TEMPLATE)
    slots_per_worker: int | None = entry("How many ranks one worker takes.", minimum=0, maximum=MOST_PODS)
    run_launcher_as_worker: bool | None = entry("Whether the launcher's pod takes ranks too.")
    mpi_replica_specs: dict[str, ReplicaSpec] | None = entry("The roles, Launcher and Worker.")
    mpi_implementation: Implementation | None = entry("Which MPI the image has.")
    ssh_auth_mount_path: str | None = entry("Where the ssh keys are mounted.")
    launcher_creation_policy: CreationPolicy | None = entry("Whether the launcher waits for its workers.")
    run_policy: RunPolicySpec | None = entry("How long the job may live, how often it may fail, what is left of it.")


@dataclass(frozen=True)
class Status(kubeflow.Status):
    """How the job is: Kubeflow's conditions, and the fields of v1alpha1."""

    launcher_status: str | None = entry("Active, Succeeded or Failed.")
    worker_replicas: int | None = entry("How many workers are ready.")


_DOCUMENT = envelope.document(Spec)
_OLD_ONLY = {
    "gpusPerNode": "gpus",
    "processingUnitsPerNode": "processingUnits",
    "processingResourceType": "processingUnits or replicas",
    "launcherOnMaster": "template",
    "template": "gpus, processingUnits or replicas",
}
_ROLES = "spec.mpiReplicaSpecs"


# Defaults


def default(obj: Object) -> Object:
    """Return the job as it is stored, in the version that is stored: what the user left out is written down."""
    obj = {**obj, "apiVersion": RESOURCE.api_version}
    if not isinstance(obj.get("spec"), dict):
        return obj
    spec = without_nulls(obj["spec"])
    if "mpiReplicaSpecs" not in spec:
        return {**obj, "spec": {"backoffLimit": BACKOFF_LIMIT, **spec}}
    spec = {
        "slotsPerWorker": 1,
        "sshAuthMountPath": SSH_PATH,
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": "AtStartup",
        **spec,
    }
    if isinstance(run := spec.get("runPolicy", {}), dict):
        spec["runPolicy"] = {"cleanPodPolicy": "None", "suspend": False, **run}
    if isinstance(roles := spec["mpiReplicaSpecs"], dict):
        missing: dict[str, Object] = {
            LAUNCHER: {"replicas": 1, "restartPolicy": "OnFailure"},
            WORKER: {"restartPolicy": "Never"},
        }
        spec["mpiReplicaSpecs"] = {
            name: {**missing.get(name, {}), **role} if isinstance(role, dict) else role for name, role in roles.items()
        }
    return {**obj, "spec": spec}


# Sizes


def form_of(spec: Spec) -> Form | None:
    """Return which of the forms a job is written in; the first if there are several, which `check` refuses."""
    given = {
        "gpus": spec.gpus,
        "processingUnits": spec.processing_units,
        "replicas": spec.replicas,
        "mpiReplicaSpecs": spec.mpi_replica_specs,
    }
    return next((form for form in _FORMS if given[form] is not None), None)


def size(spec: Spec, home: NodeSize) -> Sizing | Problem:
    """Return how many workers a job has and what each takes, or why its number cannot be divided so."""
    match form_of(spec):
        case "gpus":
            return _divided("gpus", spec.gpus or 0, spec.gpus_per_node or home.gpus, GPU, "GPU", spec)
        case "processingUnits":
            resource = spec.processing_resource_type or home.resource
            per_node = spec.processing_units_per_node or home.units
            return _divided("processingUnits", spec.processing_units or 0, per_node, resource, resource, spec)
        case "replicas":
            return _by_replicas(spec, home)
        case _:
            worker = (spec.mpi_replica_specs or {}).get(WORKER)
            count = (worker.replicas or 0) if worker else 0
            return Sizing(count, 0, "", f"read as mpiReplicaSpecs: {count} workers")


def _divided(name: str, total: int, per_node: int, resource: str, unit: str, spec: Spec) -> Sizing | Problem:
    nodes, left = divmod(total, per_node)
    if nodes and left:
        below, above = nodes * per_node, (nodes + 1) * per_node
        found = f"{total} is not a multiple of {name}PerNode ({per_node})"
        return Problem(f"spec.{name}", f"{found}; write {below} or {above}, or a {name}PerNode that divides it")
    pods, each = (nodes, per_node) if nodes else (1, total)
    workers = pods - 1 if spec.run_launcher_as_worker else pods
    launcher = " and a launcher that works too" if spec.run_launcher_as_worker else ""
    words = f"read as {name}: {total} {unit} are {workers} workers with {each} each{launcher}"
    return Sizing(workers, each, resource, words)


def _by_replicas(spec: Spec, home: NodeSize) -> Sizing:
    resource = spec.processing_resource_type or home.resource
    limit = at(_first_container(spec.template), ("resources", "limits", resource))
    units = int(quantity.parse(limit)) if limit is not None else 0
    pods = spec.replicas or 0
    workers = pods - 1 if spec.run_launcher_as_worker else pods
    launcher = " and a launcher that works too" if spec.run_launcher_as_worker else ""
    each = f" with {units} of {resource} each" if units else ""
    return Sizing(workers, units, resource, f"read as replicas: {workers} workers{each}{launcher}")


def slots(spec: Spec, sizing: Sizing) -> int:
    """Return how many ranks one worker takes: as asked, one per unit, or one."""
    return spec.slots_per_worker or sizing.units or 1


def _first_container(template: Any) -> Object:
    containers = at(template, ("spec", "containers"))
    first = containers[0] if isinstance(containers, list) and containers else {}
    return first if isinstance(first, dict) else {}


# Checks


@dataclass(frozen=True)
class _Look:
    object: Object
    given: Spec
    stored: Spec
    raw: Object = field(default_factory=dict)

    @property
    def modern(self) -> bool:
        return "mpiReplicaSpecs" in self.raw


def check(obj: Object, old: Object | None = None) -> list[Problem]:
    """Return everything that is wrong with a job, or that looks like a trap; `old` is what an update replaces."""
    raw = obj.get("spec") if isinstance(obj.get("spec"), dict) else {}
    look = _Look(obj, build(Spec, raw), build(Spec, default(obj).get("spec")), raw or {})
    found = [*walk(_DOCUMENT, obj), *pod_template.check_metadata(obj.get("metadata"), "metadata")]
    for rule in (_form, _units, _roles, _transport, _names):
        found += rule(look)
    if old is not None:
        found += _changes(look.given, build(Spec, old.get("spec")))
    return list(dict.fromkeys(found))


def _form(look: _Look) -> Iterator[Problem]:
    """Yield what does not go with the one form that a job is written in; that it is one, its shape has said."""
    there = [name for name in _FORMS if look.raw.get(name) is not None]
    if there == ["mpiReplicaSpecs"]:
        yield from _only_modern(look)
    elif len(there) == 1:
        yield from _only_old(look, there[0])


def _only_modern(look: _Look) -> Iterator[Problem]:
    for name, partner in _OLD_ONLY.items():
        if look.raw.get(name) is not None:
            yield Problem(f"spec.{name}", f"belongs to {partner}, not to mpiReplicaSpecs; leave it out")
    for name in ("backoffLimit", "activeDeadlineSeconds"):
        if look.raw.get(name) is not None:
            yield Problem(f"spec.{name}", f"is spec.runPolicy.{name} beside mpiReplicaSpecs; write it there")


def _only_old(look: _Look, form: str) -> Iterator[Problem]:
    if look.raw.get("template") is None:
        yield Problem("spec.template", "missing; launcher and workers are made from it")
    for name in ("mpiImplementation", "sshAuthMountPath", "launcherCreationPolicy", "runPolicy"):
        if look.raw.get(name) is not None:
            yield Problem(f"spec.{name}", f"belongs to mpiReplicaSpecs, not to {form}; leave it out")
    if look.raw.get("slotsPerWorker") == 0:
        yield Problem("spec.slotsPerWorker", "must be at least 1, found 0")


def _units(look: _Look) -> Iterator[Problem]:
    """Yield what is wrong with the numbers, as far as the job itself says how much a node takes."""
    for total, per_node in (("gpus", "gpusPerNode"), ("processingUnits", "processingUnitsPerNode")):
        if look.raw.get(per_node) is not None and look.raw.get(total) is None and not look.modern:
            yield Problem(f"spec.{per_node}", f"only means something beside {total}; leave it out")
    spec = look.given
    form = form_of(spec)
    if (form == "gpus" and spec.gpus_per_node) or (form == "processingUnits" and spec.processing_units_per_node):
        sizing = size(spec, NodeSize())
        if isinstance(sizing, Problem):
            yield sizing
    if form == "replicas":
        yield from _whole_units(look)


def _whole_units(look: _Look) -> Iterator[Problem]:
    resource = look.given.processing_resource_type or GPU
    limit = at(_first_container(look.given.template), ("resources", "limits", resource))
    try:
        amount = quantity.parse(limit) if isinstance(limit, str | int | float) else None
    except ValueError:
        return
    if amount is not None and amount != int(amount):
        path = f"spec.template.spec.containers[0].resources.limits[{resource}]"
        yield Problem(path, f"{show(limit)} is no whole number of units; write one, or slotsPerWorker", "warning")


def _roles(look: _Look) -> Iterator[Problem]:
    if (template := look.raw.get("template")) is not None and not look.modern:
        yield from pod_template.check(template, "spec.template")
    roles = look.raw.get("mpiReplicaSpecs")
    if not isinstance(roles, dict):
        return
    if LAUNCHER not in roles:
        yield Problem(f"{_ROLES}.{LAUNCHER}", "missing; it starts the ranks")
    for name, role in roles.items():
        path = child(_ROLES, name)
        if name not in (LAUNCHER, WORKER):
            near = did_you_mean(name, (LAUNCHER, WORKER)) if len(name) <= names.LABEL_LENGTH else ""
            yield Problem(path, f"there is no role {show(name)}{near} (there are: {LAUNCHER}, {WORKER})")
            continue
        if isinstance(role, dict):
            if role.get("template") is not None:
                yield from pod_template.check(role["template"], child(path, "template"))
            yield from _role(name, role, path)


def _role(name: str, role: Object, path: str) -> Iterator[Problem]:
    replicas, policy = role.get("replicas", 1 if name == LAUNCHER else 0), role.get("restartPolicy")
    if isinstance(replicas, int) and not isinstance(replicas, bool):
        if name == LAUNCHER and replicas != 1:
            yield Problem(f"{path}.replicas", f"there is exactly one Launcher, found {replicas}; write 1")
        if name == WORKER and replicas < 1:
            yield Problem(
                f"{path}.replicas", f"must be at least 1, found {replicas}; leave {WORKER} out for a launcher alone"
            )
    if policy in ("Always", "ExitCode"):
        yield Problem(f"{path}.restartPolicy", f"must be Never or OnFailure, found {policy}")


def _transport(look: _Look) -> Iterator[Problem]:
    said = at(look.object, ("metadata", "annotations", TRANSPORT_ANNOTATION))
    path = f"metadata.annotations[{TRANSPORT_ANNOTATION}]"
    if isinstance(said, str) and said not in ("exec", "ssh"):
        yield Problem(path, f"must be exec or ssh, found {show(said)}")
    if said == "ssh" and not look.modern and look.raw:
        yield Problem(path, "ssh goes with mpiReplicaSpecs; a v1alpha1 job is started by exec")
    where = look.given.ssh_auth_mount_path
    if where is not None and not where.startswith("/"):
        yield Problem("spec.sshAuthMountPath", f"must be an absolute path, found {show(where)}")


def _names(look: _Look) -> Iterator[Problem]:
    sizing = size(look.stored, NodeSize())
    last = max(sizing.workers - 1, 0) if isinstance(sizing, Sizing) else 0
    return envelope.check_name(look.object, lambda name: [names.pod(name, WORKER, last), f"{name}-launcher"])


def _changes(new: Spec, old: Spec) -> Iterator[Problem]:
    was, now = ((spec.run_policy and spec.run_policy.managed_by) or OURS for spec in (old, new))
    if was != now:
        yield Problem("spec.runPolicy.managedBy", f"field is immutable; it is {was!r} and cannot become {now!r}")
    before, after = form_of(old), form_of(new)
    if before and after and before != after:
        yield Problem("spec", f"a job that says {before} cannot say {after} instead; delete it and create it again")


# Reading


def read(obj: Object, home: NodeSize | None = None) -> Job:
    """Return the job that an admitted object describes, on nodes of that size."""
    spec = build(Spec, default(obj).get("spec"))
    metadata = obj["metadata"]
    sizing = size(spec, home or NodeSize())
    sized = sizing if isinstance(sizing, Sizing) else Sizing(0, 0, GPU, str(sizing))
    transport = at(metadata, ("annotations", TRANSPORT_ANNOTATION)) or ("ssh" if spec.mpi_replica_specs else "exec")
    options = {
        "transport": transport,
        "slots": slots(spec, sized),
        "launcher_works": bool(spec.run_launcher_as_worker),
        "implementation": spec.mpi_implementation or "",
        "ssh_path": spec.ssh_auth_mount_path or SSH_PATH,
    }
    return Job(
        resource=RESOURCE,
        namespace=metadata.get("namespace") or "default",
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        roles=_read_roles(spec, sized),
        run_policy=_read_run_policy(spec),
        requests=(Request("mpirun", options),),
        elastic=None,
        object=obj,
    )


def sizing_of(job: Job, home: NodeSize) -> Sizing | Problem:
    """Return how a job's wish is read on nodes of that size."""
    return size(spec_of(job), home)


def spec_of(job: Job) -> Spec:
    """Return what the user wrote, as it is stored."""
    return build(Spec, default(job.object).get("spec"))


def _read_roles(spec: Spec, sizing: Sizing) -> tuple[Role, ...]:
    if spec.mpi_replica_specs is None:
        template = spec.template or {}
        # With no retry allowed a node must not start the launcher again either: it would, once, before anybody looks.
        once = spec.backoff_limit == 0 or at(template, ("spec", "restartPolicy")) == "Never"
        return (
            Role(LAUNCHER, 1, template, "Never" if once else "OnFailure"),
            Role(WORKER, sizing.workers, template, "Always"),
        )
    roles = spec.mpi_replica_specs
    return tuple(
        Role(
            name,
            1 if name == LAUNCHER else sizing.workers,
            roles[name].template or {},
            roles[name].restart_policy or ("OnFailure" if name == LAUNCHER else "Never"),
        )
        for name in (LAUNCHER, WORKER)
        if name in roles
    )


def _read_run_policy(spec: Spec) -> RunPolicy:
    if spec.mpi_replica_specs is None:
        return RunPolicy(
            clean_pods="Running",
            deadline_seconds=spec.active_deadline_seconds,
            backoff_limit=BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit,
        )
    return kubeflow.read_run_policy(spec.run_policy or RunPolicySpec(), OURS)
