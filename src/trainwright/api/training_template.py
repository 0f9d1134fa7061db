"""The pod templates a TrainingJob stands for: it has no templates of its own, but an image, resources and volumes.

Works on specs as they were written too, junk included, so that what is wrong inside is said in the words of every
other template (`problems`), at the place where the user wrote it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainwright.api import pod_template
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at

MASTER, PSERVER, TRAINER = ROLES = ("master", "pserver", "trainer")
ETCD = "etcd"
GPU, OLD_GPU = "nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu"
MASTER_PORT, ETCD_PORT = 8080, 2379
IMAGE = "paddlepaddle/paddlecloud-job"
_ETCD_IMAGE = "coreos/etcd:v3.2.1"
_MASTER_RESOURCES = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "500Mi"}}
_OF_THE_JOB = {"volumes": "volumes", "imagePullSecrets": "imagePullSecrets", "nodeSelector": "NodeSelector"}
"""Fields of a pod, and what the job calls them."""


def template(spec: Mapping[str, Any], role: str) -> Object:
    """Return the template of one role's pods."""
    pod: Object = {"containers": _containers(spec, role)}
    pod |= {ours: spec[theirs] for ours, theirs in _OF_THE_JOB.items() if spec.get(theirs)}
    if spec.get("host_network") is True or spec.get("HostNetwork") is True:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {"spec": pod}


def problems(spec: Mapping[str, Any], role: str) -> Iterator[Problem]:
    """Yield what Kubernetes would refuse in a role's pods, each where the job says it."""
    main = "spec.containers[0]"
    places = {f"{main}.resources": f"spec.{role}.resources", f"{main}.volumeMounts": "spec.VolumeMounts"}
    places |= {f"spec.{ours}": f"spec.{theirs}" for ours, theirs in _OF_THE_JOB.items()}
    for problem in pod_template.check(template(spec, role), ""):
        for there, here in places.items():
            if problem.path.startswith(there):
                yield replace(problem, path=here + problem.path.removeprefix(there))


def renamed_gpus(resources: Any) -> Any:
    """Return resources in which a GPU has the name it has today."""
    if not isinstance(resources, dict):
        return resources
    return {
        part: {GPU if name == OLD_GPU else name: amount for name, amount in amounts.items()}
        if isinstance(amounts, dict)
        else amounts
        for part, amounts in resources.items()
    }


def _containers(spec: Mapping[str, Any], role: str) -> list[Object]:
    fallback = _MASTER_RESOURCES if role == MASTER else {}
    main: Object = {
        "name": role,
        "image": spec.get("image") or IMAGE,
        "resources": renamed_gpus(at(spec, (role, "resources")) or fallback),
    }
    if mounts := _mounts(spec):
        main["volumeMounts"] = mounts
    if role != MASTER:
        return [main]
    main["ports"] = [{"name": "master-port", "containerPort": MASTER_PORT, "protocol": "TCP"}]
    etcd = {
        "name": ETCD,
        "image": _ETCD_IMAGE,
        "ports": [{"name": "etcd-port", "containerPort": ETCD_PORT, "protocol": "TCP"}],
    }
    return [main, etcd]


def _mounts(spec: Mapping[str, Any]) -> Any:
    """Return the mounts as given, or the first volume at `mountPath`."""
    if spec.get("VolumeMounts") or not spec.get("mountPath"):
        return spec.get("VolumeMounts")
    volumes = spec.get("volumes")
    first = volumes[0] if isinstance(volumes, list) and volumes else None
    name = at(first, ("name",))
    return [{"name": name, "mountPath": spec["mountPath"]}] if isinstance(name, str) else None
