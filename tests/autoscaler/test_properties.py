"""What holds for every cluster and every mix of jobs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.autoscaler.world import World, job

from trainwright.autoscaler import NOWHERE, POLICIES, plan

GPU = "nvidia.com/gpu"
ROUNDS = 3
"""Free room is given, those behind catch up, and grow when the room made for them is free."""
MIXED_ROUNDS = 6
"""With pods of different sizes, the scheduler may put one where the plan had counted on room for another."""


@st.composite
def worlds(draw, gpus=True, alike=False):
    """Draw a cluster where some jobs run already, others are new, and pods of others run and wait."""
    devices = st.integers(0, 4) if gpus else st.just(0)
    offers = {
        f"n{number}": {"cpu": draw(st.integers(0, 16)), "memory": draw(st.integers(0, 32)), GPU: draw(devices)}
        for number in range(draw(st.integers(1, 6)))
    }
    jobs = {}
    common = draw(_unit(gpus)), draw(_range())
    for number in range(draw(st.integers(1, 6))):
        needs, (low, span, size) = common if alike else (draw(_unit(gpus)), draw(_range()))
        gang = draw(st.sampled_from([(), (({"cpu": 1}, 1),), (({"cpu": 4, "memory": 2}, 2),)])) if not alike else ()
        jobs[f"j{number}"] = job(
            f"j{number}",
            needs["cpu"],
            low,
            low + span,
            low if alike else min(low + size, low + span),
            needs=needs,
            gang=gang,
            created=number,
            steady="" if alike else draw(st.sampled_from(["", "", "", "opted out"])),
        )
    waiting = [{"cpu": cpu} for cpu in draw(st.lists(st.integers(1, 6), max_size=4))]
    foreign = {name: {"cpu": draw(st.integers(0, amounts["cpu"]))} for name, amounts in offers.items()}
    world = World(offers, {}, foreign, waiting)
    started = draw(st.integers(0, len(jobs)))
    for key in list(jobs)[:started]:  # some had time to start before the autoscaler looks
        world.jobs[key] = jobs[key]
        world.carry_out(plan(*world.look(), "static"))
    world.jobs.update(jobs | world.jobs)
    return world


def _unit(gpus):
    return st.fixed_dictionaries(
        {"cpu": st.integers(1, 5), "memory": st.integers(0, 6), GPU: st.integers(0, 2) if gpus else st.just(0)}
    )


def _range():
    return st.tuples(st.integers(0, 4), st.integers(0, 12), st.integers(0, 12))


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(world=worlds())
@settings(deadline=None)
def test_every_size_is_within_the_range_and_has_a_reason(policy, world):
    cluster, jobs = world.look()

    for change in plan(cluster, jobs, policy).changes:
        changed = world.jobs[change.job]
        assert changed.elastic
        assert changed.minimum <= change.after <= changed.maximum
        assert change.before == changed.size != change.after
        assert f"from {change.before} to {change.after}: " in change.reason


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(world=worlds())
@settings(deadline=None)
def test_the_same_question_has_the_same_answer_in_any_order(policy, world):
    cluster, jobs = world.look()

    first, again = plan(cluster, jobs, policy), plan(cluster, jobs[::-1], policy)

    assert first.sizes() == again.sizes() == plan(cluster, jobs, policy).sizes()
    assert first.waiting == again.waiting


@given(world=worlds())
@settings(deadline=None)
def test_who_grows_finds_room_on_a_node(world):
    grown = {change.job for change in plan(*world.look()).changes if change.after > change.before}
    fresh = {key for key, each in world.jobs.items() if len(each.places) < each.size}

    world.carry_out(plan(*world.look()))

    if len({tuple(each.unit.requests.items()) for each in world.jobs.values()}) == 1 and not fresh:
        assert all(NOWHERE not in world.jobs[key].places for key in grown)
    for key in grown:
        assert any(
            all(offers.get(name, 0) >= amount for name, amount in world.jobs[key].unit.requests.items())
            for offers in world.offers.values()
        )


@given(world=worlds())
@settings(deadline=None)
def test_an_unchanging_cluster_comes_to_rest_and_stays_there(world):
    seen = []
    for _ in range(MIXED_ROUNDS + 2):
        decision = plan(*world.look())
        seen.append(decision.sizes())
        world.carry_out(decision)

    assert not any(seen[MIXED_ROUNDS:])


@given(world=worlds(gpus=False, alike=True))
@settings(deadline=None)
def test_evening_out_comes_to_rest_while_a_pod_is_stopping_on_every_node(world):
    seen = []
    for _ in range(MIXED_ROUNDS + 2):
        cluster, jobs = world.look()
        decision = plan(replace(cluster, nodes=[_with_one_stopping(node) for node in cluster.nodes]), jobs)
        seen.append(decision.sizes())
        world.carry_out(decision)

    assert not any(seen[MIXED_ROUNDS:])


def _with_one_stopping(node):
    return replace(node, offers={**node.offers, "cpu": node.offers["cpu"] + 1}, leaving={"cpu": 1})


@given(world=worlds(gpus=False, alike=True))
@settings(deadline=None)
def test_equal_jobs_come_to_rest_within_two_rounds(world):
    for _ in range(2):
        world.carry_out(plan(*world.look()))

    assert not plan(*world.look()).changes


@given(world=worlds(gpus=False, alike=True))
@settings(deadline=None)
def test_equal_jobs_that_run_get_equal_shares(world):
    for _ in range(ROUNDS):
        world.carry_out(plan(*world.look()))

    sizes = [each.running for each in world.jobs.values() if each.elastic and each.running >= max(1, each.minimum)]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(world=worlds())
@settings(deadline=None)
def test_nobody_who_has_the_minimum_is_shrunk_below_it_and_pods_of_others_get_what_can_be_freed(world):
    for _ in range(ROUNDS):
        world.carry_out(plan(*world.look()))

    free = world.free()
    for each in world.jobs.values():
        if each.elastic and not each.resizing:
            for place in tuple(each.places)[each.minimum :]:
                if place != NOWHERE:
                    free[place] = {
                        name: amount + each.unit.requests.get(name, 0) for name, amount in free[place].items()
                    }
    for waiting in world.waiting:
        assert not any(all(room.get(name, 0) >= need for name, need in waiting.items()) for room in free.values())


@given(world=worlds(gpus=False, alike=True))
@settings(deadline=None)
def test_who_has_shrunk_does_not_shrink_again_while_its_pods_are_stopping(world):
    cluster, jobs = world.look()
    first = plan(cluster, jobs)
    shrunk = {change.job: change for change in first.changes if change.after < change.before}
    nodes = {node.name: node for node in cluster.nodes}
    for change in shrunk.values():
        leaver = world.jobs[change.job]
        for place in tuple(leaver.places)[change.after :]:
            if place != NOWHERE:
                node, needs = nodes[place], leaver.unit.requests
                used = {name: amount - needs.get(name, 0) for name, amount in node.used.items()}
                leaving = {name: node.leaving.get(name, 0) + amount for name, amount in needs.items()}
                nodes[place] = replace(node, used=used, leaving=leaving)
    after = [_cut(each, shrunk[each.key].after) if each.key in shrunk else each for each in jobs]

    second = plan(replace(cluster, nodes=tuple(nodes.values())), after)

    assert not shrunk.keys() & {change.job for change in second.changes if change.after < change.before}


def _cut(shrunk, size):
    places = tuple(shrunk.places)[:size]
    return replace(shrunk, size=size, places=places, running=len([place for place in places if place != NOWHERE]))
