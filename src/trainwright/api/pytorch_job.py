"""PyTorchJob (kubeflow.org/v1): what a user may write, what is filled in, what is refused, and the Job it becomes.

`check` looks at what the user wrote and at what `default` makes of it, so a sentence names the user's own words. What
differs from the released operator, and why, is in docs/kinds/pytorch-job.md.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainwright.api import envelope, faces, kubeflow, pod_template, reader
from trainwright.api.common import Elastic, Job, Request, RestartPolicy, Role
from trainwright.api.envelope import MOST_PODS, check_name, without_nulls
from trainwright.api.reader import Rule, Shape, build, child, entry, show, walk
from trainwright.core import names
from trainwright.core.errors import Problem, did_you_mean
from trainwright.core.objects import Object, at

RESOURCE = faces.PYTORCH_JOB.resource
MASTER, WORKER = "Master", "Worker"
CONTAINER = "pytorch"
PORT_NAME, PORT = "pytorchjob-port", 23456
OURS = "kubeflow.org/training-operator"
BACKEND = "c10d"
_PROCESSES = re.compile(r"[1-9][0-9]*|auto|cpu|gpu|xpu")
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]+\]?")

Backend = Literal["c10d", "etcd", "etcd-v2"]

_METRICS = reader.shapes("""
Metric: type!:ContainerResource|External|Object|Pods|Resource containerResource:ContainerResource external:External
  object:ObjectMetric pods:External resource:Resource
Resource: name!:str target!:Target
ContainerResource: container!:str name!:str target!:Target
External: metric!:Identifier target!:Target
ObjectMetric: describedObject!:Described metric!:Identifier target!:Target
Described: apiVersion:str kind!:str name!:str
Identifier: name!:str selector:any
Target: type!:Utilization|Value|AverageValue averageUtilization:1.. averageValue:int-or-quantity value:int-or-quantity
""")["Metric"]


@dataclass(frozen=True)
class RunPolicySpec(kubeflow.RunPolicySpec):
    """How long the job may live, how often it may fail, and what is left of it."""

    managed_by: str | None = kubeflow.manager(OURS)


@dataclass(frozen=True)
class RdzvConf:
    """One setting of the rendezvous."""

    key: str | None = entry("The name of a rendezvous setting, such as join_timeout.", required=True)
    value: str | None = entry("Its value.")


@dataclass(frozen=True)
class ElasticPolicy:
    """The range in which the workers may be resized, and how torchrun's agents meet."""

    ORDERED = (("minReplicas", "maxReplicas"),)

    min_replicas: int | None = entry("The fewest workers with which training goes on.", minimum=1)
    max_replicas: int | None = entry("The most workers there may be.", minimum=1, maximum=MOST_PODS)
    rdzv_backend: Backend | None = entry("How agents find each other.")
    backend: Backend | None = entry("The design document's name of rdzvBackend.")
    rdzv_port: int | None = entry("The port of the rendezvous.", minimum=1, maximum=65535)
    rdzv_host: str | None = entry("The host of the rendezvous; worker 0 unless given.")
    rdzv_id: str | None = entry("What tells this rendezvous from others.")
    rdzv_conf: tuple[RdzvConf, ...] = entry("Further settings of the rendezvous.", default=())
    standalone: bool | None = entry("Whether each pod is a world of its own.")
    n_proc_per_node: int | None = entry("Deprecated: use spec.nprocPerNode.", minimum=1)
    max_restarts: int | None = entry("How often torchrun restarts its processes.", minimum=0)
    metrics: tuple[Object, ...] = entry(
        "What a horizontal pod autoscaler shall look at; it is made when this is given.",
        default=(),
        shape=Shape("array", items=_METRICS),
    )


@dataclass(frozen=True)
class ReplicaSpec:
    """The pods of one role."""

    replicas: int | None = entry("How many pods the role has.", minimum=1, maximum=MOST_PODS)
    template: Object | None = entry(
        "The pod template, with a container named 'pytorch'.", required=True, shape=pod_template.TEMPLATE
    )
    restart_policy: RestartPolicy | None = entry("What happens when a container ends.")


_SIZE = "self.pytorchReplicaSpecs['Worker'].replicas"
_SIZED = f"has(self.elasticPolicy) && 'Worker' in self.pytorchReplicaSpecs && has({_SIZE})"
_TOO_FEW = "{size} is less than {bound}; raise it, or set elasticPolicy.minReplicas lower"
_TOO_MANY = "{size} is more than {bound}; lower it, or set elasticPolicy.maxReplicas higher"


def _within(bound: str, sign: str, words: str) -> Rule:
    """Return the rule that the size of an elastic job lies on the right side of a bound."""
    limit = f"self.elasticPolicy.{bound}"
    return Rule(
        f"!({_SIZED} && has({limit})) || {_SIZE} {sign} {limit}",
        words.format(size="%d", bound=f"{bound} (%d)"),
        (_SIZE, limit),
        "pytorchReplicaSpecs.Worker.replicas",
    )


@dataclass(frozen=True)
class Spec:
    """What the job shall be."""

    RULES = (_within("minReplicas", ">=", _TOO_FEW), _within("maxReplicas", "<=", _TOO_MANY))

    run_policy: RunPolicySpec | None = entry("How long the job may live, how often it may fail, what is left of it.")
    elastic_policy: ElasticPolicy | None = entry("Makes the workers elastic.")
    pytorch_replica_specs: dict[str, ReplicaSpec] | None = entry("The roles, Master and Worker.", required=True)
    nproc_per_node: str | None = entry("Processes per pod: auto, cpu, gpu, xpu or a number in quotes.")


_DOCUMENT = envelope.document(Spec)
_SPEC, _ROLES, _ELASTIC, _RUN = "spec", "spec.pytorchReplicaSpecs", "spec.elasticPolicy", "spec.runPolicy"


# Defaults


def default(obj: Object) -> Object:
    """Return the job as it is stored: what the user left out is written down, null counts as left out."""
    if not isinstance(obj.get("spec"), dict):
        return obj
    spec = without_nulls(obj["spec"])
    metadata = {"metadata": without_nulls(obj["metadata"])} if isinstance(obj.get("metadata"), dict) else {}
    elastic = spec.get("elasticPolicy")
    if isinstance(elastic, dict):
        elastic = spec["elasticPolicy"] = _default_elastic(elastic, _worker_replicas(spec))
    if isinstance(run := spec.setdefault("runPolicy", {}), dict):
        spec["runPolicy"] = {"cleanPodPolicy": "None", "suspend": False, **run}
    if not (isinstance(elastic, dict) and "nProcPerNode" in elastic):
        spec.setdefault("nprocPerNode", "auto")
    if isinstance(roles := spec.get("pytorchReplicaSpecs"), dict):
        size = elastic["minReplicas"] if isinstance(elastic, dict) else 1
        spec["pytorchReplicaSpecs"] = {
            name: _default_role(role, size if name == WORKER else 1) if isinstance(role, dict) else role
            for name, role in roles.items()
        }
    return {**obj, **metadata, "spec": spec}


def _worker_replicas(spec: Mapping[str, Any]) -> Any:
    """Return what the user wrote for the size of Worker, or 1; whether it is a number is not asked here."""
    return at(spec, ("pytorchReplicaSpecs", WORKER, "replicas"), 1)


def _default_elastic(elastic: Object, replicas: Any) -> Object:
    """Give a policy both bounds: the one given is copied to the other, and without any the size stays as it is."""
    minimum, maximum = elastic.get("minReplicas"), elastic.get("maxReplicas")
    backend = elastic.get("rdzvBackend", elastic.get("backend", BACKEND))
    if elastic.get("backend", backend) == backend:
        elastic = {name: value for name, value in elastic.items() if name != "backend"}
    return {
        **elastic,
        "minReplicas": next(each for each in (minimum, maximum, replicas) if each is not None),
        "maxReplicas": next(each for each in (maximum, minimum, replicas) if each is not None),
        "rdzvBackend": backend,
    }


def _default_role(role: Object, replicas: Any) -> Object:
    template = {"template": _with_port(role["template"])} if "template" in role else {}
    return {"replicas": replicas, "restartPolicy": "OnFailure", **role, **template}


def _with_port(template: Any) -> Any:
    """Return the template with the port the processes meet on, unless the container has one of that name."""
    containers = at(template, ("spec", "containers"))
    index = _main(containers)
    if index is None:
        return template
    ports = containers[index].get("ports", [])
    if not isinstance(ports, list) or any(at(port, ("name",)) == PORT_NAME for port in ports):
        return template
    opened = {**containers[index], "ports": [*ports, {"name": PORT_NAME, "containerPort": PORT}]}
    others = [*containers[:index], opened, *containers[index + 1 :]]
    return {**template, "spec": {**template["spec"], "containers": others}}


def _main(containers: Any) -> int | None:
    """Return the index of the container that trains."""
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if at(container, ("name",)) == CONTAINER:
            return index
    return None


# Checks


@dataclass(frozen=True)
class _Look:
    """One job, as it was written and as it would be stored."""

    object: Object
    given: Spec
    stored: Spec
    elastic: ElasticPolicy | None

    def role(self, name: str) -> ReplicaSpec | None:
        return (self.stored.pytorch_replica_specs or {}).get(name)

    def replicas(self, name: str) -> int:
        role = self.role(name)
        return role.replicas or 0 if role else 0

    @property
    def largest(self) -> int:
        """How many workers there may ever be."""
        return max(self.replicas(WORKER), (self.elastic and self.elastic.max_replicas) or 0)


def check(obj: Object, old: Object | None = None) -> list[Problem]:
    """Return everything that is wrong with a job, or that looks like a trap; `old` is what an update replaces."""
    stored = build(Spec, default(obj).get("spec"))
    look = _Look(obj, build(Spec, obj.get("spec")), stored, stored.elastic_policy)
    found = [*walk(_DOCUMENT, obj), *pod_template.check_metadata(obj.get("metadata"), "metadata")]
    for rule in (_names, _roles, _elastic, _rendezvous, _metrics, _processes, _scheduling, _traps):
        found += rule(look)
    if old is not None:
        found += _changes(look.given, build(Spec, old.get("spec")))
    return list(dict.fromkeys(found))


def _names(look: _Look) -> Iterator[Problem]:
    roles = {WORKER: look.largest, MASTER: look.replicas(MASTER)}
    counted = [(role, count) for role, count in roles.items() if count > 0]
    return check_name(look.object, lambda name: [names.pod(name, role, count - 1) for role, count in counted])


def _roles(look: _Look) -> Iterator[Problem]:
    roles = at(look.object, ("spec", "pytorchReplicaSpecs"))
    if not isinstance(roles, dict):
        return
    if not roles:
        yield Problem(_ROLES, "there is no role; write Worker, or Master and Worker")
    for name, role in roles.items():
        path = child(_ROLES, name)
        if name not in (MASTER, WORKER):
            near = did_you_mean(name, (MASTER, WORKER)) if len(name) <= names.LABEL_LENGTH else ""
            yield Problem(path, f"there is no role {show(name)}{near} (there are: {MASTER}, {WORKER})")
        template = role.get("template") if isinstance(role, dict) else None
        if template is not None:
            yield from pod_template.check(template, child(path, "template"))
            yield from _check_template(template, f"{path}.template.spec")
    if look.replicas(MASTER) > 1:
        found = f"found {look.replicas(MASTER)}"
        yield Problem(f"{_ROLES}.{MASTER}.replicas", f"there is exactly one Master, {found}; write 1, and more workers")


def _check_template(template: Any, path: str) -> Iterator[Problem]:
    containers = at(template, ("spec", "containers"))
    if not isinstance(containers, list) or not containers:
        return
    index = _main(containers)
    if index is None:
        named = [each["name"] for each in containers if isinstance(at(each, ("name",)), str)]
        found = f", found {', '.join(show(name) for name in named)}" if named else ""
        yield Problem(f"{path}.containers", f"one container must be named {CONTAINER!r}{found}")
        return
    stored = at(_with_port(template), ("spec", "containers"))[index].get("ports")
    taken: dict[tuple[Any, Any], str] = {}
    for port in stored if isinstance(stored, list) else ():
        number, name = at(port, ("containerPort",)), at(port, ("name",))
        if not isinstance(number, int) or not isinstance(name, str):
            continue  # a Service leaves out what has no name
        other = taken.setdefault((number, str(at(port, ("protocol",)) or "TCP")), name)
        if other != name:
            both = f"{show(other)} and {show(name)} are both port {number}, which a Service cannot offer twice"
            yield Problem(f"{path}.containers[{index}].ports", f"{both}; give one of them another number")


def _elastic(look: _Look) -> Iterator[Problem]:
    if look.elastic is None or look.given.elastic_policy is None:
        return
    given = look.given.elastic_policy
    low, high = look.elastic.min_replicas, look.elastic.max_replicas
    roles = look.given.pytorch_replica_specs
    if roles is not None and WORKER not in roles:
        if at(look.object, ("spec", "pytorchReplicaSpecs", WORKER)) is None:
            yield Problem(f"{_ROLES}.{WORKER}", "missing; elasticPolicy resizes the workers, so there must be some")
        return
    if low is None or high is None:
        return
    if low > high:
        return  # as the shape of the policy has said
    replicas = look.replicas(WORKER)
    path = f"{_ROLES}.{WORKER}.replicas"
    if 0 < replicas < low:
        bound = f"minReplicas ({low}{', copied from maxReplicas' if given.min_replicas is None else ''})"
        yield Problem(path, _TOO_FEW.format(size=replicas, bound=bound))
    if replicas > high:
        bound = f"maxReplicas ({high}{', copied from minReplicas' if given.max_replicas is None else ''})"
        yield Problem(path, _TOO_MANY.format(size=replicas, bound=bound))


def _rendezvous(look: _Look) -> Iterator[Problem]:
    given = look.given.elastic_policy
    if given is None:
        return
    if given.backend and given.rdzv_backend and given.backend != given.rdzv_backend:
        both = f"{given.backend!r}, but rdzvBackend is {given.rdzv_backend!r}"
        yield Problem(f"{_ELASTIC}.backend", f"{both}; both mean the same, leave this one out")
    if given.rdzv_host is not None and not _HOST.fullmatch(given.rdzv_host):
        yield Problem(
            f"{_ELASTIC}.rdzvHost", f"{show(given.rdzv_host)} is not a host; write a name, with the port in rdzvPort"
        )
    backend = given.rdzv_backend or given.backend
    if backend in ("etcd", "etcd-v2") and given.rdzv_host is None and not given.standalone:
        where = f"{_ELASTIC}.{'rdzvBackend' if given.rdzv_backend else 'backend'}"
        yield Problem(where, f"{backend} without rdzvHost expects an etcd server in worker 0; set rdzvHost", "warning")
    if given.standalone and look.largest > 1:
        alone = f"each of up to {look.largest} workers would train alone"
        yield Problem(f"{_ELASTIC}.standalone", f"{alone}; leave it out, or use one worker", "warning")
    seen: set[str] = set()
    for index, conf in enumerate(given.rdzv_conf):
        path = f"{_ELASTIC}.rdzvConf[{index}]"
        if conf.key is not None and (not conf.key or re.search(r"[=,\s]", conf.key)):
            yield Problem(
                f"{path}.key", f"{show(conf.key)} cannot be a setting; write a name without '=', ',' and spaces"
            )
        if conf.value and "," in conf.value:
            yield Problem(f"{path}.value", f"{show(conf.value)} has a ',', which ends a setting; leave it out")
        if conf.key in seen:
            yield Problem(f"{path}.key", f"{show(conf.key)} is set a second time; leave one out")
        seen.add(conf.key or "")


def _metrics(look: _Look) -> Iterator[Problem]:
    for index, metric in enumerate(look.given.elastic_policy.metrics if look.given.elastic_policy else ()):
        kind = metric.get("type")
        if isinstance(kind, str) and kind in _METRICS.fields["type"].enum:
            source = kind[0].lower() + kind[1:]
            if metric.get(source) is None:
                path = f"{_ELASTIC}.metrics[{index}].{source}"
                yield Problem(path, f"missing; it says what a metric of type {kind} looks at")


def _processes(look: _Look) -> Iterator[Problem]:
    path = f"{_SPEC}.nprocPerNode"
    number, legacy = look.given.nproc_per_node, look.given.elastic_policy and look.given.elastic_policy.n_proc_per_node
    if legacy is not None:
        old = f"{_ELASTIC}.nProcPerNode"
        yield Problem(old, f"{old} is deprecated; use {path} instead", "warning")
        if number is not None:
            yield Problem(path, f"cannot stand beside {old}; leave that one out")
    if number is None or _PROCESSES.fullmatch(number):
        return
    if re.fullmatch(r"[a-z][a-z0-9_]*", number):
        known = ("auto", "cpu", "gpu", "xpu")
        words = f"torchrun knows {', '.join(known)} or a number, found {number!r}{did_you_mean(number, known)}"
        yield Problem(path, words, "warning")
    else:
        yield Problem(path, f'must be auto, cpu, gpu, xpu or a number from "1" on; found {show(number)}')


def _scheduling(look: _Look) -> Iterator[Problem]:
    policy = look.given.run_policy and look.given.run_policy.scheduling_policy
    wanted = (policy and policy.min_available) or 0
    pods = look.replicas(MASTER) + look.largest
    if wanted > pods > 0:
        job = "1 pod" if pods == 1 else f"{pods} pods"
        yield Problem(f"{_RUN}.schedulingPolicy.minAvailable", f"{wanted} is more than the {job} of the job; lower it")


def _traps(look: _Look) -> Iterator[Problem]:
    """Yield what is accepted, by us as by the released operator, but is hardly meant."""
    roles = look.given.pytorch_replica_specs or {}
    if look.given.elastic_policy is None and MASTER not in roles and look.replicas(WORKER) > 1:
        alone = f"{look.replicas(WORKER)} workers without Master and elasticPolicy are not told how to reach each other"
        yield Problem(f"{_ROLES}.{WORKER}", f"{alone}; add a Master, or elasticPolicy: {{}}", "warning")
    for name, role in roles.items():
        path = child(_ROLES, name)
        if role.restart_policy == "Always":
            never = "a container that ends well is started again, so the job never succeeds; use OnFailure"
            yield Problem(f"{path}.restartPolicy", never, "warning")
        own = at(role.template, ("spec", "restartPolicy"))
        applied = role.restart_policy or "OnFailure"
        if own is not None and own != ("Never" if applied == "ExitCode" else applied):
            replaced = f"{show(own)} is replaced by the role's restartPolicy ({applied}); leave it out"
            yield Problem(f"{path}.template.spec.restartPolicy", replaced, "warning")


def _changes(new: Spec, old: Spec) -> Iterator[Problem]:
    """Yield the changes an update must not make."""
    was, now = ((spec.run_policy and spec.run_policy.managed_by) or OURS for spec in (old, new))
    if was != now:
        yield Problem(f"{_RUN}.managedBy", f"field is immutable; it is {was!r} and cannot become {now!r}")
    before, after = (spec.run_policy and spec.run_policy.scheduling_policy for spec in (old, new))
    if before and after and before.queue is not None and after.queue is not None and before.queue != after.queue:
        words = f"field is immutable; it is {show(before.queue)} and cannot become {show(after.queue)}"
        yield Problem(f"{_RUN}.schedulingPolicy.queue", words)


# Reading


def read(obj: Object) -> Job:
    """Return the job that an admitted object describes."""
    spec = build(Spec, default(obj)["spec"])
    roles = spec.pytorch_replica_specs or {}
    metadata = obj["metadata"]
    return Job(
        resource=RESOURCE,
        namespace=metadata.get("namespace") or "default",
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        roles=tuple(_read_role(name, roles[name]) for name in (MASTER, WORKER) if name in roles),
        run_policy=kubeflow.read_run_policy(spec.run_policy or RunPolicySpec(), OURS),
        requests=tuple(_requests(spec, roles)),
        elastic=_read_elastic(spec.elastic_policy) if spec.elastic_policy else None,
        object=obj,
    )


def _read_role(name: str, role: ReplicaSpec) -> Role:
    return Role(
        name, 1 if role.replicas is None else role.replicas, role.template or {}, role.restart_policy or "OnFailure"
    )


def _read_elastic(policy: ElasticPolicy) -> Elastic:
    hosted = policy.rdzv_backend == BACKEND and policy.rdzv_host is None and not policy.standalone
    return Elastic(
        role=WORKER,
        minimum=policy.min_replicas or 1,
        maximum=policy.max_replicas or 1,
        hub=0 if hosted else None,
        metrics=policy.metrics,
    )


def _requests(spec: Spec, roles: Mapping[str, ReplicaSpec]) -> Iterator[Request]:
    elastic = spec.elastic_policy
    nproc = spec.nproc_per_node or (str(elastic.n_proc_per_node) if elastic and elastic.n_proc_per_node else "auto")
    own_port = elastic.rdzv_port if elastic is not None and MASTER not in roles else None
    yield Request("pytorch", {"port": own_port or _port(roles.get(MASTER) or roles.get(WORKER)), "nproc": nproc})
    if elastic is not None:
        options = {
            "port": elastic.rdzv_port or _port(roles.get(WORKER)),
            "nproc": nproc,
            "minimum": elastic.min_replicas or 1,
            "maximum": elastic.max_replicas or 1,
            "backend": elastic.rdzv_backend or BACKEND,
            "host": elastic.rdzv_host,
            "id": elastic.rdzv_id,
            "conf": tuple((conf.key or "", conf.value or "") for conf in elastic.rdzv_conf),
            "max_restarts": elastic.max_restarts,
            "standalone": bool(elastic.standalone),
        }
        yield Request("torch_elastic", options)


def _port(role: ReplicaSpec | None) -> int:
    """Return the port a role's processes meet on."""
    containers = at(role.template, ("spec", "containers"), []) if role else []
    index = _main(containers)
    for port in () if index is None else containers[index].get("ports", ()):
        if port.get("name") == PORT_NAME:
            return int(port["containerPort"])
    return PORT
