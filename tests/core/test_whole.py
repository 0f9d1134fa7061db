"""A status that is kept apart: written down, read, and told from what was dropped."""

import pytest

from trainwright.core.errors import TooLarge
from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.whole import annotation, dropped, whole, without

STATUS = {"conditions": [], "record": {"version": 1}}


def job(text: str | None = None, uid: str = "u") -> Object:
    annotations = {} if text is None else {RECORD_ANNOTATION: text}
    meta = {"namespace": "ns", "name": "j", "uid": uid, "annotations": annotations}
    return {"metadata": meta, "status": {"conditions": []}}


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        pytest.param(job(), {"conditions": []}, id="without an annotation the status is all there is"),
        pytest.param(job(annotation(job(), STATUS)), STATUS, id="with one it is the whole status"),
        pytest.param(
            job(annotation(job(uid="other"), STATUS)), {"conditions": []}, id="that of a job it was copied from is not"
        ),
        pytest.param(job("{"), {"conditions": []}, id="nor is what somebody has broken"),
        pytest.param(job("[]"), {"conditions": []}, id="nor what is something else"),
    ],
)
def test_whole(seen, status):
    assert whole(seen)["status"] == status


def test_what_does_not_fit_is_refused_in_words():
    status = {"record": {"seen": {str(index): "x" * 36 for index in range(6000)}}}

    with pytest.raises(TooLarge, match=r"ns/j takes \d+ bytes.*tw install --adopt-crds"):
        annotation(job(), status)


@pytest.mark.parametrize(
    ("wanted", "stored", "lost"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="nothing"),
        pytest.param({"a": 1, "b": {}}, {"a": 1}, [("b",)], id="a field"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [("a", "c")], id="a field of a field"),
        pytest.param({"a": [{"b": 1}]}, {"a": [{}]}, [], id="what is in a list is not looked at"),
    ],
)
def test_dropped(wanted, stored, lost):
    assert list(dropped(wanted, stored)) == lost
    assert without(wanted, frozenset(lost)).keys() == stored.keys()
