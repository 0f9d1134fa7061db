"""HTTP/1.1 to one server: connections that are used again, whole answers and streams, nothing left half-read.

`Pool` hands a connection to one request at a time. Nothing here repeats a request; `Broken` says whether the server
may have acted on it, and `rest` decides.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from trainwright.cluster.kubernetes.connection import Answer, Broken, Connection

__all__ = ["Answer", "Broken", "Check", "Connection", "Pool", "Stream", "lines"]

Check = Callable[[], None]
"""The last thing that happens before a request is written."""


class Stream:
    """An answer that goes on: read it to the end, or close it."""

    def __init__(self, answer: Answer, connection: Connection, released: Callable[[Connection], None]) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._connection = connection
        self._released = released
        self._over = False

    async def read(self, timeout: float | None = None) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end. Broken when it is cut, or silent for long."""
        try:
            data = await self._connection.read(timeout)
        except Broken:
            self.close()
            raise
        if not data:
            self.close()
        return data

    async def rest(self, timeout: float) -> bytes:
        """Return everything that is left."""
        parts = []
        while data := await self.read(timeout):
            parts.append(data)
        return b"".join(parts)

    async def write(self, data: bytes) -> None:
        """Send more, after an upgrade."""
        await self._connection.write(data)

    def close(self) -> None:
        """Let go of it; a stream that was read to its end leaves a connection that can be used again."""
        if not self._over:
            self._over = True
            self._released(self._connection)


class Pool:
    """Connections to one server. At most `limit` requests are under way at once; streams do not count."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, limit: int = 32, idle_seconds: float = 45.0
    ) -> None:
        self._connect = connect
        self._idle_seconds = idle_seconds
        self._limit = limit
        self._turn = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._closed = False

    async def request(self, request: bytes, timeout: float | None, check: Check = lambda: None) -> Answer:
        """Send a request and return the whole answer; what `check` raises keeps it from being sent."""
        async with self._turn:
            connection = await self._connection()
            try:
                check()  # here and not before: nothing is waited for from now until the bytes are written
                return await connection.ask(request, timeout)
            finally:
                self._release(connection)

    async def stream(self, request: bytes, timeout: float | None, check: Check = lambda: None) -> Stream:
        """Send a request and return its answer as it comes; `timeout` is for its head."""
        connection = await self._connection()
        try:
            check()
            answer = await connection.ask(request, timeout, stream=True)
        except BaseException:
            self._release(connection)
            raise
        return Stream(answer, connection, self._release)

    def drop_idle(self) -> None:
        """Begin anew: credentials have changed, and connections made with the old ones are used no longer."""
        for connection in self._all:
            connection.retired = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    async def close(self) -> None:
        """End all connections."""
        self._closed = True
        self._idle.clear()
        ending = [*self._all]
        for connection in ending:
            connection.abort()
        for connection in ending:
            await connection.gone()
        self._all.clear()

    def counts(self) -> tuple[int, int]:
        """Return how many connections there are, and how many of them are idle."""
        self._forget_lost()
        return len(self._all), len(self._idle)

    async def _connection(self) -> Connection:
        self._check_open()
        latest = time.monotonic() - self._idle_seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since > latest:
                return connection
            connection.abort()
            self._all.discard(connection)
        connection = await self._connect()
        try:
            self._check_open()
        except Broken:
            connection.abort()
            raise
        self._all.add(connection)
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise Broken("this client is closed", sent=False)

    def _release(self, connection: Connection) -> None:
        if connection.reusable and not self._closed and len(self._idle) < self._limit:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.abort()
            self._all.discard(connection)

    def _forget_lost(self) -> None:
        self._idle = [connection for connection in self._idle if connection.reusable]
        self._all = {connection for connection in self._all if connection.alive}


async def lines(stream: Stream, silence: float | None) -> AsyncIterator[list[bytes]]:
    """Yield the whole lines of a stream as they arrive; what is cut off in the middle of a line is no line."""
    begun = b""
    while data := await stream.read(silence):
        whole = (begun + data).split(b"\n") if begun else data.split(b"\n")
        begun = whole.pop()
        if whole:
            yield whole
