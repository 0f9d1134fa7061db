"""Phases, conditions and quality of service, by table."""

from datetime import UTC, datetime
from typing import Any

import pytest

from trainwright.node.base import Exit
from trainwright.node.status import (
    Container,
    PodFacts,
    pod_phase,
    pod_status,
    qos_class,
    running,
    status_patch,
    terminated,
    waiting,
)

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
STATES: dict[str, dict[str, Any]] = {
    "wait": {"state": waiting("ContainerCreating")},
    "run": {"state": running(NOON), "started": True},
    "ready": {"state": running(NOON), "started": True, "ready": True},
    "ok": {"state": terminated(Exit(0), started=NOON, finished=NOON)},
    "bad": {"state": terminated(Exit(1), started=NOON, finished=NOON)},
    "loop": {
        "state": waiting("CrashLoopBackOff"),
        "last_state": terminated(Exit(1), started=NOON, finished=NOON),
    },
}


def made(words, kind="main"):
    kinds: Any = [("sidecar", word[5:]) if word.startswith("side:") else (kind, word) for word in words.split()]
    return [Container(f"c{i}", kind=kind, **STATES[word]) for i, (kind, word) in enumerate(kinds)]


@pytest.mark.parametrize(
    ("policy", "inits", "mains", "phase"),
    [
        pytest.param("Never", "", "wait", "Pending", id="nothing has started"),
        pytest.param("Never", "", "run wait", "Pending", id="one has not started"),
        pytest.param("Never", "", "run run", "Running", id="all run"),
        pytest.param("Never", "", "run ok", "Running", id="one still runs"),
        pytest.param("Never", "", "ok ok", "Succeeded", id="all ended well"),
        pytest.param("Never", "", "ok bad", "Failed", id="one ended badly"),
        pytest.param("OnFailure", "", "bad", "Running", id="it will run again"),
        pytest.param("OnFailure", "", "loop ok", "Running", id="it waits to run again"),
        pytest.param("OnFailure", "", "ok", "Succeeded", id="it will not run again"),
        pytest.param("Always", "", "ok", "Running", id="it always runs again"),
        pytest.param("Never", "run", "wait", "Pending", id="an init step runs"),
        pytest.param("Never", "bad", "wait", "Failed", id="an init step failed for good"),
        pytest.param("OnFailure", "bad", "wait", "Pending", id="an init step will be tried again"),
        pytest.param("Never", "ok", "run", "Running", id="after the init steps"),
        pytest.param("Never", "side:run", "run", "Running", id="beside a sidecar"),
        pytest.param("Never", "side:wait", "wait", "Pending", id="a sidecar has not started"),
    ],
)
def test_phase(policy, inits, mains, phase):
    assert pod_phase(policy, made(inits, "init"), made(mains)) == phase


def status(mains, inits="", *, old=None, now=NOON, spec=None, **facts):
    pod = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [], **(spec or {})}, "status": old or {}}
    return pod_status(pod, made(inits, "init"), made(mains), PodFacts("10.0.0.1", start_time="t", **facts), now)


@pytest.mark.parametrize(
    ("mains", "facts", "phase"),
    [
        pytest.param("ok", {}, "Running", id="until everything is cleared away, it has not ended"),
        pytest.param("ok", {"final": True}, "Succeeded", id="then it has"),
        pytest.param("bad", {"final": True}, "Failed", id="badly"),
        pytest.param("wait", {"final": True}, "Failed", id="stopped before it began"),
        pytest.param("ok", {"final": True, "failed": True}, "Failed", id="failed as a whole"),
        pytest.param("run", {"failed": True}, "Running", id="about to fail"),
    ],
)
def test_only_the_end_is_final(mains, facts, phase):
    assert status(mains, **facts)["phase"] == phase


def seen(conditions):
    return {each["type"]: (each["status"], each.get("reason"), each.get("message")) for each in conditions}


@pytest.mark.parametrize(
    ("inits", "mains", "final", "name", "expected"),
    [
        pytest.param("", "ready", False, "Ready", ("True", None, None), id="ready"),
        pytest.param(
            "", "ready run", False, "Ready",
            ("False", "ContainersNotReady", "not ready: c1"), id="one is not",
        ),
        pytest.param("", "ok", True, "Ready", ("False", "PodCompleted", None), id="completed"),
        pytest.param("", "bad", True, "ContainersReady", ("False", "PodFailed", None), id="failed"),
        pytest.param(
            "run", "wait", False, "Initialized",
            ("False", "ContainersNotInitialized", "not initialized yet: c0"), id="an init step runs",
        ),
        pytest.param("ok", "run", False, "Initialized", ("True", None, None), id="init steps are done"),
        pytest.param("", "wait", False, "PodScheduled", ("True", None, None), id="it is here"),
    ],
)  # fmt: skip
def test_conditions(inits, mains, final, name, expected):
    assert seen(status(mains, inits, final=final)["conditions"])[name] == expected


def test_a_condition_keeps_the_time_of_its_last_change():
    old = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "before"}]}

    kept = status("ready", old=old)["conditions"][-1]
    changed = status("run", old=old)["conditions"][-1]

    assert (kept["lastTransitionTime"], changed["lastTransitionTime"]) == ("before", "2024-01-01T12:00:00Z")


def test_conditions_of_others_stay_and_gates_hold_back_ready():
    other = {"type": "example.com/gate", "status": "False"}
    gates = {"readinessGates": [{"conditionType": "example.com/gate"}]}

    found = status("ready", old={"conditions": [other]}, spec=gates)["conditions"]

    assert other in found
    assert seen(found)["Ready"][:2] == ("False", "ReadinessGatesNotReady")
    assert seen(found)["ContainersReady"][0] == "True"


def test_a_patch_says_what_differs_and_what_is_gone():
    old = {"phase": "Running", "podIP": "1", "message": "x", "other": 1}

    assert status_patch(old, {"phase": "Failed", "podIP": "1"}) == {"phase": "Failed", "message": None}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}], "BestEffort", id="nothing said"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="something said"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed", id="limits are requests"),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable", id="asks for less"
        ),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable", id="one says nothing"),
        pytest.param([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort", id="only cpu and memory count"),
    ],
)
def test_qos_class(resources, expected):
    pod = {"spec": {"containers": [{"resources": each} for each in resources]}}

    assert qos_class(pod) == expected
