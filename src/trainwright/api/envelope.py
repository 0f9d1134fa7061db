"""What a job's object has around its spec, whatever its kind: metadata, a name, and nulls that mean nothing.

Pods are named after their job and a pod's name is also its host name, so a job's name is checked together with theirs.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainwright.api import pod_template
from trainwright.api.reader import Shape, child, shape_of, show
from trainwright.core import names
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at

GENERATED = 5
"""How many characters an API server adds to metadata.generateName."""
MOST_PODS = 150_000
"""How many pods Kubernetes is built for in a whole cluster."""
_SHOWN = 100


def document(spec: type[Any]) -> Shape:
    """Return the shape of a whole object, given the dataclass of its spec."""
    return Shape(
        "object",
        fields={
            "apiVersion": Shape("string"),
            "kind": Shape("string"),
            "metadata": pod_template.METADATA,
            "spec": shape_of(spec),
            "status": Shape("any"),
        },
        required=("metadata", "spec"),
    )


def without_nulls(value: Any) -> Any:
    """Return a copy without the entries that are null, as an API server stores it."""
    if isinstance(value, dict):
        return {
            key: without_nulls(below) if isinstance(below, dict | list) else below  # most are plain: no call for those
            for key, below in value.items()
            if below is not None
        }
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def check_name(obj: Object, pods: Callable[[str], Iterable[str]], *, letter_first: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with a job's name, given the longest names of pods that a name would lead to."""
    metadata = obj.get("metadata")
    name, prefix = at(metadata, ("name",)), at(metadata, ("generateName",))
    field, added = ("metadata.name", 0) if name is not None or prefix is None else ("metadata.generateName", GENERATED)
    name = prefix if added else name
    if name is None or name == "":
        if isinstance(metadata, dict):
            yield Problem(field, "missing; give the job a name")
        return
    if not isinstance(name, str):
        return
    if not names.is_dns_label(name[: names.LABEL_LENGTH] + "x" * added, letter_first=letter_first):
        first = "beginning with a letter and ending" if letter_first else "beginning and ending"
        rule = f"write small letters, digits and '-', {first} with a letter or digit"
        yield Problem(field, f"{show(name)} cannot be a host name; {rule}")
    longest = max(pods(name + "x" * added), key=len, default=name)
    if len(longest) > names.LABEL_LENGTH:
        room = names.LABEL_LENGTH - len(longest) + len(name)
        pod = f"pod {longest[:_SHOWN]!r} would be {len(longest)} characters long"
        yield Problem(field, f"{pod}, but a host name has at most {names.LABEL_LENGTH}; shorten the name to {room}")


def check_unchanged(old: Any, new: Any, changeable: str) -> Iterator[Problem]:
    """Yield where an update changes what it must not: given what must stay of both specs, and the rest in words."""
    for path, was, is_now in _differences(old, new, "spec"):
        plain = not isinstance(was, dict | list) and not isinstance(is_now, dict | list)
        words = f"{_said(was)} cannot become {_said(is_now)}" if plain else "cannot be changed"
        yield Problem(path, f"{words}; an update may only change {changeable}")


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every place in which two values differ, as deep down as it can be told."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(key), new.get(key), child(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, is_now, child(path, index))
    elif old != new:
        yield path, old, new


def _said(value: Any) -> str:
    return "nothing" if value is None else show(value)
