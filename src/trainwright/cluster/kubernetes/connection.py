"""One HTTP/1.1 connection: requests go out one at a time, answers are parsed as far as bytes have come.

Whoever is cancelled or out of time aborts the connection; one that says it is `reusable` has nothing left to say.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

_HEAD_LIMIT: Final = 1 << 16
_BUFFER_LIMIT: Final = 1 << 20
"""A stream nobody reads stops being received at so many bytes."""
_MORE: Final = -1


class Broken(OSError):  # noqa: N818 - a state of the connection, and what to do is said apart
    """A connection ended before the answer did."""

    def __init__(self, message: str, *, sent: bool, reused: bool = False, overdue: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the server may have seen the request, and acted."""
        self.reused = reused
        """Whether the connection had served before: the server may just have closed it for being idle."""
        self.overdue = overdue
        """Whether it was we who had waited long enough."""


@dataclass(frozen=True)
class Answer:
    """An answer: its head, and the whole body unless it is streamed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One connection: one request at a time, its answer read whole or as a stream."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parse: Callable[[bytes, int], int] | None = None
        self._rest = b""
        self._left = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._streaming = False
        self._head: tuple[int, dict[str, str]] | None = None
        self._ended = False
        self._keep = True
        self._waiter: asyncio.Future[None] | None = None
        self._error: Broken | None = None
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self.served = 0
        """How many answers came back whole."""
        self.idle_since = 0.0
        self.retired = False
        """Set by a pool that wants no further request on it."""

    # What a pool asks

    @property
    def reusable(self) -> bool:
        """Say whether another request may be sent."""
        return self._parse is None and self._keep and not self.retired and self.alive

    @property
    def alive(self) -> bool:
        """Say whether the connection still stands."""
        return self._error is None and self._transport is not None

    def abort(self) -> None:
        """End the connection now; whatever it was about is lost."""
        self._keep = False
        if self._transport:
            self._transport.abort()

    async def gone(self) -> None:
        """Wait until nothing is left of an aborted connection."""
        await asyncio.shield(self._closed)

    # What a request asks

    async def ask(self, request: bytes, timeout: float | None, *, stream: bool = False) -> Answer:
        """Send a request and return its answer; of a stream only the head, and `read` gives the rest."""
        if self._transport is None or self._error is not None:
            raise Broken(str(self._error or "the connection is closed"), sent=False, reused=self.served > 0)
        assert self._parse is None, "one request at a time"
        self._parse = self._parse_head
        self._streaming = stream
        self._head = None
        self._ended = False
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._overdue, timeout) if timeout is not None else None
        try:
            self._transport.write(request)
            await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None
            if timer:
                timer.cancel()
        return self._answer(b"" if stream else self._take())

    async def read(self, timeout: float | None = None) -> bytes:
        """Return what has arrived of a stream, at least a byte; nothing at its end."""
        while not self._parts:
            if self._error is not None and not self._ended:
                raise self._error
            if self._ended:
                return b""
            self._waiter = self._loop.create_future()
            # Cheaper than asyncio.timeout, and a watch reads once per event.
            timer = self._loop.call_later(timeout, self._silent, timeout) if timeout is not None else None
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer:
                    timer.cancel()
        data = self._take()
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send more, after an upgrade; wait while the other side does not keep up."""
        if self._error is not None or self._transport is None:
            raise self._error or Broken("the connection is closed", sent=False)
        self._transport.write(data)
        if self._writable is not None:
            await asyncio.shield(self._writable)

    async def tunnel(self, request: bytes) -> Answer:
        """Ask a proxy for a way through; the bytes that follow are the other side's."""
        answer = await self.ask(request, None, stream=True)
        self._parse = None
        self._ended = False
        self._keep = True
        self.served = 0
        return answer

    async def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Encrypt what follows."""
        assert self._transport is not None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=server_name)
        if transport is None:
            raise Broken("the connection closed while TLS was starting", sent=False)
        self._transport = transport

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if raw := transport.get_extra_info("socket"):
            notice_death(raw)

    def data_received(self, data: bytes) -> None:
        """Parse as far as the bytes reach."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        position, end = 0, len(data)
        while position < end:
            if self._parse is None:
                self._fail("the server sent more than it was asked")
                self.abort()
                return
            following = self._parse(data, position)
            if following == _MORE:
                self._rest = data[position:]
                return
            position = following

    def eof_received(self) -> None:
        """An answer without length ends here."""
        if self._parse is not None and self._parse == self._parse_rest:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        self._fail(str(exc) if exc else "the server closed the connection")
        self._transport = None
        self._keep = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """The other side does not keep up."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """It does again."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Parsing: each returns the position after what it took, or _MORE

    def _parse_head(self, data: bytes, position: int) -> int:
        end = data.find(b"\r\n\r\n", position)
        if end < 0:
            if len(data) - position > _HEAD_LIMIT:
                return self._nonsense("an answer's head is too long", data)
            return _MORE
        first, *lines = data[position:end].decode("latin-1").split("\r\n")
        if not first.startswith("HTTP/1.") or not first[9:12].isdigit():
            return self._nonsense(f"that is no HTTP answer: {first[:60]!r}", data)
        status = int(first[9:12])
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        end += 4
        if 100 <= status < 200 and status != 101:
            return end
        self._keep = first[7] == "1" and "close" not in headers.get("connection", "").lower()
        self._head = status, headers
        return self._begin_body(status, headers, end, data)

    def _begin_body(self, status: int, headers: dict[str, str], position: int, data: bytes) -> int:
        if status == 101:
            self._parse, self._keep = self._parse_rest, False
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._parse = self._parse_chunk
        elif (length := headers.get("content-length")) is not None:
            if not length.isdigit():
                return self._nonsense(f"content-length is {length!r}", data)
            self._left = int(length)
            self._parse = self._parse_sized
            if not self._left:
                self._end()
        elif status in (204, 304):
            self._end()
        else:
            self._parse, self._keep = self._parse_rest, False
        if self._streaming:
            self._wake()
        return position

    def _parse_sized(self, data: bytes, position: int) -> int:
        end = min(position + self._left, len(data))
        self._left -= end - position
        self._feed(data[position:end])
        if not self._left:
            self._end()
        return end

    def _parse_chunk(self, data: bytes, position: int) -> int:
        end = data.find(b"\r\n", position)
        if end < 0:
            return _MORE if len(data) - position < _HEAD_LIMIT else self._nonsense("a chunk without size", data)
        try:
            self._left = int(data[position:end].partition(b";")[0], 16)
        except ValueError:
            self._left = -1
        if self._left < 0:
            return self._nonsense(f"a chunk's size is {data[position : position + 20]!r}", data)
        self._parse = self._parse_chunk_data if self._left else self._parse_trailer
        return end + 2

    def _parse_chunk_data(self, data: bytes, position: int) -> int:
        end = min(position + self._left, len(data))
        self._left -= end - position
        self._feed(data[position:end])
        if not self._left:
            self._parse = self._parse_chunk_end
        return end

    def _parse_chunk_end(self, data: bytes, position: int) -> int:
        if len(data) - position < 2:
            return _MORE
        if data[position : position + 2] != b"\r\n":
            return self._nonsense("a chunk is longer than it said", data)
        self._parse = self._parse_chunk
        return position + 2

    def _parse_trailer(self, data: bytes, position: int) -> int:
        end = data.find(b"\r\n", position)
        if end < 0:
            return _MORE if len(data) - position < _HEAD_LIMIT else self._nonsense("a trailer is too long", data)
        if end == position:
            self._end()
        return end + 2

    def _parse_rest(self, data: bytes, position: int) -> int:
        self._feed(data[position:])
        return len(data)

    # Inside

    def _feed(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._streaming:
            if self._size > _BUFFER_LIMIT and not self._paused and self._transport:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def _answer(self, body: bytes) -> Answer:
        assert self._head is not None
        return Answer(*self._head, body)

    def _take(self) -> bytes:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return data

    def _end(self) -> None:
        self._parse = None
        self._ended = True
        self.served += 1
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, message: str, *, overdue: bool = False) -> None:
        if self._error is None:
            sent = self._parse is not None
            reused = self.served > 0 and self._head is None
            self._error = Broken(message, sent=sent, reused=reused, overdue=overdue)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(self._error)

    def _overdue(self, seconds: float) -> None:
        self._fail(f"no answer within {seconds:g} s", overdue=True)
        self.abort()

    def _silent(self, seconds: float) -> None:
        self._fail(f"nothing was heard for {seconds:g} s", overdue=True)
        self.abort()

    def _nonsense(self, message: str, data: bytes) -> int:
        self._fail(message)
        self.abort()
        return len(data)


def notice_death(raw: socket.socket) -> None:
    """Have the kernel tell within about half a minute that the other side is gone without a word."""
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", 15),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 30000),
        ):
            if option := getattr(socket, name, None):
                raw.setsockopt(socket.IPPROTO_TCP, option, value)
