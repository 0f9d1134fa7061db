"""The server on real sockets: what follows on one connection, what is refused, what ends what."""

import asyncio
import os
import ssl

import pytest
from tests.web.wire import serving

from trainwright.core.errors import Forbidden
from trainwright.node.certificate import server_context
from trainwright.web.exchange import Exchange, Peer, read_head


async def echo(exchange: Exchange) -> None:
    body = await exchange.body(limit=100)
    await exchange.answer(f"{exchange.request.method} /{'/'.join(exchange.request.path)} {body.decode()}".encode())


async def deaf(exchange: Exchange) -> None:
    await exchange.answer(b"done")


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        pytest.param("GET /a/b%20c HTTP/1.1\r\n\r\n", b"GET /a/b c ", id="words of a path are read"),
        pytest.param("POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", b"POST /a hi", id="a body of a known length"),
        pytest.param(
            "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n2;x=y\r\noh\r\n0\r\nLate: 1\r\n\r\n",
            b"POST /a hoh",
            id="a body in chunks",
        ),
    ],
)
async def test_one_request_follows_another_on_one_connection(request_, body):
    async with serving(echo) as served:
        wire = await served.connect()
        for _ in range(2):
            wire.send(request_)
            status, headers, answer = await wire.answer()
            assert (status, headers["connection"], answer) == ("200 OK", "keep-alive", body)
        wire.close()


async def test_requests_that_come_at_once_are_answered_in_order():
    async with serving(echo) as served:
        wire = await served.connect()
        wire.send("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
        assert [(await wire.answer())[2] for _ in range(2)] == [b"GET /1 ", b"GET /2 "]
        wire.close()


async def test_a_body_nobody_read_is_out_of_the_way_of_the_next_request():
    async with serving(deaf) as served:
        wire = await served.connect()
        for _ in range(2):
            wire.send("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /")
            assert (await wire.answer())[2] == b"done"
        wire.close()


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked():
    async with serving(echo) as served:
        wire = await served.connect()
        wire.send("POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send("hi")
        assert (await wire.answer())[2] == b"POST / hi"
        wire.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param("GET / HTTP/1.0\r\n\r\n", "200 OK", id="an old client gets one answer"),
        pytest.param("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "200 OK", id="one that wants no more, too"),
        pytest.param("nonsense\r\n\r\n", "400 BadRequest", id="no request at all"),
        pytest.param("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 BadRequest", id="a line that is no header"),
        pytest.param("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400 BadRequest", id="a length below nothing"),
        pytest.param(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400 BadRequest",
            id="two lengths",
        ),
        pytest.param(
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "400 BadRequest", id="a length nobody can tell"
        ),
        pytest.param(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400 BadRequest", id="a chunk without size"
        ),
        pytest.param(
            "POST / HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + "x" * 200000,
            "413 RequestEntityTooLarge",
            id="a body that is too large",
        ),
        pytest.param(
            "GET / HTTP/1.1\r\nX: " + "y" * 200000 + "\r\n\r\n",
            "431 Request Header Fields Too Large",
            id="a head that is too large",
        ),
    ],
)
async def test_after_these_the_connection_ends(request_, status):
    async with serving(echo) as served:
        wire = await served.connect()
        wire.send(request_)
        said, headers, _ = await wire.answer()
        assert (said, headers["connection"]) == (status, "close")
        assert await wire.ended() == b""
        wire.close()


async def test_only_the_head_is_sent_when_only_the_head_is_wanted():
    async with serving(deaf) as served:
        wire = await served.connect()
        wire.send("HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n")
        sent = await wire.ended()
        assert b"Content-Length: 4" in sent
        assert sent.endswith(b"\r\n\r\n")
        wire.close()


async def test_a_refusal_is_answered_in_its_words():
    async def refuse(exchange: Exchange) -> None:
        raise Forbidden("not you")

    async with serving(refuse) as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        status, _, body = await wire.answer()
        assert (status, body) == ("403 Forbidden", b"not you\n")
        wire.close()


async def test_what_breaks_is_logged_and_the_connection_goes_on(caplog):
    async def broken(exchange: Exchange) -> None:
        raise KeyError("oops")

    async with serving(broken) as served:
        wire = await served.connect()
        for _ in range(2):
            wire.send("GET /x HTTP/1.1\r\n\r\n")
            assert (await wire.answer())[0] == "500 InternalError"
        wire.close()
    assert "a request broke: GET /x" in caplog.text


async def test_pieces_arrive_one_by_one_and_another_request_may_follow():
    turn = asyncio.Event()

    async def two(exchange: Exchange) -> None:
        async def pieces():
            yield b"one"
            await turn.wait()
            yield b"two"

        await exchange.answer_pieces(pieces())

    async with serving(two) as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        assert (await wire.reader.readuntil(b"one\r\n")).endswith(b"\r\n\r\n3\r\none\r\n")
        turn.set()
        assert await wire.reader.readuntil(b"0\r\n\r\n") == b"3\r\ntwo\r\n0\r\n\r\n"
        wire.send("GET / HTTP/1.1\r\n\r\n")
        assert (await wire.answer())[2] == b"onetwo"
        wire.close()


async def test_an_answer_that_breaks_off_ends_its_connection(caplog):
    async def broken(exchange: Exchange) -> None:
        async def pieces():
            yield b"one"
            raise Forbidden("no more")

        await exchange.answer_pieces(pieces())

    async with serving(broken) as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        assert (await wire.ended()).endswith(b"\r\n\r\n3\r\none\r\n")
        wire.close()


async def test_pieces_end_when_the_client_goes():
    over = asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        async def pieces():
            try:
                yield b"one"
                await asyncio.Event().wait()
            finally:
                over.set()

        await exchange.answer_pieces(pieces())

    async with serving(endless) as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        await wire.reader.readuntil(b"one\r\n")
        wire.close()
        async with asyncio.timeout(5):
            await over.wait()


async def test_leaving_the_server_ends_what_is_under_way():
    begun, over = asyncio.Event(), asyncio.Event()

    async def stuck(exchange: Exchange) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    async with serving(stuck) as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        await begun.wait()
    assert over.is_set()
    assert await wire.ended() == b""
    wire.close()


async def test_the_kernel_says_who_is_at_the_other_end_of_a_unix_socket(tmp_path):
    seen: list[Peer | None] = []

    async def look(exchange: Exchange) -> None:
        seen.append(exchange.request.peer)
        await exchange.answer(b"")

    async with serving(look, path=tmp_path / "s") as served:
        wire = await served.connect()
        wire.send("GET / HTTP/1.1\r\n\r\n")
        await wire.answer()
        wire.close()
    assert seen == [Peer(os.getpid(), os.getuid(), os.getgid())]


async def test_a_new_certificate_holds_for_new_connections_and_old_ones_stand():
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def shown(wire) -> bytes:
        return bytes(wire.writer.get_extra_info("ssl_object").getpeercert(binary_form=True))

    async with serving(deaf, context=server_context("a", "127.0.0.1", None)) as served:
        old = await served.connect(trusting)
        served.server.context = server_context("b", "127.0.0.1", None)
        new = await served.connect(trusting)
        assert shown(old) != shown(new)
        for wire in (old, new):
            wire.send("GET / HTTP/1.1\r\n\r\n")
            assert (await wire.answer())[2] == b"done"
            wire.close()


async def test_a_handshake_that_is_none_holds_up_nobody():
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(deaf, context=server_context("a", "127.0.0.1", None)) as served:
        silent, rude = await served.connect(), await served.connect()
        rude.send("GET / HTTP/1.1\r\n\r\n")
        wire = await served.connect(trusting)
        wire.send("GET / HTTP/1.1\r\n\r\n")
        assert (await wire.answer())[2] == b"done"
        for each in (silent, rude, wire):
            each.close()


def test_parameters_are_read():
    request, _ = read_head("GET /x?a=1&b=true&c=%20x&c=y HTTP/1.1\r\nA: 1\r\na: 2\r\n\r\n")
    assert (request.number("a"), request.flag("b"), request.query["c"]) == (1, True, [" x", "y"])
    assert (request.number("none"), request.flag("none"), request.value("none")) == (None, False, "")
    assert request.headers == {"a": "1, 2"}
