"""A node's HTTPS server and a client for it, as an API server would be one."""

import asyncio
import contextlib
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from tests.node.world import World, world

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.websocket import WebSocket, handshake
from trainwright.node.certificate import server_context
from trainwright.node.serving import NodeServer
from trainwright.node.spdy import DICTIONARY

V5 = "v5.channel.k8s.io"


class Wire:
    """A TLS connection to a node: a `ByteStream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> bytes:
        return await self.reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise Broken(str(error), sent=True) from error

    def close(self) -> None:
        self.writer.close()


class Asking:
    """Asks one node."""

    def __init__(self, seen: World, port: int) -> None:
        self.world = seen
        self.port = port
        self._wires: list[Wire] = []

    async def connect(self) -> Wire:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        self._wires.append(Wire(*await asyncio.open_connection("127.0.0.1", self.port, ssl=trusting)))
        return self._wires[-1]

    async def close(self) -> None:
        for wire in self._wires:
            wire.close()
            with contextlib.suppress(OSError):
                await wire.writer.wait_closed()

    async def get(self, target: str) -> tuple[int, str]:
        """Return the code and the text of an answer."""
        wire = await self.connect()
        await wire.write(f"GET {target} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await wire.reader.read()).partition(b"\r\n\r\n")
        wire.close()
        if b"Transfer-Encoding: chunked" in head:
            body = _joined(body)
        return int(head.split()[1]), body.decode()

    async def upgrade(self, target: str, protocol: str = V5) -> WebSocket:
        """Return the WebSocket an exec, an attach or a port-forward goes over."""
        wire = await self.connect()
        headers, expected = handshake(protocol)
        await wire.write(f"GET {target} HTTP/1.1\r\nHost: node\r\n{headers}\r\n".encode())
        head = (await wire.reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        assert f"Sec-WebSocket-Accept: {expected}\r\n" in head
        assert f"Sec-WebSocket-Protocol: {protocol}\r\n" in head
        return WebSocket(wire)


def _joined(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole


@contextlib.asynccontextmanager
async def asking(root: Path, isolation: str = "ports", clients: Path | None = None) -> AsyncIterator[Asking]:
    """A node on a memory cluster that serves HTTPS, and somebody who asks it."""
    context = server_context("here", "127.0.0.1", clients)
    listener = socket.create_server(("127.0.0.1", 0))
    async with world(root, isolation) as seen, NodeServer(seen.kubelet, listener, context):
        asked = Asking(seen, listener.getsockname()[1])
        try:
            yield asked
        finally:
            await asked.close()


async def channels(websocket: WebSocket) -> tuple[bytes, bytes, Any]:
    """Read a command's channels to their end: both outputs and the status."""
    seen = {1: b"", 2: b"", 3: b""}
    while (message := await websocket.receive()) is not None:
        seen[message[1][0]] += message[1][1:]
    await websocket.close()
    return seen[1], seen[2], msgspec.json.decode(seen[3])


class SpdyClient:
    """The client's side of a port-forward."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._last = -1

    async def open(self, **headers: str) -> int:
        """Open a stream and return its number."""
        self._last += 2
        block = struct.pack("!I", len(headers)) + b"".join(
            struct.pack("!I", len(word)) + word.encode() for pair in headers.items() for word in pair
        )
        packed = self._pack.compress(block) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self.frame(1, struct.pack("!IIH", self._last, 0, 0) + packed)
        return self._last

    async def frame(self, kind: int, body: bytes) -> None:
        await self.websocket.send(struct.pack("!HHI", 0x8003, kind, len(body)) + body)

    async def data(self, number: int, data: bytes, *, last: bool = False) -> None:
        await self.websocket.send(struct.pack("!II", number, last << 24 | len(data)) + data)

    async def received(self, *numbers: int) -> dict[int, bytes]:
        """Read until these streams have ended, and return what came on each."""
        came, open_streams = dict.fromkeys(numbers, b""), set(numbers)
        while open_streams:
            message = await self.websocket.receive()
            assert message is not None, f"ended too early, after {came}"
            first, second = struct.unpack_from("!II", message[1])
            if first >> 31:
                continue
            came[first] += message[1][8:]
            if second >> 24 & 1:
                open_streams.discard(first)
        return came
