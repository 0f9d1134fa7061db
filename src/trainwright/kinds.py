"""One row per job kind joins read, build, verdict and size path.

Admission, the loop, the commands and the pages all read these rows; none of them knows a kind by name.
"""

from collections.abc import Callable, Iterator, Mapping

from trainwright.api import faces, kubeflow, volcano_command
from trainwright.api import mpi_job as mpi_job_api
from trainwright.api import pytorch_job as pytorch_job_api
from trainwright.api import training_job as training_job_api
from trainwright.api import volcano_job as volcano_job_api
from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.errors import Problem
from trainwright.core.objects import Object
from trainwright.core.resources import (
    AUTOSCALER,
    BATCH_JOB,
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Resource,
)
from trainwright.desired import Settings, mpi_job, pytorch_job, training_job, volcano_job
from trainwright.frameworks import plugins
from trainwright.reconcile import verdicts
from trainwright.reconcile.kind import Column, Definition, Kind, Place
from trainwright.reconcile.launcher import Launched
from trainwright.reconcile.phases import Phases
from trainwright.reconcile.replicas import Replicas
from trainwright.reconcile.stages import Stages

__all__ = ["COMMANDS", "KINDS", "PYTORCH_JOB", "TRAINING_JOB", "VOLCANO_JOB", "Kind", "kind_of"]


def _by_label(job: Job, pod: Object) -> Place | None:
    """Return which replica a pod is, by the labels of Kubeflow's kinds."""
    labels = pod["metadata"].get("labels") or {}
    label, index = labels.get(names.REPLICA_TYPE_LABEL), labels.get(names.REPLICA_INDEX_LABEL, "")
    role = next((role.name for role in job.roles if role.label == label), label)
    return (role, int(index)) if role and index.isdecimal() else None


_KUBEFLOW_COLUMNS = (
    Column("State", ".status.conditions[-1:].type", "The last condition."),
    Column("Active", ".status.active", "How many pods run, of how many there should be."),
    Column("Restarts", ".status.restarts", "Container restarts and pods made again.", "integer"),
    Column("Age", ".metadata.creationTimestamp", "How long the job has been there.", "date"),
)

PYTORCH_JOB = Kind(
    face=faces.PYTORCH_JOB,
    default=pytorch_job_api.default,
    check=pytorch_job_api.check,
    read=pytorch_job_api.read,
    build=pytorch_job.build,
    life=Replicas(verdicts.lead_or_all, lead=("Master", "Worker")),
    container=pytorch_job.CONTAINER,
    place=_by_label,
    owns=(SERVICE, AUTOSCALER, POD),
    definition=Definition(
        doc="Trains with PyTorch: a master and workers of a fixed number, or elastic workers.",
        spec=pytorch_job_api.Spec,
        status=kubeflow.Status,
        columns=_KUBEFLOW_COLUMNS,
        active_path=".status.replicaStatuses.Worker.active",
        selector_path=".status.replicaStatuses.Worker.selector",
    ),
)


def _by_pod_name(job: Job, pod: Object) -> Place | None:
    """Return which part of an MPIJob a pod is: a worker by the number at its name's end, else the launcher."""
    name = str(pod["metadata"]["name"])
    if name.startswith(f"{mpi_job.worker_set(job)}-"):
        index = name.rpartition("-")[2]
        return (mpi_job_api.WORKER, int(index)) if index.isdecimal() else None
    return (mpi_job_api.LAUNCHER, 0) if name.startswith(f"{mpi_job.launcher_name(job)}-") else None


MPI_JOB = Kind(
    face=faces.MPI_JOB,
    resizable=False,
    default=mpi_job_api.default,
    check=mpi_job_api.check,
    read=mpi_job_api.read,
    build=mpi_job.build,
    hindered=mpi_job.hindered,
    life=Launched(),
    container="",
    place=_by_pod_name,
    owns=(CONFIG_MAP, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SERVICE, STATEFUL_SET, BATCH_JOB, POD),
    definition=Definition(
        doc="Runs an MPI program: a launcher starts ranks in worker pods, by exec or by ssh.",
        spec=mpi_job_api.Spec,
        status=mpi_job_api.Status,
        columns=_KUBEFLOW_COLUMNS,
        active_path=".status.replicaStatuses.Worker.active",
        selector_path=".status.replicaStatuses.Worker.selector",
    ),
)


def _by_task(job: Job, pod: Object) -> Place | None:
    """Return which replica a pod is, by Volcano's labels."""
    labels = pod["metadata"].get("labels") or {}
    task, index = labels.get(names.TASK_LABEL), labels.get(names.TASK_INDEX_LABEL, "")
    return (task, int(index)) if task and job.role(task) and index.isdecimal() else None


def _default_volcano_job(obj: Object) -> Object:
    return plugins.with_needs(volcano_job_api.default(obj))


def _check_volcano_job(obj: Object, old: Object | None) -> list[Problem]:
    before = None if old is None else plugins.with_needs(old)
    found = volcano_job_api.check(plugins.with_needs(obj), before)  # what admission adds is no change of the user's
    return list(dict.fromkeys((*found, *plugins.check(obj))))


def _read_volcano_job(obj: Object) -> Job:
    return plugins.complete(volcano_job_api.read(obj))


def _hindered(job: Job, settings: Settings) -> Iterator[Problem]:
    return plugins.hindered(job, settings.net)


VOLCANO_JOB = Kind(
    face=faces.VOLCANO_JOB,
    default=_default_volcano_job,
    check=_check_volcano_job,
    read=_read_volcano_job,
    build=volcano_job.build,
    hindered=_hindered,
    life=Phases(),
    container="",
    place=_by_task,
    owns=(SERVICE, CONFIG_MAP, SECRET, NETWORK_POLICY, VOLUME_CLAIM, POD),
    definition=Definition(
        doc="Runs tasks of several kinds together, wired by plugins and driven by policies.",
        spec=volcano_job_api.Spec,
        status=volcano_job_api.Status,
        columns=(
            Column("Status", ".status.state.phase", "The phase the job is in."),
            Column("minAvailable", ".status.minAvailable", "How many pods the job needs.", "integer"),
            Column("Runnings", ".status.running", "How many pods run.", "integer"),
            Column("Age", ".metadata.creationTimestamp", "How long the job has been there.", "date"),
            Column("Queue", ".spec.queue", "The queue it is in.", wide=True),
        ),
        active_path=".status.elasticReplicas",
        selector_path=".status.elasticSelector",
        command=volcano_command.DOCUMENT,
    ),
)


def _by_stage(job: Job, pod: Object) -> Place | None:
    """Return which replica of a TrainingJob a pod is: the role by its label, the index by its name."""
    labels = pod["metadata"].get("labels") or {}
    index = str(pod["metadata"]["name"]).rpartition("-")[2]
    role = next((role.name for role in job.roles if labels.get(training_job.LABELS[role.name]) == job.name), None)
    return (role, int(index)) if role and index.isdecimal() else None


TRAINING_JOB = Kind(
    face=faces.TRAINING_JOB,
    default=training_job_api.default,
    check=training_job_api.check,
    read=training_job_api.read,
    build=training_job.build,
    life=Stages(),
    expires=False,
    container="",
    place=_by_stage,
    owns=(SERVICE, POD),
    definition=Definition(
        doc="Trains with PaddlePaddle: a master, parameter servers and trainers, which may scale.",
        spec=training_job_api.Spec,
        status=training_job_api.Status,
        columns=(
            Column("State", ".status.phase", "creating, running, succeeded or failed."),
            Column("Trainers", ".status.elasticReplicas", "How many trainers run.", "integer"),
            Column("Wanted", ".status.scale_status.wanted", "How many there should be.", "integer"),
            Column("Age", ".metadata.creationTimestamp", "How long the job has been there.", "date"),
            Column("Reason", ".status.reason", "Why it is in that phase.", wide=True),
        ),
        active_path=".status.elasticReplicas",
        selector_path=".status.elasticSelector",
    ),
)

KINDS: tuple[Kind, ...] = (PYTORCH_JOB, MPI_JOB, VOLCANO_JOB, TRAINING_JOB)

COMMANDS: Mapping[Resource, Callable[[Object], list[Problem]]] = {faces.COMMAND: volcano_command.check}
"""Objects by which users tell jobs what to do, each with what says everything that is wrong with one."""


def kind_of(obj: Object) -> Kind | None:
    """Return the row for an object's apiVersion and kind, or None if it is no job of ours."""
    for kind in KINDS:
        if kind.resource.kind == obj.get("kind") and obj.get("apiVersion") in kind.api_versions:
            return kind
    return None
