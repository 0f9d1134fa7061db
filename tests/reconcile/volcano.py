"""Short words for Volcano Jobs and their pods, so that a table row shows only what its sentence is about.

Tasks are written `worker=3`, with a minimum `worker=3/2`; policies `PodFailed:RestartJob`, `=3:AbortJob` for an exit
code, `PodPending:RestartPod@60` with a timeout. Pods are written as for PyTorchJobs: `worker-1:Failed=137+2!#b^1`.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.reconcile import making
from tests.reconcile.making import NOON, UID

from trainwright.core import names
from trainwright.core.actions import Decision, Emit
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import POD_GROUP
from trainwright.desired import KUBERNETES
from trainwright.kinds import VOLCANO_JOB
from trainwright.reconcile.decide import decide
from trainwright.reconcile.kind import Observed

_POLICY = re.compile(r"([\w*,]*)(?:=(\d+))?:(\w+)(?:@(\d+))?$")


def policies(words: str) -> list[Object]:
    """Return the policies that these words describe."""
    found = []
    for word in words.split():
        match = _POLICY.match(word)
        assert match, word
        events, code, action, timeout = match.groups()
        policy: Object = {"action": action}
        policy |= {"events": events.split(",")} if events else {"exitCode": int(code)}
        found.append(policy | ({"timeout": f"{timeout}s"} if timeout else {}))
    return found


def manifest(
    tasks: str = "worker=2",
    said: str = "",
    *,
    after: Mapping[str, Any] | None = None,
    task_policies: Mapping[str, str] | None = None,
    task_fields: Mapping[str, Object] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a Volcano Job `j` as it is stored; `said` are its policies."""
    made = []
    for word in tasks.split():
        name, _, counts = word.partition("=")
        replicas, _, minimum = counts.partition("/")
        container = {"name": "main", "image": "train:1", "command": ["python", "train.py"]}
        task: Object = {
            "name": name,
            "replicas": int(replicas),
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **((task_fields or {}).get(name) or {}),
        }
        task |= {"minAvailable": int(minimum)} if minimum else {}
        task |= {"policies": policies(task_policies[name])} if task_policies and name in task_policies else {}
        task |= {"dependsOn": after[name]} if after and name in after else {}
        made.append(task)
    meta: Object = {"name": "j", "namespace": "ns", "uid": UID, "creationTimestamp": timestamp(NOON)}
    meta |= {"annotations": dict(annotations)} if annotations else {}
    stored = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"tasks": made, "policies": policies(said), **spec},
    }
    return VOLCANO_JOB.default(stored)


def pod(words: str, seconds: float = 0) -> Object:
    """Return the pod that these words describe."""
    obj = making.pod(words, NOON + timedelta(seconds=seconds))
    labels = obj["metadata"]["labels"]
    task, index = labels.pop(names.REPLICA_TYPE_LABEL), labels.pop(names.REPLICA_INDEX_LABEL)
    obj["metadata"]["labels"] = {**labels, names.TASK_LABEL: task, names.TASK_INDEX_LABEL: index}
    for each in obj["status"]["containerStatuses"]:
        each["ready"] = obj["status"]["phase"] == "Running"
    return obj


def command(action: str, name: str = "c", uid: str = "", seconds: float = 0) -> Object:
    """Return a Command for the job."""
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": timestamp(NOON + timedelta(seconds=seconds)),
        },
        "action": action,
        "target": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "j",
            **({"uid": uid} if uid else {}),
        },
    }


def pod_group(phase: str) -> Object:
    """Return the job's PodGroup as a scheduler keeps it."""
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": f"j-{UID}",
            "namespace": "ns",
            "uid": "group",
            "labels": {names.JOB_LABEL: "j"},
            "ownerReferences": [{"uid": UID, "controller": True, "kind": "Job", "name": "j"}],
        },
        "status": {"phase": phase},
    }


def look(obj: Object, pods: str, seconds: float = 0, others: tuple[Object, ...] = ()) -> Decision:
    """Return what is decided when these pods and other objects are seen so many seconds after noon."""
    seen = tuple(pod(words, seconds) for words in pods.split())
    return decide(
        VOLCANO_JOB, VOLCANO_JOB.read(obj), Observed((*seen, *others)), KUBERNETES, NOON + timedelta(seconds=seconds)
    )


def looks(obj: Object, *steps: str, others: tuple[Object, ...] = ()) -> tuple[Object, Decision]:
    """Look several times, each time with the status of the time before; return the job and the last decision.

    A step is the pods that are seen; a number in front says how many seconds after noon.
    """
    decision = None
    for step in steps:
        first, _, rest = step.partition(" ")
        seconds, pods = (float(first), rest) if first.isdecimal() else (0.0, step)
        decision = look(obj, pods, seconds, others if step is steps[-1] else ())
        obj = {**obj, "status": decision.status}
    assert decision
    return obj, decision


def acts(decision: Decision) -> str:
    """Return the actions on pods in words."""
    actions = (each for each in decision.actions if not isinstance(each, Emit))
    return ", ".join(str(each).replace("/j-", "/") for each in actions if "Pod/" in str(each) or "Job/" in str(each))


def phase(decision: Decision) -> str:
    return str(decision.status["state"]["phase"])
