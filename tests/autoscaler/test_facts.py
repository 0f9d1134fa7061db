"""What is known of the released algorithm, and what a sane one does instead: each row is one whole round.

Amounts are written total/used: thousandths of a cpu, millions of bytes, devices. A job's units are in what is used.
"""

import pytest
from tests.autoscaler.world import job

from trainwright.autoscaler import Ask, Cluster, ElasticJob, Node, plan
from trainwright.autoscaler.draft import Draft
from trainwright.autoscaler.fulfilment import order, score
from trainwright.placement import amounts, plus

MEGA = 10**6
GPU = "nvidia.com/gpu"


def node(cpu="0/0", memory="100000/0", gpu="0/0", name="n"):
    offers, used = {}, {}
    for resource, text, unit in (("cpu", cpu, 1), ("memory", memory, MEGA), (GPU, gpu, 1)):
        offers[resource], used[resource] = (int(number) * unit for number in text.split("/"))
    return Node(name, offers, used)


def unit(cpu, memory=1, gpu=0):
    return {"cpu": cpu, "needs": {"memory": memory * MEGA, GPU: gpu}}


def a(low, high, size, **needs):
    return job("a", low=low, high=high, size=size, on="n", **(needs or unit(1000)))


def b(low, high, size, **needs):
    return job("b", low=low, high=high, size=size, on="n", **(needs or unit(1000)))


BOTH = ("fulfilment", "edl-compat")


@pytest.mark.parametrize(
    ("nodes", "jobs", "load", "policies", "sizes"),
    [
        pytest.param([], [a(1, 2, 2)], 1, BOTH, {}, id="F02 who is at the maximum does not grow"),
        pytest.param(
            [node("3000/100", "1000/100")], [a(1, 2, 1, **unit(1000, 105))], 1, BOTH, {"a": 2}, id="F03 room is used"
        ),
        pytest.param(
            [node("2000/0", "1000/100", "10/0")],
            [a(1, 3, 1, **unit(1000, 11, 1))],
            1,
            BOTH,
            {"a": 3},
            id="F05 who has grown does not shrink at once",
        ),
        pytest.param(
            [node("2000/0", "1000/100", "10/10")],
            [a(1, 3, 1, **unit(1000, 11, 1))],
            1,
            BOTH,
            {},
            id="F06 no GPU is left",
        ),
        pytest.param([node("3000/5000")], [a(1, 3, 3)], 1, BOTH, {"a": 1}, id="F08 the minimum is kept"),
        pytest.param(
            [node("1000/1000", "1000/1000")], [a(1, 3, 1, **unit(1000, 105))], 1, BOTH, {}, id="F10 nothing is left"
        ),
        pytest.param(
            [node("1000/0", "1000/1000", "10/0")],
            [a(1, 3, 1, **unit(1000, 1, 1))],
            1,
            BOTH,
            {},
            id="F11 no memory is left",
        ),
        pytest.param(
            [node("4000/1000", "1000/100", "10/8")],
            [a(1, 3, 1, **unit(1000, 105))],
            1,
            BOTH,
            {"a": 3},
            id="F12 GPUs do not matter to who needs none",
        ),
        pytest.param([node("3000/3000")], [a(1, 3, 3)], 0.8, BOTH, {"a": 2}, id="F14 above the load jobs shrink"),
        pytest.param(
            [node("2000/990", "1000/0", "10/9")],
            [a(1, 3, 1, **unit(1000, 1, 1))],
            1,
            BOTH,
            {"a": 2},
            id="F16 the last GPU",
        ),
        pytest.param(
            [node("10000/14000")],
            [a(1, 10, 8), b(1, 10, 4)],
            1,
            ["edl-compat"],
            {"a": 6, "b": 2},
            id="F28 all lose alike",
        ),
        pytest.param(
            [node("10000/14000")],
            [a(1, 10, 8), b(1, 10, 4)],
            1,
            ["fulfilment"],
            {"a": 4},
            id="F28 the most fulfilled loses",
        ),
        pytest.param(
            [node("62000/42000")],
            [a(2, 60, 2), b(2, 60, 40)],
            1,
            ["edl-compat"],
            {"a": 12, "b": 50},
            id="F29 all gain alike",
        ),
        pytest.param(
            [node("62000/42000")],
            [a(2, 60, 2), b(2, 60, 40)],
            1,
            ["fulfilment"],
            {"a": 22},
            id="F29 the least fulfilled gains",
        ),
        pytest.param(
            [node("10000/5000"), *(node("4000/0", name=f"m{i}") for i in range(23))],
            [a(1, 10, 1, **unit(5000))],
            1,
            ["edl-compat"],
            {"a": 10},
            id="F31 one node with room for one unit lets all grow",
        ),
        pytest.param(
            [node("10000/5000"), *(node("4000/0", name=f"m{i}") for i in range(23))],
            [a(1, 10, 1, **unit(5000))],
            1,
            ["fulfilment"],
            {"a": 2},
            id="F31 a node is filled once",
        ),
        pytest.param(
            [node("4000/0", name=f"m{i}") for i in range(20)],
            [a(1, 10, 1, **unit(5000))],
            1,
            BOTH,
            {},
            id="F32 room on many nodes is no room for one unit",
        ),
        pytest.param([node("99000/6000")], [a(1, 3, 6)], 1, BOTH, {"a": 3}, id="F33 the maximum is kept"),
        pytest.param([node("10000/3000")], [a(5, 10, 3)], 1, BOTH, {"a": 10}, id="F35 growth begins below the minimum"),
        pytest.param([node("10000/3000")], [a(3, 3, 3)], 1, BOTH, {}, id="F36 who is not elastic is not planned for"),
        pytest.param(
            [node("99000/0", gpu="10/9")],
            [a(1, 10, 9, **unit(1000, 1, 1))],
            1,
            BOTH,
            {"a": 10},
            id="F37 all GPUs are used",
        ),
        pytest.param(
            [node("99000/0", gpu="10/9")],
            [a(1, 10, 9, **unit(1000, 1, 1))],
            0.97,
            BOTH,
            {"a": 10},
            id="F37 the load is not about GPUs, and the round ends",
        ),
    ],
)
def test_facts(nodes, jobs, load, policies, sizes):
    for policy in policies:
        assert plan(Cluster(nodes, max_load=load), jobs, policy).sizes() == sizes, policy


def test_f01_quantities_are_whole_numbers():
    assert amounts({"cpu": "1k", "memory": "100Mi", GPU: 10}) == {"cpu": 1_000_000, "memory": 104_857_600, GPU: 10}


@pytest.mark.parametrize(
    ("ask", "devices"),
    [
        pytest.param(Ask({GPU: 1}), 1, id="a request"),
        pytest.param(Ask({}, {GPU: 1}), 1, id="a limit"),
        pytest.param(Ask({"cpu": 1000}), 0, id="no GPU"),
        pytest.param(Ask({}), 0, id="nothing"),
    ],
)
def test_f20_f23_a_job_needs_gpus_if_its_units_ask_for_one(ask, devices):
    assert Draft(Cluster(()), ()).shape(ask).devices == devices


def test_f22_what_one_side_lacks_counts_as_nothing():
    held = amounts({"cpu": "200m", "memory": "500Mi"})

    assert plus(held, amounts({"cpu": "200m", "memory": "500Mi", GPU: 8})) == amounts(
        {"cpu": "400m", "memory": "1000Mi", GPU: 8}
    )


@pytest.mark.parametrize(("low", "high", "elastic"), [(0, 0, False), (1, 2, True), (2, 2, False)])
def test_f24_a_job_is_elastic_if_its_minimum_is_below_its_maximum(low, high, elastic):
    assert ElasticJob("a", Ask({}), low, high, low).elastic is elastic


def test_f25_all_of_the_nodes_may_be_used_unless_said_otherwise():
    assert Cluster(()).max_load == 1.0


@pytest.mark.parametrize(
    ("cpu", "memory", "sizes"),
    [
        pytest.param(1735, 1825, {"a": 1}, id="what is left of 2000 and 1993 fits"),
        pytest.param(1736, 1825, {}, id="a thousandth of a cpu too much"),
        pytest.param(1735, 1826, {}, id="too much memory"),
    ],
)
def test_f26_what_is_idle_is_what_is_offered_less_what_is_requested(cpu, memory, sizes):
    nodes = [node("2000/265", "1993/168")]

    assert plan(Cluster(nodes), [a(0, 1, 0, **unit(cpu, memory))]).sizes() == sizes


@pytest.mark.parametrize(
    ("low", "high", "size", "expected"), [(1, 2, 2, 1.0), (1, 2, 1, 0.0), (1, 3, 2, 0.5), (2, 2, 2, 1.0)]
)
def test_f17_the_score(low, high, size, expected):
    assert score(low, high, size) == expected


def test_f19_the_least_fulfilled_come_first_and_who_is_not_elastic_not_at_all():
    jobs = [job("a", 1, 1, 2, 2), job("b", 1, 1, 20, 2), job("c", 1, 1, 10, 2), job("d", 1, 1, 1, 2)]

    assert [each.key for each in order(jobs)] == ["b", "c", "a"]


def test_equally_fulfilled_jobs_are_ordered_by_gpu_then_cpu_then_memory():
    jobs = [
        job("gpu", 1, 1, 2, needs={GPU: 1}),
        job("cpu", 2, 1, 2, needs={"memory": 1}),
        job("memory", 1, 1, 2, needs={"memory": 2}),
        job("light", 1, 1, 2, needs={"memory": 1}),
    ]

    assert [each.key for each in order(jobs)] == ["light", "memory", "cpu", "gpu"]


def test_static_changes_nothing():
    assert plan(Cluster([node("99000/0")]), [a(1, 9, 1)], "static").changes == ()


def test_growth_counts_limits_and_nodes_count_requests():
    wide = job("a", 1000, 1, 9, 1, on="n", limits={"cpu": 2000})

    assert plan(Cluster([node("8000/1000")]), [wide]).sizes() == {"a": 4}


def test_an_ask_without_limits_counts_its_requests():
    assert Ask({"cpu": 1}).limits == {}
    assert plan(Cluster([node("8000/1000")]), [a(1, 9, 1)]).sizes() == {"a": 8}
