"""Short words for jobs and pods, so that a table row shows only what its sentence is about.

A pod is written `worker-1:Failed=137+2~3!#b^1`: phase, then in any order exit code (=), container restarts (+), seconds
since it failed (~), being deleted (!), incarnation (#, a letter), version (^).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Decision, Emit
from trainwright.core.objects import Object, timestamp
from trainwright.desired import KUBERNETES
from trainwright.kinds import PYTORCH_JOB
from trainwright.reconcile.decide import decide
from trainwright.reconcile.kind import Observed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
UID = "job-uid"


def role(replicas: int = 1, policy: str = "OnFailure", **pod: Any) -> Object:
    """Return a replica spec whose container does nothing in particular."""
    container = {"name": "pytorch", "image": "train:1", "command": ["python", "train.py"]}
    return {"replicas": replicas, "restartPolicy": policy, "template": {"spec": {"containers": [container], **pod}}}


def manifest(
    master: int = 0,
    workers: int = 0,
    policy: str = "OnFailure",
    elastic: Mapping[str, Any] | None = None,
    **run_policy: Any,
) -> Object:
    """Return a PyTorchJob `j` as it is stored."""
    counts = {"Master": master, "Worker": workers}
    spec: Object = {
        "pytorchReplicaSpecs": {name: role(count, policy) for name, count in counts.items() if count},
        "runPolicy": run_policy,
    }
    if elastic is not None:
        spec["elasticPolicy"] = dict(elastic)
    meta = {"name": "j", "namespace": "ns", "uid": UID}
    stored = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}
    return PYTORCH_JOB.default(stored)


def read(obj: Object) -> Job:
    return PYTORCH_JOB.read(obj)


_POD = re.compile(r"(\w+)-(\d+):(\w+?)((?:[=+~#^]\w+|!)*)$")


def pod(words: str, now: datetime = NOON, owner: str = UID) -> Object:
    """Return the pod that these words describe."""
    match = _POD.match(words)
    assert match, words
    label, index, phase, rest = match.groups()
    marks = dict(re.findall(r"([=+~#^])(\w+)", rest))
    code, restarts, ago = int(marks.get("=", 0)), int(marks.get("+", 0)), int(marks.get("~", 60))
    name = f"j-{label}-{index}"
    meta: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"{label}-{index}-{marks.get('#', 'a')}",
        "labels": {
            names.JOB_LABEL: "j",
            names.REPLICA_TYPE_LABEL: label,
            names.REPLICA_INDEX_LABEL: index,
            names.VERSION_LABEL: marks.get("^", "0"),
        },
        "ownerReferences": [{"uid": owner, "controller": True, "kind": "PyTorchJob", "name": "j"}],
    }
    if "!" in rest:
        meta["deletionTimestamp"] = timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {
            "phase": phase,
            "containerStatuses": _containers(phase, code, restarts, now - timedelta(seconds=ago)),
        },
    }


def _containers(phase: str, code: int, restarts: int, ended: datetime) -> Sequence[Object]:
    end = {"exitCode": code, "finishedAt": timestamp(ended)}
    before = {"exitCode": code or 1, "finishedAt": timestamp(ended)}
    state: Object = {"terminated": end} if phase in ("Failed", "Succeeded") else {"running": {}}
    if phase == "Pending" or (phase == "Failed" and not code):  # evicted: nobody knows how the container ended
        return []
    last = {"lastState": {"terminated": before}} if restarts else {}
    return [{"name": "pytorch", "restartCount": restarts, "state": state, **last}]


def look(obj: Object, pods: str, seconds: float = 0) -> Decision:
    """Return what is decided when these pods, and all other objects, are seen so many seconds after noon."""
    now = NOON + timedelta(seconds=seconds)
    seen = tuple(pod(words, now) for words in pods.split())
    return decide(PYTORCH_JOB, read(obj), Observed((*_support(obj), *seen)), KUBERNETES, now)


def looks(obj: Object, *steps: tuple[float, str]) -> tuple[Object, Decision]:
    """Look several times, each time with the status of the time before; return the job and the last decision."""
    decision = None
    for seconds, pods in steps:
        decision = look(obj, pods, seconds)
        obj = {**obj, "status": decision.status}
    assert decision
    return obj, decision


def _support(obj: Object) -> tuple[Object, ...]:
    made = [each.object for each in PYTORCH_JOB.build(read(obj), KUBERNETES, 0).support]
    return tuple({**each, "metadata": {**each["metadata"], "uid": each["metadata"]["name"]}} for each in made)


def acts(decision: Decision) -> str:
    """Return the actions in words, without the events."""
    return ", ".join(str(each).replace("/j-", "/") for each in decision.actions if not isinstance(each, Emit))


def events(decision: Decision) -> list[str]:
    return [each.reason for each in decision.actions if isinstance(each, Emit)]


def conditions(status: Object) -> str:
    """Return the conditions in their order, those that are False with a minus."""
    return " ".join(("" if each["status"] == "True" else "-") + each["type"] for each in status["conditions"])


def message(status: Object) -> str:
    return str(status["conditions"][-1]["message"])


def restarts(status: Object) -> int:
    return sum(role.get("restarts", 0) for role in status["record"].get("roles", {}).values())
