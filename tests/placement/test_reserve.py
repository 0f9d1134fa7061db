"""What may be taken without anybody ahead ever missing it, checked against every selection of pods that may stay."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.placement.reserve import Reserve

AMOUNTS = st.lists(st.integers(0, 6), max_size=5)


def allowed(offered: int, held: list[int], ahead: list[list[int]], taken: int = 0) -> int:
    """Return how much somebody behind may take, after somebody else took something."""
    kept = Reserve({"cpu": offered}, [{"cpu": each} for each in held])
    for pods in ahead:
        kept.keep_for("a", [{"cpu": each} for each in pods])
    if taken:
        kept.take({"cpu": taken})
    return kept.within({"cpu": offered})["cpu"]


@pytest.mark.parametrize(
    ("offered", "held", "ahead", "limit"),
    [
        pytest.param(10, [9], [], 10, id="everything while nobody is ahead"),
        pytest.param(10, [9], [[8]], 2, id="what is left beside one who needs others gone"),
        pytest.param(10, [4, 4], [[6]], 0, id="nothing where one of those that stay makes it exact"),
        pytest.param(10, [4, 3], [[5]], 1, id="what is left beside the largest that may stay"),
        pytest.param(10, [4, 3, 2], [[5]], 0, id="or the largest sum of them"),
        pytest.param(10, [9], [[8], [7]], 2, id="of several ahead each counts"),
        pytest.param(10, [9], [[8], [2]], 0, id="with those ahead of it that may stay"),
        pytest.param(10, [9], [[4, 4]], 2, id="a gang counts as a whole"),
        pytest.param(10, [], [[0]], 10, id="who asks for nothing misses nothing"),
        pytest.param(10, [12], [[8]], 2, id="who holds more than is offered is beside nobody"),
    ],
)
def test_limits(offered, held, ahead, limit):
    assert allowed(offered, held, ahead) == limit


@given(st.integers(1, 12), AMOUNTS, AMOUNTS, st.integers(1, 12), st.integers(0, 3))
def test_whoever_stays_those_ahead_fit_as_before(offered, held, earlier, needed, taken):
    ahead = [[each] for each in earlier] + [[needed]]
    if needed > offered or taken > allowed(offered, held, ahead):
        return
    more = allowed(offered, held, ahead, taken)
    others = [*held, *earlier, taken]
    for size in range(len(others) + 1):
        for staying in combinations(others, size):
            fits = sum(staying) + needed <= offered
            assert not fits or sum(staying) + needed + more <= offered


def test_of_amounts_that_are_too_fine_to_add_up_any_sum_is_possible():
    assert allowed(10_000_019, [4_000_001, 3_000_000], [[5_000_000]]) == 0
    assert allowed(10_000_019, [1_000_001], [[5_000_000]]) == 4_000_018


def test_who_may_be_elsewhere_too_leaves_nothing_of_what_nodes_are_chosen_by():
    kept = Reserve({"cpu": 10, "pods": 5}, [{"cpu": 1, "pods": 1}])

    kept.keep_for("a", [{"cpu": 2, "pods": 1}], only_here=False)

    assert kept.within({"cpu": 9, "memory": 7, "pods": 4}) == {"cpu": 0, "memory": 7, "pods": 3}


def test_it_is_known_who_needs_what_is_kept():
    kept = Reserve({"cpu": 10, "gpu": 1}, [{"cpu": 9}])
    kept.keep_for("small", [{"cpu": 2}])
    kept.keep_for("large", [{"cpu": 8}])
    kept.keep_for("other", [{"cpu": 2, "gpu": 1}])

    assert kept.kept_for({"cpu": 1}) == "large"
    assert kept.kept_for({"gpu": 1}) == "other"
    assert kept.kept_for({"memory": 1}) == ""
