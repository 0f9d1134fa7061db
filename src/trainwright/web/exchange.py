"""One request, and the answer to it: whole, in pieces, or as a WebSocket.

A handler answers once. What it does not read of the request's body is read by the server before the next request.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.websocket import WebSocket, accepted
from trainwright.core.errors import BadRequest, ClusterError, TooLarge
from trainwright.web.connections import Connection

HEAD_BYTES: Final = 1 << 16
BODY_BYTES: Final = 3 << 20
"""What the API server accepts, too."""
_BODY_SECONDS = 60.0
_DROPPED_BYTES = 16 << 20
_DROP_SECONDS = 5.0
_CHUNK = 1 << 16
_SIZE_DIGITS = 16
_TRUE = ("1", "true")


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a unix socket, as the kernel knows it."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    peer: Peer | None = None

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

    def __init__(self, request: Request, connection: Connection, *, keep: bool = False) -> None:
        self.request = request
        self.begun = False
        """Whether an answer is under way, so that no other can be given."""
        self._connection = connection
        self._reader = connection.reader
        self._keep = keep
        self._body: AsyncIterator[bytes] | None = None if self._bodiless else self._received()

    # What the client says

    async def body(self, limit: int = BODY_BYTES) -> bytes:
        """Return what came with the request; TooLarge if it is more than so many bytes."""
        if self._body is None:
            return b""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in self._body:
                    size += len(part)
                    if size > limit:
                        raise TooLarge(f"the request is too large: at most {limit} bytes are read here")
                    parts.append(part)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Broken(f"the body of a request did not come: {error}", sent=True) from error
        except ClusterError:
            self._keep = False  # where the next request would begin is not known
            raise
        self._body = None
        return b"".join(parts)

    @property
    def _bodiless(self) -> bool:
        return self._length == 0 and "transfer-encoding" not in self.request.headers

    @property
    def _length(self) -> int:
        text = self.request.headers.get("content-length", "0")
        if not (text.isascii() and text.isdecimal()):
            raise BadRequest(f"Content-Length: expected a number, found {text!r}")
        return int(text)

    async def _received(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; whoever stops listening may go on later."""
        if self.request.headers.get("expect", "").lower() == "100-continue":
            await self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async for part in self._counted(self._length) if self._length else self._chunks():
            yield part

    async def _counted(self, left: int) -> AsyncIterator[bytes]:
        while left:
            part = await self._reader.read(min(left, _CHUNK))
            if not part:
                raise Broken("the client left inside its request", sent=True)
            left -= len(part)
            yield part

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := await self._chunk_size():
            while size:
                part = await self._reader.readexactly(min(size, _CHUNK))
                size -= len(part)
                yield part
            if await self._reader.readexactly(2) != b"\r\n":
                raise BadRequest("a chunk is longer than it says")
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers say nothing we want to know

    async def _chunk_size(self) -> int:
        digits = (await self._reader.readuntil(b"\r\n"))[:-2].partition(b";")[0].strip()
        if not 0 < len(digits) <= _SIZE_DIGITS or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadRequest(f"expected the size of a chunk, found {digits[:20]!r}")
        return int(digits, 16)

    # What is answered

    async def answer(
        self,
        body: bytes,
        *,
        status: str = "200 OK",
        kind: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Answer at once; a second answer is not sent."""
        if not self.begun:
            described = (("Content-Type", kind), ("Content-Length", str(len(body))), *headers)
            head = self._head(status, described)
            await self.write(head if self.request.method == "HEAD" else head + body)

    async def answer_pieces(self, pieces: AsyncGenerator[bytes, None], *, kind: str = "application/json") -> None:
        """Answer piece by piece until all is said or the client goes.

        What goes wrong before the first piece can still be answered as an error.
        """
        sending = asyncio.create_task(self._send(pieces, kind))
        leaving = asyncio.create_task(self._connection.gone.wait())
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def upgrade(self, protocols: tuple[str, ...]) -> WebSocket:
        """Turn the connection into a WebSocket that speaks one of these protocols."""
        headers = self.request.headers
        if headers.get("upgrade", "").lower() != "websocket" or "sec-websocket-key" not in headers:
            asked = headers.get("upgrade") or "nothing"
            raise BadRequest(f"WebSocket is spoken here ({', '.join(protocols)}), found an upgrade to {asked}")
        offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
        protocol = next((each for each in protocols if each in offered), None)
        if protocol is None:
            raise BadRequest(f"expected one of the protocols {', '.join(protocols)}, found {', '.join(offered)}")
        self._keep = False
        described = (
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Accept", accepted(headers["sec-websocket-key"])),
            ("Sec-WebSocket-Protocol", protocol),
        )
        await self.write(self._head("101 Switching Protocols", described, connection="Upgrade"))
        return WebSocket(self, masks=False)

    # A ByteStream

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end."""
        try:
            return await self._reader.read(_CHUNK)
        except OSError as error:
            raise Broken(f"the connection broke: {error}", sent=True) from error

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side does not keep up."""
        writer = self._connection.writer
        try:
            writer.write(data)
            await writer.drain()
        except OSError as error:
            raise Broken(f"the connection broke: {error}", sent=True) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.writer.close()

    # What the server asks

    async def finished(self) -> bool:
        """Return whether another request may follow, once what is left of this one was read."""
        if self._body is not None:
            await self._drop(self._body)
        return self._keep and self.begun

    async def _drop(self, body: AsyncIterator[bytes]) -> None:
        """Read a body that nobody wants: a client that is still sending would not see its answer."""
        left = _DROPPED_BYTES
        with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ClusterError):
            async with asyncio.timeout(_DROP_SECONDS):
                async for part in body:
                    left -= len(part)
                    if left < 0:
                        break
                else:
                    return
        self._keep = False

    # Inside

    async def _send(self, pieces: AsyncGenerator[bytes, None], kind: str) -> None:
        async with contextlib.aclosing(pieces):
            first = await anext(pieces, b"")
            head = self._head("200 OK", (("Content-Type", kind), ("Transfer-Encoding", "chunked")))
            keep, self._keep = self._keep, False  # an answer that breaks off ends with its connection
            await self.write(head)
            await self._piece(first)
            async for piece in pieces:
                await self._piece(piece)
        await self.write(b"0\r\n\r\n")
        self._keep = keep

    async def _piece(self, data: bytes) -> None:
        if data:
            await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _head(self, status: str, headers: Iterable[tuple[str, str]], connection: str = "") -> bytes:
        self.begun = True
        connection = connection or ("keep-alive" if self._keep else "close")
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        return f"HTTP/1.1 {status}\r\nConnection: {connection}\r\n{lines}\r\n".encode()


def read_head(head: str, peer: Peer | None = None) -> tuple[Request, bool]:
    """Return the request a head asks for and whether another may follow it; ValueError if it asks for nothing."""
    line, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = line.split(" ")
    parts = urlsplit(target)
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError(field)
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "transfer-encoding" in headers and (headers["transfer-encoding"] != "chunked" or "content-length" in headers):
        raise ValueError("two lengths, or none that can be told")  # where a request ends must be beyond doubt
    path = tuple([unquote(each) for each in parts.path.strip("/").split("/")])
    query = parse_qs(parts.query, keep_blank_values=True) if parts.query else {}
    keep = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
    return Request(method, path, query, headers, peer), keep
