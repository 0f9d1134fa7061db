"""The cells of `kubectl get` for built-in kinds, column by column as the API server fills them.

A printer is given an object and the time, and returns one cell per column of its row; columns with a priority are
shown by `-o wide` only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.core.objects import Object, at, holds, moment
from trainwright.core.resources import (
    AUTOSCALER,
    BATCH_JOB,
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Resource,
)

Cells = list[Any]
NONE = "<none>"
UNKNOWN = "<unknown>"


@dataclass(frozen=True)
class Printer:
    """The columns of a kind and what fills them."""

    columns: tuple[str, ...]
    cells: Callable[[Object, datetime], Cells]
    wide: tuple[str, ...] = ()
    """Which of the columns only `-o wide` shows."""


def age(obj: Object, now: datetime) -> str:
    """Return how long an object has been there."""
    return since(at(obj, ("metadata", "creationTimestamp")), now)


def since(text: str | None, now: datetime) -> str:
    """Return the time since a moment as kubectl writes it."""
    begun = moment(text)
    return human((now - begun).total_seconds()) if begun else UNKNOWN


def human(seconds: float) -> str:
    """Return a duration in one or two units: 61s, 2m5s, 3h, 2d4h."""
    if seconds <= -2:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365 if days < 2920 else 0, "d")


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large}{unit}{small}{part}" if small else f"{large}{unit}"


# Pods


def _pod(pod: Object, now: datetime) -> Cells:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    ready, reason, restarts = _pod_state(pod, now)
    sidecars = sum(each.get("restartPolicy") == "Always" for each in spec.get("initContainers") or ())
    addresses = status.get("podIPs") or ([{"ip": status["podIP"]}] if status.get("podIP") else [{}])
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or ()) + sidecars}",
        reason,
        restarts,
        age(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, pod),
    ]


def _pod_state(pod: Object, now: datetime) -> tuple[int, str, str]:
    """Return how many containers are ready, the word for the pod's state, and its restarts."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if any(each.get("reason") == "SchedulingGated" for each in status.get("conditions") or ()):
        reason = "SchedulingGated"
    steps = status.get("initContainerStatuses") or ()
    sidecars = {
        each["name"] for each in at(pod, ("spec", "initContainers")) or () if each.get("restartPolicy") == "Always"
    }
    stuck, ready = _init_state(pod, steps, sidecars)
    counted: Iterable[Object] = steps
    if stuck is None or holds(pod, "Initialized"):
        containers = status.get("containerStatuses") or ()
        said, running = _container_state(containers, reason, ready_pod=holds(pod, "Ready"))
        reason, ready = said, ready + running
        counted = (*(each for each in steps if each["name"] in sidecars), *containers)
    else:
        reason = stuck
    if "deletionTimestamp" in metadata and status.get("reason") == "NodeLost":
        reason = "Unknown"
    elif "deletionTimestamp" in metadata and phase not in ("Succeeded", "Failed"):
        reason = "Terminating"
    return ready, reason, _restarts(counted, now)


def _init_state(pod: Object, steps: Iterable[Object], sidecars: set[str]) -> tuple[str | None, int]:
    """Return at which init container a pod stands, None when past them, and how many sidecars are ready."""
    ready = 0
    for place, each in enumerate(steps):
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended and not ended.get("exitCode"):
            continue
        if each["name"] in sidecars and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended:
            return f"Init:{_ending(ended)}", ready
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}", ready
        return f"Init:{place}/{len(at(pod, ('spec', 'initContainers')) or ())}", ready
    return None, ready


def _container_state(containers: Iterable[Object], reason: str, *, ready_pod: bool) -> tuple[str, int]:
    """Return the word for what the containers do, and how many are ready."""
    ready, failed = 0, ""
    for each in reversed([*containers]):
        state = each.get("state") or {}
        ended = state.get("terminated")
        if at(state, ("waiting", "reason")):
            reason = state["waiting"]["reason"]
        elif ended:
            reason = _ending(ended)
            failed = reason if ended.get("exitCode") else failed
        elif each.get("ready") and "running" in state:
            ready += 1
    if reason == "Completed" and (ready or failed):
        reason = "Running" if ready and ready_pod else failed or "NotReady"
    return reason, ready


def _ending(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(containers: Iterable[Object], now: datetime) -> str:
    counted = [*containers]
    total = sum(each.get("restartCount", 0) for each in counted)
    ends = [at(each, ("lastState", "terminated", "finishedAt")) for each in counted]
    last = max((end for end in ends if end), default="")
    return f"{total} ({since(last, now)} ago)" if total and last else str(total)


def _readiness_gates(spec: Object, pod: Object) -> str:
    gates = spec.get("readinessGates") or ()
    return f"{sum(holds(pod, gate['conditionType']) for gate in gates)}/{len(gates)}" if gates else NONE


# Others


def _service(service: Object, now: datetime) -> Cells:
    spec = service.get("spec") or {}
    ports = ",".join(_service_port(port) for port in spec.get("ports") or ())
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [NONE])
    return [
        service["metadata"]["name"],
        spec.get("type") or "ClusterIP",
        addresses[0],
        spec.get("externalName") or ",".join(spec.get("externalIPs") or ()) or NONE,
        ports or NONE,
        age(service, now),
        _labels(spec.get("selector")),
    ]


def _service_port(port: Object) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{outside}/{port.get('protocol') or 'TCP'}"


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items())) or NONE


def _selector(selector: Object | None) -> str:
    """Return a label selector as text."""
    if not selector:
        return NONE
    words = [f"{name}={value}" for name, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        values = ",".join(sorted(rule.get("values") or ()))
        shapes = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}
        words.append(shapes.get(rule["operator"], "{}").format(rule["key"], values))
    return ",".join(words) or NONE


def _containers(obj: Object) -> tuple[str, str]:
    containers = at(obj, ("spec", "template", "spec", "containers")) or ()
    return ",".join(each["name"] for each in containers), ",".join(each.get("image", "") for each in containers)


def _stateful_set(obj: Object, now: datetime) -> Cells:
    ready, wanted = at(obj, ("status", "readyReplicas")) or 0, at(obj, ("spec", "replicas"), 1)
    return [obj["metadata"]["name"], f"{ready}/{wanted}", age(obj, now), *_containers(obj)]


def _batch_job(job: Object, now: datetime) -> Cells:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    done, wanted, beside = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism") or 0
    several = f" of {beside}" if wanted is None and beside > 1 else ""
    begun, ended = moment(status.get("startTime")), moment(status.get("completionTime"))
    return [
        job["metadata"]["name"],
        _batch_job_state(job),
        f"{done}/{1 if wanted is None else wanted}{several}",
        human(((ended or now) - begun).total_seconds()) if begun else "",
        age(job, now),
        *_containers(job),
        _selector(spec.get("selector")),
    ]


def _batch_job_state(job: Object) -> str:
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if holds(job, condition):
            return word
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((each for each in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if holds(job, each)), "Running")


def _node(node: Object, now: datetime) -> Cells:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    labels = node["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix) and name != prefix)
    known = any(each["type"] == "Ready" for each in status.get("conditions") or ())
    states = ["Ready" if holds(node, "Ready") else "NotReady" if known else "Unknown"]
    if at(node, ("spec", "unschedulable")):
        states.append("SchedulingDisabled")
    machine = f" ({info['architecture']})" if info.get("architecture") else ""
    return [
        node["metadata"]["name"],
        ",".join(states),
        ",".join(roles) or NONE,
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        (info.get("kernelVersion") or UNKNOWN) + machine,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _address(status: Object, kind: str) -> str:
    return next((each["address"] for each in status.get("addresses") or () if each["type"] == kind), NONE)


def _event(event: Object, now: datetime) -> Cells:
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    series = event.get("series") or {}
    seen = series.get("lastObservedTime") or event.get("lastTimestamp")
    kind = str(about.get("kind", "")).lower()
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return [
        since(seen, now) if seen else first,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        str(event.get("message") or "").strip(),
        first,
        series.get("count") or event.get("count") or 1,
        event["metadata"]["name"],
    ]


def _namespace(namespace: Object, now: datetime) -> Cells:
    return [namespace["metadata"]["name"], at(namespace, ("status", "phase")) or "Active", age(namespace, now)]


def _secret(secret: Object, now: datetime) -> Cells:
    kept = {**(secret.get("data") or {}), **(secret.get("stringData") or {})}
    return [secret["metadata"]["name"], secret.get("type") or "Opaque", len(kept), age(secret, now)]


def _config_map(obj: Object, now: datetime) -> Cells:
    return [obj["metadata"]["name"], len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _volume_claim(claim: Object, now: datetime) -> Cells:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    bound = bool(spec.get("volumeName"))
    modes = ",".join(short.get(mode, mode) for mode in status.get("accessModes") or ())
    return [
        claim["metadata"]["name"],
        "Terminating" if "deletionTimestamp" in claim["metadata"] else status.get("phase", ""),
        spec.get("volumeName") or "",
        at(status, ("capacity", "storage"), "") if bound else "",
        modes if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(claim, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _network_policy(policy: Object, now: datetime) -> Cells:
    return [policy["metadata"]["name"], _selector(at(policy, ("spec", "podSelector"))), age(policy, now)]


def _role_binding(binding: Object, now: datetime) -> Cells:
    role, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()
    users, groups, accounts = (
        [each for each in subjects if each.get("kind") == kind] for kind in ("User", "Group", "ServiceAccount")
    )
    return [
        binding["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(binding, now),
        ", ".join(each["name"] for each in users),
        ", ".join(each["name"] for each in groups),
        ", ".join(f"{each.get('namespace', '')}/{each['name']}" for each in accounts),
    ]


def _role(role: Object, now: datetime) -> Cells:
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp") or age(role, now)]


def _autoscaler(obj: Object, now: datetime) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        obj["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _metrics(wanted: Iterable[Object], current: Any) -> str:
    words = [_metric(each, current[place] if place < len(current) else {}) for place, each in enumerate(wanted)]
    more = f" + {len(words) - 2} more..." if len(words) > 2 else ""
    return ", ".join(words[:2]) + more or NONE


def _metric(wanted: Object, current: Object) -> str:
    """Return how far one metric is from its target; nothing measures here, so it mostly is unknown."""
    kind = str(wanted.get("type", ""))
    field = kind[:1].lower() + kind[1:]
    rule, seen = wanted.get(field) or {}, at(current, (field, "current")) or {}
    target = rule.get("target") or {}
    name = f"{rule['name']}: " if kind in ("Resource", "ContainerResource") else ""
    if "averageUtilization" in target:
        now = f"{seen['averageUtilization']}%" if "averageUtilization" in seen else UNKNOWN
        return f"{name}{now}/{target['averageUtilization']}%"
    average = "averageValue" in target
    value = "averageValue" if average else "value"
    suffix = " (avg)" if average and kind in ("External", "Object") else ""
    return f"{name}{seen.get(value, UNKNOWN)}/{target.get(value, '<auto>')}{suffix}"


def _quota(quota: Object, now: datetime) -> Cells:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    told = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    limits = [words for key, words in told.items() if key.startswith("limits.")]
    requests = [words for words in told.values() if words not in limits]
    return [quota["metadata"]["name"], ", ".join(requests), ", ".join(limits), age(quota, now)]


def _priority_class(obj: Object, now: datetime) -> Cells:
    default = "true" if obj.get("globalDefault") else "false"
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return [obj["metadata"]["name"], obj.get("value", 0), default, age(obj, now), policy]


PRINTERS: Mapping[Resource, Printer] = {
    POD: Printer(
        ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"),
        _pod,
        ("IP", "Node", "Nominated Node", "Readiness Gates"),
    ),
    SERVICE: Printer(
        ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"), _service, ("Selector",)
    ),
    STATEFUL_SET: Printer(("Name", "Ready", "Age", "Containers", "Images"), _stateful_set, ("Containers", "Images")),
    BATCH_JOB: Printer(
        ("Name", "Status", "Completions", "Duration", "Age", "Containers", "Images", "Selector"),
        _batch_job,
        ("Containers", "Images", "Selector"),
    ),
    NODE: Printer(
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP",
            "External-IP",
            "OS-Image",
            "Kernel-Version",
            "Container-Runtime",
        ),
        _node,
        ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    EVENT: Printer(
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "Subobject",
            "Source",
            "Message",
            "First Seen",
            "Count",
            "Name",
        ),
        _event,
        ("Subobject", "Source", "First Seen", "Count", "Name"),
    ),
    NAMESPACE: Printer(("Name", "Status", "Age"), _namespace),
    SECRET: Printer(("Name", "Type", "Data", "Age"), _secret),
    CONFIG_MAP: Printer(("Name", "Data", "Age"), _config_map),
    VOLUME_CLAIM: Printer(
        (
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "VolumeMode",
        ),
        _volume_claim,
        ("VolumeMode",),
    ),
    NETWORK_POLICY: Printer(("Name", "Pod-Selector", "Age"), _network_policy),
    RESOURCE_QUOTA: Printer(("Name", "Request", "Limit", "Age"), _quota),
    PRIORITY_CLASS: Printer(("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"), _priority_class),
    SERVICE_ACCOUNT: Printer(("Name", "Age"), lambda obj, now: [obj["metadata"]["name"], age(obj, now)]),
    ROLE: Printer(("Name", "Created At"), _role),
    ROLE_BINDING: Printer(
        ("Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"),
        _role_binding,
        ("Users", "Groups", "ServiceAccounts"),
    ),
    AUTOSCALER: Printer(
        ("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
        _autoscaler,
    ),
}
