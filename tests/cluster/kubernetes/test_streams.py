"""Exec, attach and logs: channels, exit codes, the end of standard input, and what goes wrong on the way."""

import asyncio
import base64
import hashlib
import struct
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.kubernetes.server import Handler, Request, serve
from tests.cluster.kubernetes.serving import answers, cluster_at, refuses

from trainwright.cluster.kubernetes import Unreachable
from trainwright.cluster.kubernetes.streams import V4, V5, PodSession, exit_code
from trainwright.cluster.kubernetes.websocket import frame, masked
from trainwright.core.errors import BadRequest, ClusterError, Forbidden

SUCCESS: dict[str, object] = {"status": "Success"}


def exited(code: int) -> dict[str, object]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": "it failed", "details": {"causes": causes}}


class Peer:
    """The server's side of a WebSocket."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def send(self, channel: int, data: bytes, *, parts: int = 1) -> None:
        """Send a message, in so many frames."""
        payload = bytes([channel]) + data
        size = max(-(-len(payload) // parts), 1)
        pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
        for number, piece in enumerate(pieces):
            last = 0x80 if number == len(pieces) - 1 else 0
            self.raw(last | (0 if number else 2), piece)
        await self.request.writer.drain()

    async def status(self, status: dict[str, object]) -> None:
        """Say how the command ended."""
        await self.send(3, msgspec.json.encode(status))

    def raw(self, first: int, payload: bytes) -> None:
        """Send one frame."""
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", first, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", first, 126, size)
        else:
            head = struct.pack("!BBQ", first, 127, size)
        self.request.writer.write(head + payload)

    async def receive(self) -> tuple[int, bytes]:
        """Return kind and payload of the next frame; clients mask."""
        reader = self.request.reader
        first, size = await reader.readexactly(2)
        assert size & 0x80
        size &= 0x7F
        if size >= 126:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        mask = await reader.readexactly(4)
        return first & 0x0F, masked(await reader.readexactly(size), mask)


def upgraded(talk: Callable[[Peer], Awaitable[None]], protocol: str = V5) -> Handler:
    async def handle(request: Request) -> None:
        key = request.headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
        request.writer.write(
            f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
        )
        await talk(Peer(request))
        await request.reader.read()

    return handle


async def output(session: PodSession) -> dict[str, bytes]:
    heard = {"stdout": b"", "stderr": b""}
    async for stream, data in session.output():
        heard[stream] += data
    return heard


class TestExec:
    async def test_output_and_exit_code(self):
        async def talk(peer: Peer) -> None:
            await peer.send(1, b"")  # real servers begin so
            await peer.send(1, b"out")
            await peer.send(2, b"err")
            await peer.send(1, b"put", parts=3)
            await peer.status(exited(3))

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["sh", "-c", "x y"], container="main")
            assert await output(session) == {"stdout": b"output", "stderr": b"err"}
            assert await session.wait() == 3
            assert cluster.rest.connections() == (0, 0)
        request = serving.seen[0]
        assert request.path == "/api/v1/namespaces/a/pods/p/exec"
        assert request.words["command"] == ["sh", "-c", "x y"]
        assert request.query["container"] == "main"
        assert (request.query["stdout"], request.query["stderr"]) == ("true", "true")
        assert "stdin" not in request.query
        assert request.headers["sec-websocket-protocol"] == f"{V5}, {V4}"

    async def test_who_waits_takes_nothing_from_who_reads(self):
        async def talk(peer: Peer) -> None:
            for number in range(50):
                await peer.send(1, b"%d " % number)
            await peer.status(SUCCESS)

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["seq"])
            code, heard = await asyncio.gather(session.wait(), output(session))
        assert code == 0
        assert heard["stdout"].split() == [b"%d" % number for number in range(50)]

    async def test_what_was_printed_is_still_there_after_the_end(self):
        async def talk(peer: Peer) -> None:
            await peer.send(1, b"printed")
            await peer.status(SUCCESS)

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["echo"])
            assert await session.wait() == 0
            assert (await output(session))["stdout"] == b"printed"

    async def test_much_that_nobody_reads_holds_it_up_and_a_reader_frees_it(self):
        async def talk(peer: Peer) -> None:
            for _ in range(64):
                await peer.send(1, b"x" * (1 << 16))
            await peer.status(SUCCESS)

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["yes"])
            waiting = asyncio.create_task(session.wait())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.shield(waiting)
            assert len((await output(session))["stdout"]) == 64 << 16
            assert await waiting == 0

    @pytest.mark.parametrize("size", [1, 125, 126, 70_000, 1 << 20])
    async def test_input_of_any_size_comes_back(self, size):
        async def echo(peer: Peer) -> None:
            while True:
                _, data = await peer.receive()
                if data == b"\xff\x00":
                    await peer.status(SUCCESS)
                    return
                assert data[0] == 0
                await peer.send(1, data[1:])

        sent = bytes(range(256)) * (size // 256 + 1)
        async with serve(upgraded(echo)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["cat"], stdin=True)
            heard = asyncio.create_task(output(session))
            await session.write(sent[:size])
            await session.close_input()
            assert (await heard)["stdout"] == sent[:size]
            assert await session.wait() == 0
        assert serving.seen[0].query["stdin"] == "true"

    async def test_a_terminal_has_one_output_and_a_size(self):
        sizes = []

        async def talk(peer: Peer) -> None:
            sizes.append((await peer.receive())[1])
            await peer.status(SUCCESS)

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["sh"], stdin=True, tty=True)
            await session.resize(80, 24)
            assert await session.wait() == 0
        assert sizes == [b'\x04{"Width":80,"Height":24}']
        assert serving.seen[0].query["tty"] == "true"
        assert "stderr" not in serving.seen[0].query

    async def test_pings_are_answered(self):
        async def talk(peer: Peer) -> None:
            peer.raw(0x89, b"there?")
            assert await peer.receive() == (10, b"there?")
            await peer.status(SUCCESS)

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            assert await (await cluster.exec("a", "p", ["true"])).wait() == 0

    async def test_killed_it_says_goodbye_and_leaves_nothing(self):
        goodbye: list[tuple[int, bytes]] = []

        async def talk(peer: Peer) -> None:
            goodbye.append(await peer.receive())

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["sleep"])
            await session.kill()
            await session.kill()
            with pytest.raises(Unreachable, match="closed before the command ended"):
                await session.wait()
            assert cluster.rest.connections() == (0, 0)

    async def test_an_attached_container(self):
        async with serve(upgraded(lambda peer: peer.status(SUCCESS))) as serving, cluster_at(serving.url) as cluster:
            assert await (await cluster.attach("a", "p", container="main")).wait() == 0
        assert serving.seen[0].path == "/api/v1/namespaces/a/pods/p/attach"


class TestTrouble:
    async def test_a_refusal_is_the_servers_own(self):
        async with serve(refuses(403, "Forbidden", "not you")) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(Forbidden, match="not you"):
                await cluster.exec("a", "p", ["true"])
            assert len(serving.seen) == 1

    async def test_a_connection_that_breaks(self):
        async def talk(peer: Peer) -> None:
            await peer.send(1, b"half")
            peer.request.writer.close()

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            session = await cluster.exec("a", "p", ["true"])
            assert (await output(session))["stdout"] == b"half"
            with pytest.raises(Unreachable):
                await session.wait()
            await session.write(b"to nobody")

    async def test_a_server_that_says_goodbye_too_early(self):
        async def talk(peer: Peer) -> None:
            peer.raw(0x88, struct.pack("!H", 1011))

        async with serve(upgraded(talk)) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(Unreachable, match="ended before the command did"):
                await (await cluster.exec("a", "p", ["true"])).wait()

    async def test_a_server_that_does_not_switch(self):
        async with serve(answers(200)) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(ClusterError, match="did not switch to WebSocket"):
                await cluster.exec("a", "p", ["true"])

    async def test_a_server_that_switches_to_something_else(self):
        async with serve(upgraded(lambda _: asyncio.sleep(0), "chat")) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(ClusterError, match="something else: 'chat'"):
                await cluster.exec("a", "p", ["true"])

    async def test_an_older_server_cannot_end_input(self):
        async with (
            serve(upgraded(lambda peer: peer.status(SUCCESS), V4)) as serving,
            cluster_at(serving.url) as cluster,
        ):
            session = await cluster.exec("a", "p", ["cat"], stdin=True)
            with pytest.raises(ClusterError, match="cannot end standard input"):
                await session.close_input()
            assert await session.wait() == 0

    @pytest.mark.parametrize(
        ("status", "code"), [(SUCCESS, 0), (exited(1), 1), (exited(137), 137)], ids=["success", "one", "killed"]
    )
    def test_exit_codes(self, status, code):
        assert exit_code(status) == code

    def test_a_command_that_could_not_be_run(self):
        with pytest.raises(BadRequest, match="no such file"):
            exit_code({"status": "Failure", "code": 400, "reason": "BadRequest", "message": "no such file"})


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masking_twice_is_nothing(payload, mask):
    assert masked(masked(payload, mask), mask) == payload
    assert frame(2, payload, mask).endswith(masked(payload, mask))


class TestLogs:
    @pytest.mark.parametrize(
        ("options", "query"),
        [
            ({}, {}),
            ({"container": "c", "follow": True}, {"container": "c", "follow": "true"}),
            ({"previous": True, "tail": 0}, {"previous": "true", "tailLines": "0"}),
            ({"since": 60, "timestamps": True}, {"sinceSeconds": "60", "timestamps": "true"}),
            ({"since": datetime(2030, 1, 1, tzinfo=UTC)}, {"sinceTime": "2030-01-01T00:00:00Z"}),
        ],
    )
    async def test_what_is_asked(self, options, query):
        async with serve(answers(200, b"a\nb\n")) as serving, cluster_at(serving.url) as cluster:
            assert b"".join([chunk async for chunk in cluster.logs("a", "p", **options)]) == b"a\nb\n"
            assert cluster.rest.connections() == (1, 1)
        assert serving.seen[0].path == "/api/v1/namespaces/a/pods/p/log"
        assert serving.seen[0].query == query

    async def test_they_come_as_they_are_written(self):
        go_on = asyncio.Event()

        async def handle(request: Request) -> None:
            await request.begin()
            await request.chunk(b"one")
            await go_on.wait()
            await request.chunk(b"two")
            await request.chunk(b"")

        async with serve(handle) as serving, cluster_at(serving.url) as cluster:
            log = cluster.logs("a", "p", follow=True)
            assert await anext(log) == b"one"
            go_on.set()
            assert [chunk async for chunk in log] == [b"two"]

    async def test_one_that_breaks_off_says_so(self):
        async def handle(request: Request) -> None:
            await request.begin()
            await request.chunk(b"one")
            request.writer.close()

        async with serve(handle) as serving, cluster_at(serving.url) as cluster:
            log = cluster.logs("a", "p", follow=True)
            assert await anext(log) == b"one"
            with pytest.raises(Unreachable, match="the log of a/p broke off"):
                await anext(log)
