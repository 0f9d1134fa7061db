"""Gangs start whole or not at all."""

import pytest

from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.placement.gangs import schedule

NODE = {
    "metadata": {"name": "box"},
    "status": {"allocatable": {"cpu": "4", "pods": 100}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def pod(text, arrival):
    """Read "a1 gang=a/3 cpu=1 on=box phase=Running leaving" as a pod."""
    name, *words = text.split()
    facts = dict(word.partition("=")[::2] for word in words)
    meta = {
        "name": name,
        "namespace": facts.get("ns", "default"),
        "uid": name,
        "creationTimestamp": f"2026-01-01T00:00:{arrival:02}Z",
    }
    if "gang" in facts:
        gang, minimum = facts["gang"].split("/")
        meta |= {"labels": {GANG_LABEL: gang}, "annotations": {GANG_MIN_ANNOTATION: minimum}}
    if "leaving" in facts:
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    spec = {
        "containers": [{"resources": {"requests": {"cpu": facts.get("cpu", "1")}}}],
        "nodeName": facts.get("on", ""),
    }
    if "gated" in facts:
        spec["schedulingGates"] = [{"name": "later"}]
    return {"metadata": meta, "spec": spec, "status": {"phase": facts.get("phase", "Pending")}}


@pytest.mark.parametrize(
    ("pods", "started", "waits"),
    [
        pytest.param("solo", "solo", {}, id="a pod without gang starts when it fits"),
        pytest.param("a1 gang=a/2, a2 gang=a/2", "a1 a2", {}, id="a whole gang starts"),
        pytest.param(
            "a1 gang=a/3, a2 gang=a/3",
            "",
            {"a1": "waiting for the rest of the gang: 2 of 3 pods are there"},
            id="an incomplete gang waits",
        ),
        pytest.param(
            "a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=2",
            "",
            {"a1": "a gang of 2 pods needs cpu 5, but 4 of 4 is free; it can never fit here"},
            id="never half a gang, and never is said",
        ),
        pytest.param(
            "x on=box cpu=3, a1 gang=a/2, a2 gang=a/2",
            "",
            {"a2": "a gang of 2 pods needs cpu 2, but 1 of 4 is free"},
            id="a gang waits for room",
        ),
        pytest.param(
            "a1 gang=a/2 cpu=2, a2 gang=a/2 cpu=2, b1 gang=b/2 cpu=2, b2 gang=b/2 cpu=2",
            "a1 a2",
            None,
            id="first come, first served",
        ),
        pytest.param(
            "a1 gang=a/2 cpu=3, a2 gang=a/2 cpu=3, b1 cpu=2", "b1", None, id="what fits need not wait for what cannot"
        ),
        pytest.param(
            "a1 gang=a/2 cpu=2, a2 gang=a/2 cpu=2, a3 gang=a/2 cpu=2", "a1 a2", None, id="beyond the minimum as it fits"
        ),
        pytest.param(
            "a1 gang=a/2 on=box phase=Running, a2 gang=a/2", "a2", {}, id="a replaced member joins those that run"
        ),
        pytest.param(
            "a1 gang=a/2 on=box phase=Succeeded cpu=4, a2 gang=a/2 cpu=4",
            "a2",
            {},
            id="a finished member holds nothing",
        ),
        pytest.param(
            "a1 gang=a/2 on=box phase=Running leaving, a2 gang=a/2", "", None, id="one that leaves is no company"
        ),
        pytest.param(
            "x on=box cpu=4 leaving, y",
            "",
            {"y": "one pod needs cpu 1, but 0 of 4 is free"},
            id="a stopping pod holds its share",
        ),
        pytest.param("a gated", "", {}, id="a gated pod is not looked at"),
        pytest.param("a1 gang=a/2, a2 gang=a/2 ns=other", "", None, id="gangs do not cross namespaces"),
    ],
)
def test_schedule(pods, started, waits):
    decided = schedule([NODE], [pod(text.strip(), arrival) for arrival, text in enumerate(pods.split(","))])

    assert " ".join(sorted(decided.bindings)) == started
    if waits is not None:
        assert {name: decided.waits.get(name) for name in waits} == waits
        assert bool(decided.waits) == bool(waits)


def test_a_node_that_is_not_ready_gets_nothing():
    assert not schedule(
        [{"metadata": {"name": "box"}, "status": {"allocatable": {"cpu": "4"}}}], [pod("solo", 0)]
    ).bindings
