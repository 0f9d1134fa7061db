"""The demo's account: from the training's own log, and not without what was promised."""

import pytest

from trainwright.cli.demo import Broken, Story, account
from trainwright.cli.training import Step, disturbance, gaps, read, steps


def told(*times, loss=lambda number: 10.0 / number, world=lambda number: 2):
    return [Step(number, loss(number), world(number), float(at)) for number, at in enumerate(times, 1)]


def test_both_forms_of_a_step_are_read_and_nothing_else():
    lines = ["step 2 loss 0.5 world 3 time 20.5", "rank 0 starts", "step 1 rank 1 loss 4.0 world 4", "step x loss y"]

    assert steps(lines) == [Step(1, 4.0, 4, 0.0, 1), Step(2, 0.5, 3, 20.5)]


def test_steps_come_from_every_rank_and_restart(tmp_path):
    for place, text in {
        "a-worker-0_u/pytorch/0.log": "step 1 loss 1 world 2 time 1\n",
        "a-worker-1_v/pytorch/1.log": "step 2 loss 1 world 2 time 2\nstep 3 lo",
    }.items():
        path = tmp_path / "logs" / "default" / place
        path.parent.mkdir(parents=True)
        path.write_text(text)

    assert [step.number for step in read(tmp_path)] == [1, 2]


def test_a_disturbance_is_the_pause_beyond_the_usual_one():
    log = told(1, 2, 3, 10, 11, 12)

    found = disturbance(log, since=3.5, until=log[4])

    assert found
    assert (found.before.number, found.after.number, found.seconds) == (3, 4, 6.0)


def test_no_step_after_it_is_no_disturbance():
    log = told(1, 2, 3)

    assert disturbance(log, since=3.5, until=log[-1]) is None


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([1, 2, 3], ""),
        ([1, 3], "steps are missing: 2"),
        ([1, 2, 2], "steps were done twice: 2"),
        ([], ""),
    ],
)
def test_every_step_exactly_once(numbers, words):
    assert gaps([Step(number, 1.0, 2) for number in numbers]) == words


def test_the_account_of_a_demo():
    log = told(1, 2, 3, 10, 11, 14, 15, world=lambda number: 3 if number > 5 else 2)
    story = Story(killed=3.5, trained_again=log[4], asked=11.5, joined=log[5])

    lines = account(log, story, restarts=1)

    assert lines[0].endswith("2 to 3 ranks trained 7 steps, each exactly once")
    assert "loss 10.0000 before, 1.4286 after; 1 restart" in lines[1]
    assert "worker-1 was killed after step 3: no training for 6.0 s" in lines[2]
    assert "it trained 2.5 s later, the others paused 2.0 s for it" in lines[3]
    assert "disturbed for 8.0 s in all" in lines[4]


@pytest.mark.parametrize(
    ("story", "loss", "words"),
    [
        pytest.param(Story(killed=3.5), 1, "the job ended before", id="nothing was done to it"),
        pytest.param(Story(3.5, Step(5, 1, 2, 11), 11.5, Step(6, 1, 3, 12)), -1, "did not fall", id="it did not learn"),
    ],
)
def test_a_promise_that_was_not_kept_is_no_demo(story, loss, words):
    log = told(1, 2, 3, 10, 11, 12, loss=lambda number: 10.0 - number * loss)

    with pytest.raises(Broken, match=words):
        account(log, story, restarts=1)
