"""The objects of a PyTorchJob: two Services, the autoscaler if metrics are given, what keeps gangs, and the pods.

One Service carries the name the environment says (`<job>-master-0`, or `<job>-worker-0` without a Master; an elastic
job with a Master says both, so it has both); another, named as the job, makes every pod's own host name resolve,
because any rank may become rank 0.
"""

from collections.abc import Iterator

from trainwright.api.common import Job, Role
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object
from trainwright.desired import gangs, pods, support
from trainwright.desired.base import Desired, Settings

OPERATOR_NAME = "pytorchjob-controller"
CONTAINER = "pytorch"
_MASTER, _WORKER = "Master", "Worker"


def build(job: Job, settings: Settings, version: int = 0) -> Desired:
    """Return everything a PyTorchJob should have while it runs."""
    labels = job_labels(job)
    services = [
        support.headless_service(
            job, names.pod(job.name, role.name, index), labels, _selector(job, role, index), _ports(role)
        )
        for role, index in _addressed(job)
    ]
    lead = next(iter(job.roles), None)
    services.append(support.headless_service(job, job.name, labels, labels, _ports(lead) if lead else ()))
    scaler = support.autoscaler(job, labels)
    around = (*services, *([scaler] if scaler else []))
    group = pods.group_objects(job, SHAPE, settings, version)
    return Desired((*group, *map(Create, around)), pods.wanted(job, SHAPE, settings, version))


def _addressed(job: Job) -> Iterator[tuple[Role, int]]:
    """Yield the replicas whose short names the environment says: the lead, and the host of the rendezvous."""
    lead = job.role(_MASTER) or job.role(_WORKER)
    if lead is not None:
        yield lead, 0
    if job.elastic is not None and job.elastic.hub is not None:
        host = job.role(job.elastic.role)
        if host is not None and (host.name, job.elastic.hub) != (lead and lead.name, 0):
            yield host, job.elastic.hub


def _ports(role: Role) -> list[Object]:
    containers = (role.template.get("spec") or {}).get("containers") or [{}]
    return support.service_ports(containers[pods.main_container(containers, CONTAINER)])


def job_labels(job: Job) -> dict[str, str]:
    """Return the labels by which everything of one job is selected."""
    return {names.OPERATOR_NAME_LABEL: OPERATOR_NAME, names.JOB_NAME_LABEL: job.name}


def role_labels(job: Job, role: Role) -> dict[str, str]:
    """Return the labels by which the pods of one role are selected."""
    return {**job_labels(job), names.REPLICA_TYPE_LABEL: role.label}


def _selector(job: Job, role: Role, index: int) -> dict[str, str]:
    return {**role_labels(job, role), names.REPLICA_INDEX_LABEL: str(index)}


def _labels(job: Job, role: Role, index: int) -> dict[str, str]:
    labels = _selector(job, role, index)
    if index == 0 and (role.name == _MASTER or not job.count(_MASTER)):
        labels[names.JOB_ROLE_LABEL] = "master"
    return labels


SHAPE = pods.Shape(CONTAINER, _labels, spec=gangs.priority)
