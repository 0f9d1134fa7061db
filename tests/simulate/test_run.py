"""Lives of small clusters under the virtual clock, decided by the shipped planner."""

import pytest
from tests.simulate.scenarios import lived

from trainwright.autoscaler import POLICIES
from trainwright.simulate.jobs import speed
from trainwright.simulate.scenario import Speed, Work

WORK = {"steps": 100, "stepSeconds": 1}


def completion(result):
    """Return when the first job had ended."""
    assert result.jobs[0].completion_s is not None, "it has not ended"
    return result.jobs[0].completion_s


def running(result, job=0):
    """Return the sizes a job ran with, from when on."""
    return [(time, int(value)) for time, value in result.jobs[job].running]


def test_without_scaling_a_job_keeps_its_size():
    result = lived("static", jobs__0__elastic__initial=2)

    assert running(result) == [(5, 0), (8, 2)], "placed at 5, running 3 seconds later"
    assert result.figures.resizes == 0
    assert result.jobs[0].strict_ready_s == 3


def test_a_job_grows_into_what_is_free():
    result = lived("fulfilment")

    assert running(result)[-1][1] == 4
    assert result.figures.resizes == 1
    assert "room" in result.resizes[0].change.reason


def test_a_job_never_has_more_than_the_cluster_holds():
    result = lived("fulfilment", jobs__0__elastic__max=50)

    assert max(value for _, value in running(result)) == 9, "two nodes of 10, one with the master: 4 and 5 of 2 cpu"


def test_one_that_arrives_late_gets_its_share_from_the_others():
    apart = {"every": 50}
    result = lived(
        "fulfilment",
        until=200,
        jobs__0__count=2,
        jobs__0__arrives=apart,
        jobs__0__roles=None,
        jobs__0__elastic__max=20,
    )

    assert running(result, 0)[-1][1] == running(result, 1)[-1][1] == 5
    assert result.jobs[1].strict_ready_s == 13, "10 seconds of grace of those who make room, and 3 to start"


@pytest.mark.parametrize(
    ("rest", "moment"),
    [
        pytest.param(0, 58, id="when there is room"),
        pytest.param(60, 93, id="after its rest"),
    ],
)
def test_a_job_that_had_to_shrink_grows_again(rest, moment):
    levels = [{"at": 30, "replicas": 4}, {"at": 45, "replicas": 0}]
    web = {"name": "web", "requests": {"cpu": 2}, "levels": levels, "grace": 10}
    result = lived("fulfilment", jobs__0__elastic__max=9, background=[web], rest=rest)

    assert running(result)[-1] == (moment, 9)


def test_a_job_ends_when_its_steps_are_done():
    result = lived("static", jobs__0__work=WORK, jobs__0__elastic__initial=2)

    assert completion(result) == pytest.approx(3 + 50)
    assert result.figures.completed == 1
    assert result.utilisation[-1][1] == 0, "what it had is free again"


def test_a_job_stands_still_after_a_resize_as_long_as_it_says():
    quick = lived("fulfilment", jobs__0__work=WORK)
    slow = lived("fulfilment", jobs__0__work={**WORK, "pause": 10})

    assert completion(quick) == pytest.approx(3 + 1 + 97 / 4, abs=2)
    assert completion(slow) - completion(quick) == pytest.approx(10, abs=3)


@pytest.mark.parametrize(
    ("replicas", "times"),
    [
        pytest.param(0, 0, id="nobody does nothing"),
        pytest.param(1, 1, id="one is one"),
        pytest.param(2, 1.75, id="between two points lies a straight line"),
        pytest.param(4, 3.25, id="a point is itself"),
        pytest.param(9, 3.25, id="behind the last point nothing is gained"),
    ],
)
def test_speed_against_replicas(replicas, times):
    assert speed(Work(speed=(Speed(1, 1.0), Speed(4, 3.25))), replicas) == times


def test_other_load_is_yielded_to():
    web = {"name": "web", "requests": {"cpu": 2}, "levels": [{"at": 0, "replicas": 0}, {"at": 50, "replicas": 4}]}
    result = lived("fulfilment", jobs__0__elastic__max=50, background=[web])

    assert list(result.loads[0].running[-1]) == [63, 4], "10 seconds of grace, and 3 to start"
    assert result.figures.background_shortfall_pod_s == 4 * 13


def test_other_load_that_has_room_waits_for_nobody():
    web = {"name": "web", "requests": {"cpu": 2}, "levels": [{"at": 50, "replicas": 4}]}

    assert lived("static", background=[web]).figures.background_shortfall_pod_s == 4 * 3


def test_a_lost_node_takes_its_pods_along_and_they_come_back_elsewhere():
    result = lived("static", nodes__0__count=2, jobs__0__elastic__initial=4, outages=[{"at": 30, "nodes": "node"}])

    sizes = [value for _, value in running(result)]
    assert min(sizes[sizes.index(4) :]) < 4
    assert sizes[-1] == 4


def test_a_job_waits_for_a_node_to_return():
    result = lived("fulfilment", nodes__0__count=1, outages=[{"at": 30, "nodes": "node", "back": 60}])

    assert running(result)[-2:] == [(63, 1), (64, 4)], "its minimum first, then what it had"
    assert (30, 0) in running(result)


def test_a_fixed_pod_that_is_lost_stops_the_work():
    outage = [{"at": 20, "nodes": "node", "count": 1, "back": 40}]
    calm = lived("static", nodes__0__count=1, jobs__0__work=WORK, jobs__0__elastic__initial=4)
    struck = lived("static", nodes__0__count=1, jobs__0__work=WORK, jobs__0__elastic__initial=4, outages=outage)

    assert completion(struck) - completion(calm) == pytest.approx(23)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_run(policy):
    changes = {"jobs__0__count": 5, "jobs__0__arrives": {"within": 50}, "jobs__0__work": {**WORK, "spread": 2}}
    first, second, other = (lived(policy, seed, **changes) for seed in (1, 1, 2))

    assert first == second
    assert first != other


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_that_do_not_all_fit_wait_and_nothing_hangs(policy):
    result = lived(policy, jobs__0__count=40, jobs__0__elastic__min=2)

    assert len(result.jobs) == 40
    assert result.figures.jobs_up < 40
    assert all(value <= 4 for job in result.jobs for _, value in job.running)


def test_a_round_is_run_only_when_something_has_changed():
    short, long = lived("fulfilment", until=100), lived("fulfilment", until=100_000)

    assert short.figures.rounds == long.figures.rounds < 10
