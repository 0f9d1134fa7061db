"""The server: requests one after the other on each connection, over TCP, TLS or a unix socket.

What a handler refuses (a `ClusterError`) is answered in its words, and what breaks in one is logged and answered with
500. Bounds: a head of 64 KiB within 30 seconds, and a connection that asks nothing is closed after 75.
"""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.core.errors import BadRequest, ClusterError
from trainwright.web.connections import Connection, Connections
from trainwright.web.exchange import HEAD_BYTES, Exchange, Peer, read_head

log = logging.getLogger(__name__)

Handler = Callable[[Exchange], Awaitable[None]]

TEXT = "text/plain; charset=utf-8"
_HEAD_SECONDS = 30.0
_IDLE_SECONDS = 75.0
_PEER = struct.Struct("3i")


class Server:
    """Serves a listening socket. An async context manager: leaving it ends everything that is under way."""

    def __init__(self, listener: socket.socket, handler: Handler, *, context: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._local = listener.family == socket.AF_UNIX
        self._connections = Connections(listener, self._serve, limit=HEAD_BYTES, context=context)

    @property
    def context(self) -> ssl.SSLContext | None:
        """Say how connections are encrypted; a new context holds for new connections."""
        return self._connections.context

    @context.setter
    def context(self, context: ssl.SSLContext | None) -> None:
        self._connections.context = context

    async def __aenter__(self) -> "Server":
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connections.__aexit__(*error)

    async def _serve(self, connection: Connection) -> None:
        peer = _peer(connection.socket) if self._local else None
        seconds = _HEAD_SECONDS
        try:
            while (exchange := await _receive(connection, peer, seconds)) is not None:
                await self._handled(exchange)
                if not await exchange.finished():
                    return
                seconds = _IDLE_SECONDS
        except Broken:
            log.debug("a client has gone before it was answered")

    async def _handled(self, exchange: Exchange) -> None:
        try:
            await self._handler(exchange)
        except ClusterError as error:
            await exchange.answer(f"{error}\n".encode(), status=f"{error.code} {error.reason}", kind=TEXT)
        except Broken:
            raise
        except Exception:
            log.exception("a request broke: %s /%s", exchange.request.method, "/".join(exchange.request.path))
            await exchange.answer(b"this request broke here; the log says why\n", status="500 InternalError", kind=TEXT)


async def _receive(connection: Connection, peer: Peer | None, seconds: float) -> Exchange | None:
    """Read the head of a request; None when there is none to be read."""
    try:
        async with asyncio.timeout(seconds):
            head = await connection.reader.readuntil(b"\r\n\r\n")
        request, keep = read_head(head.decode("latin-1"), peer)
        return Exchange(request, connection, keep=keep)
    except (TimeoutError, asyncio.IncompleteReadError, OSError):
        return None
    except asyncio.LimitOverrunError:
        _refuse(connection, "431 Request Header Fields Too Large", f"a head has at most {HEAD_BYTES} bytes here")
    except (ValueError, BadRequest):
        _refuse(connection, "400 BadRequest", "this is not an HTTP/1.1 request")
    return None


def _refuse(connection: Connection, status: str, sentence: str) -> None:
    body = f"{sentence}\n".encode()
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {TEXT}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.writer.write(head.encode() + body)


def _peer(accepted: socket.socket) -> Peer | None:
    """Return who connected; None where the kernel does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return Peer(*_PEER.unpack(accepted.getsockopt(socket.SOL_SOCKET, option, _PEER.size)))
