"""Durations as Go writes them."""

import pytest

from trainwright.api.duration import DURATION, LONGEST, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("90s", 90, id="seconds"),
        pytest.param("1h30m", 5400, id="several units"),
        pytest.param("1.5m", 90, id="a fraction"),
        pytest.param("250ms", 0.25, id="less than a second"),
        pytest.param("0", 0, id="nothing needs no unit"),
        pytest.param("999999999999999h", LONGEST, id="longer than Go can say"),
    ],
)
def test_seconds(text, expected):
    assert DURATION.fits(text)
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "10", "10 m", "-5s", "m", "1d", "5s\n", "1.s"])
def test_what_is_no_duration(text):
    assert not DURATION.fits(text)
