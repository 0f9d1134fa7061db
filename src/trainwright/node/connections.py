"""A listening socket and the connections it has accepted: whoever stops listening ends them all."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Connections:
    """Answers each connection in a task of its own, and closes it afterwards; an async context manager."""

    def __init__(
        self, listener: socket.socket, answer: Answer, *, limit: int, context: ssl.SSLContext | None = None
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._limit = limit
        self._context = context
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Connections":
        self._server = await asyncio.start_server(
            self._accept, sock=self._listener, ssl=self._context, limit=self._limit
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._running.add(task)
        try:
            await self._answer(reader, writer)
        finally:
            self._running.discard(task)
            writer.close()
