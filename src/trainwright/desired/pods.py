"""Template and Wiring to Pod, with a row for every field that is added, changed, or left because the user set it.

Nothing of the template is copied that does not change: the pods of a job share what they have in common, so a
thousand of them cost little more than their names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from trainwright import frameworks
from trainwright.api.common import Job, Role
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, owner_reference
from trainwright.desired import gangs
from trainwright.desired.base import BuiltPod, Injection, Settings, WantedPod
from trainwright.desired.gangs import Marks, Team
from trainwright.frameworks.base import Mount, Replica, WaitFor

USER = "user"
OPERATOR = "operator"
RUN_POLICY = "run policy"
JOB = "job"
_KEPT = "user: kept their value"
_NONE: Mapping[str, str] = {}
_LABEL_REASONS = {
    names.JOB_LABEL: "the job this pod belongs to",
    names.VERSION_LABEL: "how often the job had been restarted as a whole when the pod was made",
    names.GANG_LABEL: "pods of one gang start together or not at all",
}


def _nothing(*_: object) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Shape:
    """How one kind names and labels its pods, and which container does the work."""

    container: str
    """The container that decides how a replica ended; the first one where none has that name."""
    labels: Callable[[Job, Role, int], Mapping[str, str]]
    annotations: Callable[[Job, Role, int, int], Mapping[str, str]] = _nothing
    """The job, the role, the index and the version to what tools look for on the pod."""
    spec: Callable[[Job, Role, Settings], Mapping[str, str]] = _nothing
    """What a pod takes over from the job where its template says nothing."""
    mounts: Callable[[Job], Sequence[Mount]] = lambda job: ()  # noqa: ARG005 - most kinds have none
    """The volumes of the job as a whole."""
    group: Callable[[Job], str] = lambda job: job.name
    """What Volcano's PodGroup of a job is called."""
    named: bool = True
    """Every pod has a host name that resolves; else only if a framework asks for it."""


@dataclass(frozen=True)
class Mould:
    """What all pods of a job are made from."""

    job: Job
    shape: Shape
    settings: Settings
    version: int
    teams: Mapping[str, Team]
    """Whom the pods of each role start with."""

    @cached_property
    def wire(self) -> frameworks.Wire:
        """Return what wires a replica."""
        return frameworks.prepare(self.job, self.settings.net)

    @cached_property
    def owners(self) -> list[Object]:
        """Return whom a pod belongs to."""
        return [owner_reference(self.job.object)]

    @cached_property
    def mounts(self) -> tuple[tuple[Mount, str], ...]:
        """Return the volumes of the job as a whole."""
        return tuple((mount, JOB) for mount in self.shape.mounts(self.job))


def wanted(job: Job, shape: Shape, settings: Settings, version: int) -> tuple[WantedPod, ...]:
    """Return the pods a job should have, role by role and index by index, each ready to be built."""
    together = teams(job, shape, settings, version)
    mould = Mould(job, shape, settings, version, together)  # works nothing out while no pod is missing
    return tuple(
        WantedPod(
            names.pod(job.name, role.name, index),
            role.name,
            index,
            partial(build, mould, role, index),
            partial(explained, mould, role, index),
            together[role.name].has(role, index),
        )
        for role in job.roles
        for index in range(role.replicas)
    )


def teams(job: Job, shape: Shape, settings: Settings, version: int) -> dict[str, Team]:
    """Return for each role with whom its pods start."""
    return gangs.teams(job, settings, version, shape.group(job))


def group_objects(job: Job, shape: Shape, settings: Settings, version: int) -> tuple[Create, ...]:
    """Return what makes pods that start together known to a scheduler."""
    return gangs.objects(job, settings, teams(job, shape, settings, version).values())


def main_container(containers: Sequence[Object], name: str) -> int:
    """Return the position of the container that does the work."""
    return next((place for place, each in enumerate(containers) if each.get("name") == name), 0)


class _Notes:
    """Forgets the reasons, which mostly nobody asks for. A path comes in pieces, because joining them takes time."""

    def add(self, path: str, key: str, value: str, source: str, reason: str) -> None:
        """Take note of a field that is set: the item `key` of `path`, or `path` itself."""

    def all(
        self, path: str, values: Mapping[str, str], source: str, reason: str, others: Mapping[str, str] = _NONE
    ) -> None:
        """Take note of all items of `path`, each for the same reason but for `others`."""

    def variables(self, path: str, told: Mapping[str, frameworks.Variable], own: Mapping[str, Object]) -> None:
        """Take note of the variables that a container is told, or keeps because they are the user's own."""

    def kept(self, path: str, key: str, value: str, instead_of: str, source: str) -> None:
        """Take note of a field that is left as the user has set it."""


_FORGOTTEN = _Notes()


@dataclass
class _Written(_Notes):
    """Collects the rows of one pod while it is built."""

    pod: str
    rows: list[Injection] = field(default_factory=list)

    def add(self, path: str, key: str, value: str, source: str, reason: str) -> None:
        self.rows.append(Injection(self.pod, f"{path}[{key}]" if key else path, value, source, reason))

    def all(
        self, path: str, values: Mapping[str, str], source: str, reason: str, others: Mapping[str, str] = _NONE
    ) -> None:
        for key, value in values.items():
            self.add(path, key, value, source, others.get(key, reason))

    def variables(self, path: str, told: Mapping[str, frameworks.Variable], own: Mapping[str, Object]) -> None:
        for name, (entry, source, _) in told.items():
            if name in own:
                self.kept(path, name, _shown(own[name]), entry.value, source)
            else:
                self.add(path, name, entry.value, source, entry.why)

    def kept(self, path: str, key: str, value: str, instead_of: str, source: str) -> None:
        self.add(path, key, value, USER, f"{_KEPT} ({source} would set {instead_of})")


def explained(mould: Mould, role: Role, index: int) -> BuiltPod:
    """Return one replica's pod and the reasons for all that its template does not say."""
    notes = _Written(names.pod(mould.job.name, role.name, index))
    return BuiltPod(build(mould, role, index, notes), tuple(notes.rows))


def build(mould: Mould, role: Role, index: int, notes: _Notes = _FORGOTTEN) -> Object:
    """Return one replica's pod; `notes` are told why each part is there that its template does not have."""
    job = mould.job
    wired = mould.wire(Replica(role.name, index))
    marks = gangs.marks(mould.settings, mould.teams[role.name], role, index)
    template_meta: Object = role.template.get("metadata") or {}
    metadata = {
        **{key: value for key, value in template_meta.items() if key in ("finalizers",)},
        "name": names.pod(job.name, role.name, index),
        "namespace": job.namespace,
        "labels": {**(template_meta.get("labels") or {}), **_labels(mould, role, index, marks, notes)},
        "annotations": _annotations(mould, role, index, wired, marks, notes),
        "ownerReferences": mould.owners,
    }
    owner = f"{job.resource.kind}/{job.name}"
    notes.add("metadata.ownerReferences", "", owner, OPERATOR, "the pod goes when the job goes")
    spec = _with_marks(_spec(mould, role, index, wired, notes), mould.settings, marks, notes)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _labels(mould: Mould, role: Role, index: int, marks: Marks, notes: _Notes) -> dict[str, str]:
    labels = {
        **mould.shape.labels(mould.job, role, index),
        names.JOB_LABEL: mould.job.name,
        names.VERSION_LABEL: str(mould.version),
        names.GANG_LABEL: mould.teams[role.name].name,
    }
    notes.all("metadata.labels", labels, OPERATOR, "selectors and tools find the pod by it", _LABEL_REASONS)
    if not marks.labels:
        return labels
    notes.all("metadata.labels", marks.labels, OPERATOR, gangs.strategy(mould.settings).why)
    return {**labels, **marks.labels}


def _annotations(
    mould: Mould, role: Role, index: int, wired: frameworks.Wired, marks: Marks, notes: _Notes
) -> dict[str, str]:
    path = "metadata.annotations"
    own: Object = (role.template.get("metadata") or {}).get("annotations") or {}
    added = {**mould.shape.annotations(mould.job, role, index, mould.version)}
    notes.all(path, added, OPERATOR, "tools look for it on the pod")
    for key, (entry, source) in wired.annotations.items():
        if key in own:
            notes.kept(path, key, own[key], entry.value, source)
            continue
        added[key] = entry.value
        notes.add(path, key, entry.value, source, entry.why)
    others = {key: value for key, value in marks.annotations.items() if added.get(key) != value}
    notes.all(path, others, OPERATOR, gangs.strategy(mould.settings).why)
    least = str(mould.teams[role.name].minimum)
    notes.add(path, names.GANG_MIN_ANNOTATION, least, RUN_POLICY, "so many pods must fit before any starts")
    return {**own, **added, **others, names.GANG_MIN_ANNOTATION: least}


def _with_marks(spec: Object, settings: Settings, marks: Marks, notes: _Notes) -> Object:
    """Return a pod's spec with what makes it one of its team; what the user says stays."""
    for key, value in marks.spec.items():
        why = gangs.strategy(settings).why
        if isinstance(value, list):
            spec[key] = [*(spec.get(key) or ()), *value]
            notes.add(f"spec.{key}", "", _short(value), OPERATOR, why)
        elif not spec.get(key):
            spec[key] = value
            notes.add(f"spec.{key}", "", _short(value), OPERATOR, why)
    return spec


def _short(value: Any) -> str:
    """Return a value as a row shows it: what is inside of what."""
    if isinstance(value, dict):
        return ", ".join(map(_short, value.values()))
    return ", ".join(map(_short, value)) if isinstance(value, list) else str(value)


def _spec(mould: Mould, role: Role, index: int, wired: frameworks.Wired, notes: _Notes) -> Object:
    template: Object = role.template.get("spec") or {}
    spec: Object = {**template}
    for key, value, source, reason in _from_job(mould, role, index, wired):
        if template.get(key):
            notes.kept(f"spec.{key}", "", str(template[key]), value, source)
        else:
            spec[key] = value
            notes.add(f"spec.{key}", "", value, source, reason)
    spec["restartPolicy"] = restart = "Never" if role.restart_policy == "ExitCode" else role.restart_policy
    notes.add("spec.restartPolicy", "", restart, RUN_POLICY, _restart_reason(role, template))
    containers: Sequence[Object] = template.get("containers") or ()
    main = main_container(containers, mould.shape.container)
    spec["containers"] = [
        _container(each, wired, notes, f"spec.containers[{each.get('name', '')}]", mould.mounts, is_main=place == main)
        for place, each in enumerate(containers)
    ]
    steps: Sequence[Object] = template.get("initContainers") or ()
    if wired.in_steps and steps:
        few = _of_steps(wired)
        steps = [_container(each, few, notes, f"spec.initContainers[{each.get('name', '')}]", ()) for each in steps]
    waits = [_step(wait, source, template, mould.settings, notes) for wait, source in wired.wait_for]
    if steps or any(waits):
        spec["initContainers"] = [*steps, *filter(None, waits)]
    _add_volumes(spec, [mount for mount, _ in (*mould.mounts, *wired.mounts)], notes)
    return spec


def _from_job(mould: Mould, role: Role, index: int, wired: frameworks.Wired) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a pod gets where its template says nothing: the field, its value, the source and the reason."""
    job = mould.job
    if mould.shape.named or wired.named_by:
        source, name = OPERATOR if mould.shape.named else wired.named_by, names.pod(job.name, role.name, index)
        yield "hostname", name, source, "peers and torch's own host detection know the pod by its name"
        yield "subdomain", job.name, source, "with the job's Service, <hostname>.<subdomain> resolves"
    for key, value in mould.shape.spec(job, role, mould.settings).items():
        yield key, value, JOB, f"the job's {key}"


def _of_steps(wired: frameworks.Wired) -> frameworks.Wired:
    """Return that part of the wiring which init containers of the user get as well."""
    return replace(
        wired,
        env={name: each for name, each in wired.env.items() if each.source in wired.in_steps},
        ports={name: each for name, each in wired.ports.items() if each[1] in wired.in_steps},
        mounts=[each for each in wired.mounts if each[1] in wired.in_steps],
        commands={},
    )


def _add_volumes(spec: Object, mounts: Sequence[Mount], notes: _Notes) -> None:
    """Add the volumes that are mounted; one of that name in the template takes their place."""
    volumes = {each.get("name"): each for each in spec.get("volumes") or ()}
    for mount in mounts:
        name = mount.volume["name"]
        if name not in volumes:
            volumes[name] = mount.volume
            notes.add("spec.volumes", name, _kind_of(mount.volume), OPERATOR, mount.why)
    if mounts:
        spec["volumes"] = [*volumes.values()]


def _kind_of(volume: Object) -> str:
    return ", ".join(key for key in volume if key != "name")


def _restart_reason(role: Role, template: Object) -> str:
    own = template.get("restartPolicy")
    instead = f", instead of the template's {own}" if own and own != role.restart_policy else ""
    if role.restart_policy == "ExitCode":
        return f"restartPolicy ExitCode: the operator reads the exit code and decides{instead}"
    return f"restartPolicy of the role {role.name}{instead}"


def _container(
    container: Object,
    wired: frameworks.Wired,
    notes: _Notes,
    path: str,
    own_mounts: Sequence[tuple[Mount, str]],
    *,
    is_main: bool = False,
) -> Object:
    changed: Object = {**container, "env": _environment(container, wired, notes, path)}
    ports = _ports(container, wired, notes, path, is_main=is_main)
    if ports:
        changed["ports"] = [*(container.get("ports") or ()), *ports]
    mounts = _mounts(container, [*own_mounts, *wired.mounts], notes, path)
    if mounts:
        changed["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    if container.get("name") in wired.commands:
        command, why, source = wired.commands[container["name"]]
        changed["command"] = [*command]
        notes.add(f"{path}.command", "", " ".join(command), source, why)
    return changed


def _environment(container: Object, wired: frameworks.Wired, notes: _Notes, path: str) -> list[Object]:
    own = {each.get("name", ""): each for each in container.get("env") or ()}
    notes.variables(f"{path}.env", wired.env, own)
    added = [each.object for name, each in wired.env.items() if name not in own]
    return [*(container.get("env") or ()), *added]


def _mounts(container: Object, mounts: Sequence[tuple[Mount, str]], notes: _Notes, path: str) -> list[Object]:
    own = {each.get("mountPath") for each in container.get("volumeMounts") or ()}
    added: list[Object] = []
    here = f"{path}.volumeMounts"
    for mount, source in mounts:
        if mount.path in own:
            notes.kept(here, mount.path, mount.path, f"the volume {mount.volume['name']}", source)
            continue
        each = {"name": mount.volume["name"], "mountPath": mount.path}
        added.append({**each, "subPath": mount.sub_path} if mount.sub_path else each)
        notes.add(here, mount.path, mount.volume["name"], source, mount.why)
    return added


def _shown(variable: Object) -> str:
    """Return a user's variable as a person would write it down."""
    if "value" in variable:
        return str(variable["value"])
    return "from " + ", ".join(variable.get("valueFrom") or {"": ""})


def _ports(
    container: Object, wired: frameworks.Wired, notes: _Notes, path: str, *, is_main: bool
) -> list[Mapping[str, Any]]:
    """Return the ports a container gets: by name on the main one, or wherever nobody has the number yet."""
    has = container.get("ports") or ()
    own, numbers = {each.get("name") for each in has}, {each.get("containerPort") for each in has}
    missing = [
        (name, port, source)
        for name, (port, source) in wired.ports.items()
        if name not in own
        and ((source in wired.in_all and port not in numbers) or (source not in wired.in_all and is_main))
    ]
    for name, port, source in missing:
        notes.add(f"{path}.ports", name, str(port), source, "peers connect here")
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port, _ in missing]


def _step(wait: WaitFor, source: str, template: Object, settings: Settings, notes: _Notes) -> Object | None:
    path = "spec.initContainers"
    if any(each.get("name") == wait.name for each in template.get("initContainers") or ()):
        notes.kept(path, wait.name, wait.name, "a wait step", source)
        return None
    to_answer = f" to answer on port {wait.port}" if wait.port else ""
    said = f"wait for {', '.join(wait.hosts)}{to_answer}, at most {wait.seconds} s"
    notes.add(path, wait.name, said, source, wait.why)
    foreign = wait.image if settings.pulls else ""
    return {
        "name": wait.name,
        "image": foreign or settings.wait_image,
        "imagePullPolicy": "IfNotPresent",
        "command": _shell(wait) if foreign else _own_command(wait, settings),
        "resources": {} if foreign else settings.wait_resources,
    }


def _own_command(wait: WaitFor, settings: Settings) -> list[str]:
    hosts = [part for host in wait.hosts for part in ("--host", host)]
    port = ["--port", str(wait.port)] if wait.port else []
    return [*settings.wait_command, *hosts, *port, "--seconds", str(wait.seconds)]


def _shell(wait: WaitFor) -> list[str]:
    """Return the step for an image of the user's, of which only a shell is known: nc asks, else the shell itself."""
    ask = f'nc -z -w 2 "$host" {wait.port} 2>/dev/null || (: <"/dev/tcp/$host/{wait.port}") 2>/dev/null'
    give_up = f'echo "$host does not answer on port {wait.port} after {wait.seconds} s" >&2; exit 1'
    script = (
        f"left={wait.seconds}; for host in {' '.join(wait.hosts)}; do until {ask}; do "
        f'[ "$left" -gt 0 ] || {{ {give_up}; }}; '
        f'echo "waiting for $host to answer on port {wait.port}, $left s left"; sleep 2; left=$((left - 2)); done; done'
    )
    return ["sh", "-c", script]
