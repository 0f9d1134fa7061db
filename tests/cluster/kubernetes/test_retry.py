"""When a request may be repeated: a table."""

from datetime import UTC, datetime

import pytest

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.retry import Patience, after_answer, after_break, retry_after
from trainwright.cluster.queue import Backoff


@pytest.mark.parametrize(
    ("status", "wish", "anything", "repeatable"),
    [
        pytest.param(429, None, True, True, id="too many requests: it was not carried out"),
        pytest.param(429, 5.0, True, True, id="too many requests, with a wish"),
        pytest.param(503, 1.0, True, True, id="unavailable, come back later: it was not carried out"),
        pytest.param(503, None, False, True, id="unavailable: nobody knows"),
        pytest.param(500, None, False, True, id="a server in trouble: nobody knows"),
        pytest.param(500, 1.0, False, True, id="a server in trouble with a wish: nobody knows"),
        pytest.param(502, None, False, True, id="a bad gateway"),
        pytest.param(504, None, False, True, id="a gateway that waited too long"),
        pytest.param(400, None, False, False, id="a bad request stays bad"),
        pytest.param(401, None, False, False, id="so do bad credentials"),
        pytest.param(404, None, False, False, id="what is not there"),
        pytest.param(409, None, False, False, id="a conflict is for who knows what is meant"),
        pytest.param(410, None, False, False, id="what has expired"),
        pytest.param(422, None, False, False, id="what is invalid"),
    ],
)
def test_after_an_answer(status, wish, anything, repeatable):
    assert after_answer(status, wish, repeatable=False) is anything
    assert after_answer(status, wish, repeatable=True) is repeatable


@pytest.mark.parametrize(
    ("sent", "repeatable", "again"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_after_a_broken_connection(sent, repeatable, again):
    assert after_break(Broken("x", sent=sent), repeatable=repeatable) is again


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0", 0.0),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30.0),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after(text, seconds):
    assert retry_after(text, datetime(2030, 1, 1, 12, tzinfo=UTC)) == seconds


class TestPatience:
    LONG = Patience(tries=4, seconds=10.0, backoff=Backoff(first=1.0, longest=60.0, jitter=0.0))

    @pytest.mark.parametrize(
        ("failures", "passed", "wish", "wait"),
        [
            pytest.param(1, 0.0, None, 1.0, id="a short wait after the first"),
            pytest.param(3, 3.0, None, 4.0, id="twice as long each time"),
            pytest.param(1, 0.0, 5.0, 6.0, id="never shorter than the server wishes"),
            pytest.param(4, 3.0, None, None, id="so often and no more"),
            pytest.param(3, 7.0, None, None, id="so long and no longer"),
            pytest.param(1, 0.0, 60.0, None, id="a wish beyond our patience is refused at once"),
        ],
    )
    def test_wait(self, failures, passed, wish, wait):
        assert self.LONG.wait(failures, passed, wish) == wait

    def test_those_who_were_told_the_same_do_not_return_together(self):
        waits = {Patience().wait(1, 0.0, 1.0) for _ in range(20)}
        assert len(waits) > 1
        assert all(wait and wait >= 1.0 for wait in waits)
