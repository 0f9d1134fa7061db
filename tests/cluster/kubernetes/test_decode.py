"""Decoding: dicts without managedFields, and of shaped resources only what the shape names."""

from typing import Any

import msgspec
import pytest

from trainwright.cluster.kubernetes.decode import decode_object, decode_page, event_decoder
from trainwright.core.resources import POD

encode = msgspec.json.encode


class Meta(msgspec.Struct, omit_defaults=True, gc=False):
    name: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] = {}


class Status(msgspec.Struct, omit_defaults=True, gc=False):
    phase: str = ""


class Shape(msgspec.Struct, omit_defaults=True, gc=False):
    metadata: Meta
    kind: str = ""
    apiVersion: str = ""
    status: Status = msgspec.field(default_factory=Status)


META = {"name": "a", "resourceVersion": "7", "managedFields": [{"manager": "x"}], "annotations": {"b": "c"}}
BARE = {name: value for name, value in META.items() if name != "managedFields"}
FULL: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": META,
    "spec": {"nodeName": "n"},
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}
SHAPED = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "resourceVersion": "7"},
    "status": {"phase": "Running"},
}


def test_an_object():
    assert decode_object(encode(FULL)) == {**FULL, "metadata": BARE}


@pytest.mark.parametrize(
    ("shape", "item"),
    [
        pytest.param(None, {**FULL, "metadata": BARE}, id="whole"),
        pytest.param(Shape, SHAPED, id="only what the shape names"),
    ],
)
def test_a_page_whose_items_do_not_say_their_kind(shape, item):
    untyped = {name: value for name, value in FULL.items() if name not in ("kind", "apiVersion")}
    page = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "more"}, "items": [untyped]}
    assert decode_page(encode(page), POD, shape) == ([item], "9", "more")


def test_an_empty_page():
    assert decode_page(b'{"metadata": {"resourceVersion": "9"}, "items": null}', POD) == ([], "9", "")


@pytest.mark.parametrize(
    ("shape", "event", "expected"),
    [
        pytest.param(None, ("ADDED", FULL), {**FULL, "metadata": BARE}, id="whole"),
        pytest.param(Shape, ("ADDED", FULL), SHAPED, id="only what the shape names"),
        pytest.param(
            Shape,
            ("ERROR", {"kind": "Status", "code": 410, "metadata": {}}),
            {"kind": "Status", "code": 410, "metadata": {}},
            id="an error is never shaped",
        ),
        pytest.param(
            Shape,
            ("ERROR", {"kind": "Status", "code": 410, "status": "Failure"}),
            {"kind": "Status", "code": 410, "status": "Failure"},
            id="nor one that would not fit the shape",
        ),
        pytest.param(
            Shape,
            ("BOOKMARK", {"metadata": {"resourceVersion": "8", "annotations": {"a": "b"}}}),
            {"metadata": {"resourceVersion": "8", "annotations": {"a": "b"}}},
            id="nor a bookmark",
        ),
    ],
)
def test_an_event(shape, event, expected):
    kind, obj = event
    assert event_decoder(shape)(encode({"type": kind, "object": obj})) == (kind, expected)
