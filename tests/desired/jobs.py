"""A job named j of every kind, with 3 pods that start together."""

from typing import Any

from trainwright.core.objects import Object

META = {"name": "j", "namespace": "default", "uid": "uid"}


def _template(container: str = "main") -> Object:
    resources = {"requests": {"cpu": "1"}}
    return {"spec": {"containers": [{"name": container, "image": "i", "command": ["c"], "resources": resources}]}}


def _job(version: str, kind: str, **spec: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {**META}, "spec": spec}


def pytorch_job(workers: int) -> Object:
    worker = {"replicas": workers, "template": _template("pytorch")}
    return _job("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Worker": worker})


def volcano_job(workers: int) -> Object:
    task = {"name": "worker", "replicas": workers, "template": _template()}
    return _job("batch.volcano.sh/v1alpha1", "Job", minAvailable=workers, tasks=[task])


def training_job(trainers: int) -> Object:
    trainer = {"entrypoint": "c", "min-instance": trainers, "max-instance": trainers}
    return _job("paddlepaddle.org/v1", "TrainingJob", image="i", trainer=trainer)


def mpi_job(workers: int, *, modern: bool = False) -> Object:
    """Return an MPIJob: workers in a StatefulSet, or, if it is a modern one, as plain pods."""
    if not modern:
        return _job("kubeflow.org/v1alpha1", "MPIJob", replicas=workers, template=_template())
    roles = {"Launcher": {"template": _template()}, "Worker": {"replicas": workers, "template": _template()}}
    return _job("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=roles)


JOBS = {
    "PyTorchJob": pytorch_job(3),
    "Job": volcano_job(3),
    "TrainingJob": training_job(3),
    "MPIJob": mpi_job(3),
}
"""By the names of the kinds."""
