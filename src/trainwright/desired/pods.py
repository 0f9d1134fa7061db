"""Template and Wiring to Pod, with a row for every field that is added, changed, or left because the user set it.

Nothing of the template is copied that does not change: the pods of a job share what they have in common, so a
thousand of them cost little more than their names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trainwright import frameworks
from trainwright.api.common import Job, Role
from trainwright.core import names
from trainwright.core.objects import Object, owner_reference
from trainwright.desired.base import BuiltPod, Injection, Settings, WantedPod
from trainwright.frameworks.base import Replica, WaitFor

USER = "user"
OPERATOR = "operator"
RUN_POLICY = "run policy"
_KEPT = "user: kept their value"


@dataclass(frozen=True)
class Shape:
    """How one kind names and labels its pods, and which container does the work."""

    container: str
    """The container that decides how a replica ended; the first one where none has that name."""
    labels: Callable[[Job, Role, int], Mapping[str, str]]


def wanted(job: Job, shape: Shape, settings: Settings, version: int) -> tuple[WantedPod, ...]:
    """Return the pods a job should have, role by role and index by index, each ready to be built."""
    gang = str(gang_minimum(job))
    return tuple(
        WantedPod(
            names.pod(job.name, role.name, index),
            role.name,
            index,
            partial(build, job, role, index, shape, settings, version, gang),
        )
        for role in job.roles
        for index in range(role.replicas)
    )


def gang_minimum(job: Job) -> int:
    """Return how many pods must fit before any starts: as asked, the elastic minimum, or all; never more than all."""
    if job.run_policy.gang_min is not None:
        return min(job.run_policy.gang_min, job.total)
    if job.elastic is None:
        return job.total
    others = job.total - job.count(job.elastic.role)
    return min(job.elastic.minimum + others, job.total)


def main_container(containers: Sequence[Object], name: str) -> int:
    """Return the position of the container that does the work."""
    return next((place for place, each in enumerate(containers) if each.get("name") == name), 0)


def build(job: Job, role: Role, index: int, shape: Shape, settings: Settings, version: int, gang: str) -> BuiltPod:
    """Return one replica's pod and the reasons for all that its template does not say."""
    name = names.pod(job.name, role.name, index)
    wired = frameworks.wire(job, Replica(role.name, index), settings.net)
    notes = _Notes(name)
    template_meta: Object = role.template.get("metadata") or {}
    labels = {**shape.labels(job, role, index), names.JOB_LABEL: job.name, names.VERSION_LABEL: str(version)}
    labels[names.GANG_LABEL] = job.name
    annotations = {names.GANG_MIN_ANNOTATION: gang}
    for key, value in labels.items():
        notes.add(
            f"metadata.labels[{key}]",
            value,
            OPERATOR,
            _LABEL_REASONS.get(key, "selectors and tools find the pod by it"),
        )
    notes.add(
        f"metadata.annotations[{names.GANG_MIN_ANNOTATION}]",
        gang,
        RUN_POLICY,
        "so many pods must fit before any starts",
    )
    metadata = {
        **{key: value for key, value in template_meta.items() if key in ("finalizers",)},
        "name": name,
        "namespace": job.namespace,
        "labels": {**(template_meta.get("labels") or {}), **labels},
        "annotations": {**(template_meta.get("annotations") or {}), **annotations},
        "ownerReferences": [owner_reference(job.object)],
    }
    notes.add("metadata.ownerReferences", f"{job.resource.kind}/{job.name}", OPERATOR, "the pod goes when the job goes")
    return BuiltPod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _spec(job, role, name, shape, settings, wired, notes),
        },
        tuple(notes.rows),
    )


_LABEL_REASONS = {
    names.JOB_LABEL: "the job this pod belongs to",
    names.VERSION_LABEL: "how often the job had been restarted as a whole when the pod was made",
    names.GANG_LABEL: "pods of one gang start together or not at all",
}


@dataclass
class _Notes:
    """Collects the rows of one pod while it is built."""

    pod: str
    rows: list[Injection] = field(default_factory=list)

    def add(self, path: str, value: str, source: str, reason: str) -> None:
        self.rows.append(Injection(self.pod, path, value, source, reason))

    def kept(self, path: str, value: str, instead_of: str, source: str) -> None:
        self.add(path, value, USER, f"{_KEPT} ({source} would set {instead_of})")


def _spec(
    job: Job, role: Role, name: str, shape: Shape, settings: Settings, wired: frameworks.Wired, notes: _Notes
) -> Object:
    template: Object = role.template.get("spec") or {}
    spec: Object = {**template}
    for key, value, reason in (
        ("hostname", name, "peers and torch's own host detection know the pod by its name"),
        ("subdomain", job.name, "with the job's Service, <hostname>.<subdomain> resolves"),
    ):
        if template.get(key):
            notes.kept(f"spec.{key}", str(template[key]), value, OPERATOR)
        else:
            spec[key] = value
            notes.add(f"spec.{key}", value, OPERATOR, reason)
    spec["restartPolicy"] = restart = "Never" if role.restart_policy == "ExitCode" else role.restart_policy
    notes.add("spec.restartPolicy", restart, RUN_POLICY, _restart_reason(role, template))
    containers: Sequence[Object] = template.get("containers") or ()
    main = main_container(containers, shape.container)
    spec["containers"] = [
        _container(each, wired, notes, is_main=place == main) for place, each in enumerate(containers)
    ]
    steps = [_step(wait, source, template, settings, notes) for wait, source in wired.wait_for]
    if any(steps):
        spec["initContainers"] = [*(template.get("initContainers") or ()), *filter(None, steps)]
    return spec


def _restart_reason(role: Role, template: Object) -> str:
    own = template.get("restartPolicy")
    instead = f", instead of the template's {own}" if own and own != role.restart_policy else ""
    if role.restart_policy == "ExitCode":
        return f"restartPolicy ExitCode: the operator reads the exit code and decides{instead}"
    return f"restartPolicy of the role {role.name}{instead}"


def _container(container: Object, wired: frameworks.Wired, notes: _Notes, *, is_main: bool) -> Object:
    path = f"spec.containers[{container.get('name', '')}]"
    own = {each.get("name"): each for each in container.get("env") or ()}
    added = []
    for name, (entry, source) in wired.env.items():
        if name in own:
            notes.kept(f"{path}.env[{name}]", _shown(own[name]), entry.value, source)
            continue
        added.append({"name": name, "value": entry.value})
        notes.add(f"{path}.env[{name}]", entry.value, source, entry.why)
    changed: Object = {**container, "env": [*(container.get("env") or ()), *added]}
    ports = _ports(container, wired, notes, path) if is_main else []
    if ports:
        changed["ports"] = [*(container.get("ports") or ()), *ports]
    return changed


def _shown(variable: Object) -> str:
    """Return a user's variable as a person would write it down."""
    if "value" in variable:
        return str(variable["value"])
    return "from " + ", ".join(variable.get("valueFrom") or {"": ""})


def _ports(container: Object, wired: frameworks.Wired, notes: _Notes, path: str) -> list[Mapping[str, Any]]:
    own = {each.get("name") for each in container.get("ports") or ()}
    missing = [(name, port, source) for name, (port, source) in wired.ports.items() if name not in own]
    for name, port, source in missing:
        notes.add(f"{path}.ports[{name}]", str(port), source, "peers connect here")
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port, _ in missing]


def _step(wait: WaitFor, source: str, template: Object, settings: Settings, notes: _Notes) -> Object | None:
    path = f"spec.initContainers[{wait.name}]"
    if any(each.get("name") == wait.name for each in template.get("initContainers") or ()):
        notes.kept(path, wait.name, "a wait step", source)
        return None
    notes.add(path, f"wait for {', '.join(wait.hosts)}, at most {wait.seconds} s", source, wait.why)
    return {
        "name": wait.name,
        "image": settings.wait_image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *settings.wait_command,
            *(part for host in wait.hosts for part in ("--host", host)),
            "--seconds",
            str(wait.seconds),
        ],
        "resources": settings.wait_resources,
    }
