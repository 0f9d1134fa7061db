"""The status of a pod, computed from what is known of its containers. Words, phases and conditions are the kubelet's.

Pure: `pod_status` is given the containers and the moment, and returns what `status` should be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from trainwright.core import quantity
from trainwright.core.objects import Object, timestamp
from trainwright.node.base import Exit

ContainerKind = Literal["init", "sidecar", "main"]
OURS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_MAY_VANISH = ("reason", "message", "podIP", "podIPs", "initContainerStatuses", "containerStatuses")

MESSAGE_BYTES = 4096
"""The most a termination message may have, in bytes."""


@dataclass(frozen=True)
class Container:
    """What is known of one container."""

    name: str
    image: str = ""
    kind: ContainerKind = "main"
    state: Mapping[str, Any] = field(default_factory=lambda: waiting("ContainerCreating"))
    last_state: Mapping[str, Any] = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False
    id: str = ""

    @property
    def ended(self) -> Mapping[str, Any] | None:
        """Return how its last run ended, if it does not run now."""
        return self.state.get("terminated")

    @property
    def succeeded(self) -> bool:
        """Say whether it has ended well."""
        return self.ended is not None and self.ended["exitCode"] == 0

    @property
    def initialized(self) -> bool:
        """Say whether it keeps nobody waiting any more, as an init container."""
        return self.started if self.kind == "sidecar" else self.succeeded


@dataclass(frozen=True)
class PodFacts:
    """What is known of a pod beyond its containers."""

    host_ip: str
    pod_ip: str = ""
    start_time: str = ""
    final: bool = False
    """Nothing of it runs any more, and nothing will: only then has it succeeded or failed."""
    failed: bool = False
    """It has failed as a whole, whatever its containers say: refused, out of time, node stopped."""
    reason: str = ""
    message: str = ""


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Return the state of a container that does not run yet, or not now."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(since: datetime) -> dict[str, Any]:
    """Return the state of a container that runs."""
    return {"running": {"startedAt": timestamp(since)}}


def terminated(
    ended: Exit, *, started: datetime | None, finished: datetime, reason: str = "", message: str = "", run_id: str = ""
) -> dict[str, Any]:
    """Return the state of a container that has ended."""
    state: dict[str, Any] = {"exitCode": ended.code}
    if ended.signal:
        state["signal"] = ended.signal
    state["reason"] = reason or ("Completed" if ended.code == 0 else "Error")
    if message:
        state["message"] = message
    if started is not None:
        state["startedAt"] = timestamp(started)
    state["finishedAt"] = timestamp(finished)
    if run_id:
        state["containerID"] = run_id
    return {"terminated": state}


def pod_status(
    pod: Object, inits: Sequence[Container], mains: Sequence[Container], facts: PodFacts, now: datetime
) -> Object:
    """Return what the status of a pod should be."""
    old = pod.get("status") or {}
    phase = _settled(pod_phase(pod["spec"].get("restartPolicy", "Always"), inits, mains), inits, mains, facts)
    status: Object = {
        "phase": phase,
        "conditions": _conditions(pod, phase, inits, mains, timestamp(now)),
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": facts.start_time,
        "qosClass": old.get("qosClass") or qos_class(pod),
    }
    if facts.pod_ip:
        status |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
    if facts.final and facts.reason:
        status |= {"reason": facts.reason, "message": facts.message}
    if inits:
        status["initContainerStatuses"] = [_container_status(each) for each in inits]
    if mains:
        status["containerStatuses"] = [_container_status(each) for each in mains]
    return status


def pod_phase(policy: str, inits: Sequence[Container], mains: Sequence[Container]) -> str:
    """Return the phase of a pod from its containers."""
    if any(each.kind == "init" and each.ended and not each.succeeded for each in inits) and policy == "Never":
        return "Failed"
    if not all(each.initialized for each in inits) and not any(_begun(each) for each in mains):
        return "Pending"
    if not all(map(_begun, mains)):
        return "Pending"
    if any("running" in each.state for each in mains) or policy == "Always":
        return "Running"
    if all(each.succeeded for each in mains):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _settled(phase: str, inits: Sequence[Container], mains: Sequence[Container], facts: PodFacts) -> str:
    """Return the phase given whether the pod is over: until then it has not ended, from then on it has."""
    if not facts.final:
        begun = all(map(_begun, mains))
        return phase if phase not in ("Succeeded", "Failed") else "Running" if begun else "Pending"
    well = all(each.succeeded for each in mains) and not facts.failed
    return "Succeeded" if well and all(each.succeeded for each in inits if each.kind == "init") else "Failed"


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object:
    """Return the merge patch from one status to another: what differs, and null for what is no longer so."""
    patch = {key: value for key, value in new.items() if old.get(key) != value}
    return patch | {key: None for key in _MAY_VANISH if key in old and key not in new}


def qos_class(pod: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, by the containers' cpu and memory."""
    containers = [*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())]
    resources = [each.get("resources") or {} for each in containers]
    limits = [_compute(each.get("limits")) for each in resources]
    requests = [_compute(each.get("requests")) for each in resources]
    if not any(limits) and not any(requests):
        return "BestEffort"
    whole = all(
        len(limit) == 2 and {**limit, **request} == limit for limit, request in zip(limits, requests, strict=True)
    )
    return "Guaranteed" if whole else "Burstable"


def _compute(quantities: Mapping[str, Any] | None) -> dict[str, Any]:
    values = {name: quantity.parse(value) for name, value in (quantities or {}).items() if name in ("cpu", "memory")}
    return {name: value for name, value in values.items() if value}


def _begun(container: Container) -> bool:
    return "waiting" not in container.state or bool(container.last_state)


def _container_status(container: Container) -> Object:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "state": container.state,
        "lastState": container.last_state,
        "ready": container.succeeded if container.kind == "init" else container.ready,
        "started": container.started,
        "restartCount": container.restarts,
        **({"containerID": container.id} if container.id else {}),
    }


def _conditions(
    pod: Object, phase: str, inits: Sequence[Container], mains: Sequence[Container], now: str
) -> list[Object]:
    old = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    uninitialized = [each.name for each in inits if not each.initialized]
    initialized = _condition(
        "Initialized", not uninitialized, "ContainersNotInitialized", "not initialized yet", uninitialized
    )
    if phase == "Succeeded":
        initialized = {"type": "Initialized", "status": "True", "reason": "PodCompleted"}
    serving = [*(each for each in inits if each.kind == "sidecar"), *mains]
    unready = [each.name for each in serving if not each.ready]
    containers = _all_ready("ContainersReady", phase, unready)
    ready = _all_ready("Ready", phase, unready)
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if old.get(gate, {}).get("status") != "True"]
    if ready["status"] == "True" and closed:
        ready = _condition("Ready", False, "ReadinessGatesNotReady", "not true yet", closed)
    ours = [{"type": "PodScheduled", "status": "True"}, initialized, containers, ready]
    foreign = [each for name, each in old.items() if name not in OURS]
    return [_dated(each, old.get(each["type"]), now) for each in ours] + foreign


def _all_ready(name: str, phase: str, unready: list[str]) -> Object:
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return {"type": name, "status": "False", "reason": reason}
    return _condition(name, not unready, "ContainersNotReady", "not ready", unready)


def _condition(name: str, good: bool, reason: str, sentence: str, culprits: list[str]) -> Object:
    if good:
        return {"type": name, "status": "True"}
    return {"type": name, "status": "False", "reason": reason, "message": f"{sentence}: {', '.join(culprits)}"}


def _dated(condition: Object, old: Object | None, now: str) -> Object:
    same = old is not None and old.get("status") == condition["status"]
    since = old.get("lastTransitionTime") if same and old else None
    return {**condition, "lastProbeTime": None, "lastTransitionTime": since or now}
