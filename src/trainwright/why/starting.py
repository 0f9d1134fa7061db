"""Pods that cannot be made, or have a node and do not start: what is missing, and who is waited for."""

import re
from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.common import Role
from trainwright.core.objects import Object, at, holds
from trainwright.core.words import counted, listed
from trainwright.reconcile.kind import Pod
from trainwright.why.base import Facts, Judge, Verdict, container_states, message_of, quoted, told_at, waiting_states

_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_NO_START = ("CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun")
_NOT_FOUND = re.compile(
    r"(?:there is no )?(configmap|secret) [\"'](?:\w+/)?([^\"']+)[\"'](?: not found)?", re.IGNORECASE
)
_KINDS = {"configmap": "ConfigMap", "secret": "Secret"}
_LATELY = timedelta(minutes=15)
"""What is still so is said again within this time, since it is tried again."""
_QUOTA = re.compile(r"exceeded quota: ([^,]+), (requested: .*)")


def over_quota(facts: Facts) -> Verdict | None:
    """Its pods are refused because the namespace's quota is used up."""
    for event in reversed(_refusals(facts, "FailedCreatePod")):
        if found := _QUOTA.search(message_of(event)):
            sentence = f"{facts.name} waits for its quota: {found[1]} allows no more ({found[2]})"
            return Verdict(sentence, _made(facts), (f"kubectl describe quota {found[1]}{facts.flags}", "tw ps"))
    return None


def name_taken(facts: Facts) -> Verdict | None:
    """An object of somebody else has the name of one that the job needs."""
    told = _refusals(facts, "NameTaken")
    if not told:
        return None
    return Verdict(f"{facts.name} waits: {message_of(told[-1])}", _made(facts), (facts.command("events"),))


def not_created(facts: Facts) -> Verdict | None:
    """The API refuses an object that the job needs."""
    told = _refusals(facts, "FailedCreate")
    if not told:
        return None
    what = str(told[-1]["reason"]).removeprefix("FailedCreate") or "object"
    sentence = f"{facts.name} cannot make its {what} {message_of(told[-1])}"
    return Verdict(sentence, _made(facts), (facts.command("events"),))


def _refusals(facts: Facts, reason: str) -> list[Object]:
    """Return what was said lately about objects that could not be made, while the job has fewer pods than it wants."""
    if not _lacking(facts):
        return []
    told = (event for event in facts.events if str(event.get("reason", "")).startswith(reason))
    mine = (event for event in told if at(event, ("involvedObject", "name")) == facts.name)
    return [event for event in mine if facts.now - (told_at(event) or facts.now) <= _LATELY]


def missing_object(facts: Facts) -> Verdict | None:
    """A ConfigMap or Secret that a pod needs is not there."""
    for pod, what in _said_missing(facts):
        found = _NOT_FOUND.search(what)
        if found:
            kind = _KINDS[found[1].lower()]
            sentence = f"{facts.name} waits for {kind} {found[2]}: {facts.label(pod.name)} needs it and it is not there"
            create = "secret generic" if kind == "Secret" else "configmap"
            next_ = f"kubectl create {create} {found[2]} --from-file=FILE{facts.flags}"
            return Verdict(sentence, _others_waiting(facts, pod), (next_,))
    return None


def _said_missing(facts: Facts) -> Iterator[tuple[Pod, str]]:
    """Yield what keeps pods from starting, from their containers and from the events about their volumes."""
    for pod, _, reason, message in waiting_states(facts):
        if message and reason in ("CreateContainerConfigError", "ContainerCreating", "PodInitializing"):
            yield pod, message
    for pod in facts.ranks:
        if pod.phase == "Pending" and at(pod.object, ("spec", "nodeName")):
            yield from ((pod, message_of(event)) for event in facts.told("FailedMount", pod=pod.name)[-1:])


def unbound_claim(facts: Facts) -> Verdict | None:
    """A volume claim that a pod needs is not there, or has no volume yet."""
    known = {claim["metadata"]["name"]: claim for claim in facts.claims}
    for pod in facts.ranks:
        if pod.phase != "Pending" or facts.home != "cluster":
            continue
        for name in _claims(pod.object):
            phase = at(known.get(name), ("status", "phase"), "Pending")
            if phase == "Bound":
                continue
            what = f"is {phase}" if name in known else "is not there"
            kind = at(known.get(name), ("spec", "storageClassName"))
            of_class = f" of class {kind}" if kind else ""
            sentence = (
                f"{facts.name} waits for a volume: the claim {name}{of_class} that {facts.label(pod.name)} needs {what}"
            )
            return Verdict(sentence, _others_waiting(facts, pod), (f"kubectl describe pvc {name}{facts.flags}",))
    return None


def _claims(pod: Object) -> list[str]:
    volumes = at(pod, ("spec", "volumes")) or ()
    return [name for volume in volumes if (name := at(volume, ("persistentVolumeClaim", "claimName")))]


def no_image(facts: Facts) -> Verdict | None:
    """An image cannot be pulled."""
    for pod, container, reason, message in waiting_states(facts):
        if reason in _NO_IMAGE:
            image = _image(pod, container)
            sentence = f"{facts.name} waits for its image: {facts.label(pod.name)} cannot pull {image} ({reason})"
            evidence = ((message,) if message else ()) + _others_waiting(facts, pod)
            return Verdict(sentence, evidence, ("correct the image, or give the pod imagePullSecrets",))
    return None


def _image(pod: Pod, container: Object) -> str:
    specs = (*(at(pod.object, ("spec", "initContainers")) or ()), *(at(pod.object, ("spec", "containers")) or ()))
    return next((str(each.get("image", "")) for each in specs if each["name"] == container.get("name")), "an image")


def no_start(facts: Facts) -> Verdict | None:
    """A container cannot be started, again and again: no command, no such program."""
    for pod in facts.ranks:
        for container, state in container_states(pod):
            last = at(container, ("lastState", "terminated")) or {}
            now = state.get("waiting") or state.get("terminated") or {}
            for each in (now, last if "waiting" in state else {}):
                if each.get("reason") in _NO_START:
                    said = each.get("message") or each["reason"]
                    sentence = f"{facts.name} cannot start {facts.label(pod.name)}: {said}"
                    return Verdict(sentence, _others_waiting(facts, pod), ("tw apply -f FILE, once it is corrected",))
    return None


def unready_node(facts: Facts) -> Verdict | None:
    """The node of a rank is not ready: the rank is out of reach, and lost if the node does not come back."""
    shut = {str(node["metadata"]["name"]): node for node in facts.nodes if not holds(node, "Ready")}
    lost = [pod for pod in facts.ranks if at(pod.object, ("spec", "nodeName")) in shut and not pod.ended]
    if not lost or facts.home == "kept":
        return None
    node = str(at(lost[0].object, ("spec", "nodeName")))
    ready: Object = next(
        (each for each in at(shut[node], ("status", "conditions")) or () if each["type"] == "Ready"), {}
    )
    since = f" since {facts.clock(ready.get('lastTransitionTime'))}" if ready.get("lastTransitionTime") else ""
    there = [facts.label(pod.name) for pod in lost if at(pod.object, ("spec", "nodeName")) == node]
    sentence = f"{facts.name} has lost sight of {listed(there)}: node {node} is not ready{since}"
    said = (str(ready["message"]),) if ready.get("message") else ()
    return Verdict(sentence, said, (f"kubectl describe node {node}", facts.command("events")))


def waits_for_roles(facts: Facts) -> Verdict | None:
    """A role has no pods yet because those it depends on are not ready."""
    for role in facts.job.roles if facts.ranks else ():
        if role.after is None or facts.of_role(role) or facts.record.role(role.name).done or not role.replicas:
            continue
        behind = [
            other
            for name in role.after.roles
            if (other := facts.job.role(name)) and _ready(facts, other) < _needed(other)
        ]
        if behind:
            return _waits(facts, role, behind)
    return None


def waits_for_workers(facts: Facts) -> Verdict | None:
    """The role that decides comes last: it starts once all others are ready."""
    empty = [role for role in facts.job.roles if role.replicas and not facts.of_role(role)]
    there = [role for role in facts.job.roles if facts.of_role(role)]
    behind = [role for role in there if _ready(facts, role) < _needed(role)]
    if len(empty) != 1 or not behind or facts.record.role(empty[0].name).seen or empty[0].after:
        return None
    return _waits(facts, empty[0], behind)


def _waits(facts: Facts, role: Role, behind: list[Role]) -> Verdict:
    told = [f"{_ready(facts, other)} of {_needed(other)} {other.label} ready" for other in behind]
    states = [
        f"{facts.label(pod.name)} is {pod.phase}{_unready(pod)}" for other in behind for pod in facts.of_role(other)
    ]
    sentence = (
        f"{facts.name} waits: {role.label} starts after {listed(other.label for other in behind)} ({listed(told)})"
    )
    first = next((pod for other in behind for pod in facts.of_role(other)), None)
    return Verdict(sentence, tuple(states[:5]), (facts.command("logs", facts.label(first.name)),) if first else ())


def _unready(pod: Pod) -> str:
    return " and not ready" if pod.phase == "Running" and not _serves(pod) else ""


def _ready(facts: Facts, role: Role) -> int:
    return len(facts.record.role(role.name).done | {pod.index for pod in facts.of_role(role) if _serves(pod)})


def _needed(role: Role) -> int:
    return min(role.needed, role.replicas)


def _serves(pod: Pod) -> bool:
    containers = at(pod.object, ("status", "containerStatuses")) or ()
    return pod.phase == "Running" and all(each.get("ready") for each in containers)


def waits_in_a_step(facts: Facts) -> Verdict | None:
    """A pod runs an init step that waits for a peer, or prepares something, before its own command."""
    for pod in facts.ranks:
        if pod.phase != "Pending" or pod.terminating:
            continue
        for each in at(pod.object, ("status", "initContainerStatuses")) or ():
            running = at(each, ("state", "running"))
            if running is None:
                continue
            peer = _awaited(pod, each["name"])
            what = f" for {peer}" if peer else ""
            since = f", {facts.since(running.get('startedAt'))} by now" if running.get("startedAt") else ""
            sentence = f"{facts.name} waits: {facts.label(pod.name)} waits{what} in its init step {each['name']}{since}"
            printed = facts.output.get(pod.uid)
            evidence = quoted(printed.lines[-1:]) if printed else ()
            next_ = facts.command("logs", facts.label(pod.name)) + f" -c {each['name']}"
            return Verdict(sentence, (*evidence, *_others_waiting(facts, pod)), (next_,))
    return None


def _awaited(pod: Pod, step: str) -> str:
    """Return whom an init step of ours waits for: what its command names after --host."""
    for each in at(pod.object, ("spec", "initContainers")) or ():
        words = [*(each.get("command") or ()), *(each.get("args") or ())] if each["name"] == step else []
        hosts = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--host"]
        if hosts:
            return listed(hosts)
    return ""


def _lacking(facts: Facts) -> bool:
    """Say whether the job has fewer pods than it wants now."""
    return len([pod for pod in facts.ranks if not pod.terminating]) + _finished(facts) < facts.job.total


def _finished(facts: Facts) -> int:
    there = {(pod.role, pod.index) for pod in facts.ranks}
    done = {(role, index) for role, kept in facts.record.roles.items() for index in kept.done}
    return len(done - there)


def _made(facts: Facts) -> tuple[str, ...]:
    return (f"{len(facts.ranks)} of {counted(facts.job.total, 'pod')} are there",)


def _others_waiting(facts: Facts, pod: Pod) -> tuple[str, ...]:
    """Say how many ranks are up already and may wait for this one."""
    up = [each for each in facts.running if each.name != pod.name]
    return (f"{len(up)} of {facts.job.total} ranks run meanwhile",) if up else ()


STARTING: tuple[Judge, ...] = (
    over_quota,
    name_taken,
    not_created,
    missing_object,
    unbound_claim,
    no_image,
    no_start,
    unready_node,
)
FOLLOWING: tuple[Judge, ...] = (waits_for_roles, waits_in_a_step, waits_for_workers)
