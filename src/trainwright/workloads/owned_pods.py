"""Pods as the controllers that own them see them: whose they are, how they are, and how one is made of a template.

Pure, and all that StatefulSet and Job have in common beside their loop (`pod_owner`). A pod belongs to the object that
its controller reference names and whose selector it matches; one that matches and belongs to nobody is adopted, one
that no longer matches is released.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.cluster import selectors
from trainwright.cluster.metadata import SUFFIX_LETTERS
from trainwright.core.actions import Action, Decision, Delete, Emit, Patch
from trainwright.core.errors import BadRequest
from trainwright.core.objects import Object, at, controller_uid, moment, owner_reference, ref
from trainwright.core.resources import POD, Resource


@dataclass(frozen=True)
class Workload:
    """A kind whose controller owns pods."""

    resource: Resource
    decide: Callable[[Object, Sequence[Object], datetime], Decision]
    """Called with an object, all pods of its namespace and the time."""
    finalizer: str = ""
    """On pods until they are counted; taken from those whose owner is gone."""


# How a pod is


def phase(pod: Object) -> str:
    """Return the phase a pod is in."""
    return str(at(pod, ("status", "phase"), "Pending"))


def is_leaving(obj: Object) -> bool:
    """Say whether somebody has asked for the end of an object."""
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Object) -> bool:
    """Say whether nothing of a pod will run any more."""
    return phase(pod) in ("Succeeded", "Failed")


def is_over(pod: Object) -> bool:
    """Say whether a pod has ended, or is kept only by a finalizer and nobody will say any more how it ended."""
    return is_finished(pod) or (is_leaving(pod) and not pod["metadata"].get("deletionGracePeriodSeconds"))


def ready_since(pod: Object) -> datetime | None:
    """Return since when a running pod is ready; None if it is not."""
    if phase(pod) != "Running":
        return None
    for condition in at(pod, ("status", "conditions"), ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return moment(condition.get("lastTransitionTime")) or moment(pod["metadata"]["creationTimestamp"])
    return None


# Whose a pod is


@dataclass(frozen=True)
class Claim:
    """The pods of an object, and what makes their references say so."""

    pods: tuple[Object, ...]
    actions: tuple[Action, ...]


def claim(
    owner: Object,
    selector: Object,
    pods: Iterable[Object],
    *,
    finalizer: str = "",
    may_adopt: Callable[[Object], bool] = lambda pod: True,  # noqa: ARG005 - any pod
) -> Claim:
    """Tell the pods of an object from others; adopt what matches and is nobody's, release what no longer matches."""
    matches = _matcher(selector)
    ours: list[Object] = []
    actions: list[Action] = []
    for pod in pods:
        controller = controller_uid(pod)
        if controller == owner["metadata"]["uid"]:
            if matches(pod) or is_leaving(owner):
                ours.append(pod)
            else:
                actions.append(_released(owner, pod, finalizer))
        elif not controller and matches(pod) and may_adopt(pod) and not is_leaving(pod) and not is_leaving(owner):
            ours.append(pod)
            actions.append(_adopted(owner, pod, finalizer))
    return Claim(tuple(ours), tuple(actions))


def _matcher(selector: Object) -> selectors.Test:
    """Return the test that a selector in a spec stands for. An empty one selects nothing: pods of others are safe."""
    terms = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or ():
        values = ", ".join(rule.get("values") or ())
        shapes = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}
        terms.append(shapes[rule["operator"]].format(rule["key"], values))
    return selectors.labels(", ".join(terms)) or (lambda pod: False)  # noqa: ARG005 - none


def _adopted(owner: Object, pod: Object, finalizer: str) -> Patch:
    owners = [*pod["metadata"].get("ownerReferences", ()), owner_reference(owner)]
    held = [*pod["metadata"].get("finalizers", ()), *([finalizer] if finalizer else [])]
    return change(pod, ownerReferences=owners, **({"finalizers": held} if held else {}))


def _released(owner: Object, pod: Object, finalizer: str) -> Patch:
    uid = owner["metadata"]["uid"]
    owners = [each for each in pod["metadata"]["ownerReferences"] if each["uid"] != uid]
    return change(pod, ownerReferences=owners, finalizers=_without(pod, finalizer))


# What to do with a pod


def change(pod: Object, **metadata: Any) -> Patch:
    """Return the patch of the metadata of a pod that is still as it was read; Conflict otherwise."""
    same = {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}
    return Patch(ref(pod), {"metadata": {**same, **metadata}})


def without_finalizer(pod: Object, finalizer: str) -> Patch:
    """Return the patch that lets go of a pod."""
    return change(pod, finalizers=_without(pod, finalizer))


def _without(pod: Object, finalizer: str) -> list[str]:
    return [each for each in pod["metadata"].get("finalizers", ()) if each != finalizer]


def removal(pod: Object) -> Delete:
    """Return the deletion of this very pod."""
    return Delete(ref(pod), uid=pod["metadata"]["uid"])


def pod_of(owner: Object, name: str, labels: Mapping[str, str], *, finalizer: str = "", **spec: Any) -> Object:
    """Return a pod made of the owner's template, with these labels and these fields of its spec."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    held = [*(meta.get("finalizers") or ()), *([finalizer] if finalizer else [])]
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **labels},
            **({"annotations": meta["annotations"]} if meta.get("annotations") else {}),
            **({"finalizers": held} if held else {}),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {**template["spec"], **spec},
    }


def letters(length: int, *words: str) -> str:
    """Return letters that look random and always are the same for the same words."""
    number = int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest(), "big")
    found = ""
    for _ in range(length):
        number, place = divmod(number, len(SUFFIX_LETTERS))
        found += SUFFIX_LETTERS[place]
    return found


# What cannot be run


TEMPLATE_SHAPES: Mapping[str, type] = {
    "spec.selector": dict,
    "spec.template": dict,
    "spec.template.metadata": dict,
    "spec.template.metadata.labels": dict,
    "spec.template.metadata.annotations": dict,
    "spec.template.spec": dict,
}
"""What every object that owns pods has, as `misshapen` looks at it."""


def misshapen(obj: Object, shapes: Mapping[str, type]) -> list[str]:
    """Return a sentence for each field that is there and is not what it should be: no API server has looked at it."""
    found = [(path, shape, at(obj, path.split("."))) for path, shape in shapes.items()]
    return [
        f"{path}: expected {_WORDS[shape]}, found {value!r}"
        for path, shape, value in found
        if value is not None and not _is(value, shape)
    ]


def _is(value: Any, shape: type) -> bool:
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, shape)


_WORDS: dict[type, str] = {int: "a whole number, 0 or more", dict: "a mapping", bool: "true or false", str: "a text"}


def unselected(selector: Object, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with a selector that does not select the pods of its own template: they would never end."""
    try:
        matches = _matcher(selector)
    except (BadRequest, AttributeError, KeyError, TypeError) as error:
        yield f"spec.selector: cannot be read ({error})"
        return
    if not matches({"metadata": {"labels": labels}}):
        yield f"spec.selector: does not match the labels of spec.template ({labels}); give both the same"


def refusal(obj: Object, problems: Iterable[str]) -> Decision:
    """Return the decision to do nothing, and to say why each time somebody looks."""
    words = "; ".join(problems)
    return Decision(obj.get("status") or {}, (Emit("NotSupported", f"nothing is done: {words}", "Warning"),))
