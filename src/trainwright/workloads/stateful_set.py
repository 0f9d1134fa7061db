"""StatefulSet: numbered pods with names that stay, made, replaced and taken away in order or all at once.

Decided as kube-controller-manager 1.36 does it, with these differences: claims for volumes are refused (there are no
volumes to claim), old templates are not kept, so a pod that is lost while an update is under way comes back new, and
an update takes one pod at a time whatever `maxUnavailable` says.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from trainwright.core.actions import Action, Create, Decision
from trainwright.core.objects import Object, at
from trainwright.core.resources import STATEFUL_SET
from trainwright.workloads.owned_pods import (
    TEMPLATE_SHAPES,
    Workload,
    change,
    claim,
    is_finished,
    is_leaving,
    letters,
    misshapen,
    pod_of,
    ready_since,
    refusal,
    removal,
    unselected,
)

INDEX_LABEL = "apps.kubernetes.io/pod-index"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
REVISION_LABEL = "controller-revision-hash"

_HASH_LENGTH = 10
_SHAPES: dict[str, type] = {
    "spec": dict,
    "spec.replicas": int,
    "spec.minReadySeconds": int,
    "spec.ordinals.start": int,
    "spec.serviceName": str,
    **TEMPLATE_SHAPES,
    "spec.updateStrategy.rollingUpdate.partition": int,
}
_POLICIES = ("OrderedReady", "Parallel")


def decide(stateful_set: Object, pods: Sequence[Object], now: datetime) -> Decision:
    """Say what to do next for a StatefulSet, given the pods of its namespace at `now`."""
    if problems := [*_problems(stateful_set)]:
        return refusal(stateful_set, problems)
    name = stateful_set["metadata"]["name"]
    owned = claim(
        stateful_set,
        stateful_set["spec"]["selector"],
        pods,
        may_adopt=lambda pod: _ordinal(name, pod["metadata"]["name"]) is not None,
    )
    view = _View(stateful_set, _by_ordinal(name, owned.pods), now)
    steps = () if is_leaving(stateful_set) else (*owned.actions, *_steps(view))
    return Decision(_status(view), steps, view.next_available)


def _problems(stateful_set: Object) -> Iterator[str]:
    if wrong := misshapen(stateful_set, _SHAPES):
        yield from wrong
        return
    spec = stateful_set.get("spec") or {}
    if at(spec, ("template", "spec")) is None:
        yield "spec.template.spec: is missing; say what the pods should run"
    yield from unselected(spec.get("selector") or {}, at(spec, ("template", "metadata", "labels"), {}))
    if spec.get("volumeClaimTemplates"):
        yield "spec.volumeClaimTemplates: there are no volumes to claim here; use an emptyDir in spec.template instead"
    if spec.get("podManagementPolicy", "OrderedReady") not in _POLICIES:
        yield f"spec.podManagementPolicy: found {spec['podManagementPolicy']!r}; there are: {', '.join(_POLICIES)}"
    restart = at(spec, ("template", "spec", "restartPolicy"), "Always")
    if restart != "Always":
        yield f"spec.template.spec.restartPolicy: found {restart!r}; the pods of a StatefulSet need Always"


class _View:
    """A StatefulSet and its pods at one moment."""

    def __init__(self, stateful_set: Object, pods: Mapping[int, Object], now: datetime) -> None:
        spec = stateful_set["spec"]
        start, count = at(spec, ("ordinals", "start"), 0), spec.get("replicas", 1)
        self.set = stateful_set
        self.pods = pods
        self.now = now
        self.ordinals = range(start, start + count)
        self.ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self.strategy = at(spec, ("updateStrategy", "type"), "RollingUpdate")
        self.kept = start + at(spec, ("updateStrategy", "rollingUpdate", "partition"), 0)
        """The first ordinal that an update may touch."""
        self.patience = timedelta(seconds=spec.get("minReadySeconds", 0))
        """How long a pod must have been ready to count as available."""
        self.revision = _revision(stateful_set)

    @property
    def condemned(self) -> list[Object]:
        """Return the pods that are too many, the highest ordinal first."""
        return [self.pods[each] for each in sorted(self.pods, reverse=True) if each not in self.ordinals]

    def is_available(self, pod: Object) -> bool:
        """Say whether a pod has been ready for long enough."""
        since = ready_since(pod)
        return since is not None and since + self.patience <= self.now

    @property
    def next_available(self) -> datetime | None:
        """Return when the next of the ready pods will have been ready for long enough."""
        due = [since + self.patience for pod in self.pods.values() if (since := ready_since(pod))]
        return min((moment for moment in due if moment > self.now), default=None)


def _steps(view: _View) -> list[Action]:
    """Return what may be done now: about missing pods first, then those too many, then those of an old template."""
    steps = [*_replicas(view)]
    if view.ordered and not all(_is_settled(view, view.pods.get(ordinal)) for ordinal in view.ordinals):
        return steps
    steps += _scale_down(view)
    if not steps and view.strategy == "RollingUpdate":
        steps += _update(view)
    return steps


def _replicas(view: _View) -> Iterator[Action]:
    """Yield what brings the wanted pods about; in order, nothing behind one that is not available yet."""
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        if pod is None:
            yield Create(_pod(view, ordinal))
        elif is_finished(pod) and not is_leaving(pod):
            yield removal(pod)
        elif pod["metadata"].get("labels", {}).get(POD_NAME_LABEL) != pod["metadata"]["name"]:
            yield change(pod, labels=_identity(pod["metadata"]["name"], ordinal))
        if view.ordered and not _is_settled(view, pod):
            return


def _is_settled(view: _View, pod: Object | None) -> bool:
    return pod is not None and not is_leaving(pod) and view.is_available(pod)


def _scale_down(view: _View) -> Iterator[Action]:
    """Yield the deletion of pods that are too many; in order, one at a time, and the rest must be well meanwhile."""
    condemned = view.condemned
    if not view.ordered:
        yield from (removal(pod) for pod in condemned if not is_leaving(pod))
        return
    if not condemned or is_leaving(condemned[0]):
        return
    unwell = [pod for pod in condemned if not _is_settled(view, pod)]
    # One that is not well may only go before the others when no other one is waited for.
    if condemned[0] not in unwell or condemned[0] is unwell[-1]:
        yield removal(condemned[0])


def _update(view: _View) -> Iterator[Action]:
    """Yield the deletion of one pod of an old template, the highest first; it waits for those before it."""
    for ordinal in reversed(range(max(view.kept, view.ordinals.start), view.ordinals.stop)):
        pod = view.pods[ordinal]
        if _pod_revision(pod) != view.revision and not is_leaving(pod):
            yield removal(pod)
            return
        if not _is_settled(view, pod):
            return


def _pod(view: _View, ordinal: int) -> Object:
    name = f"{view.set['metadata']['name']}-{ordinal}"
    labels = {**_identity(name, ordinal), REVISION_LABEL: view.revision}
    service = view.set["spec"].get("serviceName")
    return pod_of(view.set, name, labels, hostname=name, **({"subdomain": service} if service else {}))


def _identity(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal)}


def _status(view: _View) -> Object:
    pods = view.pods.values()
    stays = [_pod_revision(pod) for pod in pods if not is_leaving(pod)]
    before = view.set.get("status") or {}
    current = before.get("currentRevision") or view.revision
    counts = {
        "readyReplicas": sum(ready_since(pod) is not None for pod in pods),
        "currentReplicas": stays.count(current),
        "updatedReplicas": stays.count(view.revision),
    }
    wanted = len(view.ordinals)
    is_updated = {len(pods), counts["readyReplicas"], counts["updatedReplicas"]} == {wanted}
    if is_updated and view.strategy == "RollingUpdate":
        current, counts["currentReplicas"] = view.revision, counts["updatedReplicas"]
    return {
        "observedGeneration": view.set["metadata"]["generation"],
        "replicas": len(pods),
        "availableReplicas": sum(view.is_available(pod) for pod in pods),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": view.revision,
        "collisionCount": 0,
    }


def _revision(stateful_set: Object) -> str:
    """Return the name of the template as it is now: another template, another name."""
    template = json.dumps(stateful_set["spec"]["template"], sort_keys=True)
    return f"{stateful_set['metadata']['name']}-{letters(_HASH_LENGTH, template)}"


def _pod_revision(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get(REVISION_LABEL, ""))


def _by_ordinal(name: str, pods: Sequence[Object]) -> dict[int, Object]:
    found = ((_ordinal(name, pod["metadata"]["name"]), pod) for pod in pods)
    return {ordinal: pod for ordinal, pod in found if ordinal is not None}


def _ordinal(name: str, pod_name: str) -> int | None:
    """Return the number of a pod of that set, None if it has not the name of one."""
    parent, _, number = pod_name.rpartition("-")
    return int(number) if parent == name and number.isdecimal() and str(int(number)) == number else None


WORKLOAD = Workload(STATEFUL_SET, decide)
