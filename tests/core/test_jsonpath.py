"""`-o jsonpath=…`: the templates people give to kubectl."""

import pytest

from trainwright.core.errors import BadRequest
from trainwright.core.jsonpath import render

OBJECT = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "ports": [80, 443, 8080]},
        {"metadata": {"name": "b"}, "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "n": 3}]},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        pytest.param("{.kind}", "List", id="a field"),
        pytest.param(".kind", "List", id="braces may be left out"),
        pytest.param("kind: {.kind}!", "kind: List!", id="text stands as it is"),
        pytest.param("{.items[*].metadata.name}", "a b", id="every item, with spaces between them"),
        pytest.param("{.items[0].metadata.name}", "a", id="one item"),
        pytest.param("{.items[-1].metadata.name}", "b", id="the last item"),
        pytest.param("{.items[0].ports[1:]}", "443 8080", id="a slice"),
        pytest.param("{.items[7].metadata.name}", "", id="what is not there prints nothing"),
        pytest.param("{.items[0].metadata.labels.x\\.y/z}", "1", id="a key with a dot, by a backslash"),
        pytest.param("{.items[0].metadata.labels['x.y/z']}", "1", id="a key with a dot, in quotes"),
        pytest.param('{.items[1].conditions[?(@.type=="Ready")].status}', "True", id="the one for which a test holds"),
        pytest.param("{.items[1].conditions[?(@.n)].type}", "Old", id="the one that has a field"),
        pytest.param("{.items[0].ports[?(@>100)]}", "443 8080", id="those that are larger"),
        pytest.param("{..name}", "a b", id="a name at any depth"),
        pytest.param('{range .items[*]}{.metadata.name}{"\\n"}{end}', "a\nb\n", id="a line for each"),
        pytest.param("{.items[0].metadata}", '{"name":"a","labels":{"x.y/z":"1"}}', id="an object as JSON"),
        pytest.param("{$.kind}{@.kind}", "ListList", id="both names of the root"),
    ],
)
def test_templates(template, text):
    assert render(template, OBJECT) == text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        pytest.param("{.items[", "is not closed", id="a brace without its other half"),
        pytest.param("{.items[!]}", "makes no sense from", id="a step that is none"),
        pytest.param("{range .items[*]}x", "has no {end}", id="a range without end"),
        pytest.param("x{end}", "{end} without", id="an end without range"),
        pytest.param("{.items[?(type)]}", "is no test", id="a test that is none"),
    ],
)
def test_what_makes_no_sense_is_said(template, problem):
    with pytest.raises(BadRequest, match=problem.replace("{", r"\{")):
        render(template, OBJECT)
