"""WebSocket messages (RFC 6455) over any stream of bytes: as much as the API server's and a node's streams need.

A client's frames go out masked, a server's do not. Messages come back whole: fragments are joined, pings are answered.
"""

import base64
import hashlib
import os
import struct
from typing import Final, Protocol

from trainwright.cluster.kubernetes.connection import Broken

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_CONTINUED: Final = 0
_MESSAGE_LIMIT: Final = 1 << 26
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def handshake(protocols: str) -> tuple[str, str]:
    """Return the headers that ask for an upgrade, and what the server must answer to them."""
    key = base64.b64encode(os.urandom(16)).decode()
    headers = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocols}\r\n"
    )
    return headers, accepted(key)


def accepted(key: str) -> str:
    """Return what a server answers to the key of a client that asks for an upgrade."""
    return base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()  # noqa: S324 - the RFC says so


def frame(kind: int, payload: bytes, mask: bytes = b"") -> bytes:
    """Return one whole message as a frame, masked if there is a mask."""
    size, bit = len(payload), 0x80 if mask else 0
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, bit | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, bit | 127, size)
    return head + mask + (masked(payload, mask) if mask else payload)


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return the payload masked, or a masked one as it was: as one big number, for bytes are slow."""
    if not payload:
        return b""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


class ByteStream(Protocol):
    """What an upgraded connection offers; what is broken raises Broken."""

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side does not keep up."""

    def close(self) -> None:
        """Let go of the connection."""


class WebSocket:
    """Messages over an upgraded stream; `masks` on the client's side."""

    def __init__(self, stream: ByteStream, *, masks: bool = True) -> None:
        self._stream = stream
        self._masks = masks
        self._buffer = bytearray()
        self._fragments: list[bytes] = []
        self._fragments_kind = BINARY
        self._closing = False

    async def send(self, payload: bytes, kind: int = BINARY) -> None:
        """Send a message, and wait while the other side does not keep up."""
        await self._write(kind, payload)

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next message and whether it is TEXT or BINARY; None at the end."""
        while True:
            received = await self._frame()
            if received is None:
                return None
            kind, final, payload = received
            if kind == PING:
                await self._write(PONG, payload)
            elif kind == CLOSE:
                await self._answer_close(payload)
                return None
            elif kind in (TEXT, BINARY, _CONTINUED):
                if kind != _CONTINUED:
                    self._fragments_kind = kind
                self._fragments.append(payload)
                if sum(map(len, self._fragments)) > _MESSAGE_LIMIT:
                    raise Broken("a message is too long", sent=True)
                if final:
                    whole = b"".join(self._fragments)
                    self._fragments.clear()
                    return self._fragments_kind, whole

    async def close(self) -> None:
        """Say goodbye, and let go of the connection without waiting for an answer."""
        try:
            if not self._closing:
                self._closing = True
                await self._write(CLOSE, struct.pack("!H", 1000))
        except Broken:
            pass  # it is gone already
        finally:
            self._stream.close()

    async def finish(self) -> None:
        """Say goodbye, and wait until the other side has too: nothing that was sent is lost on the way then."""
        try:
            if not self._closing:
                self._closing = True
                await self._write(CLOSE, struct.pack("!H", 1000))
            while await self.receive() is not None:
                pass
        except Broken:
            pass  # the other side did not wait for it
        finally:
            self._stream.close()

    async def _write(self, kind: int, payload: bytes) -> None:
        await self._stream.write(frame(kind, payload, os.urandom(4) if self._masks else b""))

    async def _answer_close(self, payload: bytes) -> None:
        if not self._closing:
            self._closing = True
            try:
                await self._write(CLOSE, payload[:2])
            except Broken:
                return  # the other side did not wait for it

    async def _frame(self) -> tuple[int, bool, bytes] | None:
        """Return kind, finality and payload of the next frame; None when the stream ends between frames."""
        if not await self._have(2):
            return None
        first, second = self._buffer[0], self._buffer[1]
        size, head = second & 0x7F, 2
        if size >= 126:
            head = 4 if size == 126 else 10
            await self._need(head)
            size = int.from_bytes(self._buffer[2:head], "big")
        if size > _MESSAGE_LIMIT:
            raise Broken(f"a frame of {size} bytes is too long", sent=True)
        mask = b""
        if second & 0x80:
            head += 4
            await self._need(head)
            mask = bytes(self._buffer[head - 4 : head])
        await self._need(head + size)
        payload = bytes(self._buffer[head : head + size])
        del self._buffer[: head + size]
        return first & 0x0F, bool(first & 0x80), masked(payload, mask) if mask else payload

    async def _have(self, size: int) -> bool:
        while len(self._buffer) < size:
            data = await self._stream.read()
            if not data:
                return False
            self._buffer += data
        return True

    async def _need(self, size: int) -> None:
        if not await self._have(size):
            raise Broken("the connection ended inside a message", sent=True)
