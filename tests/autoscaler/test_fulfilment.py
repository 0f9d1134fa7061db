"""The default policy, sentence by sentence."""

from dataclasses import replace

import pytest
from tests.autoscaler.world import World, job

from trainwright.autoscaler import NOWHERE, Ask, Cluster, Fixed, Node, plan

GPU = "nvidia.com/gpu"
AHEAD = (*["large"] * 5, "small", "small", *["large"] * 3)
"""Where the units of a job are that has more than its share."""


@pytest.mark.parametrize(
    ("jobs", "sizes"),
    [
        pytest.param(
            [job("a", 1, 1, 8, 2, on=("n",)), job("b", 10, 1, 1)], {}, id="nobody grows while a minimum waits"
        ),
        pytest.param([job("a", 1, 1, 8, 2, on=("n",)), job("b", 11, 1, 1)], {"a": 8}, id="unless it waits for ever"),
        pytest.param(
            [job("a", 1, 1, 8, 2, on=("n",)), job("b", 0, 1, 1, needs={"gpu": 1})], {"a": 8}, id="or for something else"
        ),
        pytest.param(
            [replace(job("a", 1, 1, 8, 4, on=("n", "n", NOWHERE)), running=2), job("b", 10, 1, 1)],
            {"a": 2},
            id="who was to grow and waits behind it is taken back",
        ),
        pytest.param(
            [job("a", 1, 1, 9, 9, on=("n",)), job("b", 6, 1, 1), job("c", 10, 1, 1, created=-1)],
            {},
            id="and nobody makes room for those behind it",
        ),
        pytest.param(
            [job("a", 1, 1, 9, 9, on=("n",)), job("b", 6, 1, 1), job("c", 6, 1, 1, created=1, priority=1)],
            {"a": 4},
            id="room is made for the more urgent",
        ),
    ],
)
def test_in_the_order_of_a_queue(jobs, sizes):
    used = sum(1 for each in jobs for place in each.places if place)
    decided = plan(Cluster([Node("n", {"cpu": 10, "gpu": 1}, {"cpu": used, "gpu": 1})], in_turn=True), jobs)

    assert decided.sizes() == sizes


def node(name, cpu, used=0, leaving=0, gpu=0):
    return Node(name, {"cpu": cpu, GPU: gpu}, {"cpu": used}, {"cpu": leaving})


@pytest.mark.parametrize(
    ("nodes", "waiting", "jobs", "sizes"),
    [
        pytest.param(
            [node("n", 10)], (), [job("a", 1, 1, 8)], {"a": 8}, id="a new job that fits gets all it can have at once"
        ),
        pytest.param(
            [node("n", 10)],
            (),
            [job("a", 1, 1, 8, gang=[({"cpu": 1}, 2)])],
            {},
            id="a job does not grow before its fixed pods have a place",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            (),
            [job("a", 1, 1, 9, 4, on="n"), job("b", 1, 1, 9, created=1)],
            {"a": 2},
            id="a new job's minimum and its share are taken from who has more",
        ),
        pytest.param(
            [node("large", 9, used=9), node("small", 2, used=2)],
            (),
            [job("a", 1, 1, 19, 10, on=AHEAD), job("b", 1, 1, 19, 1, on=("large",))],
            {"a": 6},
            id="who is ahead gives up places wherever they are",
        ),
        pytest.param(
            [node("large", 10, used=9, leaving=1), node("small", 2, used=2)],
            (),
            [job("a", 1, 1, 19, 10, on=AHEAD), job("b", 1, 1, 19, 1, on=("large",))],
            {"a": 7},
            id="while pods are stopping, places on larger nodes are given up first",
        ),
        pytest.param(
            [node("large", 10, used=6, leaving=4), node("small", 2, used=2)],
            (),
            [job("a", 1, 1, 19, 7, on=AHEAD), job("b", 1, 1, 19, 1, on=("large",))],
            {"a": 6},
            id="when only places on small nodes are left, these",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            (),
            [job("a", 1, 1, 9, 4, on="n"), job("b", 1, 3, 9, created=1)],
            {"a": 1},
            id="nothing is left but the minimums",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            (),
            [job("a", 1, 2, 9, 4, on="n"), job("b", 1, 3, 9, created=1)],
            {},
            id="nobody shrinks for a minimum that cannot be met even so",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            [{"cpu": 3}],
            [job("a", 1, 1, 9, 4, on="n")],
            {"a": 1},
            id="a pod of others is yielded to",
        ),
        pytest.param(
            [node("n", 12, used=12)],
            [{"cpu": 1}] * 2,
            [job("a", 1, 1, 12, 12, on="n")],
            {"a": 10},
            id="few pods of others get what they ask for",
        ),
        pytest.param(
            [node("n", 12, used=12)],
            [{"cpu": 1}] * 6,
            [job("a", 1, 1, 12, 12, on="n")],
            {"a": 4},
            id="where many wait, room is made for one more for every three of them",
        ),
        pytest.param(
            [node("n", 18, used=12)],
            [{"cpu": 1}] * 6,
            [job("a", 1, 1, 12, 12, on="n")],
            {},
            id="no more are expected than wait if those find room",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            [{"cpu": 5}],
            [job("a", 1, 1, 9, 4, on="n")],
            {},
            id="nobody yields to a pod that no node can hold",
        ),
        pytest.param(
            [node("n", 4, used=1, leaving=3)],
            [{"cpu": 3}],
            [job("a", 1, 1, 9, 1, on="n")],
            {},
            id="who is stopping is counted as gone, so nobody shrinks twice",
        ),
        pytest.param(
            [node("n", 4, used=1, leaving=3)],
            (),
            [job("a", 1, 1, 9, 1, on="n")],
            {},
            id="nobody grows into room that is still held",
        ),
        pytest.param(
            [node("n", 4, used=1, leaving=2)],
            (),
            [job("a", 1, 1, 9, 1, on="n")],
            {"a": 2},
            id="what is free beside those who are stopping is used",
        ),
        pytest.param(
            [node("n", 6, used=2)],
            (),
            [job("a", 1, 1, 9, 1, on="n"), replace(job("b", 1, 1, 9, 1, on="n"), resizing=True)],
            {"a": 5},
            id="a job with a resize in flight is left alone",
        ),
        pytest.param(
            [node("n", 6, used=2)],
            (),
            [job("a", 1, 1, 9, 1, on="n"), replace(job("b", 1, 1, 9, 1, on="n"), size=3, resizing=True)],
            {"a": 3},
            id="what a resize in flight will bring keeps its room",
        ),
        pytest.param(
            [node("n", 6, used=2)],
            (),
            [job("a", 1, 1, 9, 1, on="n"), replace(job("b", 1, 1, 9, 1, on="n"), resting=True)],
            {"a": 5},
            id="a job that rests does not grow",
        ),
        pytest.param(
            [node("n", 6, used=6)],
            [{"cpu": 1}],
            [replace(job("a", 1, 1, 9, 6, on="n"), resting=True)],
            {"a": 5},
            id="a job that rests shrinks",
        ),
        pytest.param(
            [node("n", 6, used=6)],
            [{"cpu": 1}],
            [replace(job("a", 1, 1, 9, 6, on="n"), steady="opted out")],
            {},
            id="a job that opted out keeps its size",
        ),
        pytest.param(
            [node("n", 3, used=3)],
            (),
            [replace(job("a", 1, 1, 9, 5, on="n"), places=("n", "n", "n", NOWHERE, NOWHERE), running=3)],
            {"a": 3},
            id="units for which there is no room are given up",
        ),
        pytest.param(
            [node("n", 5, used=3)],
            (),
            [replace(job("a", 1, 1, 9, 5, on="n"), places=("n", "n", "n", NOWHERE, NOWHERE), running=3)],
            {},
            id="units that have room are waited for",
        ),
        pytest.param(
            [node("m", 6, used=6), node("n", 6, used=5)],
            [{"cpu": 4}],
            [
                job("a", 3, 1, 9, 2, on=("m", "m")),
                job("b", 3, 1, 9, 2, on=("n", "n")),
            ],
            {"b": 1},
            id="of equals the one gives whose hole fits who waits",
        ),
        pytest.param(
            [node("m", 2, used=2), node("n", 2, used=2)],
            [{"cpu": 2}],
            [job("a", 1, 1, 9, 2, on=("m", "n")), job("b", 1, 1, 9, 2, on=("m", "n"))],
            {"a": 1, "b": 1},
            id="two give together when no single hole is enough",
        ),
        pytest.param(
            [node("n", 8, gpu=2)],
            (),
            [job("a", 1, 1, 9, needs={GPU: 1}), job("b", 1, 3, 9, needs={GPU: 1}, created=1)],
            {"a": 2},
            id="a GPU job whose minimum cannot be met waits",
        ),
    ],
)
def test_sizes(nodes, waiting, jobs, sizes):
    assert plan(Cluster(nodes, waiting), jobs).sizes() == sizes


@pytest.mark.parametrize(
    ("nodes", "waiting", "jobs", "reason"),
    [
        pytest.param(
            [node("n", 4, used=4)],
            (),
            [job("a", 1, 1, 4, 4, on="n"), job("b", 1, 3, 3, created=1)],
            "shrinks from 4 to 1: job b's minimum of 3 is not met",
            id="a minimum",
        ),
        pytest.param(
            [node("n", 4, used=4)],
            [{"cpu": 1}],
            [job("a", 1, 1, 9, 4, on="n")],
            "shrinks from 4 to 3: pods of others wait for room",
            id="pods of others",
        ),
        pytest.param(
            [node("n", 8, used=8)],
            (),
            [job("a", 1, 2, 9, 6, on="n"), job("b", 1, 2, 9, 2, on="n")],
            "shrinks from 6 to 4: job b has less of its range (2 of 2 to 9)",
            id="a job that is behind",
        ),
        pytest.param(
            [node("n", 9, used=1)],
            (),
            [job("a", 1, 1, 4, 1, on="n")],
            "grows from 1 to 4: there is room for it",
            id="room",
        ),
        pytest.param(
            [node("n", 9, used=1)],
            (),
            [job("a", 1, 3, 4, 1, on="n", resting=True)],
            "grows from 1 to 3: its minimum is 3",
            id="its minimum",
        ),
        pytest.param(
            [node("n", 9, used=6)],
            (),
            [job("a", 1, 1, 4, 6, on="n")],
            "shrinks from 6 to 4: its maximum is 4",
            id="its maximum",
        ),
        pytest.param(
            [node("n", 1, used=1)],
            (),
            [replace(job("a", 1, 1, 4, 2, on="n"), places=("n", NOWHERE), running=1)],
            "shrinks from 2 to 1: no node has room for the others",
            id="no room",
        ),
    ],
)
def test_every_change_says_why(nodes, waiting, jobs, reason):
    assert plan(Cluster(nodes, waiting), jobs).changes[0].reason == reason


@pytest.mark.parametrize(
    ("nodes", "jobs", "sentence"),
    [
        pytest.param(
            [node("n", 4000, used=2000)],
            [job("a", 1000, 2, 9, 2, on="n"), job("b", 1000, 3, 9)],
            "its minimum of 3 is not met: it needs cpu 3, but only 2 of 4 can be had",
            id="too little in sum",
        ),
        pytest.param(
            [node("m", 2000), node("n", 2000)],
            [job("b", 3000, 1, 9)],
            "its minimum of 1 is not met: no node can be freed for a pod with cpu 3",
            id="too little on each node",
        ),
        pytest.param(
            [node("n", 2000, leaving=2000)],
            [job("b", 1000, 2, 9)],
            "its minimum of 2 waits until pods that are stopping have left",
            id="soon",
        ),
        pytest.param(
            [node("n", 2000)],
            [job("b", 1000, 1, 9, needs={"example.com/fpga": 1})],
            "its minimum of 1 is not met: it needs example.com/fpga 1, but only 0 of 0 can be had",
            id="a resource that no node has",
        ),
    ],
)
def test_who_waits_is_told_what_for(nodes, jobs, sentence):
    assert plan(Cluster(nodes), jobs).waiting == {"b": sentence}


@pytest.mark.parametrize("policy", ["fulfilment", "edl-compat"])
@pytest.mark.parametrize(
    ("nodes", "strange"),
    [
        pytest.param([node("n", 9)], job("a", 1, 5, 2), id="a minimum above the maximum"),
        pytest.param([node("n", 9)], job("a", 1, -5, 2, 0), id="a minimum below nothing"),
        pytest.param([node("n", 9)], job("a", -1, 1, 2), id="an amount below nothing"),
        pytest.param([node("n", 9)], job("a", 1, 1, 10**12), id="a huge maximum"),
        pytest.param([node("n", 10**18)], job("a", 1, 1, 10**12), id="a huge maximum with room for it"),
        pytest.param([node("n", 10**18)], job("a", 1, 10**12, 10**13), id="a huge minimum"),
        pytest.param([node("n", 9)], job("a", 0, 1, 10**12), id="units that ask for nothing"),
        pytest.param([node("n", 0)], job("a", 1, 1, 2), id="a node that offers nothing"),
        pytest.param([], job("a", 1, 1, 2), id="no nodes"),
        pytest.param([node("n", 9)], job("a", 1, 1, 4, 2, on=("gone",)), id="units on a node that takes no pods"),
    ],
)
def test_strange_input_ends_in_the_range(nodes, strange, policy):
    for change in plan(Cluster(nodes), [strange, replace(strange, key="b")], policy).changes:
        assert strange.minimum <= change.after <= strange.maximum


def test_a_steady_stream_of_jobs_shares_a_full_cluster_evenly():
    world = World({f"n{i}": {"cpu": 12} for i in range(10)}, {})
    for number in range(5):
        world.jobs[f"j{number}"] = job(f"j{number}", 3, 1, 40, gang=[({"cpu": 4}, 2)], created=number)
        for _ in range(4):
            world.carry_out(plan(*world.look()))

    sizes = [each.running for each in world.jobs.values()]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 4
    assert all(len(world.fixed[key]) == 2 for key in world.jobs)


def test_fixed_pods_count_with_their_limits():
    fixed = (Fixed(Ask({"cpu": 1}, {"cpu": 4}), 1, bound=1),)

    assert plan(Cluster([node("n", 8, used=2)]), [replace(job("a", 1, 1, 9, 1, on="n"), fixed=fixed)]).sizes() == {
        "a": 4
    }
