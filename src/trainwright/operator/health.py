"""A small HTTP server for probes and metrics: GET, a few fixed paths, one answer per connection.

Only what a kubelet and Prometheus need, on the event loop of the operator: if it does not answer, the operator hangs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from trainwright.core.errors import HomeError

REQUEST_SECONDS = 5.0
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """What a path answers."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content: str = _PLAIN


Routes = Mapping[str, Callable[[], Reply]]


@asynccontextmanager
async def serving(
    host: str, port: int, routes: Routes, seconds: float = REQUEST_SECONDS
) -> AsyncIterator[tuple[str, int]]:
    """Serve `routes` while the body runs; yields where. No host means all addresses of this machine.

    Whoever connects has so many seconds to ask and to take the answer.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(seconds):
                writer.write(await _answer(reader, routes))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked went away, or never asked for anything: nobody to tell
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(connected, host or None, port)
    except OSError as error:
        raise HomeError(f"cannot listen on {host}:{port}: {error.strerror or error}; name another address") from error
    try:
        address = server.sockets[0].getsockname()
        yield address[0], address[1]
    finally:
        server.close()


async def _answer(reader: asyncio.StreamReader, routes: Routes) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, *_ = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(), "", ""]
    reply = _reply(method, target.partition("?")[0], routes)
    body = reply.text.encode()
    lines = [
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}",
        f"Content-Type: {reply.content}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(["Allow: GET, HEAD"] if reply.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    head = "\r\n".join((*lines, "", "")).encode()
    return head if method == "HEAD" else head + body


def _reply(method: str, path: str, routes: Routes) -> Reply:
    if path not in routes:
        there_are = ", ".join(routes)
        return Reply(f"there is no {path} here (there are: {there_are})\n", HTTPStatus.NOT_FOUND)
    if method not in ("GET", "HEAD"):
        return Reply(f"{method} is not answered here; use GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
    return routes[path]()
