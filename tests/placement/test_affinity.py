"""Node affinity: which nodes a pod asks for."""

import pytest

from trainwright.core.objects import Object
from trainwright.placement.affinity import asks_for
from trainwright.placement.taints import keeps_away

NODE = {"metadata": {"name": "box", "labels": {"gpu": "a100", "cores": "64"}}}


def spec(*terms: str, fields: bool = False) -> Object:
    """Return a pod's spec whose affinity has these terms, each "key operator value,value; ..."."""
    part = "matchFields" if fields else "matchExpressions"
    made = []
    for term in terms:
        words = [text.split() for text in term.split(";") if text.strip()]
        made.append(
            {part: [{"key": each[0], "operator": each[1], "values": "".join(each[2:]).split(",")} for each in words]}
        )
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": made}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("terms", "takes"),
    [
        pytest.param(["gpu In a100,h100"], True, id="one of several values"),
        pytest.param(["gpu In h100"], False, id="none of them"),
        pytest.param(["gpu NotIn h100"], True, id="not that value"),
        pytest.param(["disk NotIn slow"], True, id="nor a label it does not have"),
        pytest.param(["gpu Exists"], True, id="a label with any value"),
        pytest.param(["disk Exists"], False, id="a label it does not have"),
        pytest.param(["disk DoesNotExist"], True, id="a label it shall not have"),
        pytest.param(["cores Gt 32"], True, id="more than a number"),
        pytest.param(["cores Lt 32"], False, id="less than a number"),
        pytest.param(["gpu Gt 32"], False, id="what is no number is neither"),
        pytest.param(["gpu Exists; disk Exists"], False, id="all of a term"),
        pytest.param(["disk Exists", "gpu Exists"], True, id="one of several terms"),
        pytest.param([""], False, id="a term that says nothing wants no node"),
    ],
)
def test_labels(terms, takes):
    assert asks_for(spec(*terms), NODE) is takes


def test_names():
    assert asks_for(spec("metadata.name In box", fields=True), NODE)
    assert not asks_for(spec("metadata.name In other", fields=True), NODE)


def test_without_affinity_every_node_will_do():
    assert asks_for({}, NODE)
    assert asks_for({"affinity": {"podAntiAffinity": {}}}, NODE)


def test_it_is_said_what_keeps_a_pod_away():
    said = keeps_away(NODE, {"spec": spec("gpu In h100")})

    assert said == "is none of those that its node affinity asks for"
