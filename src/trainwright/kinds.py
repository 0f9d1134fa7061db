"""One row per job kind joins read, build, verdict and size path.

Admission, the loop, the commands and the pages all read these rows; none of them knows a kind by name.
"""

from trainwright.api import kubeflow
from trainwright.api import pytorch_job as pytorch_job_api
from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.objects import Object
from trainwright.core.resources import AUTOSCALER, POD, SERVICE
from trainwright.desired import pytorch_job
from trainwright.reconcile import verdicts
from trainwright.reconcile.kind import Column, Definition, Kind, Place
from trainwright.reconcile.replicas import Replicas

__all__ = ["KINDS", "PYTORCH_JOB", "Kind", "kind_of"]


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
    resource=pytorch_job_api.RESOURCE,
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

KINDS: tuple[Kind, ...] = (PYTORCH_JOB,)


def kind_of(obj: Object) -> Kind | None:
    """Return the row for an object's apiVersion and kind, or None if it is no job of ours."""
    for kind in KINDS:
        if (kind.resource.api_version, kind.resource.kind) == (obj.get("apiVersion"), obj.get("kind")):
            return kind
    return None
