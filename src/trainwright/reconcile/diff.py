"""Desired against observed: what to create, change and delete, in an order that does no harm."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Action, Create, Delete, Emit, Patch
from trainwright.core.objects import Object, Ref, ref
from trainwright.core.resources import (
    AUTOSCALER,
    BATCH_JOB,
    NATIVE_POD_GROUP,
    PLUGIN_POD_GROUP,
    POD_GROUP,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from trainwright.desired import Desired
from trainwright.reconcile.kind import Pod, Sight
from trainwright.reconcile.record import Record

_SHOWN = 5


def difference(job: Job, desired: Desired, sight: Sight, record: Record) -> tuple[Action, ...]:
    """Return what makes the observed the desired: first what must go, then what others need, then the pods."""
    going = delete_pods(pod for pod in sight.pods if _must_go(job, pod, record))
    wanted = {ref(each.object): each for each in desired.support}
    going += [remove(obj) for name, obj in sight.support.items() if name not in wanted and not _leaving(obj)]
    taken = {pod.name for pod in sight.pods} | {each.name for each in sight.strangers if each.kind == "Pod"}
    missing = [pod for pod in desired.pods if pod.name not in taken and pod.index not in record.role(pod.role).done]
    making = [Create(pod.make()) for pod in missing]
    waits = bool(making) or any(pod.phase == "Pending" for pod in sight.pods)
    return (
        *going,
        *_support(wanted, sight, waits=waits),
        *making,
        *_told("SuccessfulDeletePod", "Deleted", [each.ref.name for each in going if each.ref.kind == "Pod"]),
        *_told("SuccessfulCreatePod", "Created", [pod.name for pod in missing]),
        *_blocked(desired, sight),
    )


def everything(sight: Sight) -> tuple[Action, ...]:
    """Return what removes all that a job has."""
    pods = delete_pods(sight.pods)
    others = [remove(obj) for obj in sight.support.values() if not _leaving(obj)]
    return (*pods, *others, *_told("SuccessfulDeletePod", "Deleted", [each.ref.name for each in pods]))


def unfinished(sight: Sight) -> tuple[Action, ...]:
    """Return what ends the pods that have not ended, and leaves the others to be looked into."""
    pods = delete_pods(pod for pod in sight.pods if not pod.ended)
    return (*pods, *_told("SuccessfulDeletePod", "Deleted", [each.ref.name for each in pods]))


def around(sight: Sight, *, keep: str) -> tuple[Action, ...]:
    """Return what removes all that stands around the pods, but for objects of one kind."""
    return tuple(remove(obj) for obj in sight.support.values() if obj["kind"] != keep and not _leaving(obj))


def leftovers(job: Job, sight: Sight, record: Record, *, stop: bool) -> tuple[Action, ...]:
    """Return what a finished job no longer needs.

    By the clean-up policy; where the job was cut short (`stop`) nothing goes on running whatever the policy says. The
    autoscaler always goes, there is nothing left to scale, and so does what kept the gang together. Pods that had to go
    before the end still have to.
    """
    policy = job.run_policy.clean_pods
    if policy == "All":
        return everything(sight)
    unfinished = policy == "Running" or stop
    pods = delete_pods(
        pod
        for pod in sight.pods
        if _must_go(job, pod, record) or (unfinished and pod.phase not in ("Succeeded", "Failed"))
    )
    useless = _names_without_evidence(job, sight) if policy == "Running" else set()
    others = [
        remove(obj)
        for name, obj in sight.support.items()
        if not _leaving(obj) and (name.kind == AUTOSCALER.kind or name.name in useless)
    ]
    others += groups(sight)
    return (*pods, *others, *_told("SuccessfulDeletePod", "Deleted", [each.ref.name for each in pods]))


def groups(sight: Sight) -> list[Delete]:
    """Return what removes that which kept a gang together: schedulers set room aside for groups whose pods are gone."""
    return [remove(obj) for name, obj in sight.support.items() if name.kind == POD_GROUP.kind and not _leaving(obj)]


def _names_without_evidence(job: Job, sight: Sight) -> set[str]:
    """Return the names of replicas of which no ended pod is left: nobody looks for them any more."""
    ended = {pod.name for pod in sight.pods if pod.phase in ("Succeeded", "Failed")}
    replicas = ((role.name, index) for role in job.roles for index in range(role.replicas))
    return {names.pod(job.name, *replica) for replica in replicas} - ended


def delete_pods(pods: Iterable[Pod]) -> list[Delete]:
    """Return the deletions of pods that are not going already, the highest index first."""
    going = [pod for pod in pods if not pod.terminating]
    return [remove(pod.object) for pod in sorted(going, key=lambda pod: -pod.index)]


def remove(obj: Object) -> Delete:
    """Return the deletion of this very object."""
    return Delete(ref(obj), obj["metadata"].get("uid", ""))


def _must_go(job: Job, pod: Pod, record: Record) -> bool:
    past = record.is_past(pod.version, ended=pod.ended)
    return past or pod.uid in record.retired or pod.index >= job.count(pod.role)


def _leaving(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _support(wanted: Mapping[Ref, Create], sight: Sight, *, waits: bool) -> Iterator[Action]:
    for name, make in wanted.items():
        if name in sight.strangers:
            continue
        there = sight.support.get(name)
        if there is None:
            yield make
        elif not _leaving(there) and _follows(name, waits=waits) and (patch := _changed(there, make.object)):
            yield Patch(name, patch)


def _follows(name: Ref, *, waits: bool) -> bool:
    """Say whether an object follows its job now: a group of a scheduler may not, or only while somebody waits.

    That of the plugin matters for those who wait and need not follow each pod that ends. The native one cannot change.
    """
    return name.api_version != NATIVE_POD_GROUP.api_version and (
        waits or name.api_version != PLUGIN_POD_GROUP.api_version
    )


_CONTENT = ("spec", "data", "stringData", "rules", "subjects")
"""Where objects of the kinds we make keep what we want of them."""
_FOLLOWED: Mapping[str, tuple[str, ...]] = {STATEFUL_SET.kind: ("replicas",), BATCH_JOB.kind: (), VOLUME_CLAIM.kind: ()}
"""What of a spec follows the job where most of it cannot be changed once it is there."""


def _changed(there: Object, wanted: Object) -> Object:
    """Return those fields of ours that differ; what the server or others have added stays."""
    changes: Object = {}
    for part in _CONTENT:
        ours, found = wanted.get(part), there.get(part)
        if isinstance(ours, dict):
            names = _FOLLOWED.get(wanted["kind"], tuple(ours))
            different = {name: ours[name] for name in names if not _holds((found or {}).get(name), ours[name])}
            changes |= {part: different} if different else {}
        elif isinstance(ours, list) and not _holds(found or [], ours):
            changes[part] = ours
    return changes


def _holds(there: Any, wanted: Any) -> bool:
    """Say whether all of `wanted` is there; the server fills in defaults beside it, and leaves out what is false."""
    if there is None and not wanted:
        return True
    if isinstance(wanted, dict) and isinstance(there, dict):
        return all(_holds(there.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        return len(there) == len(wanted) and all(map(_holds, there, wanted))
    return bool(there == wanted)


def _told(reason: str, verb: str, pods: list[str]) -> Iterator[Emit]:
    """Say once per round what was done, not once per pod."""
    if len(pods) == 1:
        yield Emit(reason, f"{verb} pod: {pods[0]}")
    elif pods:
        more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
        yield Emit(reason, f"{verb} {len(pods)} pods: {', '.join(pods[:_SHOWN])}{more}")


def _blocked(desired: Desired, sight: Sight) -> Iterator[Emit]:
    """Say which names we want are held by objects of somebody else; those are left alone."""
    if not sight.strangers:
        return
    ours = {("Pod", pod.name) for pod in desired.pods} | {
        (each.object["kind"], each.object["metadata"]["name"]) for each in desired.support
    }
    for stranger in sorted(sight.strangers):
        if (stranger.kind, stranger.name) in ours:
            yield name_taken(stranger)


def name_taken(stranger: Ref) -> Emit:
    """Say that a name we want is held by an object of somebody else, which is left alone."""
    said = (
        f"{stranger.kind} {stranger.name} belongs to somebody else and is left alone; the job goes on when it is gone"
    )
    return Emit("NameTaken", said, "Warning")
