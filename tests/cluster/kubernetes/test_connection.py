"""One connection: whatever way the bytes of an answer come, they mean the same; what is no answer ends it."""

import asyncio

import pytest
from tests.cluster.kubernetes.serving import wired

from trainwright.cluster.kubernetes.connection import Broken, Connection

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
NONE = b"HTTP/1.1 204 No Content\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


async def ask(connection: Connection, *pieces: bytes, **options: bool) -> "asyncio.Task[object]":
    task = asyncio.create_task(connection.ask(b"request", None, **options))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    return task


@pytest.mark.parametrize(
    ("answer", "status", "body", "kept"),
    [
        pytest.param(SIZED, 200, b"hello", True, id="a body of known length"),
        pytest.param(CHUNKED, 200, b"hello", True, id="a body in chunks, with extension and trailer"),
        pytest.param(NONE, 204, b"", True, id="no body"),
        pytest.param(HINT + SIZED, 200, b"hello", True, id="a hint comes before the answer"),
        pytest.param(SIZED.replace(b"X-A", b"Connection: close\r\nX-A"), 200, b"hello", False, id="the last answer"),
        pytest.param(SIZED.replace(b"X-A", b"Connection: x, Close\r\nX-A"), 200, b"hello", False, id="among others"),
        pytest.param(SIZED.replace(b"1.1", b"1.0", 1), 200, b"hello", False, id="an old server"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_an_answer_in_pieces(answer, status, body, kept, size):
    connection, wire = wired()
    task = await ask(connection, *(answer[start : start + size] for start in range(0, len(answer), size)))
    got = await task
    assert (got.status, got.body) == (status, body)  # type: ignore[attr-defined]
    assert connection.reusable is kept
    assert wire.written == b"request"


async def test_headers_of_one_name_are_joined():
    connection, _ = wired()
    got = await (await ask(connection, SIZED))
    assert got.headers["x-a"] == "1, 2"  # type: ignore[attr-defined]


async def test_a_body_without_length_ends_with_the_connection():
    connection, _ = wired()
    task = await ask(connection, b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo")
    assert not task.done()
    connection.eof_received()
    assert (await task).body == b"hello"  # type: ignore[attr-defined]
    assert not connection.reusable


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(b"SSH-2.0-server\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 abc\r\n\r\n", id="a status that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", id="a length that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", id="a chunk size that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", id="a negative chunk size"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", id="a chunk that is too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17), id="a head without end"),
    ],
)
async def test_what_is_no_answer_breaks_the_connection(nonsense):
    connection, wire = wired()
    with pytest.raises(Broken) as caught:
        await (await ask(connection, nonsense))
    assert caught.value.sent
    assert wire.aborted
    assert not connection.reusable


async def test_bytes_nobody_asked_for_make_it_unusable():
    connection, wire = wired()
    await (await ask(connection, SIZED))
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert wire.aborted
    assert not connection.reusable


class TestBreaks:
    async def test_one_that_is_lost_before_it_is_asked_was_sent_nothing(self):
        connection, wire = wired()
        connection.connection_lost(None)
        with pytest.raises(Broken) as caught:
            await connection.ask(b"request", None)
        assert not caught.value.sent
        assert not wire.written

    async def test_it_may_have_been_carried_out(self):
        connection, _ = wired()
        task = await ask(connection, b"HTTP/1.1 200 OK\r\nContent-Le")
        connection.connection_lost(ConnectionResetError("reset"))
        with pytest.raises(Broken, match="reset") as caught:
            await task
        assert caught.value.sent
        assert not caught.value.reused

    async def test_a_connection_that_served_before_may_just_have_been_idle(self):
        connection, _ = wired()
        await (await ask(connection, SIZED))
        task = await ask(connection)
        connection.connection_lost(None)
        with pytest.raises(Broken) as caught:
            await task
        assert caught.value.reused

    async def test_a_cancelled_request_aborts_it(self):
        connection, wire = wired()
        task = await ask(connection, SIZED[:-2])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.aborted
        assert not connection.reusable

    async def test_time_is_up(self):
        connection, wire = wired()
        with pytest.raises(Broken, match=r"within 0\.01 s") as caught:
            await connection.ask(b"request", 0.01)
        assert caught.value.overdue
        assert wire.aborted


class TestStreams:
    async def test_it_is_read_as_it_comes(self):
        connection, _ = wired()
        head, _, body = CHUNKED.partition(b"\r\n\r\n")
        await (await ask(connection, head + b"\r\n\r\n", stream=True))
        reading = asyncio.create_task(connection.read())
        await asyncio.sleep(0)
        assert not reading.done()
        connection.data_received(body[:6])
        assert await reading == b"hel"
        connection.data_received(body[6:])
        assert await connection.read() == b"lo"
        assert await connection.read() == b""
        assert connection.reusable

    async def test_what_came_before_the_break_is_still_read(self):
        connection, _ = wired()
        await (await ask(connection, CHUNKED[:-20], stream=True))
        connection.connection_lost(None)
        assert (await connection.read()).startswith(b"hel")
        with pytest.raises(Broken):
            await connection.read()

    async def test_who_does_not_read_is_not_sent_more(self):
        connection, wire = wired()
        await (await ask(connection, b"HTTP/1.1 200 OK\r\n\r\n", stream=True))
        connection.data_received(b"x" * (3 << 19))
        assert wire.paused
        assert len(await connection.read()) == 3 << 19
        assert not wire.paused
