"""Reviews: what an API server asks about an object, and what it is answered."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.api.examples import STATIC, TRAINING, VOLCANO, changed

from trainwright.admission import review
from trainwright.core.errors import BadRequest, Problem
from trainwright.core.objects import Object
from trainwright.kinds import KINDS, kind_of
from trainwright.operator import reviews
from trainwright.operator.reviews import DOORS, answered, json_patch, mutate, validate, warnings_of

ROLES = "spec.pytorchReplicaSpecs"
ALWAYS = changed(STATIC, {f"{ROLES}.Worker.restartPolicy": "Always"})
WRONG = changed(STATIC, {"metadata.name": "0", f"{ROLES}.Master.replicas": 2})
ABORT: Object = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"name": "stop", "namespace": "default"},
    "action": "AbortJob",
    "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "mnist"},
}
EXAMPLES = [
    pytest.param(obj, id=f"{file.parent.name}/{file.stem}")
    for file in sorted((Path(__file__).parents[2] / "examples").glob("*/*.yaml"))
    for obj in yaml.safe_load_all(file.read_text())
    if obj and kind_of(obj)
]


def asked(obj: Any, old: Any = None) -> Object:
    """Return what an API server asks."""
    operation = "CREATE" if old is None else "UPDATE"
    return {"uid": "705ab4f5", "operation": operation, "object": obj, "oldObject": old}


def patch_of(response: Object) -> list[Object]:
    return list(json.loads(base64.b64decode(response["patch"]))) if "patch" in response else []


def patched(obj: Any, patch: list[Object]) -> Any:
    """Return an object after a JSON patch, as an API server applies it."""
    obj = json.loads(json.dumps(obj))
    for step in patch:
        *way, last = [each.replace("~1", "/").replace("~0", "~") for each in step["path"].split("/")[1:]]
        place = obj
        for each in way:
            place = place[int(each)] if isinstance(place, list) else place[each]
        if step["op"] == "remove":
            del place[last]
        elif isinstance(place, list):
            place[len(place) : len(place)] = [step["value"]] if last == "-" else []
            if last != "-":
                place[int(last)] = step["value"]
        else:
            assert (last in place) == (step["op"] == "replace")
            place[last] = step["value"]
    return obj


@pytest.mark.parametrize(
    ("obj", "old", "said"),
    [
        pytest.param(STATIC, None, "allowed", id="a good job is let in"),
        pytest.param(WRONG, None, "metadata.name | spec.pytorchReplicaSpecs.Master.replicas", id="a wrong one is not"),
        pytest.param(changed(STATIC, {"spec": 5}), None, "spec", id="however wrong it is"),
        pytest.param(changed(STATIC, {"metadata": None}), None, "metadata", id="even without a name"),
        pytest.param(
            changed(STATIC, {"metadata": {"generateName": "run-"}}), None, "allowed", id="a name may be left to others"
        ),
        pytest.param(changed(WRONG, {"metadata.labels": {"a": "b"}}), WRONG, "allowed", id="old faults are forgiven"),
        pytest.param(
            changed(STATIC, {"spec.runPolicy": {"schedulingPolicy": {"queue": "b"}}}),
            changed(STATIC, {"spec.runPolicy": {"schedulingPolicy": {"queue": "a"}}}),
            "spec.runPolicy.schedulingPolicy.queue",
            id="what cannot be changed is told by what was there",
        ),
        pytest.param(
            changed(WRONG, {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}), STATIC, "allowed", id="who goes may"
        ),
        pytest.param(None, STATIC, "allowed", id="nothing is nothing wrong"),
        pytest.param(
            changed(STATIC, {"spec.sometimes": True, "metadata.annotations": {"trainwright.dev/lenient": "true"}}),
            None,
            "allowed",
            id="an annotation makes it lenient",
        ),
        pytest.param(ABORT, None, "allowed", id="a command is let in"),
        pytest.param(changed(ABORT, {"action": "AbortTheJob"}), None, "action", id="one that nobody knows is not"),
    ],
)
@pytest.mark.parametrize("door", [mutate, validate])
def test_who_is_let_in(door, obj, old, said):
    response = door(asked(obj, old))

    found = [] if response["allowed"] else [each["field"] for each in response["status"]["details"]["causes"]]
    assert response["allowed"] == (said == "allowed")
    assert " | ".join(found) == ("" if said == "allowed" else said)


def test_a_refusal_says_what_lint_says():
    status = validate(asked(WRONG))["status"]

    assert status["message"] == "\n".join(map(str, review(WRONG)))
    assert [f"{each['field']}: {each['message']}" for each in status["details"]["causes"]] == [
        str(problem) for problem in review(WRONG)
    ]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert {key: status["details"][key] for key in ("group", "kind", "name")} == {
        "group": "kubeflow.org",
        "kind": "PyTorchJob",
        "name": "0",
    }


def test_a_refusal_has_an_end():
    roles: Object = {f"{ROLES}.Role{number}": {} for number in range(500)}

    message = validate(asked(changed(STATIC, roles)))["status"]["message"].splitlines()

    assert len(message) == reviews.MOST_PROBLEMS + 1
    assert message[-1] == f"and {len(review(changed(STATIC, roles))) - reviews.MOST_PROBLEMS} more problems"


def test_warnings_are_given_once_and_by_who_is_asked_last():
    assert validate(asked(ALWAYS))["warnings"] == [str(problem) for problem in review(ALWAYS)]
    assert "warnings" not in mutate(asked(ALWAYS))


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        pytest.param([10, 20], [10, 20], id="as they are"),
        pytest.param([256], [256], id="the longest there may be"),
        pytest.param([300], [256], id="a longer one is cut"),
        pytest.param(
            [250] * 20, [250] * 15 + ["and 5 more warnings; tw lint says them all"], id="too many are counted"
        ),
    ],
)
def test_warnings_are_as_long_as_an_api_server_passes_on(lengths, kept):
    warnings = warnings_of(Problem("", "x" * length, "warning") for length in lengths)

    assert [
        each if isinstance(expected, str) else len(each) for each, expected in zip(warnings, kept, strict=True)
    ] == (kept)
    assert sum(map(len, warnings)) <= 4096


@pytest.mark.parametrize("obj", [*EXAMPLES, *(pytest.param(each, id=each["kind"]) for each in (VOLCANO, TRAINING))])
def test_the_patch_makes_the_object_that_is_stored(obj):
    kind = kind_of(obj)
    assert kind

    once = patched(obj, patch_of(mutate(asked(obj))))

    assert once == {**kind.default(obj), "apiVersion": obj["apiVersion"]}
    assert patch_of(mutate(asked(once))) == [], "asked again there is nothing left to do"
    assert mutate(asked(obj, once))["allowed"], "who applies the same file again changes nothing"
    assert patched(obj, patch_of(mutate(asked(obj, once)))) == once


def test_every_kind_is_among_the_examples():
    assert {each.values[0]["kind"] for each in EXAMPLES} == {kind.name for kind in KINDS}  # type: ignore[index]


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="nothing"),
        pytest.param({}, {"a/b~c": 1}, [{"op": "add", "path": "/a~1b~0c", "value": 1}], id="a new field"),
        pytest.param({"a": None}, {}, [{"op": "remove", "path": "/a"}], id="a field that goes"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"b": 2}}, [{"op": "replace", "path": "/a/b", "value": 2}], id="deep inside"
        ),
        pytest.param([{"a": 1}], [{"a": 2}], [{"op": "replace", "path": "/0/a", "value": 2}], id="inside a list"),
        pytest.param([1], [1, 2], [{"op": "add", "path": "/-", "value": 2}], id="a list that grows"),
        pytest.param({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}], id="one that shrinks"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="true is not 1"),
        pytest.param({"a": {}}, {"a": []}, [{"op": "replace", "path": "/a", "value": []}], id="another type"),
    ],
)
def test_json_patch(before, after, steps):
    assert list(json_patch(before, after)) == steps
    assert patched({"x": before}, list(json_patch({"x": before}, {"x": after}))) == {"x": after}


@pytest.mark.parametrize("name", list(DOORS))
def test_an_answer_is_about_what_was_asked(name):
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked(WRONG)}

    reply, allowed = answered(json.dumps(body).encode(), DOORS[name])

    told = json.loads(reply)
    assert (told["apiVersion"], told["kind"]) == (body["apiVersion"], body["kind"])
    assert told["response"]["uid"] == "705ab4f5"
    assert not allowed


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(b"{", "expected an AdmissionReview as JSON", id="no JSON"),
        pytest.param(b"\xff", "expected an AdmissionReview as JSON", id="no text"),
        pytest.param(b"5", "expected an AdmissionReview of admission.k8s.io/v1, found none", id="no object"),
        pytest.param(
            b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}',
            "found admission.k8s.io/v1beta1 AdmissionReview",
            id="another version",
        ),
        pytest.param(
            b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}',
            "request.uid: missing",
            id="nothing is asked",
        ),
    ],
)
def test_what_is_no_review_is_refused(body, sentence):
    with pytest.raises(BadRequest, match=sentence):
        answered(body, validate)
