"""Which ranks a user means."""

import pytest

from trainwright.cli.seen import numbers, pod_of
from trainwright.core.errors import BadRequest, NotFound
from trainwright.core.names import JOB_LABEL

PODS = [
    {"metadata": {"name": f"mnist-{label}", "labels": {JOB_LABEL: "mnist"}}}
    for label in ("master-0", "worker-0", "worker-1")
]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("3", {3}), ("0-3", {0, 1, 2, 3}), ("0,2,5-7", {0, 2, 5, 6, 7}), (" 1 , 3", {1, 3}), ("3-1", set())],
)
def test_numbers(text, ranks):
    assert numbers(text) == ranks


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1,,2", "1-x"])
def test_what_names_no_ranks(text):
    with pytest.raises(BadRequest, match="write for example 3, 0-3 or 0,2,5-7"):
        numbers(text)


@pytest.mark.parametrize(
    ("rank", "name"), [("worker-1", "mnist-worker-1"), ("0", "mnist-master-0"), ("2", "mnist-worker-1")]
)
def test_a_rank_is_named_by_role_or_counted(rank, name):
    assert pod_of(rank, PODS, "mnist")["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("rank", "pods", "sentence"),
    [
        ("wroker-1", PODS, r"mnist has no rank 'wroker-1'; did you mean 'worker-1'\? \(there are: master-0, worker-0"),
        ("3", PODS, r"mnist has no rank '3' \(there are: master-0, worker-0, worker-1\)"),
        ("0", [], "mnist has no rank '0'; it has no ranks"),
    ],
)
def test_a_rank_that_is_not_there(rank, pods, sentence):
    with pytest.raises(NotFound, match=sentence):
        pod_of(rank, pods, "mnist")
