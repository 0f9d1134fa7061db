"""Durations, ages and plain tables."""

import pytest

from trainwright.cli.address import Address, parse
from trainwright.cli.words import columns, listed, seconds, span
from trainwright.core.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400)]
)
def test_durations_are_read(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "-3s", "3s5", "s"])
def test_what_is_no_duration_says_so(text):
    with pytest.raises(ValueError, match="30s, 5m or 1h30m"):
        seconds(text)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.42, "0.4s"), (12.9, "12s"), (185, "3m5s"), (3600, "1h"), (7800, "2h10m"), (360000, "4d4h")],
)
def test_spans_are_short(number, expected):
    assert span(number) == expected


def test_tables_line_up():
    assert columns(("RANK", "PHASE"), [("worker-10", "Running"), ("m", "")]) == [
        "RANK       PHASE",
        "worker-10  Running",
        "m",
    ]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        pytest.param(None, ["NAME   WAITS FOR", "mnist  1 cpu is missing"], id="where there is room nothing is cut"),
        pytest.param(18, ["NAME   WAITS FOR", "mnist  1 cpu is m…"], id="the widest column gives way"),
        pytest.param(9, ["NAME   WAITS F…", "mnist  1 cpu i…"], id="but no column becomes narrower than a word"),
    ],
)
def test_tables_fit_the_room_there_is(width, lines):
    assert columns(("NAME", "WAITS FOR"), [("mnist", "1 cpu is missing")], width) == lines


def test_lists_read_as_a_sentence():
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("mnist", Address("mnist"), id="a job"),
        pytest.param("pytorchjob/mnist", Address("mnist", kind="PyTorchJob"), id="a kind and a job"),
        pytest.param("pytorchjobs.kubeflow.org/mnist", Address("mnist", kind="PyTorchJob"), id="a long kind"),
        pytest.param("pytorchjob.kubeflow.org/mnist", Address("mnist", kind="PyTorchJob"), id="as -o name prints it"),
        pytest.param("mpijobs.v2beta1.kubeflow.org/pi", Address("pi", kind="MPIJob"), id="a kind with its version"),
        pytest.param("mnist/worker-1", Address("mnist", rank="worker-1"), id="a rank by role"),
        pytest.param("mnist/3", Address("mnist", rank="3"), id="a rank by number"),
        pytest.param("pytorchjob/mnist/3", Address("mnist", kind="PyTorchJob", rank="3"), id="all of it"),
    ],
)
def test_addresses(text, address):
    assert parse(text) == address


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "mnist/"])
def test_what_names_no_job_says_so(text):
    with pytest.raises(BadRequest, match="JOB/worker-1"):
        parse(text)
