"""The way out for downloads: a small HTTP proxy in the agent that pods reach on the bridge.

Pods under `net` have no route to the outside. The proxy listens on a socket that was made in their network and passed
to the agent, and connects from where the agent is. It serves CONNECT (https) and plain http, which covers what pip,
requests, urllib, curl and git do with the usual variables; raw TCP and UDP it does not.
"""

import asyncio
import base64
import contextlib
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

PORT = 3128
Dial = Callable[[str, int], Awaitable[socket.socket]]
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_HEAD_BYTES = 65536
_CHUNK = 65536
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_HOP_HEADERS = frozenset(("connection", "keep-alive", "proxy-authorization", "proxy-connection"))


def proxy_environment(address: str, no_proxy: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that send a program's downloads to the proxy at `address` ("host:port").

    `no_proxy` names what is reached directly: the pods' own names and range. Some programs read only one case.
    """
    direct = ",".join(dict.fromkeys(("localhost", "127.0.0.1", "::1", *no_proxy)))
    url = f"http://{address}"
    values = {"http_proxy": url, "https_proxy": url, "no_proxy": direct}
    return values | {name.upper(): value for name, value in values.items()}


@dataclass(frozen=True)
class Upstream:
    """The proxy that the agent itself has to use."""

    host: str
    port: int
    authorization: str = ""

    @property
    def header(self) -> str:
        """Return the header line that a request to it needs, or nothing."""
        return f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""


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
    """Serves a listening socket until closed; `dial` connects to addresses of the pods' own range."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        dial: Dial | None = None,
        pods: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._listener = listener
        self._dial, self._pods = dial, pods
        self._environ = os.environ if environ is None else environ
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, sock=self._listener, limit=_HEAD_BYTES)
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
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._running.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request, _, headers = head.partition("\r\n")
            method, target, version = request.split(" ")
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = parts.hostname, parts.port or (443 if method == "CONNECT" else 80)
            if not host or parts.scheme not in ("", "http"):
                raise ValueError(target)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        except ValueError:
            await _refuse(
                writer, "400 Bad Request", "this is a proxy: ask it for CONNECT host:port or http://host/path"
            )
            return
        secure = method == "CONNECT"
        via = upstream("https" if secure else "http", host, self._environ)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                far = await self._connect(via.host if via else host, via.port if via else port)
        except (OSError, TimeoutError) as error:
            await _refuse(writer, "502 Bad Gateway", f"{host}:{port} cannot be reached from the host: {error}")
            return
        try:
            if via:
                far[1].write(f"{request}\r\n{via.header}{_kept(headers, secure=secure)}".encode("latin-1"))
            elif secure:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                far[1].write(f"{method} {path} {version}\r\n{_kept(headers, secure=False)}".encode("latin-1"))
            await _relay((reader, writer), far)
        finally:
            far[1].close()

    async def _connect(self, host: str, port: int) -> _Stream:
        if self._dial and self._pods and _within(host, self._pods):
            return await asyncio.open_connection(sock=await self._dial(host, port))
        return await asyncio.open_connection(host, port)


def _within(host: str, pods: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(host) in pods
    except ValueError:
        return False


def _kept(headers: str, *, secure: bool) -> str:
    """Return the headers that are meant for the other end; plain requests are one per connection."""
    lines = [
        line for line in headers.split("\r\n") if line and line.partition(":")[0].strip().lower() not in _HOP_HEADERS
    ]
    return "".join(f"{line}\r\n" for line in (*lines, *(() if secure else ("Connection: close",)))) + "\r\n"


async def _refuse(writer: asyncio.StreamWriter, status: str, problem: str) -> None:
    body = f"{problem}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _relay(near: _Stream, far: _Stream) -> None:
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
