"""TrainingJob (paddlepaddle.org/v1): what a user may write, what is filled in, what is refused, the Job it becomes.

The fields have the spelling they have always had, in three styles. A job only scales when it is fault tolerant: one
that says `min-instance: 2, max-instance: 6` and no more runs at 2, and says so.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainwright.api import envelope, faces, pod_template, training_template
from trainwright.api.common import After, Elastic, Job, Request, Role, RunPolicy
from trainwright.api.envelope import MOST_PODS, without_nulls
from trainwright.api.reader import Rule, Shape, build, entry, walk
from trainwright.api.training_template import IMAGE, MASTER, PSERVER, ROLES, TRAINER
from trainwright.core import names
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at

RESOURCE = faces.TRAINING_JOB.resource
PORT = 7164
_LAST_PORT = 65535
_DEFAULTS = {"port": PORT, "ports_num": 1, "ports_num_for_sparse": 1, "image": IMAGE}
_CHANGEABLE = "elasticReplicas and the min-instance and max-instance of trainer"
_RANGE = ("min-instance", "max-instance")
_AS_IT_IS = Shape("object", preserved=True)
_LIST = Shape("array", items=_AS_IT_IS)

Phase = Literal["", "creating", "running", "succeeded", "failed"]


@dataclass(frozen=True)
class MasterSpec:
    """The master, which gives out tasks to trainers."""

    etcd_endpoint: str | None = entry("Never read; the master's etcd is in its own pod.", name="etcd-endpoint")
    resources: Object | None = entry("What the pod asks for and may use.", shape=_AS_IT_IS)
    replica_spec: Object | None = entry("Left by the released controller; never read.", shape=_AS_IT_IS)


@dataclass(frozen=True)
class PserverSpec:
    """The parameter servers."""

    ORDERED = (_RANGE,)

    min_instance: int | None = entry("How many there are.", name="min-instance", minimum=0, maximum=MOST_PODS)
    max_instance: int | None = entry("As many; servers do not scale.", name="max-instance", minimum=0)
    resources: Object | None = entry("What each pod asks for and may use.", shape=_AS_IT_IS)
    replica_spec: Object | None = entry("Left by the released controller; never read.", shape=_AS_IT_IS)


@dataclass(frozen=True)
class TrainerSpec:
    """The trainers."""

    ORDERED = (_RANGE,)

    entrypoint: str | None = entry("The command line that trains.", required=True)
    workspace: str | None = entry("The folder it is run in, which also comes first on PYTHONPATH.")
    passes: int | None = entry("How often the data is gone through; spec.passes is the same.", minimum=0)
    etcd_endpoint: str | None = entry("Never read.", name="etcd-endpoint")
    min_instance: int | None = entry("The fewest trainers there may be.", name="min-instance", minimum=1)
    max_instance: int | None = entry("The most there may be.", name="max-instance", minimum=1, maximum=MOST_PODS)
    resources: Object | None = entry("What each pod asks for and may use.", shape=_AS_IT_IS)
    replica_spec: Object | None = entry("Left by the released controller; never read.", shape=_AS_IT_IS)


_TOO_FEW = "{size} is less than trainer.min-instance ({bound}); raise it, or lower min-instance"
_TOO_MANY = "{size} is more than trainer.max-instance ({bound}); lower it, or raise max-instance"


def _within(bound: str, sign: str, words: str) -> Rule:
    """Return the rule that the number of trainers lies on the right side of a bound, where it may change at all."""
    size, limit = "self.elasticReplicas", f"self.trainer.{bound}"
    sized = f"has({size}) && has(self.fault_tolerant) && self.fault_tolerant && has({limit})"
    return Rule(
        f"!({sized}) || {size} {sign} {limit}", words.format(size="%d", bound="%d"), (size, limit), "elasticReplicas"
    )


@dataclass(frozen=True)
class Spec:
    """What the job shall be."""

    RULES = (_within("min__dash__instance", ">=", _TOO_FEW), _within("max__dash__instance", "<=", _TOO_MANY))

    image: str | None = entry("The image of every pod.", immutable=True)
    port: int | None = entry("The first port of servers and trainers.", minimum=0, maximum=_LAST_PORT, immutable=True)
    ports_num: int | None = entry("How many ports dense data takes.", name="ports_num", minimum=0, immutable=True)
    ports_num_for_sparse: int | None = entry(
        "How many further ports sparse data takes.", name="ports_num_for_sparse", minimum=0, immutable=True
    )
    fault_tolerant: bool | None = entry(
        "Whether trainers may be lost and gained.", name="fault_tolerant", immutable=True
    )
    passes: int | None = entry("How often the data is gone through.", minimum=0)
    mount_path: str | None = entry("Where the first of the volumes is mounted, unless VolumeMounts says it.")
    volumes: tuple[Object, ...] = entry("The volumes of every pod.", default=(), shape=_LIST)
    volume_mounts: tuple[Object, ...] = entry("Where they are mounted.", name="VolumeMounts", default=(), shape=_LIST)
    host_network: bool | None = entry("Whether pods use the network of their node.", name="host_network")
    host_network_too: bool | None = entry("The same, as the first release wrote it.", name="HostNetwork")
    image_pull_secrets: tuple[Object, ...] = entry("How images are pulled.", default=(), shape=_LIST)
    node_selector: dict[str, str] | None = entry("Labels of the nodes that are used.", name="NodeSelector")
    elastic_replicas: int | None = entry(
        "How many trainers there are now; an autoscaler writes it.", minimum=1, maximum=MOST_PODS
    )
    master: MasterSpec | None = entry("The master; a fault-tolerant job has one in any case.")
    pserver: PserverSpec | None = entry("The parameter servers; without any, trainers talk to each other.")
    trainer: TrainerSpec | None = entry("The trainers.", required=True)


@dataclass(frozen=True)
class ReplicaStatus:
    """How the pods of one role are."""

    training_resource_type: str | None = entry("MASTER, PSERVER or TRAINER.", name="training_resource_type")
    state: str | None = entry("starting, running, succeeded or failed; nothing before the first pod.")
    resource_states: dict[str, int] | None = entry("How many pods are in each state.", name="resource_states")


@dataclass(frozen=True)
class ScaleStatus:
    """Whether and how far the trainers scale."""

    elastic: bool | None = entry("Whether they do.")
    min_instance: int | None = entry("The fewest there may be.", name="min_instance")
    max_instance: int | None = entry("The most there may be.", name="max_instance")
    wanted: int | None = entry("How many there should be now.")
    running: int | None = entry("How many run.")
    reason: str | None = entry("Why they do not scale although the job names a range.")


@dataclass(frozen=True)
class Status:
    """How the job is."""

    phase: Phase | None = entry("Nothing, creating, running, succeeded or failed.", shape=Shape("string"))
    reason: str | None = entry("Why, in a sentence.")
    scale_status: ScaleStatus | None = entry("Whether and how far the trainers scale.", name="scale_status")
    scale_records: Object | None = entry("The last changes of their number.", name="scale_records", shape=_AS_IT_IS)
    replica_statuses: tuple[ReplicaStatus, ...] = entry(
        "How the pods of each role are.", name="replica_statuses", default=()
    )
    start_time: str | None = entry("When the job was first looked after.")
    completion_time: str | None = entry("When the job ended.")
    elastic_replicas: int | None = entry("How many trainers run.")
    elastic_selector: str | None = entry("The label of the trainers' pods.")
    record: Object | None = entry("What the operator remembers between two looks at the job.", shape=_AS_IT_IS)


_DOCUMENT = envelope.document(Spec)


# Defaults


def default(obj: Object) -> Object:
    """Return the job as it is stored: what the user left out is written down; 0 and nothing count as left out."""
    if not isinstance(obj.get("spec"), dict):
        return obj
    spec = without_nulls(obj["spec"])
    for name, value in _DEFAULTS.items():
        if _is_unset(spec.get(name)):
            spec[name] = value
    spec.setdefault("fault_tolerant", False)
    if _is_unset(spec.get("passes")):
        own = at(spec, ("trainer", "passes"))
        spec["passes"] = 1 if _is_unset(own) else own
    for name in (PSERVER, TRAINER):
        if isinstance(part := spec.get(name), dict):
            spec[name] = _with_range(part)
    low, high = _range(spec)
    if spec["fault_tolerant"] is True and low is not None and high is not None and low < high:
        spec.setdefault("elasticReplicas", low)  # `kubectl scale` cannot read a size that is not there
    return {**obj, "spec": spec}


def _is_unset(value: Any) -> bool:
    return value is None or value == "" or (value == 0 and isinstance(value, int) and not isinstance(value, bool))


def _with_range(part: Object) -> Object:
    """Copy the bound that is given to the other."""
    given = [part[name] for name in _RANGE if name in part]
    return {**part, **{name: part.get(name, given[0]) for name in _RANGE}} if given else part


def _range(spec: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the fewest and the most trainers, as far as they are numbers."""
    low, high = (at(spec, (TRAINER, name)) for name in _RANGE)
    return _number(low), _number(high)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Checks


@dataclass(frozen=True)
class _Look:
    """One job, as it was written and as it would be stored."""

    object: Object
    raw: Object
    given: Spec
    stored: Spec

    @property
    def trainer(self) -> TrainerSpec:
        return self.stored.trainer or TrainerSpec()


def check(obj: Object, old: Object | None = None) -> list[Problem]:
    """Return everything that is wrong with a job, or that looks like a trap; `old` is what an update replaces."""
    stored = default(obj).get("spec")
    raw = obj["spec"] if isinstance(obj.get("spec"), dict) else {}
    look = _Look(obj, raw, build(Spec, raw), build(Spec, stored))
    found = [*walk(_DOCUMENT, obj), *pod_template.check_metadata(obj.get("metadata"), "metadata")]
    for rule in (_names, _entrypoint, _ranges, _size, _ports, _passes, _pods, _traps):
        found += rule(look)
    if old is not None:
        found += envelope.check_unchanged(_fixed(default(old).get("spec")), _fixed(stored), _CHANGEABLE)
    return list(dict.fromkeys(found))


def _names(look: _Look) -> Iterator[Problem]:
    last = {MASTER: 1, PSERVER: _pservers(look.stored), TRAINER: look.trainer.max_instance or 1}
    return envelope.check_name(
        look.object, lambda name: [names.pod(name, role, max(n - 1, 0)) for role, n in last.items()]
    )


def _entrypoint(look: _Look) -> Iterator[Problem]:
    if look.trainer.entrypoint is not None and not look.trainer.entrypoint.strip():
        yield Problem(
            "spec.trainer.entrypoint", 'is empty; write the command line that trains, such as "python train.py"'
        )


def _ranges(look: _Look) -> Iterator[Problem]:
    if isinstance(look.raw.get(TRAINER), dict) and not any(look.raw[TRAINER].get(name) is not None for name in _RANGE):
        yield Problem("spec.trainer.min-instance", "missing; write how many trainers there are")
    for role, part in ((PSERVER, look.stored.pserver), (TRAINER, look.stored.trainer)):
        low, high = (part.min_instance, part.max_instance) if part else (None, None)
        if low is None or high is None:
            continue
        if low < high and role == PSERVER:
            said = f"{low} parameter servers are started and not {high}: they do not scale"
            yield Problem(f"spec.{role}.max-instance", f"{said}; write {low}", "warning")
        elif 1 <= low < high and not look.stored.fault_tolerant:
            cure = f"write fault_tolerant: true, or max-instance: {low}"
            yield Problem(f"spec.{role}.max-instance", f"{why_fixed(look.stored)}; {cure}", "warning")


def _size(look: _Look) -> Iterator[Problem]:
    """Yield whether the number of trainers lies outside of what the job allows."""
    size, low, high = look.given.elastic_replicas, look.trainer.min_instance, look.trainer.max_instance
    path = "spec.elasticReplicas"
    if size is None or low is None or high is None or low > high:
        return
    if not look.stored.fault_tolerant and size != low:
        why = why_fixed(look.stored) or "the job names no range"
        yield Problem(path, f"{size} trainers are not possible: {why}; leave it out")
    elif size > high:
        yield Problem(path, _TOO_MANY.format(size=size, bound=high))
    elif size < low:
        yield Problem(path, _TOO_FEW.format(size=size, bound=low))


def _ports(look: _Look) -> Iterator[Problem]:
    first, count = look.stored.port or PORT, ports(look.stored)
    last = first + count - 1
    if 1 <= first <= _LAST_PORT < last:
        said = f"{first} and {count - 1} further ports end at {last}, but the last port is {_LAST_PORT}"
        yield Problem("spec.port", f"{said}; lower port, ports_num or ports_num_for_sparse")


def _passes(look: _Look) -> Iterator[Problem]:
    here, there = look.given.passes, look.given.trainer.passes if look.given.trainer else None
    if here and there and here != there:
        yield Problem("spec.trainer.passes", f"{there} differs from spec.passes ({here}); leave one of them out")


def _pods(look: _Look) -> Iterator[Problem]:
    """Yield what is wrong with the pods; what several roles have in common is said once."""
    for role in ROLES:
        if isinstance(look.raw.get(role), dict) or role == TRAINER:
            yield from training_template.problems(look.raw, role)


def _traps(look: _Look) -> Iterator[Problem]:
    if look.given.mount_path and not look.raw.get("volumes") and not look.raw.get("VolumeMounts"):
        said = "nothing is mounted there, for the job has no volumes"
        yield Problem("spec.mountPath", f"{said}; add spec.volumes, or leave it out", "warning")
    for role in ROLES:
        for name in ("etcd-endpoint", "replicaSpec"):
            if at(look.raw, (role, name)):
                yield Problem(f"spec.{role}.{name}", "is never read; leave it out", "warning")


def _fixed(spec: Any) -> Any:
    """Return what an update must leave as it is."""
    if not isinstance(spec, dict):
        return spec
    kept = {name: value for name, value in spec.items() if name != "elasticReplicas"}
    if isinstance(spec.get(TRAINER), dict):
        kept[TRAINER] = {name: value for name, value in spec[TRAINER].items() if name not in _RANGE}
    return kept


# Reading


def read(obj: Object) -> Job:
    """Return the job that an admitted object describes."""
    stored: Object = default(obj).get("spec") or {}
    spec = build(Spec, stored)
    metadata = obj["metadata"]
    roles = tuple(_read_roles(spec, stored))
    name = metadata.get("name") or ""
    low, high = _trainers(spec)
    return Job(
        resource=RESOURCE,
        namespace=metadata.get("namespace") or "default",
        name=name,
        uid=metadata.get("uid") or "",
        roles=roles,
        run_policy=RunPolicy(clean_pods="Running", gang_min=sum(role.needed for role in roles)),
        requests=(Request("paddle", _options(spec)),),
        elastic=Elastic(TRAINER, low, high) if spec.fault_tolerant and low < high else None,
        object=obj,
        domain=name,
    )


def spec_of(job: Job) -> Spec:
    """Return what the user wrote, as it is stored."""
    return build(Spec, default(job.object).get("spec"))


def why_fixed(spec: Spec) -> str:
    """Say why the trainers do not scale although the job names a range; nothing if there is nothing to say."""
    low, high = _trainers(spec)
    if spec.fault_tolerant or low >= high:
        return ""
    return f"{low} trainers are started and never {high}: only a fault-tolerant job can lose and gain trainers"


def ports(spec: Spec) -> int:
    """Return how many ports, from the first one on, each server and trainer has."""
    return (spec.ports_num or 1) + (spec.ports_num_for_sparse or 1)


def _trainers(spec: Spec) -> tuple[int, int]:
    trainer = spec.trainer or TrainerSpec()
    return trainer.min_instance or 1, trainer.max_instance or 1


def _pservers(spec: Spec) -> int:
    return (spec.pserver.min_instance or 0) if spec.pserver else 0


def _read_roles(spec: Spec, stored: Object) -> Iterator[Role]:
    """Yield the roles in the order in which they start: each waits until those before it are ready."""
    if spec.fault_tolerant or spec.master is not None:
        yield Role(MASTER, 1, training_template.template(stored, MASTER), "OnFailure")
    if count := _pservers(spec):
        yield Role(PSERVER, count, training_template.template(stored, PSERVER), "OnFailure", after=After((MASTER,)))
    low, high = _trainers(spec)
    size = min(max(spec.elastic_replicas or low, low), high) if spec.fault_tolerant else low
    template = training_template.template(stored, TRAINER)
    yield Role(TRAINER, size, template, "Never", minimum=low, after=After((MASTER, PSERVER)))


def _options(spec: Spec) -> dict[str, Any]:
    trainer = spec.trainer or TrainerSpec()
    return {
        "port": spec.port or PORT,
        "ports_num": spec.ports_num or 1,
        "ports_num_for_sparse": spec.ports_num_for_sparse or 1,
        "passes": spec.passes or 1,
        "fault_tolerant": bool(spec.fault_tolerant),
        "entrypoint": trainer.entrypoint or "",
        "workspace": trainer.workspace or "",
        "trainers": _trainers(spec)[0],
    }
