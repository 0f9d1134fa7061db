"""What fits where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.core import quantity
from trainwright.placement import Claim, Shortfall, allocatable, minus, place, plus, pod_limits, pod_requests
from trainwright.placement.fit import fits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("500m", "0.5", id="thousandths"),
        pytest.param("2Gi", str(2 * 1024**3), id="binary"),
        pytest.param("1e3", "1000", id="exponent"),
        pytest.param("1.5k", "1500", id="decimal suffix"),
        pytest.param(3, "3", id="a bare number"),
        pytest.param("2E", "2000000000000000000", id="E is exa, not an exponent"),
    ],
)
def test_quantities_are_exact(text, value):
    assert str(quantity.parse(text).normalize()) == str(quantity.parse(value).normalize())


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", " 5", "5\n", "\u0665", "1gi", "--1", "1e", "NaN", True])
def test_a_bad_quantity_says_what_would_be_right(text):
    with pytest.raises(ValueError, match="is not a quantity; write a number with an optional suffix"):
        quantity.parse(text)


def pod(containers, init=()):
    return {"spec": {"containers": [{"resources": c} for c in containers], "initContainers": list(init)}}


@pytest.mark.parametrize(
    ("given_pod", "cpu", "memory"),
    [
        pytest.param(pod([{}]), 0, 0, id="no requests ask for nothing"),
        pytest.param(pod([{"requests": {"cpu": "500m"}}, {"requests": {"cpu": 1}}]), 1500, 0, id="containers add up"),
        pytest.param(
            pod([{"limits": {"cpu": 2, "memory": "1Gi"}}]), 2000, 1024**3, id="a limit without request is the request"
        ),
        pytest.param(
            pod([{"requests": {"cpu": 1}}], [{"resources": {"requests": {"cpu": 3}}}]),
            3000,
            0,
            id="the hungriest init step counts",
        ),
        pytest.param(
            pod([{"requests": {"cpu": 1}}], [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 3}}}]),
            4000,
            0,
            id="a sidecar stays",
        ),
    ],
)
def test_what_a_pod_asks_for(given_pod, cpu, memory):
    requests = pod_requests(given_pod)

    assert (requests.get("cpu", 0), requests.get("memory", 0), requests["pods"]) == (cpu, memory, 1)


@pytest.mark.parametrize(
    ("given_pod", "limits"),
    [
        pytest.param(pod([{"requests": {"cpu": 1}}]), {}, id="requests alone limit nothing"),
        pytest.param(
            pod([{"requests": {"cpu": 1, "memory": 5}, "limits": {"cpu": 2}}]),
            {"cpu": 2000, "memory": 5},
            id="a resource without a limit counts with its request",
        ),
        pytest.param(
            pod([{"limits": {"cpu": 2}}, {"requests": {"cpu": 1}}]),
            {"cpu": 3000},
            id="a container without limits counts with its requests",
        ),
    ],
)
def test_what_a_pod_may_come_to_use(given_pod, limits):
    assert pod_limits(given_pod) == limits


def claims(*cpus):
    return [Claim(f"pod-{index}", {"cpu": cpu}) for index, cpu in enumerate(cpus)]


@pytest.mark.parametrize(
    ("nodes", "wanted", "sentence"),
    [
        pytest.param({"a": 4000}, claims(2000, 2000), "", id="what fits is placed"),
        pytest.param({"a": 4000}, claims(2000, 2000, 1000), "needs cpu 5, but 4 of 8 is free", id="all or none"),
        pytest.param(
            {"a": 3000, "b": 3000}, claims(4000), "needs cpu 4, but 3 of 8 is free", id="one pod needs one node"
        ),
        pytest.param({"a": 3000, "b": 1000}, claims(1000, 3000), "", id="the hungriest chooses first"),
        pytest.param({}, claims(1000), "needs cpu 1, but 0 of 0 is free", id="no node at all"),
    ],
)
def test_place(nodes, wanted, sentence):
    free = {name: {"cpu": cpu} for name, cpu in nodes.items()}

    result = place(free, {name: {"cpu": 8000} for name in nodes}, wanted)

    if sentence:
        assert str(result) == sentence
    else:
        assert isinstance(result, dict)
        assert result.keys() == {claim.name for claim in wanted}


def test_a_shortfall_knows_whether_waiting_helps():
    assert not Shortfall("cpu", 4000, 1000, 8000).forever
    assert Shortfall("cpu", 9000, 1000, 8000).forever


def test_a_node_offers_its_allocatable():
    assert allocatable({"status": {"capacity": {"cpu": 4}, "allocatable": {"cpu": "3500m"}}}) == {"cpu": 3500}


AMOUNTS = st.fixed_dictionaries(
    {"cpu": st.integers(0, 8000), "memory": st.integers(0, 64), "nvidia.com/gpu": st.integers(0, 8)}
)


@given(st.dictionaries(st.sampled_from("abcd"), AMOUNTS), st.lists(AMOUNTS, max_size=8))
def test_a_placement_never_overfills_a_node_and_a_shortfall_is_real(nodes, needs):
    wanted = [Claim(str(index), need) for index, need in enumerate(needs)]

    result = place(nodes, nodes, wanted)

    if isinstance(result, Shortfall):
        assert len(wanted) > 0
        return
    for node, free in nodes.items():
        used = {"cpu": 0}
        for claim in wanted:
            if result[claim.name] == node:
                used = plus(used, claim.needs)
        assert fits(used, free)
        assert all(value >= 0 for value in minus(free, used).values())
