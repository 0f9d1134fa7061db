"""The objects around the pods: Services that make names resolve, and the horizontal pod autoscaler."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import AUTOSCALER, SERVICE, Resource


def headless_service(
    job: Job, name: str, labels: Mapping[str, str], selector: Mapping[str, str], ports: Sequence[Object]
) -> Object:
    """Return a Service that only makes names resolve, of pods that are not ready too: ranks wait for each other."""
    spec: Object = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)}
    if ports:
        spec["ports"] = [*ports]
    return {**of(job, SERVICE, name, labels), "spec": spec}


def service_ports(container: Object) -> list[Object]:
    """Return a container's named ports as a Service lists them, in their order."""
    named = {each["name"]: each for each in container.get("ports") or () if each.get("name")}
    return [
        {
            "name": name,
            "port": each["containerPort"],
            "targetPort": each["containerPort"],
            "protocol": each.get("protocol") or "TCP",
        }
        for name, each in named.items()
    ]


def autoscaler(job: Job, labels: Mapping[str, str]) -> Object | None:
    """Return the autoscaler that resizes an elastic job by metrics, if the user gave any."""
    if job.elastic is None or not job.elastic.metrics:
        return None
    spec = {
        "scaleTargetRef": {"apiVersion": job.resource.api_version, "kind": job.resource.kind, "name": job.name},
        "minReplicas": job.elastic.minimum,
        "maxReplicas": job.elastic.maximum,
        "metrics": [*job.elastic.metrics],
    }
    return {**of(job, AUTOSCALER, job.name, labels), "spec": spec}


def owned(job: Job, create: Create) -> Create:
    """Return what a framework wants to have made as an object of the job's own."""
    obj = create.object
    return replace(create, object={**obj, "metadata": _metadata(job, obj["metadata"]["name"], {})})


def of(job: Job, resource: Resource, name: str, labels: Mapping[str, str]) -> Object:
    """Return the beginning of an object that belongs to a job: what it is, its name, labels and owner."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": _metadata(job, name, labels),
    }


def _metadata(job: Job, name: str, labels: Mapping[str, str]) -> Object:
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {**labels, names.JOB_LABEL: job.name},
        "ownerReferences": [owner_reference(job.object)],
    }
