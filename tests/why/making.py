"""Short words for what was seen of a job: the job `j` of namespace `ns` as `tests.reconcile.making` writes it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.reconcile.making import NOON, looks, manifest
from tests.reconcile.making import pod as bare_pod

from trainwright.core.names import GANG_MIN_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object, timestamp
from trainwright.kinds import kind_of
from trainwright.why import Facts, Output

LATER = NOON + timedelta(minutes=10)


def merged(obj: Object, patch: Object) -> Object:
    """Return an object with some parts replaced; lists are replaced whole."""
    both = {**obj}
    for name, value in patch.items():
        both[name] = (
            merged(both[name], value) if isinstance(value, dict) and isinstance(both.get(name), dict) else value
        )
    return both


def pod(words: str, now: datetime = NOON, **patch: Any) -> Object:
    """Return a pod, with further parts: `spec`, `status`, `metadata`."""
    return merged(bare_pod(words, now), patch)


def waiting(words: str, cpu: str = "1", gang: int = 1, **patch: Any) -> Object:
    """Return a pod that has no node and needs some processors."""
    resources = {"requests": {"cpu": cpu}}
    gang_of = {"metadata": {"annotations": {GANG_MIN_ANNOTATION: str(gang)}}} if gang > 1 else {}
    spec = {"containers": [{"name": "pytorch", "image": "train:1", "resources": resources}]}
    return merged(merged(pod(f"{words}:Pending", spec=spec), gang_of), patch)


def held(words: str, reason: str, message: str = "", **container: Any) -> Object:
    """Return a pod with a node whose container waits."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    status = {"containerStatuses": [{"name": "pytorch", "restartCount": 0, "state": state, **container}]}
    spec = {"nodeName": "n1", "containers": [{"name": "pytorch", "image": "train:1"}]}
    return pod(f"{words}:Pending", spec=spec, status=status)


def running(words: str, *, ready: bool = True, restarts: int = 0, **patch: Any) -> Object:
    """Return a pod that runs."""
    mark = f"+{restarts}" if restarts else ""
    made = pod(f"{words}:Running{mark}", spec={"nodeName": "n1"}, **patch)
    made["status"]["containerStatuses"][0]["ready"] = ready
    return made


def node(name: str = "n1", cpu: str = "8", *, ready: bool = True, **spec: Any) -> Object:
    """Return a node."""
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": timestamp(NOON)}
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}, "conditions": [condition]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {}},
        "spec": spec,
        "status": status,
    }


def other(name: str, cpu: str, *, job: str = "", namespace: str = "ns", on: str = "n1") -> Object:
    """Return a pod of somebody else that runs on a node."""
    labels = {JOB_LABEL: job} if job else {}
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": "Running"},
    }


def event(reason: str, message: str, about: str = "j", **more: Any) -> Object:
    """Return an event about the job, or one of its pods."""
    return {
        "kind": "Event",
        "reason": reason,
        "message": message,
        "involvedObject": {"name": about},
        "firstTimestamp": timestamp(NOON),
        **more,
    }


def lived(obj: Object, *steps: str) -> Object:
    """Return a job after looks at its pods, a minute after each other: its status is what was decided."""
    job, _ = looks(obj, *((60 * minute, pods) for minute, pods in enumerate(steps)))
    return job


def seen(job: Object | None = None, *pods: Object, now: datetime = LATER, **more: Any) -> Facts:
    """Return facts about a job; without one it is a PyTorchJob of two workers that runs."""
    job = job or lived(manifest(workers=2), "worker-0:Running worker-1:Running")
    kind = kind_of(job)
    assert kind
    return Facts(kind, job, now, pods=pods, **more)


def said(*lines: str, ago: float | None = 3.0, before: Sequence[str] = ()) -> Output:
    """Return what a rank has printed, so many seconds before it is looked at."""
    return Output(lines, None if ago is None else LATER - timedelta(seconds=ago), tuple(before))


def with_status(job: Object, **status: Any) -> Object:
    """Return a job with parts of its status replaced."""
    return merged(job, {"status": status})
