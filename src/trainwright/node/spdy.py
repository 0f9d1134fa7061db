"""SPDY/3.1 as `kubectl port-forward` speaks it: many streams inside one connection, here the messages of a WebSocket.

Only what that program uses: it opens streams, both sides send data and end their halves. There are no windows, and what
one stream does not take holds up the others, exactly as on the other side.
"""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.websocket import WebSocket

_VERSION: Final = 0x8003
_OPEN, _REPLY, _RESET, _PING, _GOODBYE = 1, 2, 3, 6, 7
_LAST: Final = 1
"""The flag of the last frame in one direction."""
_HEAD: Final = 8
_BUFFER_LIMIT: Final = 1 << 25
_HEADERS_LIMIT: Final = 1 << 16
_DATA_SIZE: Final = 1 << 16
_WAITING: Final = 16
"""So many pieces of data wait for a reader before the connection is not read any further."""

# Both sides' compressors begin with these words, so the bytes below are a part of the protocol.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_CODES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
)
_REST: Final = (
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: str) -> bytes:
    return struct.pack("!I", len(text)) + text.encode("latin-1")


DICTIONARY: Final = b"".join(_counted(word.replace("_", " ")) for word in _WORDS.split()) + (_CODES + _REST).encode()


class SpdyStream:
    """One stream that the other side has opened. Reading ends when its half has."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.received: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._connection = connection
        self._over = False

    async def read(self) -> bytes:
        """Return the next piece of data; nothing at the end."""
        data = b"" if self._over else await self.received.get()
        self._over = not data
        return data

    async def write(self, data: bytes) -> None:
        """Send data."""
        for start in range(0, len(data), _DATA_SIZE):
            await self._connection.send_data(self.number, data[start : start + _DATA_SIZE])

    async def end(self) -> None:
        """End our half; what may still come is dropped."""
        self._connection.forget(self)
        await self._connection.send_data(self.number, b"", _LAST)


class SpdyConnection:
    """The server's side of a connection."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._buffer = bytearray()
        self._streams: dict[int, SpdyStream] = {}
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    async def streams(self) -> AsyncIterator[SpdyStream]:
        """Yield the streams the other side opens, until it goes; data comes to the others while this is read."""
        try:
            while (frame := await self._frame()) is not None:
                kind, flags, body = frame
                if kind == _OPEN:
                    yield await self._opened(flags, body)
                elif kind == _PING:
                    await self._send(_PING, body)
                elif kind == _GOODBYE:
                    return
                else:
                    await self._deliver(kind, flags, body)
        finally:
            for stream in list(self._streams.values()):
                self.forget(stream)

    async def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        """Send a piece of data of a stream."""
        await self._socket.send(struct.pack("!II", number, flags << 24 | len(data)) + data)

    def forget(self, stream: SpdyStream) -> None:
        """Drop what comes for a stream from now on."""
        self._streams.pop(stream.number, None)
        _finish(stream)

    async def _send(self, kind: int, body: bytes) -> None:
        await self._socket.send(struct.pack("!HHI", _VERSION, kind, len(body)) + body)

    async def _opened(self, flags: int, body: bytes) -> SpdyStream:
        number, headers = self._read_open(body)
        stream = self._streams[number] = SpdyStream(self, number, headers)
        nothing = self._pack.compress(struct.pack("!I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self._send(_REPLY, struct.pack("!I", number) + nothing)
        if flags & _LAST:
            await stream.received.put(b"")
        return stream

    def _read_open(self, body: bytes) -> tuple[int, dict[str, str]]:
        try:
            block = self._unpack.decompress(body[10:], _HEADERS_LIMIT)
            return struct.unpack_from("!I", body)[0], read_headers(block)
        except (struct.error, zlib.error) as error:
            raise Broken(f"a stream was opened with headers nobody can read: {error}", sent=True) from error

    async def _deliver(self, kind: int, flags: int, body: bytes) -> None:
        """Hand a piece of data to its stream, which reads an empty one as the end. Frames of no use are left out."""
        stream = self._streams.get(int.from_bytes(body[:4], "big"))
        if stream is None:
            return
        if kind == _RESET:
            self.forget(stream)
        elif kind == 0:
            if len(body) > 4:
                await stream.received.put(body[4:])
            if flags & _LAST:
                await stream.received.put(b"")

    async def _frame(self) -> tuple[int, int, bytes] | None:
        """Return kind (0: data, with the number of the stream in front), flags and body of the next frame."""
        if not await self._have(_HEAD):
            return None
        first, second = struct.unpack_from("!II", self._buffer)
        size = second & 0xFFFFFF
        if not await self._have(_HEAD + size):
            return None
        body = bytes(self._buffer[_HEAD : _HEAD + size])
        del self._buffer[: _HEAD + size]
        if first >> 31:
            return first & 0xFFFF, second >> 24, body
        return 0, second >> 24, struct.pack("!I", first) + body

    async def _have(self, size: int) -> bool:
        while len(self._buffer) < size:
            message = await self._socket.receive()
            if message is None:
                return False
            self._buffer += message[1]
            if len(self._buffer) > _BUFFER_LIMIT:
                raise Broken("a frame is too long", sent=True)
        return True


def read_headers(block: bytes) -> dict[str, str]:
    """Return the names and values of a block."""
    (count,) = struct.unpack_from("!I", block)
    words, position = [], 4
    for _ in range(2 * count):
        (size,) = struct.unpack_from("!I", block, position)
        words.append(block[position + 4 : position + 4 + size].decode("latin-1"))
        position += 4 + size
    return dict(zip(words[::2], words[1::2], strict=True))


def _finish(stream: SpdyStream) -> None:
    """End a stream for whoever reads it; what does not fit in beside that is dropped."""
    while stream.received.full():
        stream.received.get_nowait()
    stream.received.put_nowait(b"")
