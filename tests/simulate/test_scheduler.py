"""The model of the stock scheduler, and the clock it runs by."""

from functools import partial
from random import Random

import pytest

from trainwright.simulate.clock import Clock, Ticker, Turn
from trainwright.simulate.scheduler import Scheduler
from trainwright.simulate.world import World


@pytest.fixture
def world():
    return World(["cpu"])


def scheduler(world, *nodes, shuffled=False):
    for index, cpu in enumerate(nodes):
        world.add_node(f"node-{index}", (cpu,), (0,))
    return Scheduler(world, Random(1), 100, shuffled=shuffled)


def pod(world, cpu):
    return world.create((cpu,), 3.0, 10.0, 0.0, lambda pod: None)


def placed(made):
    return [(each.order, node.name) for each, node in made.place()]


@pytest.mark.parametrize(
    ("nodes", "pods", "places"),
    [
        pytest.param([10, 20], [4], ["node-1"], id="a pod goes where the largest share stays free"),
        pytest.param([10, 10], [4, 4], {"node-0", "node-1"}, id="two pods are spread"),
        pytest.param([3, 5], [4], ["node-1"], id="a node that does not hold it is left out"),
        pytest.param([3], [4, 2], ["node-0"], id="a pod that fits passes one that does not"),
        pytest.param([4], [4, 4], ["node-0"], id="first come, first served"),
        pytest.param([3], [4], [], id="what fits nowhere waits"),
    ],
)
def test_a_pass_over_the_waiting_pods(world, nodes, pods, places):
    made = scheduler(world, *nodes)
    for cpu in pods:
        made.add(pod(world, cpu))

    found = [name for _, name in placed(made)]

    assert type(places)(found) == places


def test_room_of_a_pod_that_leaves_is_free_when_it_is_gone(world):
    made = scheduler(world, 4)
    first, second = pod(world, 4), pod(world, 4)
    made.add(first)
    made.place()
    made.add(second)
    world.leave(first)
    made.touch(world.nodes[0])
    assert made.place() == []

    world.remove(first)
    made.touch(world.nodes[0])

    assert placed(made) == [(second.order, "node-0")]


def test_in_random_order_the_last_may_be_first(world):
    made = scheduler(world, 1, shuffled=True)
    for _ in range(50):
        made.add(pod(world, 1))

    assert [order for order, _ in placed(made)] != [1]


def test_things_of_one_moment_take_their_turns_and_nothing_happens_at_the_end():
    clock = Clock()
    seen: list[object] = []
    for turn in (Turn.SCHEDULER, Turn.WORLD, Turn.AUTOSCALER):
        clock.at(5, partial(seen.append, turn), turn)
    clock.at(10, lambda: seen.append("never"))

    clock.run(10)

    assert seen == [Turn.WORLD, Turn.AUTOSCALER, Turn.SCHEDULER]
    assert clock.now == 10


def test_a_ticker_runs_on_its_grid_once_per_wake():
    clock, seen = Clock(), []
    ticker = Ticker(clock, 5, lambda: seen.append(clock.now), Turn.AUTOSCALER)
    for time in (1, 2, 5, 12):
        clock.at(time, ticker.wake)

    clock.run(100)

    assert seen == [5, 15], "woken at 1, 2 and 5 it runs at 5; woken at 12 it runs at 15"
