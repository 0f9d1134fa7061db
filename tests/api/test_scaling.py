"""The history of a job's size: read from whatever is there, bounded, and never another job's."""

import json

import pytest

from trainwright.api import scaling
from trainwright.api.scaling import Scaling
from trainwright.core.names import SCALED_ANNOTATION
from trainwright.core.objects import Object

ONE = Scaling("2026-03-01T12:00:00Z", 4, 2, "shrinks from 4 to 2: job default/b's minimum of 3 is not met")


def job(text: object, created: str = "2026-03-01T11:00:00Z") -> Object:
    return {"metadata": {"creationTimestamp": created, "annotations": {SCALED_ANNOTATION: text}}}


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        pytest.param(job(scaling.annotation(ONE)), ONE, id="what was written"),
        pytest.param({"metadata": {}}, None, id="a job that was never resized"),
        pytest.param(job(scaling.annotation(ONE), "2026-03-02T11:00:00Z"), None, id="the entry of a job it copies"),
        pytest.param(job("{"), None, id="no JSON"),
        pytest.param(job("[1]"), None, id="JSON of another shape"),
        pytest.param(job(json.dumps({**scaling.written(ONE), "time": "noon"})), None, id="no time"),
        pytest.param(job(json.dumps({**scaling.written(ONE), "to": "2"})), None, id="a size that is no number"),
    ],
)
def test_the_last_change(obj, found):
    assert scaling.last(obj) == found


@pytest.mark.parametrize(
    ("status", "count"),
    [
        pytest.param(None, 0, id="no status"),
        pytest.param({"scaleHistory": "x"}, 0, id="nonsense"),
        pytest.param({"scaleHistory": [scaling.written(ONE)]}, 1, id="one change"),
    ],
)
def test_a_history_is_read(status, count):
    assert scaling.history(status) == [ONE] * count


def test_the_newest_are_kept():
    status: Object = {}
    for size in range(30):
        status = {"scaleHistory": scaling.lengthened(status, Scaling(ONE.time, size, size + 1, ""))}

    assert [entry["to"] for entry in status["scaleHistory"]] == list(range(11, 31))
