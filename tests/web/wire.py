"""A server and somebody who talks to it byte by byte."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from trainwright.web.server import Handler, Server


class Wire:
    """The client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)

    async def answer(self) -> tuple[str, dict[str, str], bytes]:
        """Return status, headers and body of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = head.rstrip("\r\n").split("\r\n")
        headers: dict[str, str] = {}
        for name, _, value in (field.partition(":") for field in fields):
            known = headers.get(name.lower())
            headers[name.lower()] = f"{known}, {value.strip()}" if known else value.strip()
        return line.removeprefix("HTTP/1.1 "), headers, await self._body(headers)

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        whole = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            whole += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return whole

    async def ended(self) -> bytes:
        """Return what else comes before the server ends the connection."""
        async with asyncio.timeout(5):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""  # it did not listen to all we said

    def close(self) -> None:
        self.writer.close()


class Serving:
    """A running server, and ways to it."""

    def __init__(self, server: Server, address: str | tuple[str, int]) -> None:
        self.server, self.address = server, address

    async def connect(self, context: ssl.SSLContext | None = None) -> Wire:
        if isinstance(self.address, str):
            return Wire(*await asyncio.open_unix_connection(self.address))
        return Wire(*await asyncio.open_connection(*self.address, ssl=context))


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, *, context: ssl.SSLContext | None = None, path: Path | None = None
) -> AsyncIterator[Serving]:
    """Serve on a port, or at a path."""
    if path:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
    else:
        listener = socket.create_server(("127.0.0.1", 0))
    async with Server(listener, handler, context=context) as server:
        yield Serving(server, listener.getsockname())
