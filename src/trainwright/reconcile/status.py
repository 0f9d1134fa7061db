"""Counts, phases, conditions: what users and their tools read about a job.

`kubeflow` writes the status of Kubeflow's kinds. Its conditions are a list whose order means something (the last one
is what `kubectl get` shows), with these rules: nothing changes once a job has Failed; the same type, status and reason
again changes nothing; Running and Restarting exclude each other; an end or a suspension turns Running to False.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainwright.api.common import Job
from trainwright.api.faces import conditions, outcome_of
from trainwright.core import names
from trainwright.core.objects import Object, timestamp
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Counts, Pod
from trainwright.reconcile.record import Record

State = Literal["", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]
"""What a round finds: "" when nothing new is to be said."""


@dataclass(frozen=True)
class Account:
    """What a round found out: all a kind's status is written from."""

    record: Record
    counts: Mapping[str, Counts] = field(default_factory=dict)
    state: State = ""
    message: str = ""
    resumed: bool = False


def suspended(status: Mapping[str, object] | None) -> bool:
    """Say whether the status says that the job is suspended."""
    return any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions(status))


def count(job: Job, record: Record, pods: Iterable[Pod]) -> dict[str, Counts]:
    """Return how many replicas of each role are active, have succeeded, have failed.

    Only pods the job wants are counted: not those of an earlier version or beyond the wanted number. A running pod
    that is being deleted counts as failed, as Kubeflow has it.
    """
    active = dict.fromkeys((role.name for role in job.roles), 0)
    failed = dict(active)
    for pod in pods:
        if pod.version != record.version or pod.index >= job.count(pod.role) or pod.index in record.role(pod.role).done:
            continue
        if pod.phase == "Failed" or (pod.phase == "Running" and pod.terminating):
            failed[pod.role] += 1
        elif pod.phase == "Running":
            active[pod.role] += 1
    return {name: Counts(active[name], len(record.role(name).done), failed[name]) for name in active}


def kubeflow(job: Job, account: Account, now: datetime) -> Object:
    """Return the whole status of a Kubeflow job after a round."""
    before: Object = job.object.get("status") or {}
    kind, name, time = job.resource.kind, job.name, timestamp(now)
    conditions = _Conditions(before.get("conditions") or (), time)
    conditions.put("Created", f"{kind}Created", f"{kind} {name} is created.")
    if account.resumed:
        conditions.put("Suspended", f"{kind}Resumed", f"{kind} {name} is resumed.", status="False")
    match account.state:
        case "Running":
            who = name if job.role("Master") else f"{job.namespace}/{name}"
            conditions.put("Running", f"{kind}Running", f"{kind} {who} is running.", without="Restarting")
        case "Restarting":
            conditions.put("Restarting", f"{kind}Restarting", account.message, without="Running")
        case "Suspended":
            message = f"{kind} {name} is suspended."
            conditions.turn_off_running(f"{kind}Suspended", message)
            conditions.put("Suspended", f"{kind}Suspended", message)
        case "Succeeded" | "Failed" as end:
            conditions.turn_off_running()
            conditions.put(end, f"{kind}{end}", account.message)
    status: Object = {**before, "conditions": conditions.items}
    status["replicaStatuses"] = {role.name: _replica_status(job, role.label, account, role.name) for role in job.roles}
    if job.roles:
        active = sum(each["active"] for each in status["replicaStatuses"].values())
        status["active"] = f"{active}/{job.total}"
        status["restarts"] = account.record.restarts
    started = account.state != "Suspended" and ("startTime" not in before or account.resumed)
    if started:
        status["startTime"] = time
    if account.state in ("Succeeded", "Failed"):
        status["completionTime"] = time
    status["record"] = records.write(account.record)
    return status


def _replica_status(job: Job, label: str, account: Account, role: str) -> Object:
    counts = account.counts.get(role, Counts())
    over = account.state == "Succeeded"  # who still runs is taken to have succeeded with the rest
    return {
        "active": 0 if over else counts.active,
        "succeeded": counts.succeeded + (counts.active if over else 0),
        "failed": counts.failed,
        "selector": selector(job, label),
    }


def selector(job: Job, label: str) -> str:
    """Return the selector of a role's pods as a string, as the scale subresource needs it."""
    labels = {
        names.JOB_NAME_LABEL: job.name,
        names.OPERATOR_NAME_LABEL: f"{job.resource.kind.lower()}-controller",
        names.REPLICA_TYPE_LABEL: label,
    }
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


class _Conditions:
    """The list of conditions while a status is written."""

    def __init__(self, items: Iterable[Object], time: str) -> None:
        self.items = list(items)
        self._time = time

    def put(self, type_: str, reason: str, message: str, *, status: str = "True", without: str = "") -> None:
        """Set a condition, at the end of the list unless it is set already."""
        if outcome_of({"conditions": self.items}) == "Failed":
            return
        old = next((each for each in self.items if each["type"] == type_), None)
        if old and (old["status"], old.get("reason")) == (status, reason):
            self._reword(old, message)
            return
        since = old.get("lastTransitionTime", self._time) if old and old["status"] == status else self._time
        new = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastUpdateTime": self._time,
            "lastTransitionTime": since,
        }
        self.items = [each for each in self.items if each["type"] not in (type_, without)] + [new]

    def _reword(self, old: Object, message: str) -> None:
        """Have a condition say something else; it stays where it is, since the last one tells how the job is."""
        if old.get("message") != message:
            self.items[self.items.index(old)] = {**old, "message": message, "lastUpdateTime": self._time}

    def turn_off_running(self, reason: str = "", message: str = "") -> None:
        """Say that the job no longer runs; without reason and message those it has stay."""
        for place, old in enumerate(self.items):
            if old["type"] == "Running" and old["status"] != "False":
                said = {"reason": reason, "message": message} if reason else {}
                changed = {"status": "False", "lastUpdateTime": self._time, "lastTransitionTime": self._time}
                self.items[place] = {**old, **changed, **said}
