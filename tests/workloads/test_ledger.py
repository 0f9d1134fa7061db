"""Whatever happens, in whatever order: the ledger knows what a look at everything would show."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.cluster.base import Change
from trainwright.core.names import GANG_GATE, GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.objects import Object
from trainwright.workloads.ledger import Ledger

NODES = ("a", "b", "c")
PODS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([f"p{number}" for number in range(6)]),
        "gang": st.sampled_from(["", "x", "y"]),
        "node": st.sampled_from(["", *NODES]),
        "cpu": st.integers(1, 3),
        "gated": st.booleans(),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded"]),
        "leaving": st.booleans(),
        "taint": st.sampled_from(["", "gpu"]),
    }
)
STEPS = st.lists(
    st.one_of(
        PODS.map(lambda facts: ("pod", facts)),
        st.sampled_from([f"p{number}" for number in range(6)]).map(lambda name: ("gone", name)),
        st.tuples(st.sampled_from(NODES), st.sampled_from(["", "gpu"])).map(lambda each: ("node", each)),
        st.sampled_from(NODES).map(lambda name: ("node gone", name)),
    ),
    max_size=25,
)


def pod(facts: Any) -> Object:
    meta: Object = {"name": facts["name"], "namespace": "ns", "uid": facts["name"]}
    if facts["gang"]:
        meta |= {"labels": {GANG_LABEL: facts["gang"]}, "annotations": {GANG_MIN_ANNOTATION: "2"}}
    if facts["leaving"]:
        meta["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    spec = {
        "containers": [{"resources": {"requests": {"cpu": facts["cpu"]}}}],
        "nodeName": facts["node"],
        "schedulingGates": [{"name": GANG_GATE}] if facts["gated"] else [],
        "tolerations": [{"key": facts["taint"], "operator": "Exists"}] if facts["taint"] else [],
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": facts["phase"]}}


def node(name: str, taint: str) -> Object:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": "8"}, "conditions": ready}
    return {"metadata": {"name": name}, "spec": {"taints": taints}, "status": status}


def seen(ledger: Ledger) -> tuple[Any, ...]:
    """Return everything that a look is decided by."""
    members = sorted(ledger.members(), key=lambda each: each.uid)
    room = ledger.room()
    assert room
    places = {each.uid: room.takers(each) for each in members if each.homeless}
    free = {name: {each: amount for each, amount in left.items() if amount} for name, left in room.free.items()}
    return members, free, places


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_sums_are_those_of_what_there_is(steps):
    ledger, pods, nodes = Ledger(), {}, {}
    for what, facts in steps:
        if what == "pod":
            known = facts["name"] in pods
            pods[facts["name"]] = pod(facts)
            ledger.pod_changed(Change("MODIFIED" if known else "ADDED", pods[facts["name"]]))
        elif what == "node":
            nodes[facts[0]] = node(*facts)
            ledger.node_changed(Change("MODIFIED", nodes[facts[0]]))
        elif what == "gone" and facts in pods:
            ledger.pod_changed(Change("DELETED", {"metadata": pods.pop(facts)["metadata"]}))
        elif what == "node gone" and facts in nodes:
            ledger.node_changed(Change("DELETED", nodes.pop(facts)))

    anew = Ledger()
    for each in pods.values():
        anew.pod_changed(Change("ADDED", each))
    for each in nodes.values():
        anew.node_changed(Change("ADDED", each))
    assert seen(ledger) == seen(anew)


def gates(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    return {each.uid: each.gates for each in ledger.members()}


def test_a_pod_that_was_let_in_counts_as_such_before_the_cache_shows_it():
    facts = {"gang": "x", "node": "", "cpu": 1, "gated": True, "phase": "Pending", "leaving": False, "taint": ""}
    ledger = Ledger()
    ledger.pod_changed(Change("ADDED", pod({**facts, "name": "p"})))
    ledger.let_in("p")

    assert gates(ledger) == {"p": ()}
    ledger.pod_changed(Change("MODIFIED", pod({**facts, "name": "p", "cpu": 2})))  # an older change arrives late
    assert gates(ledger) == {"p": ()}
    ledger.kept_out("p")
    assert gates(ledger) == {"p": (GANG_GATE,)}


def test_only_what_may_matter_calls_for_a_look():
    facts = {"name": "p", "gang": "x", "node": "", "cpu": 1, "gated": True, "leaving": False, "taint": ""}
    ledger = Ledger()
    waiting = pod({**facts, "phase": "Pending"})

    assert ledger.pod_changed(Change("ADDED", waiting))
    assert not ledger.pod_changed(Change("MODIFIED", {**waiting, "status": {"phase": "Pending", "message": "waits"}}))
    assert ledger.node_changed(Change("ADDED", node("a", "")))
    assert not ledger.node_changed(Change("MODIFIED", {**node("a", ""), "images": []}))
    assert ledger.node_changed(Change("MODIFIED", node("a", "gpu")))
