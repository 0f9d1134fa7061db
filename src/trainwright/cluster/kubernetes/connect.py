"""A connection to the API server: TCP, a proxy's tunnel if one is set, and TLS; or a socket of this machine."""

import asyncio
import base64
import ipaddress
import os
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from trainwright.cluster.kubernetes.auth import Auth
from trainwright.cluster.kubernetes.connection import Broken, Connection
from trainwright.cluster.kubernetes.kubeconfig import Server
from trainwright.cluster.unix import reachable
from trainwright.core.errors import HomeError

_PORTS = {"http": 80, "https": 443}


class Untrusted(HomeError):  # noqa: N818
    """The server is not who we were told it is; trying again would not help."""


class Connector:
    """Makes connections with the credentials of the moment."""

    def __init__(self, server: Server, auth: Auth, *, timeout: float, environ: Mapping[str, str] | None = None) -> None:
        self._server = server
        self._auth = auth
        self._timeout = timeout
        self._proxy = urlsplit(server.proxy or proxy_from(server, os.environ if environ is None else environ))
        self.made = 0
        """How many connections there have been."""

    async def connect(self) -> Connection:
        """Return a new connection; Broken when there is none to be had now, Untrusted when there never will be."""
        context = await self._auth.context()
        where = self._server.parts
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._connected(where, context)
        except TimeoutError:
            raise Broken(f"{self._name} did not let us connect within {self._timeout:g} s", sent=False) from None
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(
                f"the certificate of {self._name} is not to be trusted: {error.verify_message}; "
                "check certificate-authority and tls-server-name in the kubeconfig"
            ) from error
        except Broken:
            raise
        except OSError as error:
            raise Broken(f"cannot connect to {self._name}: {error.strerror or error}", sent=False) from error
        self.made += 1
        return connection

    @property
    def _name(self) -> str:
        return self._server.socket or _place(self._server.parts)

    async def _connected(self, where: SplitResult, context: ssl.SSLContext | None) -> Connection:
        if self._server.socket:
            with reachable(self._server.socket) as path:
                _, connection = await asyncio.get_running_loop().create_unix_connection(Connection, path)
            return connection
        return await (self._through(context) if self._proxy.hostname else self._direct(where, context))

    async def _direct(self, where: SplitResult, context: ssl.SSLContext | None) -> Connection:
        assert where.hostname
        name = (self._server.tls_name or where.hostname) if context else None
        # Addresses one after the other: asyncio's race between them loses a socket when it is cancelled.
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, where.hostname, _port(where), ssl=context, server_hostname=name
        )
        return connection

    async def _through(self, context: ssl.SSLContext | None) -> Connection:
        """Return a connection that a proxy passes on."""
        proxy, where = self._proxy, self._server.parts
        assert proxy.hostname
        assert where.hostname
        secure = ssl.create_default_context() if proxy.scheme == "https" else None
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, proxy.hostname, _port(proxy), ssl=secure, server_hostname=proxy.hostname if secure else None
        )
        try:
            answer = await connection.tunnel(_connect_request(where, proxy))
            if answer.status != 200:
                raise Broken(f"the proxy {_place(proxy)} answered {answer.status} to CONNECT", sent=False)
            if context:
                await connection.start_tls(context, self._server.tls_name or where.hostname)
        except BaseException:
            connection.abort()
            raise
        return connection


def proxy_from(server: Server, environ: Mapping[str, str]) -> str:
    """Return the proxy the environment names for this server, or nothing. This machine itself needs none."""
    where = server.parts
    if server.socket:
        return ""
    scheme, host = where.scheme, where.hostname or ""
    proxy = environ.get(f"{scheme.upper()}_PROXY") or environ.get(f"{scheme}_proxy") or ""
    if not proxy or host == "localhost" or host.startswith("127.") or host == "::1":
        return ""
    for each in (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(","):
        if _matches(each.strip().lower(), host, _port(where)):
            return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(rule: str, host: str, port: int) -> bool:
    """Say whether one word of NO_PROXY is about this host: a name, a domain, an address, a network, or *."""
    if not rule or rule == "*":
        return rule == "*"
    if "/" in rule:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, colon, wanted = rule.partition(":") if rule.count(":") == 1 else (rule, "", "")
    if colon and wanted != str(port):
        return False
    name = name.removeprefix("*")
    return host == name.removeprefix(".") or host.endswith(name if name.startswith(".") else f".{name}")


def _connect_request(where: SplitResult, proxy: SplitResult) -> bytes:
    target = f"{_bracketed(where.hostname or '')}:{_port(where)}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _place(url: SplitResult) -> str:
    return f"{_bracketed(url.hostname or '')}:{_port(url)}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
