"""How fast a training goes, read from what it prints."""

import pytest

from trainwright.cli.steps import Progress, count, progress


@pytest.mark.parametrize(
    ("line", "step"),
    [
        pytest.param("step 120 loss 0.31", 120, id="a step"),
        pytest.param("Step: 120/5000, loss 0.3", 120, id="of so many"),
        pytest.param("epoch 3 global_step=120", 120, id="a global step"),
        pytest.param("Iteration [ 120/5000]", 120, id="an iteration in brackets"),
        pytest.param("iter 120 | 0.35 s", 120, id="an iter"),
        pytest.param("{'loss': 0.3, 'step': 120}", None, id="a dictionary is left alone"),
        pytest.param(" 24%|██▍  | 120/500 [00:37<01:58, 3.21it/s]", 120, id="a progress bar"),
        pytest.param("epoch 3 loss 0.3", None, id="an epoch is no step"),
        pytest.param("step 0.35s", None, id="a duration is no step"),
        pytest.param("took 3 steps back in 2014", None, id="a number before the word"),
        pytest.param("stepping 5", None, id="another word"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_step_of_a_line(line, step):
    assert count(line) == step


def at(second: float, text: str) -> str:
    return f"2026-01-31T12:00:{second:06.3f}Z {text}"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param([], Progress(), id="nothing was printed"),
        pytest.param([at(1, "hello")], Progress(), id="no steps are told"),
        pytest.param([at(1, "step 5")], Progress(5), id="one step tells no speed"),
        pytest.param([at(1, "step 5"), at(1.1, "step 6")], Progress(6), id="too close together"),
        pytest.param([at(1, "step 5"), at(2, "x"), at(3, "step 9")], Progress(9, 2.0), id="steps in a second"),
        pytest.param(
            [at(1, "step 90"), at(2, "step 1"), at(4, "step 5")], Progress(5, 2.0), id="a new epoch counts anew"
        ),
        pytest.param(["no time step 5"], Progress(), id="a line without a time"),
    ],
)
def test_progress(lines, told):
    assert progress(lines) == told
