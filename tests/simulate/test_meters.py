"""Values over time, and Jain's index."""

import pytest

from trainwright.simulate.meters import Signal, columns, jain


@pytest.fixture
def signal():
    """Return 0 until 10, 4 until 20, then 2."""
    value = Signal()
    value.set(10, 4)
    value.set(20, 2)
    return value


@pytest.mark.parametrize(
    ("window", "mean", "highest"),
    [
        pytest.param((0, 10), 0, 0, id="before it changes"),
        pytest.param((0, 20), 2, 4, id="half of the time 4"),
        pytest.param((15, 25), 3, 4, id="across a change"),
        pytest.param((30, 40), 2, 2, id="long after the last change"),
        pytest.param((20, 20), 2, 2, id="a moment"),
    ],
)
def test_a_signal_is_measured_over_a_part_of_the_run(signal, window, mean, highest):
    assert signal.mean(window) == mean
    assert signal.highest(window) == highest


def test_two_changes_at_one_moment_are_one():
    value = Signal()
    value.set(5, 1)
    value.set(5, 2)

    assert value.steps == [(0.0, 0.0), (5, 2)]


def test_columns_are_means_over_equal_parts(signal):
    assert columns(signal.steps, 40, 8) == [0, 0, 4, 4, 2, 2, 2, 2]
    assert columns(signal.steps, 40, 2) == [2, 2]
    assert columns([(30, 8)], 40, 4) == [0, 0, 0, 8]


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        pytest.param([3, 3, 3], 1, id="all alike"),
        pytest.param([6, 0, 0], 1 / 3, id="one has everything"),
        pytest.param([0, 0], 1, id="nobody has anything"),
        pytest.param([], 1, id="nobody is there"),
    ],
)
def test_jains_index(shares, index):
    assert jain(shares) == pytest.approx(index)
