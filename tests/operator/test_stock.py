"""What is kept up to date change by change is what looking at everything would give."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operator.scaling_world import NOON, node, pytorch_job, volcano_job
from tests.operator.scaling_world import pod as foreign

from trainwright.admission import admit
from trainwright.api import scaling
from trainwright.autoscaler import plan
from trainwright.cluster.base import Change
from trainwright.core.names import (
    JOB_LABEL,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    SCALED_ANNOTATION,
    TASK_INDEX_LABEL,
    TASK_LABEL,
)
from trainwright.core.objects import Object, timestamp
from trainwright.kinds import KINDS, kind_of
from trainwright.operator.stock import Sight, Stock

PHASES = ("Pending", "Running", "Succeeded", "Failed")


def job(make: Any, name: str, size: int, **meta: Any) -> Object:
    obj: Object = admit(make(name, 1, 6, size)).object
    kept = {"uid": f"{obj['kind']}-{name}", "creationTimestamp": timestamp(NOON), **meta}
    return {**obj, "metadata": {**obj["metadata"], **kept}}


def member(kind: str, name: str, index: int, on: str, phase: str, *, going: bool) -> Object:
    of = {"PyTorchJob": (REPLICA_TYPE_LABEL, REPLICA_INDEX_LABEL), "Job": (TASK_LABEL, TASK_INDEX_LABEL)}[kind]
    labels = {JOB_LABEL: name, of[0]: "worker", of[1]: str(index)}
    made = foreign(f"{name}-worker-{index}", "1")
    owner = [{"uid": f"{kind}-{name}", "controller": True}]
    meta = {"namespace": "default", "uid": f"{kind}-{name}-{index}", "labels": labels, "ownerReferences": owner}
    return placed({**made, "metadata": {**made["metadata"], **meta}}, on, phase, going=going)


def placed(pod: Object, on: str, phase: str, *, going: bool) -> Object:
    meta = {"uid": pod["metadata"]["name"], **pod["metadata"], **({"deletionTimestamp": "x"} if going else {})}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": on}, "status": {"phase": phase}}


NODES = st.builds(
    lambda name, cpu, shut: node(name, cpu, unschedulable=shut),
    st.sampled_from("xyz"),
    st.sampled_from("48"),
    st.booleans(),
)
JOBS = st.builds(job, st.sampled_from([pytorch_job, volcano_job]), st.sampled_from("ab"), st.integers(1, 6))
ON = st.sampled_from(["", "x", "y", "gone"])
MEMBERS = st.builds(
    member,
    st.sampled_from(["PyTorchJob", "Job"]),
    st.sampled_from("abc"),
    st.integers(0, 4),
    ON,
    st.sampled_from(PHASES),
    going=st.booleans(),
)
OTHERS = st.builds(
    lambda name, cpu, on, phase, going: placed(foreign(name, cpu), on, phase, going=going),
    st.sampled_from("pqr"),
    st.sampled_from("12"),
    ON,
    st.sampled_from(PHASES),
    st.booleans(),
)


def tell(stock: Stock, change: Change) -> bool:
    if kind_of(change.object):
        return stock.job_changed(change)
    return stock.node_changed(change) if change.object["kind"] == "Node" else stock.pod_changed(change)


def name(obj: Object) -> tuple[str, str]:
    return obj["kind"], obj["metadata"].get("uid") or obj["metadata"]["name"]


def sorted_out(sight: Sight | None) -> Any:
    """Return a sight without the order in which things were heard of."""
    if sight is None:
        return None
    filled: list[tuple[Any, ...]] = [
        (each.name, dict(each.offers), *({k: v for k, v in part.items() if v} for part in (each.used, each.leaving)))
        for each in sight.cluster.nodes
    ]
    waiting = sorted(map(sorted, (each.items() for each in sight.cluster.waiting)))
    jobs = sorted(sight.jobs, key=lambda each: each.key)
    return sorted(filled, key=lambda each: each[0]), waiting, jobs


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.one_of(NODES, JOBS, MEMBERS, OTHERS), st.booleans()), max_size=40))
def test_sums_are_what_counting_everything_gives(told):
    stock = Stock(KINDS)
    there: dict[tuple[str, str], Object] = {}
    for step, (obj, goes) in enumerate(told):
        if goes and name(obj) in there:
            tell(stock, Change("DELETED", there.pop(name(obj))))
        elif not goes:
            tell(stock, Change("MODIFIED" if name(obj) in there else "ADDED", obj))
            there[name(obj)] = obj
        if step % 7 == 0:
            stock.look(NOON)
    fresh = Stock(KINDS)
    for obj in there.values():
        tell(fresh, Change("ADDED", obj))

    assert sorted_out(stock.look(NOON)) == sorted_out(fresh.look(NOON))


def test_jobs_of_two_kinds_may_share_a_name():
    stock = Stock(KINDS)
    for obj in (
        node(),
        job(pytorch_job, "a", 2),
        job(volcano_job, "a", 1),
        member("PyTorchJob", "a", 0, "n", "Running", going=False),
        member("Job", "a", 0, "n", "Running", going=False),
    ):
        tell(stock, Change("ADDED", obj))
    sight = stock.look(NOON)

    assert sight is not None
    assert {each.key: each.places for each in sight.jobs} == {
        "default/a (PyTorchJob)": ("n",),
        "default/a (Job)": ("n",),
    }


@pytest.mark.parametrize(
    ("seconds", "resting"),
    [
        pytest.param(10, True, id="a moment after it was resized it rests"),
        pytest.param(31, False, id="later it does not"),
    ],
)
def test_rest(seconds, resting):
    entry = scaling.annotation(scaling.Scaling(timestamp(NOON), 1, 2, "because"))
    stock = Stock(KINDS, rest=timedelta(seconds=30))
    for obj in (node(), job(pytorch_job, "a", 2, annotations={SCALED_ANNOTATION: entry})):
        tell(stock, Change("ADDED", obj))
    first, later = stock.look(NOON), stock.look(NOON + timedelta(seconds=seconds))

    assert first is not None
    assert first.look_again == NOON + timedelta(seconds=30)
    assert later is not None
    assert later.jobs[0].resting is resting


@pytest.mark.parametrize(
    ("obj", "later", "matters"),
    [
        pytest.param(node(), {"status": {**node()["status"], "images": []}}, False, id="a heartbeat of a node"),
        pytest.param(node(), {"spec": {"unschedulable": True}}, True, id="a node that is cordoned"),
        pytest.param(node(), {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, True, id="a taint"),
        pytest.param(
            job(pytorch_job, "a", 2), {"status": {"active": "1/2"}}, False, id="counts in the status of a job"
        ),
        pytest.param(
            job(pytorch_job, "a", 2),
            {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}},
            True,
            id="the end of a job",
        ),
        pytest.param(
            placed(foreign("p", "1"), "n", "Running", going=False),
            {"status": {"phase": "Running", "podIP": "10.0.0.1"}},
            False,
            id="news of a pod that have nothing to do with room",
        ),
        pytest.param(
            placed(foreign("p", "1"), "n", "Running", going=False),
            {"status": {"phase": "Succeeded"}},
            True,
            id="the end of a pod",
        ),
    ],
)
def test_what_calls_for_a_round(obj, later, matters):
    stock = Stock(KINDS)

    assert tell(stock, Change("ADDED", obj))
    assert tell(stock, Change("MODIFIED", {**obj, **later})) is matters


def test_a_job_whose_pods_wait_beside_free_room_does_not_grow_further():
    """Something keeps them from it that is not looked at: a node selector, an affinity."""
    stock = Stock(KINDS)
    for obj in (
        node(),
        job(pytorch_job, "a", 2),
        member("PyTorchJob", "a", 0, "n", "Running", going=False),
        member("PyTorchJob", "a", 1, "", "Pending", going=False),
    ):
        tell(stock, Change("ADDED", obj))
    sight = stock.look(NOON)

    assert sight is not None
    assert plan(sight.cluster, sight.jobs).changes == ()
