"""What `tw apply` does to one object, beside what the server and others have done to it."""

import json

import pytest

from trainwright.cli.applying import LAST_APPLIED, last_applied, patch, to_create
from trainwright.core.objects import Object


def manifest(**spec) -> Object:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}, "spec": spec}


def stored(applied: Object, labels: Object | None = None, **spec) -> Object:
    """Return an object to which a manifest was applied, with more in its spec than that says."""
    made = to_create(applied)
    meta = {**made["metadata"], "uid": "u", "resourceVersion": "7", **({"labels": labels} if labels else {})}
    return {**made, "metadata": meta, "spec": {**applied["spec"], **spec}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("before", "live", "wanted", "change"),
    [
        pytest.param({"a": 1}, {}, {"a": 1}, None, id="what is as it was asked for stays"),
        pytest.param({"a": 1}, {"filled": 2}, {"a": 1}, None, id="what the server has filled in is left alone"),
        pytest.param({"a": 1}, {}, {"a": 2}, {"a": 2}, id="a changed value is set"),
        pytest.param({"a": 1}, {}, {"a": 1, "b": {"c": 1}}, {"b": {"c": 1}}, id="a new value is set"),
        pytest.param({"a": 1, "b": 2}, {}, {"a": 1}, {"b": None}, id="what is no longer asked for is removed"),
        pytest.param({"a": 1}, {"b": 2}, {"a": 1}, None, id="what was never asked for is not"),
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 1}, {"b": None}, id="also when somebody has changed it"),
        pytest.param({"size": 2}, {"size": 4}, {"size": 2}, {"size": 2}, id="what others have changed is set back"),
        pytest.param(
            {"list": [{"a": 1}]}, {"list": [{"a": 1, "filled": 2}]}, {"list": [{"a": 1}]}, None,
            id="a list is the same when only defaults were filled in",
        ),
        pytest.param(
            {"list": [{"a": 1, "b": 2}]}, {}, {"list": [{"a": 1}]}, {"list": [{"a": 1}]},
            id="a list whose item says less is set as a whole",
        ),
        pytest.param({"list": [1]}, {}, {"list": [1, 2]}, {"list": [1, 2]}, id="a longer list is set as a whole"),
        pytest.param({"a": {"b": 1}}, {}, {"a": None}, {"a": None}, id="null removes"),
        pytest.param({}, {}, {"a": {}}, None, id="an empty value is as good as none"),
    ],
)  # fmt: skip
def test_changes(before, live, wanted, change):
    there = stored(manifest(**before), **live)

    found = patch(there, manifest(**wanted))

    assert found.get("spec") == change
    if before == wanted and change is None:
        assert found == {}


def test_labels_that_others_have_set_stay_when_ours_go():
    ours = {**manifest(), "metadata": {"name": "t", "namespace": "n", "labels": {"ours": "1"}}}
    there = stored(ours, labels={"ours": "1", "theirs": "2"})

    assert patch(there, manifest())["metadata"]["labels"] == {"ours": None}


def test_what_was_asked_for_is_kept_the_way_kubectl_keeps_it():
    kept = to_create(manifest(b=1, a=2))["metadata"]["annotations"][LAST_APPLIED]

    assert kept == (
        '{"apiVersion":"v1","kind":"Thing","metadata":{"annotations":{},"name":"t","namespace":"n"},'
        '"spec":{"a":2,"b":1}}\n'
    )


def test_a_change_remembers_the_new_manifest():
    there = stored(manifest(a=1))

    kept = patch(there, manifest(a=2))["metadata"]["annotations"][LAST_APPLIED]

    assert json.loads(kept)["spec"] == {"a": 2}


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"metadata": 1}'])
def test_an_annotation_that_cannot_be_read_is_as_good_as_none(text):
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: text}}}) is None


def test_an_object_that_was_created_otherwise_is_taken_over():
    there = {**manifest(a=1, b=2), "status": {}}

    assert patch(there, manifest(a=1))["metadata"]["annotations"][LAST_APPLIED]
    assert "spec" not in patch(there, manifest(a=1))
