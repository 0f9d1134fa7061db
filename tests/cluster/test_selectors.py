"""Selectors beyond what the contract says: odd spacing, escapes, kinds, and the words of errors."""

import pytest

from trainwright.cluster import selectors
from trainwright.core.errors import BadRequest
from trainwright.core.resources import CONFIG_MAP, EVENT, NODE, POD, Resource

THING = Resource("example.org", "v1", "things", "Thing", selectable=("status.end",))


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("  a  =  b  ", {"a": "b"}, True),
        ("a in(b,c)", {"a": "c"}, True),
        ("a in (b,)", {"a": ""}, True),
        ("a notin()", {"a": "x"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": ""}, True),
        ("a!=", {"a": ""}, False),
        ("a!=", {}, True),
        ("a>5", {"a": "five"}, False),
        ("a.b/c-d_e", {"a.b/c-d_e": ""}, True),
    ],
)
def test_labels(selector, labels, matches):
    test = selectors.labels(selector)
    assert test is not None
    assert test({"metadata": {"labels": labels}}) is matches


@pytest.mark.parametrize(
    ("resource", "selector", "obj", "matches"),
    [
        (POD, "spec.nodeName=a", {"spec": {"nodeName": "a"}}, True),
        (POD, "spec.nodeName=", {"spec": {}}, True),
        (POD, "spec.hostNetwork=false", {"spec": {}}, True),
        (POD, "spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        (NODE, "spec.unschedulable!=true", {}, True),
        (EVENT, "source=kubelet", {"source": {"component": "kubelet"}}, True),
        (EVENT, r"reason=a\,b", {"reason": "a,b"}, True),
        (EVENT, r"reason=a\=b,type=x", {"reason": "a=b", "type": "x"}, True),
        (EVENT, r"reason=a\\,type=x", {"reason": "a\\", "type": "x"}, True),
        (EVENT, "reason= a b ", {"reason": " a b "}, True),
        (EVENT, "reason= a b ", {"reason": "a b"}, False),
        (EVENT, "reason=a,,type=x,", {"reason": "a", "type": "x"}, True),
        (CONFIG_MAP, "metadata.name!=x", {}, True),
        (THING, "status.end=", {"status": {}}, True),
        (THING, "status.end=", {"status": {"end": "now"}}, False),
        (THING, "status.end!=now", {"status": {"end": "now"}}, False),
    ],
)
def test_fields(resource, selector, obj, matches):
    test = selectors.fields(selector, resource)
    assert test is not None
    assert test({"metadata": {"name": "y"}, **obj}) is matches


def test_nothing_selects_everything():
    assert selectors.labels("  ") is None
    assert selectors.fields("", POD) is None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: selectors.labels("a in b"),
            "unable to parse label selector 'a in b': 'in' and 'notin' take values in",
        ),
        (lambda: selectors.labels("a=b;c"), "cannot read ';c'"),
        (lambda: selectors.labels("a ~ b"), "cannot read '~ b'"),
        (lambda: selectors.labels("a b"), "found 'b' after 'a', expected one of = == != in notin < >"),
        (
            lambda: selectors.fields("spec.size=1", Resource("", "v1", "x", "X")),
            "field label not supported: 'spec.size'",
        ),
        (lambda: selectors.fields("spec.size=1", CONFIG_MAP), "can be selected by metadata.name, metadata.namespace"),
        (lambda: selectors.fields("metadata.name", POD), "write field=value"),
        (lambda: selectors.fields("metadata.name =x", POD), "field label not supported: 'metadata.name '"),
        (lambda: selectors.fields("metadata.name=a=b", POD), r"is written \, or \= or \\ there"),
    ],
)
def test_errors_say_what_would_be_right(call, sentence):
    with pytest.raises(BadRequest) as caught:
        call()
    assert sentence in str(caught.value)
