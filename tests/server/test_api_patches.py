"""The patches kubectl sends, as pure functions."""

import msgspec
import pytest

from trainwright.core.errors import BadRequest, Invalid
from trainwright.server.api import patches
from trainwright.server.api.patches import json_patch, strategic


def op(op, path, value=None, **more):
    return {"op": op, "path": path, **({} if op in ("remove", "move", "copy") else {"value": value}), **more}


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        pytest.param([op("add", "/a", 2)], {"a": 2, "l": [1, 2], "m": {"x/y": 1}}, id="a field is set"),
        pytest.param([op("add", "/b", 3)], {"a": 1, "b": 3, "l": [1, 2], "m": {"x/y": 1}}, id="a field is added"),
        pytest.param([op("add", "/l/-", 3)], {"a": 1, "l": [1, 2, 3], "m": {"x/y": 1}}, id="an item comes last"),
        pytest.param([op("add", "/l/0", 0)], {"a": 1, "l": [0, 1, 2], "m": {"x/y": 1}}, id="an item comes first"),
        pytest.param([op("remove", "/l/0")], {"a": 1, "l": [2], "m": {"x/y": 1}}, id="an item goes"),
        pytest.param([op("replace", "/l/1", 9)], {"a": 1, "l": [1, 9], "m": {"x/y": 1}}, id="an item is replaced"),
        pytest.param([op("replace", "/m/x~1y", 2)], {"a": 1, "l": [1, 2], "m": {"x/y": 2}}, id="a slash in a name"),
        pytest.param([op("remove", "/m")], {"a": 1, "l": [1, 2]}, id="a field goes"),
        pytest.param(
            [op("move", "/b", **{"from": "/a"})], {"b": 1, "l": [1, 2], "m": {"x/y": 1}}, id="a field is moved"
        ),
        pytest.param(
            [op("copy", "/l/0", **{"from": "/a"})], {"a": 1, "l": [1, 1, 2], "m": {"x/y": 1}}, id="a field is copied"
        ),
        pytest.param(
            [op("test", "/a", 1), op("add", "/a", 5)], {"a": 5, "l": [1, 2], "m": {"x/y": 1}}, id="a test that holds"
        ),
    ],
)
def test_json_patch(operations, result):
    before = {"a": 1, "l": [1, 2], "m": {"x/y": 1}}

    assert json_patch(before, operations) == result
    assert before == {"a": 1, "l": [1, 2], "m": {"x/y": 1}}, "nothing is changed in place"


@pytest.mark.parametrize(
    ("operations", "error"),
    [
        pytest.param([op("test", "/a", 2)], Invalid, id="a test that does not hold"),
        pytest.param([op("remove", "/none")], Invalid, id="nothing to remove"),
        pytest.param([op("replace", "/none", 1)], Invalid, id="nothing to replace"),
        pytest.param([op("add", "/l/7", 1)], Invalid, id="a place beyond the end"),
        pytest.param([op("add", "/a/b", 1)], Invalid, id="a field of a number"),
        pytest.param([op("add", "a", 1)], BadRequest, id="no path"),
        pytest.param([op("jump", "/a", 1)], BadRequest, id="no such operation"),
        pytest.param([{"op": "add", "path": "/a"}], BadRequest, id="no value"),
        pytest.param([op("add", "", [])], BadRequest, id="an object that is none any more"),
        pytest.param({"a": 1}, BadRequest, id="no list"),
        pytest.param(["add"], BadRequest, id="no operation"),
    ],
)
def test_json_patches_that_cannot_be_done(operations, error):
    with pytest.raises(error):
        json_patch({"a": 1, "l": [1]}, operations)


POD = {"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}}


def names(obj):
    return [each["name"] for each in obj["spec"]["containers"]]


def containers(*items, **more):
    return {"spec": {"containers": list(items), **more}}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        pytest.param(containers({"name": "b", "image": "2"}), ["a", "b"], id="an item is found by its name"),
        pytest.param(containers({"name": "c"}), ["a", "b", "c"], id="one of another name is added"),
        pytest.param(containers({"name": "a", "$patch": "delete"}), ["b"], id="an item can be deleted"),
        pytest.param(containers({"name": "z"}, {"$patch": "replace"}), ["z"], id="a list can be replaced"),
        pytest.param(
            containers({"name": "c"}, **{"$setElementOrder/containers": [{"name": n} for n in "cba"]}),
            ["c", "b", "a"],
            id="a list can be put in order",
        ),
        pytest.param({"spec": {"$patch": "replace", "containers": [{"name": "n"}]}}, ["n"], id="all is replaced"),
        pytest.param(
            {"spec": {"$retainKeys": ["containers"], "other": None}}, ["a", "b"], id="only some fields are kept"
        ),
    ],
)
def test_lists_are_merged_by_key(patch, result):
    assert names(strategic(POD, patch)) == result


def test_items_are_merged_below():
    patch = containers({"name": "a", "env": [{"name": "Y", "value": "2"}]})

    merged = strategic(POD, patch)["spec"]["containers"][0]

    assert merged == {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        pytest.param({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["a", "b"]}, id="words are added"),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="words are taken away",
        ),
        pytest.param({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, id="other lists are replaced"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="nothing takes a field away"),
    ],
)
def test_other_fields(before, patch, after):
    assert strategic(before, patch) == after


def test_ports_of_a_service_are_told_apart_by_their_number():
    service = {"spec": {"ports": [{"port": 1, "name": "a"}]}}
    patch = msgspec.json.encode({"spec": {"ports": [{"port": 2, "name": "b"}]}})

    ports = patches.patched("Service", service, patch, patches.STRATEGIC)["spec"]["ports"]

    assert [each["port"] for each in ports] == [1, 2]


@pytest.mark.parametrize("form", [patches.MERGE, patches.JSON, patches.STRATEGIC])
def test_what_is_no_patch_is_refused(form):
    for data in (b"{", b"3"):
        with pytest.raises(BadRequest, match="error decoding patch"):
            patches.patched("Pod", POD, data, form)


def test_an_item_without_its_key_is_refused():
    with pytest.raises(BadRequest, match="has no name"):
        strategic(POD, containers({"image": "x"}))
