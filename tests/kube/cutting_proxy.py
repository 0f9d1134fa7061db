"""A proxy between an operator and the API server that can take the operator's life after any of its calls.

It speaks plain HTTP/1.1 to the operator and TLS to the server, and passes everything on as it comes. Calls that change
something go through one at a time, so that "the call after which it dies" means something: what the operator has sent
beside it never reaches the server. Every such call is written down with the server's answer.
"""

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

Answer = Literal["answered", "unanswered"]
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")
_HEAD_LIMIT = 1 << 20


@dataclass(frozen=True)
class Message:
    """A request or an answer: its first line, what its head says of the body, and the head as it came."""

    first: str
    length: int | None
    chunked: bool
    head: bytes


@dataclass(frozen=True)
class Done:
    """A call that may have changed something."""

    method: str
    path: str
    name: str
    """Of a POST: what it creates."""
    code: int

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.name} {self.code}"


@dataclass
class CuttingProxy:
    """Passes calls on; after the call number `last` it calls `kill`, and all connections there are lead nowhere."""

    server: str
    ca: Path
    last: int = 0
    answer: Answer = "answered"
    """Whether the operator still hears what the server said to its last call."""
    kill: Callable[[], None] = lambda: None
    port: int = 0
    done: list[Done] = field(default_factory=list)
    cut: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    """One per connection."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["CuttingProxy"]:
        """Serve while the body runs."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0, limit=_HEAD_LIMIT)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def kubeconfig(self, original: Path) -> str:
        """Return a kubeconfig that leads here, for the same user."""
        config = json.loads(original.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        return json.dumps(config)

    def created(self) -> Counter[str]:
        """Return how often each object was really created, events apart."""
        made = (f"{each.path.rpartition('/')[2]}/{each.name}" for each in self.done if each.code == 201)
        return Counter(each for each in made if not each.startswith("events/"))

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connected(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also after one that ends before it has begun

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._upstream() as (back, forth):
                while await self._pass_one(reader, writer, back, forth):
                    pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side has gone: so does the other

    @contextlib.asynccontextmanager
    async def _upstream(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        where = urlsplit(self.server)
        context = ssl.create_default_context(cafile=str(self.ca))
        reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context, limit=_HEAD_LIMIT)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _pass_one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
    ) -> bool:
        """Pass on one request and its answer; return whether another may follow."""
        request = await _read_head(reader)
        body = await reader.readexactly(request.length or 0)
        method, target, _ = request.first.split(" ")
        if method not in _CHANGES:
            forth.write(request.head + body)
            await _relay(back, writer)
            return True
        async with self._turn:
            forth.write(request.head + body)
            head, whole = await _whole(back)
            self._note(method, urlsplit(target).path, body, head)
            is_last = len(self.done) == self.last
            if not is_last or self.answer == "answered":
                writer.write(whole)
                await writer.drain()
            if is_last:
                self._cut()
            return not is_last

    def _cut(self) -> None:
        """End the operator, and drop what it has sent beside its last call."""
        self.cut = True
        self.kill()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    def _note(self, method: str, path: str, body: bytes, answer: Message) -> None:
        name = json.loads(body)["metadata"]["name"] if method == "POST" else ""
        self.done.append(Done(method, path, name, int(answer.first.split(" ")[1])))


async def _read_head(reader: asyncio.StreamReader) -> Message:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length")
    return Message(first, int(length) if length else None, headers.get("transfer-encoding") == "chunked", head)


async def _body(reader: asyncio.StreamReader, message: Message) -> AsyncIterator[bytes]:
    """Yield the body of an answer as it stands on the wire, chunk by chunk as it comes."""
    if not message.chunked:
        yield await reader.readexactly(message.length or 0)
        return
    while True:
        size = await reader.readuntil(b"\r\n")
        count = int(size.partition(b";")[0], 16)
        yield size + await reader.readexactly(count + 2)
        if not count:
            return


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    message = await _read_head(reader)
    writer.write(message.head)
    async for part in _body(reader, message):
        writer.write(part)
        await writer.drain()


async def _whole(reader: asyncio.StreamReader) -> tuple[Message, bytes]:
    message = await _read_head(reader)
    return message, b"".join([message.head, *[part async for part in _body(reader, message)]])
