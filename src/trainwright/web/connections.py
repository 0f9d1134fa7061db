"""A listening socket and the connections it has accepted: whoever stops listening ends them all.

Connections are accepted here and not by asyncio's own server, because each of them asks anew how it is encrypted:
certificates are exchanged while connections stand, and a slow handshake holds up nobody else.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 10.0
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_SECONDS = 0.1
_BACKLOG = 1024


class Connection(asyncio.StreamReaderProtocol):
    """Both directions of one connection, and whether the other side has left."""

    def __init__(self, accepted: socket.socket, limit: int) -> None:
        self.socket = accepted
        self.reader = asyncio.StreamReader(limit)
        super().__init__(self.reader)
        self.gone = asyncio.Event()
        """Set when the other side sends nothing more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        self.writer = asyncio.StreamWriter(transport, self, self.reader, asyncio.get_running_loop())

    def eof_received(self) -> bool | None:
        """Remember that nothing more comes."""
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Remember that nothing more comes."""
        self.gone.set()
        super().connection_lost(error)


Answer = Callable[[Connection], Awaitable[None]]


class Connections:
    """Answers each connection in a task of its own, and closes it afterwards; an async context manager."""

    def __init__(
        self, listener: socket.socket, answer: Answer, *, limit: int, context: ssl.SSLContext | None = None
    ) -> None:
        self.context = context
        """How the next connection is encrypted; None: not at all."""
        self._listener = listener
        self._answer = answer
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Connections":
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = (self._accepting, *self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in _FULL:
                    log.debug("a connection was not accepted: %s", error)
                    continue
                log.warning("no further connection can be accepted: %s; raise the limit of open files", error)
                await asyncio.sleep(_FULL_SECONDS)
                continue
            task = asyncio.create_task(self._serve(accepted))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        loop, context = asyncio.get_running_loop(), self.context
        try:
            if accepted.family != socket.AF_UNIX:  # each piece of a stream goes out at once
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, connection = await loop.connect_accepted_socket(
                lambda: Connection(accepted, self._limit),
                accepted,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if context else None,
            )
        except OSError as error:
            log.debug("a connection ended before it had begun: %s", error)
            accepted.close()
            return
        try:
            await self._answer(connection)
        except OSError as error:
            log.debug("a connection broke: %s", error)
        finally:
            connection.writer.close()
