"""The way out for downloads: a small HTTP proxy in the agent that pods reach on the bridge.

Pods under `net` have no route to the outside. The proxy listens on a socket that was made in their network and passed
to the agent, and connects from where the agent is. It serves CONNECT (https) and plain http, which covers what pip,
requests, urllib, curl and git do with the usual variables; raw TCP and UDP it does not.

Programs ask it for other pods too, because no list of exceptions knows every name. Those are looked up as the asking
pod would, and connected from inside it.
"""

import asyncio
import base64
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from trainwright.web.connections import Connection, Connections

PORT = 3128
Inside = Callable[[str, str, int], Awaitable[socket.socket | None]]
"""Given the asking pod's address, a host and a port: a socket connected to it, None if that is not among the pods."""
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_HEAD_BYTES = 65536
_CHUNK = 65536
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_HOP_HEADERS = frozenset(("connection", "keep-alive", "proxy-authorization", "proxy-connection"))


def proxy_environment(address: str, no_proxy: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that send a program's downloads to the proxy at `address` ("host:port").

    `no_proxy` names what is reached directly: the pods' own names and range. Some programs read only one case. gRPC
    would tunnel what ranks tell each other through the proxy; an empty `grpc_proxy` keeps it from that.
    """
    direct = ",".join(dict.fromkeys(("localhost", "127.0.0.1", "::1", *no_proxy)))
    url = f"http://{address}"
    values = {"http_proxy": url, "https_proxy": url, "no_proxy": direct}
    return values | {name.upper(): value for name, value in values.items()} | {"grpc_proxy": ""}


@dataclass(frozen=True)
class Upstream:
    """The proxy that the agent itself has to use."""

    host: str
    port: int
    authorization: str = ""


def upstream(scheme: str, host: str, environ: Mapping[str, str]) -> Upstream | None:
    """Return the proxy that `environ` asks for on the way to a host, None if that is reached directly."""

    def value(name: str) -> str:
        return environ.get(name) or environ.get(name.upper()) or ""

    url = value(f"{scheme}_proxy") or value("all_proxy")
    names = [name.strip().lstrip(".").lower() for name in value("no_proxy").split(",") if name.strip()]
    if not url or any(name == "*" or host.lower() == name or host.lower().endswith(f".{name}") for name in names):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        return None
    secret = ""
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        secret = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Upstream(parts.hostname, parts.port or PORT, secret)


class Proxy:
    """Serves a listening socket until closed; `inside` reaches what lies among the pods."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        inside: Inside | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._connections = Connections(listener, self._answer, limit=_HEAD_BYTES)
        self._inside = inside
        self._environ = os.environ if environ is None else environ

    async def __aenter__(self) -> "Proxy":
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connections.__aexit__(*error)

    async def _answer(self, connection: Connection) -> None:
        reader, writer = connection.reader, connection.writer
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                asked = Asked.read(await reader.readuntil(b"\r\n\r\n"))
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        except ValueError:
            sentence = "this is a proxy: ask it for CONNECT host:port or http://host/path"
            await _refuse(writer, "400 Bad Request", sentence)
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                via, far = await self._connect(asked, writer.get_extra_info("peername")[0])
        except (OSError, TimeoutError) as error:
            await _refuse(writer, "502 Bad Gateway", f"{asked.host}:{asked.port} cannot be reached: {error}")
            return
        try:
            if asked.tunnel and not via:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far[1].write(asked.passed_on(via))
            await relay((reader, writer), far)
        finally:
            far[1].close()

    async def _connect(self, asked: "Asked", source: str) -> tuple[Upstream | None, Stream]:
        near = await self._inside(source, asked.host, asked.port) if self._inside else None
        if near:
            return None, await asyncio.open_connection(sock=near)
        via = upstream("https" if asked.tunnel else "http", asked.host, self._environ)
        host, port = (via.host, via.port) if via else (asked.host, asked.port)
        return via, await asyncio.open_connection(host, port)


@dataclass(frozen=True)
class Asked:
    """A request to the proxy: a tunnel to a host, or a plain request to pass on."""

    tunnel: bool
    host: str
    port: int
    line: str
    """The first line as it came, for a proxy like us."""
    own_line: str
    """The first line as the host itself wants it."""
    headers: tuple[str, ...]

    @classmethod
    def read(cls, head: bytes) -> "Asked":
        """Read a request; ValueError if it is none for a proxy."""
        line, *headers = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, version = line.split(" ")
        tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if tunnel else target)
        if not parts.hostname or parts.scheme not in ("", "http"):
            raise ValueError(target)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        port = parts.port or (443 if tunnel else 80)
        return cls(tunnel, parts.hostname, port, line, f"{method} {path} {version}", tuple(headers))

    def passed_on(self, via: Upstream | None) -> bytes:
        """Return the request as the next in line should get it; plain requests are one per connection."""
        lines = [self.line if via else self.own_line]
        if via and via.authorization:
            lines.append(f"Proxy-Authorization: {via.authorization}")
        lines += [header for header in self.headers if header.partition(":")[0].strip().lower() not in _HOP_HEADERS]
        if not self.tunnel:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _refuse(writer: asyncio.StreamWriter, status: str, problem: str) -> None:
    body = f"{problem}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def relay(near: Stream, far: Stream) -> None:
    """Copy both ways until both sides have said all they had to say."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_copy(near[0], far[1]))
        group.create_task(_copy(far[0], near[1]))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
