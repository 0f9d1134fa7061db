"""HTTP/1.1, the server's side, as much as a node needs: a request, and an answer whole, in pieces or as a WebSocket.

One request per connection: the API server makes a new one for each, and most of them become streams.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.websocket import WebSocket, accepted
from trainwright.core.errors import BadRequest

HEAD_BYTES = 1 << 16
_HEAD_SECONDS = 30.0
_CHUNK = 1 << 16
_TRUE = ("1", "true")


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]

    def value(self, name: str) -> str:
        """Return a parameter, or nothing."""
        return self.query.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        """Say whether a parameter is set."""
        return self.value(name).lower() in _TRUE

    def number(self, name: str) -> int | None:
        """Return a parameter that is a number, or None."""
        text = self.value(name)
        if text and not text.isdecimal():
            raise BadRequest(f"{name}: expected a number, found {text!r}")
        return int(text) if text else None


class Exchange:
    """A request and the connection its answer goes to: a `ByteStream` after an upgrade."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer
        self._begun = False

    async def answer(self, body: bytes, *, status: str = "200 OK", kind: str = "text/plain; charset=utf-8") -> None:
        """Answer at once."""
        if not self._begun:
            await self._head(status, f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n")
            await self.write(body)

    async def answer_pieces(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Answer piece by piece; what goes wrong before the first one can still be answered as an error."""
        async with contextlib.aclosing(pieces):
            first = await anext(pieces, b"")
            await self._head("200 OK", "Content-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n")
            await self._piece(first)
            async for piece in pieces:
                await self._piece(piece)
        await self.write(b"0\r\n\r\n")

    async def upgrade(self, protocols: tuple[str, ...]) -> WebSocket:
        """Turn the connection into a WebSocket that speaks one of these protocols."""
        headers = self.request.headers
        if headers.get("upgrade", "").lower() != "websocket" or "sec-websocket-key" not in headers:
            asked = headers.get("upgrade") or "nothing"
            raise BadRequest(f"this node speaks WebSocket here ({', '.join(protocols)}), found an upgrade to {asked}")
        offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
        protocol = next((each for each in protocols if each in offered), None)
        if protocol is None:
            raise BadRequest(f"expected one of the protocols {', '.join(protocols)}, found {', '.join(offered)}")
        answer = f"Sec-WebSocket-Accept: {accepted(headers['sec-websocket-key'])}\r\n"
        await self._head(
            "101 Switching Protocols",
            f"Upgrade: websocket\r\n{answer}Sec-WebSocket-Protocol: {protocol}\r\n",
            connection="Upgrade",
        )
        return WebSocket(self, masks=False)

    async def gone(self) -> None:
        """Return when the client has; what it still says is of no interest."""
        with contextlib.suppress(Broken):
            while await self.read():
                pass

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end."""
        try:
            return await self._reader.read(_CHUNK)
        except OSError as error:
            raise Broken(f"the connection broke: {error}", sent=True) from error

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side does not keep up."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise Broken(f"the connection broke: {error}", sent=True) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._writer.close()

    async def _head(self, status: str, headers: str, connection: str = "close") -> None:
        self._begun = True
        await self.write(f"HTTP/1.1 {status}\r\nConnection: {connection}\r\n{headers}\r\n".encode("latin-1"))

    async def _piece(self, data: bytes) -> None:
        if data:
            await self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    """Read the head of a request; None when there is none to be read."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        return Exchange(read_head(head), reader, writer)
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
        return None


def read_head(head: str) -> Request:
    """Return the request a head asks for; ValueError if it asks for nothing."""
    line, *fields = head.rstrip("\r\n").split("\r\n")
    method, target, _ = line.split(" ")
    parts = urlsplit(target)
    headers: dict[str, str] = {}
    for field in fields:
        name, _, value = field.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path = tuple(unquote(each) for each in parts.path.strip("/").split("/"))
    return Request(method, path, parse_qs(parts.query, keep_blank_values=True), headers)
