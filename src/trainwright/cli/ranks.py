"""What a pod says about its rank: phase, node, restarts, and in words how it ended.

Pure functions over pod objects, shared by the live table of `tw run` and by `tw status` on a kept run.
"""

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, at, moment


@dataclass(frozen=True)
class Ending:
    """How one container of a pod ended, and what its limit was."""

    container: str
    restart: int
    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    memory_limit: str = ""

    def __str__(self) -> str:
        """Return the cause in words, to stand after a rank's name."""
        if self.reason == "OOMKilled":
            limit = f": limit {self.memory_limit}" if self.memory_limit else ""
            return f"exited with code {self.code} (out of memory{limit})"
        if self.reason in _NEVER_STARTED:
            return f"could not be started: {self.message or self.reason}"
        number = self.signal or (self.code - 128 if 128 < self.code < 128 + signal.NSIG else 0)
        if number:
            return f"was killed by {_signal_name(number)} (exit code {self.code})"
        return f"exited with code {self.code}"


_NEVER_STARTED = ("StartError", "ContainerCannotRun", "CreateContainerError", "CreateContainerConfigError")


@dataclass(frozen=True)
class Rank:
    """One replica of a job as a person wants to see it."""

    job: str
    label: str
    namespace: str
    pod: str
    uid: str
    phase: str
    detail: str
    node: str
    restarts: int
    started: datetime | None


def label(pod: Object) -> str:
    """Return the rank's short name: the pod's without the job's in front."""
    meta = pod["metadata"]
    job = job_of(pod)
    return str(meta["name"]).removeprefix(f"{job}-") if job else str(meta["name"])


def job_of(pod: Object) -> str:
    """Return the name of the job a pod belongs to, or nothing."""
    return str((pod["metadata"].get("labels") or {}).get(JOB_LABEL, ""))


def rank(pod: Object) -> Rank:
    """Return what there is to say about a pod."""
    meta, status = pod["metadata"], pod.get("status") or {}
    phase, detail = _phase(pod)
    return Rank(
        job=job_of(pod),
        label=label(pod),
        namespace=meta.get("namespace", ""),
        pod=meta["name"],
        uid=meta.get("uid", ""),
        phase=phase,
        detail=detail,
        node=at(pod, ("spec", "nodeName"), ""),
        restarts=sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ()),
        started=moment(status.get("startTime") or meta.get("creationTimestamp")),
    )


def endings(pod: Object) -> Iterator[Ending]:
    """Yield how each container that has ended did so, the present incarnation before the one before it."""
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        restart = each.get("restartCount", 0)
        for key, number in (("state", restart), ("lastState", restart - 1)):
            ended = at(each, (key, "terminated"))
            if ended:
                yield _ending(pod, each["name"], number, ended)


def failure(pod: Object) -> Ending | None:
    """Return how the pod's first unhappy container ended, or None when none did."""
    return next((ending for ending in endings(pod) if ending.code), None)


def order(pods: Iterable[Object]) -> list[Object]:
    """Return pods in the order of ranks: by role with the lead first, then by index."""
    return sorted(pods, key=lambda pod: _place(label(pod)))


def _place(name: str) -> tuple[int, str, int]:
    role, _, index = name.rpartition("-")
    lead = 0 if role in ("master", "launcher", "chief", "head", "scheduler") else 1
    return lead, role, int(index) if index.isdecimal() else 0


def _ending(pod: Object, container: str, restart: int, ended: Object) -> Ending:
    spec = pod.get("spec") or {}
    specs = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    limit = next((at(each, ("resources", "limits", "memory"), "") for each in specs if each["name"] == container), "")
    return Ending(
        container=container,
        restart=max(restart, 0),
        code=ended.get("exitCode", 0),
        signal=ended.get("signal", 0),
        reason=ended.get("reason", ""),
        message=ended.get("message", ""),
        memory_limit=str(limit),
    )


def _phase(pod: Object) -> tuple[str, str]:
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    if phase == "Failed":
        ended = failure(pod)
        return phase, str(ended) if ended else status.get("message") or status.get("reason") or ""
    if phase == "Succeeded":
        return phase, ""
    if pod["metadata"].get("deletionTimestamp"):
        return "Stopping", ""
    waiting = _waiting(status)
    if waiting:
        return waiting
    if phase == "Running":
        return phase, ""
    return _pending(pod)


def _waiting(status: Object) -> tuple[str, str] | None:
    for each in status.get("containerStatuses") or ():
        waiting = at(each, ("state", "waiting"))
        if waiting and waiting.get("reason") == "CrashLoopBackOff":
            return "Restarting", waiting.get("message", "")
        if waiting and waiting.get("reason") in _NEVER_STARTED:
            return "Waiting", waiting.get("message", "")
    return None


def _pending(pod: Object) -> tuple[str, str]:
    status = pod.get("status") or {}
    if at(pod, ("spec", "nodeName")):
        for each in status.get("initContainerStatuses") or ():
            if "running" in (each.get("state") or {}):
                return "Starting", f"{each['name']} runs first"
        return "Starting", ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return "Waiting", condition.get("message", "")
    return "Waiting", ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
