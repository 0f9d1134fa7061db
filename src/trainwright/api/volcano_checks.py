"""The rules of Volcano's Job that a schema cannot say: names, numbers that must agree, policies, order, updates.

Every rule is a function that yields problems and looks at nothing but its argument, so all are told together. Warnings
are for what Volcano accepts, and we with it, though it is hardly meant.
"""

import graphlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from trainwright.api import envelope, pod_template
from trainwright.api.reader import amount, build, child, once, show, walk
from trainwright.api.volcano_spec import ANY_EVENT, LifecyclePolicy, PartitionPolicy, Spec, Task, Volume
from trainwright.core import names
from trainwright.core.errors import Problem, did_you_mean
from trainwright.core.names import ELASTIC_ANNOTATION
from trainwright.core.objects import Object, at

T = TypeVar("T")
ROOT_QUEUE = "root"
_DOCUMENT = envelope.document(Spec)
_CHANGEABLE = "minAvailable, priorityClassName and elasticReplicas, and the replicas and minAvailable of tasks"


@dataclass(frozen=True)
class TaskLook:
    """One task, as it was written and as it would be stored."""

    path: str
    object: Object
    given: Task
    stored: Task

    @property
    def name(self) -> str:
        """Return its name; nothing where what was written cannot be one."""
        return self.stored.name or ""

    @property
    def replicas(self) -> int:
        """Return how many pods it has."""
        return max(self.stored.replicas or 0, 0)


@dataclass(frozen=True)
class Look:
    """One job, as it was written and as it would be stored."""

    object: Object
    given: Spec
    stored: Spec
    tasks: tuple[TaskLook, ...]
    is_new: bool

    @property
    def total(self) -> int:
        """Return how many pods the job has."""
        return sum(task.replicas for task in self.tasks)


def look_at(obj: Object, stored: Object, *, is_new: bool) -> Look:
    """Return what the rules look at: an object, and the same as it would be stored."""
    given, filled = build(Spec, obj.get("spec")), build(Spec, stored.get("spec"))
    listed = _placed(obj, ("spec", "tasks"), "spec.tasks", given.tasks)
    tasks = (TaskLook(path, raw, task, full) for (path, raw, task), full in zip(listed, filled.tasks, strict=True))
    return Look(obj, given, filled, tuple(tasks), is_new)


def _placed(holder: Any, keys: tuple[str, ...], path: str, built: tuple[T, ...]) -> list[tuple[str, Object, T]]:
    """Return what was built of a list's mappings, each with its path and what it was built of."""
    raw = at(holder, keys)
    listed = [(child(path, i), each) for i, each in enumerate(raw if isinstance(raw, list) else ())]
    mappings = [(where, each) for where, each in listed if isinstance(each, dict)]
    return [(where, each, made) for (where, each), made in zip(mappings, built, strict=True)]


def problems(look: Look) -> Iterator[Problem]:
    """Yield everything that is wrong with a job as it stands."""
    yield from walk(_DOCUMENT, look.object)
    yield from pod_template.check_metadata(look.object.get("metadata"), "metadata")
    for rule in (_names, _tasks, _order, _policies, _numbers, _topology, _volumes, _queue, _elastic):
        yield from rule(look)


# Names, tasks and their order


def _names(look: Look) -> Iterator[Problem]:
    named = [(task.name, task.replicas) for task in look.tasks if task.name and task.replicas]
    yield from envelope.check_name(
        look.object,
        lambda name: [names.pod(name, task, count - 1) for task, count in named],
        letter_first=bool(look.given.plugins),  # they make a Service of the job's name
    )
    seen: dict[str, str] = {}
    for task in look.tasks:
        if task.name:
            yield from once(task.name, seen, child(task.path, "name"))


def _tasks(look: Look) -> Iterator[Problem]:
    for task in look.tasks:
        path, stored = task.path, task.stored
        if task.given.template is not None:
            yield from pod_template.check(task.given.template, child(path, "template"))
            yield from _check_processors(task.given, child(path, "template"))
        if task.object.get("replicas") is None:
            yield Problem(child(path, "replicas"), "missing, so the task has no pods; write 1 or more", "warning")
        if (stored.min_available or 0) > task.replicas:
            more = f"{stored.min_available} is more than replicas ({task.replicas})"
            yield Problem(child(path, "minAvailable"), f"{more}; lower it, or raise replicas")
        if stored.partition_policy:
            yield from _check_partitions(task, stored.partition_policy)
        if task.given.max_retry == 0:
            three = "0 means 3, as in Volcano; write 1 if the first restart is one too many"
            yield Problem(child(path, "maxRetry"), three, "warning")


def _check_processors(task: Task, path: str) -> Iterator[Problem]:
    """Yield the containers whose processors cannot be pinned although the task wants it."""
    spec = at(task.template, ("spec",))
    if task.topology_policy in (None, "none") or not isinstance(spec, dict):
        return
    for where, container in pod_template.containers(spec, child(path, "spec")):
        kind = "requests" if at(container, ("resources", "requests")) else "limits"
        asked = at(container, ("resources", kind, "cpu"))
        number = amount(asked)
        if number is None or number <= 0 or number != number.to_integral_value():
            found = "nothing" if asked is None else show(asked)
            whole = f"topologyPolicy {task.topology_policy} needs a whole number of processors, found {found}"
            yield Problem(f"{where}.resources.{kind}.cpu", f"{whole}; write 1 or more")


def _check_partitions(task: TaskLook, policy: PartitionPolicy) -> Iterator[Problem]:
    total, size = max(policy.total_partitions or 0, 0), max(policy.partition_size or 0, 0)
    least, needed = policy.min_partitions or 0, task.stored.min_available
    if not total or not size:
        return
    if task.replicas != total * size:
        right = f"{total} partitions of {size} are {total * size} pods, found {task.replicas}"
        yield Problem(child(task.path, "replicas"), f"{right}; write {total * size}, or change partitionPolicy")
    if least > total:
        more = f"{least} is more than totalPartitions ({total})"
        yield Problem(f"{task.path}.partitionPolicy.minPartitions", f"{more}; lower it, or raise totalPartitions")
    elif least > 0 and needed != least * size:
        right = f"{least} partitions (minPartitions) of {size} are {least * size} pods, found {needed}"
        yield Problem(child(task.path, "minAvailable"), f"{right}; write {least * size}, or leave it out")


def _order(look: Look) -> Iterator[Problem]:
    known = {task.name: task.path for task in look.tasks if task.name}
    waits: dict[str, list[str]] = {}
    for task in look.tasks:
        seen: dict[str, str] = {}
        for index, name in enumerate(task.given.depends_on.name if task.given.depends_on else ()):
            where = child(f"{task.path}.dependsOn.name", index)
            if name == task.name:
                yield Problem(where, f"task {show(name)} cannot wait for itself; leave it out")
            elif name not in known:
                near = did_you_mean(name, known) if len(name) <= names.LABEL_LENGTH else ""
                yield Problem(where, f"there is no task {show(name)}{near} (there are: {', '.join(known)})")
            else:
                waits.setdefault(task.name, []).append(name)
            yield from once(name, seen, where)
    try:
        graphlib.TopologicalSorter(waits).prepare()
    except graphlib.CycleError as error:
        circle = list(reversed(error.args[1]))
        words = f"the tasks wait for each other, {' -> '.join(circle)}, so none would start"
        yield Problem(f"{known[circle[0]]}.dependsOn", f"{words}; remove one of them")


# Policies


def events(policy: LifecyclePolicy) -> tuple[str, ...]:
    """Return the events of a policy, each once."""
    return tuple(dict.fromkeys((*((policy.event,) if policy.event else ()), *policy.events)))


def _policies(look: Look) -> Iterator[Problem]:
    yield from _check_policies(_placed(look.object, ("spec", "policies"), "spec.policies", look.given.policies))
    for task in look.tasks:
        placed = _placed(task.object, ("policies",), child(task.path, "policies"), task.given.policies)
        yield from _check_policies(placed)
        for path, _, policy in placed:
            if policy.action == "RestartPartition" and task.given.partition_policy is None:
                alone = "the task has no partitionPolicy, so there is no partition to restart; use RestartPod"
                yield Problem(child(path, "action"), alone, "warning")


def _check_policies(policies: list[tuple[str, Object, LifecyclePolicy]]) -> Iterator[Problem]:
    """Yield what is wrong with the policies of a job or of a task, which are looked at in turn."""
    by_event: dict[str, str] = {}
    by_code: dict[int, str] = {}
    for path, raw, policy in policies:
        yield from _check_occasion(raw, policy, path)
        for event in events(policy):
            if event in by_event:
                yield Problem(path, f"{event} has a policy already, {by_event[event]}; leave one out")
            by_event.setdefault(event, path)
        if policy.exit_code is not None and policy.exit_code in by_code:
            first = by_code[policy.exit_code]
            yield Problem(path, f"exit code {policy.exit_code} has a policy already, {first}; leave one out")
        by_code.setdefault(policy.exit_code or 0, path)
    others = [event for event in by_event if event != ANY_EVENT]
    if ANY_EVENT in by_event and others:
        yield Problem(
            by_event[ANY_EVENT], f"* is any event, so {', '.join(others)} cannot stand beside it; leave one out"
        )


def _check_occasion(raw: Mapping[str, Any], policy: LifecyclePolicy, path: str) -> Iterator[Problem]:
    """Yield what is wrong with when a policy applies."""
    by_event = any(raw.get(name) not in (None, []) for name in ("event", "events"))
    by_code = raw.get("exitCode") is not None
    if by_event and by_code:
        yield Problem(path, "has both an event and an exitCode; write two policies")
    if not by_event and not by_code:
        yield Problem(path, "never applies; write event, events or exitCode")
    if policy.exit_code == 0:
        yield Problem(child(path, "exitCode"), "0 is no failure; write the code with which a container fails")
    if "PodPending" in events(policy) and raw.get("timeout") is None:
        always = "every pod is pending at first, so without timeout nothing happens; write for example timeout: 10m"
        yield Problem(path, always, "warning")


# Numbers, network, volumes, queue


def _numbers(look: Look) -> Iterator[Problem]:
    given, total = look.given, look.total
    pods = f"the {total} pods of the job" if total != 1 else "the 1 pod of the job"
    if given.min_available == 0 and look.stored.min_available:
        means = f"0 means what the tasks need together ({look.stored.min_available}), as in Volcano"
        yield Problem("spec.minAvailable", f"{means}; write 1 if a pod may start alone", "warning")
    if (given.min_available or 0) > total:
        yield Problem("spec.minAvailable", f"{given.min_available} is more than {pods}; lower it")
    if (given.min_success or 0) > total:
        yield Problem("spec.minSuccess", f"{given.min_success} is more than {pods}; lower it", "warning")
    if given.max_retry == 0:
        yield Problem("spec.maxRetry", "0 means 3, as in Volcano; write 1 for a job that runs only once", "warning")


def _topology(look: Look) -> Iterator[Problem]:
    found = [("spec.networkTopology", look.given.network_topology)]
    for task in look.tasks:
        if task.given.partition_policy:
            path = f"{task.path}.partitionPolicy.networkTopology"
            found.append((path, task.given.partition_policy.network_topology))
    for path, topology in found:
        if topology and topology.highest_tier_allowed is not None and topology.highest_tier_name:
            yield Problem(path, "has both highestTierAllowed and highestTierName; leave one out")


def _volumes(look: Look) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for path, raw, volume in _placed(look.object, ("spec", "volumes"), "spec.volumes", look.given.volumes):
        if volume.mount_path:
            yield from once(volume.mount_path, seen, child(path, "mountPath"))
        yield from _check_claim(raw, volume, path, is_new=look.is_new)


def _check_claim(raw: Mapping[str, Any], volume: Volume, path: str, *, is_new: bool) -> Iterator[Problem]:
    if not raw.get("volumeClaimName") and raw.get("volumeClaim") is None:
        yield Problem(path, "has no claim; write volumeClaimName, or volumeClaim to have one made")
    if is_new and volume.volume_claim_name and volume.volume_claim is not None:
        yield Problem(path, "has both volumeClaimName and volumeClaim; leave one out")


def _queue(look: Look) -> Iterator[Problem]:
    if look.given.queue == ROOT_QUEUE:
        holds = f"'{ROOT_QUEUE}' only holds other queues"
        yield Problem("spec.queue", f"{holds}; name one of them, or leave it out for 'default'")


# Elasticity


def _elastic(look: Look) -> Iterator[Problem]:
    wanted = at(look.object, ("metadata", "annotations", ELASTIC_ANNOTATION))
    if not isinstance(wanted, str):
        return
    path = f"metadata.annotations[{ELASTIC_ANNOTATION}]"
    task = next((task for task in look.tasks if task.name == wanted), None)
    if task is None:
        known = [task.name for task in look.tasks if task.name]
        near = did_you_mean(wanted, known) if len(wanted) <= names.LABEL_LENGTH else ""
        yield Problem(path, f"there is no task {show(wanted)}{near} (there are: {', '.join(known)})")
        return
    yield from check_size(look, task)
    least = task.stored.min_available or 0
    if least == task.replicas > 0:
        same = f"task {wanted!r} needs all of its {task.replicas} replicas, so it is never resized"
        yield Problem(path, f"{same}; write a minAvailable below", "warning")


def check_size(look: Look, task: TaskLook) -> Iterator[Problem]:
    """Yield whether the size that is asked for lies outside of what the elastic task may have."""
    size, least = look.given.elastic_replicas, task.stored.min_available or 0
    if size is None:
        return
    if size > task.replicas:
        more = f"{size} is more than the replicas of task {task.name!r} ({task.replicas})"
        yield Problem("spec.elasticReplicas", f"{more}; lower it, or raise {task.path}.replicas")
    elif size < least <= task.replicas:
        less = f"{size} is less than minAvailable of task {task.name!r} ({least})"
        yield Problem("spec.elasticReplicas", f"{less}; raise it, or lower {task.path}.minAvailable")


# Updates


def changes(new: Any, old: Any) -> Iterator[Problem]:
    """Yield the changes an update must not make, given both specs as they are stored."""
    before, after = at(old, ("tasks",)), at(new, ("tasks",))
    if isinstance(before, list) and isinstance(after, list) and len(before) != len(after):
        yield Problem(
            "spec.tasks", f"there are {len(before)} and would be {len(after)}; an update cannot add or remove tasks"
        )
        new, old = ({**spec, "tasks": []} for spec in (new, old))
    yield from envelope.check_unchanged(_fixed(old), _fixed(new), _CHANGEABLE)


def _fixed(spec: Any) -> Any:
    """Return what an update must leave as it is."""
    if not isinstance(spec, dict):
        return spec
    kept = _without(spec, "minAvailable", "priorityClassName", "elasticReplicas")
    if isinstance(spec.get("tasks"), list):
        kept["tasks"] = [_without(task, "replicas", "minAvailable") for task in spec["tasks"]]
    if isinstance(spec.get("volumes"), list):  # the name of a claim that is made for the job is filled in later
        kept["volumes"] = [
            _without(each, "volumeClaimName") if at(each, ("volumeClaim",)) is not None else each
            for each in spec["volumes"]
        ]
    return kept


def _without(value: Any, *keys: str) -> Any:
    return {key: below for key, below in value.items() if key not in keys} if isinstance(value, dict) else value
