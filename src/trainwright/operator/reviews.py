"""AdmissionReview in, AdmissionReview out: what an API server asks about an object, answered by `admission`.

Pure functions; `webhooks` serves them. Both doors refuse. The mutating one is asked before the object is held against
the schema, so users hear everything that is wrong at once and in the words of `tw lint`; the validating one is asked
last, about what the webhooks of others have made of it.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trainwright.admission import review
from trainwright.core.errors import BadRequest, Problem
from trainwright.core.objects import Object, at
from trainwright.kinds import kind_of

API_VERSION = "admission.k8s.io/v1"
MOST_PROBLEMS = 100
"""So many are said of one object; who has more will come again."""
WARNING_CHARACTERS, WARNINGS_CHARACTERS = 256, 4096
"""What an API server passes on of one warning, and of all."""

Door = Callable[[Object], Object]
"""A request of an AdmissionReview to the response."""


def answered(body: bytes, door: Door) -> tuple[bytes, bool]:
    """Return what to send back for a review, and whether the object may pass; BadRequest if the body is no review."""
    request = _request(body)
    response = {"uid": request["uid"], **door(request)}
    reply = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
    return msgspec.json.encode(reply), response["allowed"]


def _request(body: bytes) -> Object:
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"expected an AdmissionReview as JSON: {error}") from error
    if not isinstance(asked, dict) or (asked.get("apiVersion"), asked.get("kind")) != (API_VERSION, "AdmissionReview"):
        found = " ".join(str(asked.get(name)) for name in ("apiVersion", "kind")) if isinstance(asked, dict) else "none"
        raise BadRequest(f"expected an AdmissionReview of {API_VERSION}, found {found}")
    request = asked.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadRequest("request.uid: missing; an AdmissionReview asks about something")
    return request


def mutate(request: Object) -> Object:
    """Answer with what makes an object the one that is stored; refuse one that is wrong."""
    obj = _stored(request)
    if obj is None:
        return {"allowed": True}
    problems = review(obj, request.get("oldObject"))
    if refusal := _refusal(obj, problems):
        return refusal
    kind = kind_of(obj)
    # An answer is in the version that was asked about, whatever version is stored.
    wanted = {**kind.default(obj), "apiVersion": obj["apiVersion"]} if kind else obj
    patch = list(json_patch(obj, wanted))
    if not patch:
        return {"allowed": True}
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def validate(request: Object) -> Object:
    """Answer whether an object may be stored as it is, and what its author should know."""
    obj = _stored(request)
    if obj is None:
        return {"allowed": True}
    problems = review(obj, request.get("oldObject"))
    return _refusal(obj, problems) or {"allowed": True, **_warned(problems)}


DOORS: Mapping[str, Door] = {"mutate": mutate, "validate": validate}
"""By the last part of the path under which they are served."""


def _stored(request: Object) -> Object | None:
    """Return the object to be judged; None for one that is going, and only lets go of its finalizers."""
    obj = request.get("object")
    return obj if isinstance(obj, dict) and at(obj, ("metadata", "deletionTimestamp")) is None else None


def _refusal(obj: Object, problems: Iterable[Problem]) -> Object | None:
    """Return the answer to an object with errors; None to one without."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return None
    said = errors[:MOST_PROBLEMS]
    more = [f"and {len(errors) - len(said)} more problems"] if len(errors) > len(said) else []
    metadata = obj.get("metadata") or {}
    return {
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "\n".join([*map(str, said), *more]),
            "details": {
                "group": str(obj.get("apiVersion", "")).rpartition("/")[0],
                "kind": str(obj.get("kind", "")),
                "name": str(metadata.get("name") or metadata.get("generateName") or ""),
                "causes": [
                    *({"reason": "FieldValueInvalid", "field": each.path, "message": each.message} for each in said),
                    *({"reason": "FieldValueInvalid", "field": "spec", "message": words} for words in more),
                ],
            },
        },
        **_warned(problems),
    }


def _warned(problems: Iterable[Problem]) -> Object:
    warnings = warnings_of(problems)
    return {"warnings": warnings} if warnings else {}


def warnings_of(problems: Iterable[Problem]) -> list[str]:
    """Return the warnings among problems, as many and as long as an API server passes on."""
    warnings = [" ".join(str(problem).split()) for problem in problems if problem.severity == "warning"]
    kept: list[str] = []
    left = WARNINGS_CHARACTERS - WARNING_CHARACTERS
    for number, warning in enumerate(_cut(each, WARNING_CHARACTERS) for each in warnings):
        left -= len(warning)
        if left < 0:
            return [*kept, f"and {len(warnings) - number} more warnings; tw lint says them all"]
        kept.append(warning)
    return kept


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[Object]:
    """Yield the fewest steps of a JSON patch that turn one value into another."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _patch_object(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, value in enumerate(after):
            if index < len(before):
                yield from json_patch(before[index], value, f"{path}/{index}")
            else:
                yield {"op": "add", "path": f"{path}/-", "value": value}
    elif not _is_same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _patch_object(before: Object, after: Object, path: str) -> Iterator[Object]:
    for name in before.keys() - after.keys():
        yield {"op": "remove", "path": _below(path, name)}
    for name, value in after.items():
        if name in before:
            yield from json_patch(before[name], value, _below(path, name))
        else:
            yield {"op": "add", "path": _below(path, name), "value": value}


def _is_same(before: Any, after: Any) -> bool:
    """Say whether two values are the same in JSON, where true is not 1."""
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)


def _below(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
