"""An API server for tests: the memory cluster behind HTTP, with the real one's paths, pages, watches and refusals.

It is what the client is tested against where no real API server is at hand; the contract suite runs on both.
"""

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from trainwright.cluster.base import Cluster, Listing
from trainwright.core.errors import ClusterError, Expired, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import Resource

encode = msgspec.json.encode


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    words: Mapping[str, list[str]] = field(default_factory=dict)
    head: bytes = b""

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer it, with a body of known length."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)
        await self.writer.drain()

    async def refuse(self, status: int, reason: str, message: str = "no", **headers: str) -> None:
        """Answer with a Status."""
        await self.answer(status, encode(failure(status, reason, message)), **headers)

    async def begin(self, status: int = 200) -> None:
        """Begin an answer that comes in chunks."""
        self.writer.write(f"HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        """Send a chunk; an empty one ends the answer."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()


Handler = Callable[[Request], Awaitable[None]]


@dataclass
class Serving:
    """A server that runs, and what it saw."""

    url: str
    port: int
    seen: list[Request]
    ends: set[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connections: int = 0

    def live(self) -> int:
        """Return how many connections nobody has ended."""
        return sum(not reader.at_eof() and reader.exception() is None for reader, _ in self.ends)

    def cut(self) -> None:
        """Break every connection there is."""
        for _, writer in self.ends:
            writer.transport.abort()


def failure(status: int, reason: str, message: str = "no") -> Object:
    """Return the Status object of a refusal."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }


@contextlib.asynccontextmanager
async def serve(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Serving]:
    """Run an HTTP server with one handler for every request; all connections are gone at the end."""
    tasks: set[asyncio.Task[None]] = set()
    serving = Serving("", 0, [], set())

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        serving.ends.add((reader, writer))
        serving.connections += 1
        try:
            while request := await read_request(reader, writer):
                serving.seen.append(request)
                await handler(request)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            serving.ends.discard((reader, writer))
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context, backlog=1000)
    serving.port = server.sockets[0].getsockname()[1]
    serving.url = f"http{'s' if context else ''}://127.0.0.1:{serving.port}"
    try:
        yield serving
    finally:
        server.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """Return the next request of a connection, None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, OSError):
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    words = parse_qs(url.query, keep_blank_values=True)
    query = {name: values[0] for name, values in words.items()}
    return Request(method, unquote(url.path) or target, query, headers, body, reader, writer, words, head)


class Api:
    """The handler that serves a cluster."""

    def __init__(self, cluster: Cluster, rows: Iterable[Resource], bookmarks: float = 0.05) -> None:
        self.cluster = cluster
        self.bookmarks = bookmarks
        """Seconds of silence after which a watch is sent a bookmark."""
        self._rows = {(row.api_version, row.plural): row for row in rows}
        self._lists: dict[str, tuple[Listing, int]] = {}
        self._tokens = itertools.count(1)

    async def __call__(self, request: Request) -> None:
        """Answer one request."""
        try:
            resource, namespace, name, subresource = self._address(request.path)
            if request.method == "GET" and not name:
                await self._collection(request, resource, namespace)
                return
            result = await self._one(request, resource, namespace, name, subresource)
            await request.answer(200, encode(managed(result)), Content_Type="application/json")
        except ClusterError as error:
            await request.refuse(error.code, error.reason, str(error))

    def _address(self, path: str) -> tuple[Resource, str, str, str]:
        parts = path.strip("/").split("/")
        version, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
        namespace = ""
        if not rest:
            raise NotFound("nobody is told what is served here")
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = [*rest, "", "", ""][:3]
        row = self._rows.get((version, plural))
        if row is None:
            raise NotFound("the server could not find the requested resource")
        return row, namespace, name, subresource

    async def _one(
        self, request: Request, resource: Resource, namespace: str, name: str, subresource: str
    ) -> dict[str, Any]:
        cluster, body = self.cluster, msgspec.json.decode(request.body) if request.body else {}
        if request.method == "GET":
            return await cluster.get(resource, namespace, name)
        if request.method == "POST":
            return await cluster.create(resource, body)
        if request.method == "PATCH":
            return await cluster.patch(resource, namespace, name, body, subresource=subresource)  # type: ignore[arg-type]
        await cluster.delete(
            resource,
            namespace,
            name,
            uid=(body.get("preconditions") or {}).get("uid", ""),
            grace=body.get("gracePeriodSeconds"),
            propagation=body["propagationPolicy"],
        )
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    async def _collection(self, request: Request, resource: Resource, namespace: str) -> None:
        query = request.query
        selectors = {"labels": query.get("labelSelector", ""), "fields": query.get("fieldSelector", "")}
        if "watch" in query:
            await self._watch(request, resource, namespace, selectors)
            return
        token, start = query.get("continue", ""), 0
        if token:
            if token not in self._lists:
                raise Expired("the continue parameter is too old")
            listing, start = self._lists.pop(token)
        else:
            listing = await self.cluster.list(resource, namespace, **selectors)
        end = start + int(query.get("limit") or len(listing.items) or 1)
        meta = {"resourceVersion": listing.version}
        if end < len(listing.items):
            meta["continue"] = f"token-{next(self._tokens)}"
            self._lists[meta["continue"]] = listing, end
        items = [managed(typeless(obj)) for obj in listing.items[start:end]]
        await request.answer(200, encode({"kind": f"{resource.kind}List", "metadata": meta, "items": items}))

    def forget_pages(self) -> None:
        """Let every list that was begun expire."""
        self._lists.clear()

    async def _watch(self, request: Request, resource: Resource, namespace: str, selectors: dict[str, str]) -> None:
        version = request.query["resourceVersion"]
        watch = self.cluster.watch(resource, namespace, since=version, **selectors)
        following: asyncio.Future[Any] = asyncio.ensure_future(anext(watch))
        begun = False
        try:
            # A version that is refused is refused before the answer begins.
            await asyncio.wait([following], timeout=0.001)
            if following.done():
                following.result()
            await request.begin()
            begun = True
            while True:
                done, _ = await asyncio.wait([following], timeout=self.bookmarks)
                if done:
                    change = following.result()
                    version = change.object["metadata"]["resourceVersion"]
                    await request.chunk(encode({"type": change.type, "object": managed(change.object)}) + b"\n")
                    following = asyncio.ensure_future(anext(watch))
                elif request.query.get("allowWatchBookmarks") == "true":
                    mark = {"kind": resource.kind, "metadata": {"resourceVersion": version}}
                    await request.chunk(encode({"type": "BOOKMARK", "object": mark}) + b"\n")
        except Expired as error:
            if not begun:
                raise
            await request.chunk(encode({"type": "ERROR", "object": failure(410, "Expired", str(error))}) + b"\n")
            await request.chunk(b"")
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            if close := getattr(watch, "aclose", None):
                await close()


def managed(obj: Object) -> Object:
    """Return an object with the managedFields a real server adds."""
    if "metadata" not in obj:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": [{"manager": "trainwright"}]}}


def typeless(obj: Object) -> Object:
    """Return an object as it stands in a list: without kind, for built-in kinds."""
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
