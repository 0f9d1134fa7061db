"""The objects of a TrainingJob: plain pods `<job>-<role>-<i>`, and one headless Service that makes names resolve."""

from trainwright.api import training_job as api
from trainwright.api.common import Job, Role
from trainwright.api.training_template import MASTER, OLD_GPU, PSERVER, TRAINER
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import at
from trainwright.desired import pods, support
from trainwright.desired.base import Desired, Injection, Settings

LABELS = {MASTER: "paddle-job-master", PSERVER: "paddle-job-pserver", TRAINER: "paddle-job"}
"""The label by which users of the released controller select the pods of each role."""


def build(job: Job, settings: Settings, version: int = 0) -> Desired:
    """Return everything a TrainingJob should have while it runs."""
    labels = {names.PADDLE_JOB_LABEL: job.name}
    options = job.requests[0].options
    numbers = range(options["port"], options["port"] + api.ports(api.spec_of(job)))
    ports = [{"name": f"jobport-{n}", "port": n, "targetPort": n, "protocol": "TCP"} for n in numbers]
    service = support.headless_service(job, job.name, labels, labels, ports)
    group = pods.group_objects(job, SHAPE, settings, version)
    return Desired((*group, Create(service)), pods.wanted(job, SHAPE, settings, version), notes=_notes(job))


def _notes(job: Job) -> tuple[Injection, ...]:
    """Say what becomes of the job beyond what it says."""
    spec = api.spec_of(job)
    found = []
    if why := api.why_fixed(spec):
        found.append(Injection(job.name, "spec.trainer.max-instance", "not used", "operator", why))
    if spec.master is None and spec.fault_tolerant:
        found.append(Injection(job.name, "spec.master", "1", "operator", "a fault-tolerant job has a master"))
    for role in LABELS:
        for part in ("limits", "requests"):
            path = ("spec", role, "resources", part, OLD_GPU)
            if (amount := at(job.object, path)) is not None:
                where = f"spec.{role}.resources.{part}[{OLD_GPU}]"
                found.append(Injection(job.name, where, f"nvidia.com/gpu: {amount}", "operator", "its name today"))
    return tuple(found)


def _labels(job: Job, role: Role, index: int) -> dict[str, str]:  # noqa: ARG001 - every kind is asked so
    return {LABELS[role.name]: job.name, names.PADDLE_JOB_LABEL: job.name}


SHAPE = pods.Shape("", _labels)
