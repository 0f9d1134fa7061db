"""Credentials as they are now: tokens and certificates that are read again, and plugins that are asked again.

A server that answers 401 makes us look again at once; otherwise a token file is read once a minute and a plugin is
asked shortly before what it gave runs out. Certificates are looked at whenever a connection is made.
"""

import asyncio
import base64
import contextlib
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from trainwright.cluster.kubernetes.kubeconfig import Access, Plugin, Server
from trainwright.core.errors import HomeError
from trainwright.core.objects import moment

_REREAD_SECONDS = 60.0
_EARLY_SECONDS = 10.0
"""A credential is renewed so long before it runs out."""
_PLUGIN_SECONDS = 120.0
"""A plugin may open a browser and wait for a person."""


@dataclass(frozen=True)
class Credential:
    """What a request or a connection shows."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    until: float = float("inf")
    """In seconds of the monotonic clock."""


class Auth:
    """The credentials of one user at one server."""

    def __init__(
        self,
        access: Access,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._access = access
        self._environ = os.environ if environ is None else environ
        self._clock = clock
        self._now = now
        self._credential: Credential | None = None
        self._lock = asyncio.Lock()
        self._contexts: tuple[Any, ssl.SSLContext] | None = None

    @property
    def impersonate(self) -> tuple[tuple[str, str], ...]:
        """Return the headers by which we act for somebody else."""
        return self._access.user.impersonate

    def fresh(self) -> Credential | None:
        """Return the credential if it need not be renewed: the quick way for every request."""
        held = self._credential
        return held if held is not None and held.until > self._clock() else None

    async def credential(self) -> Credential:
        """Return the credential to use now; HomeError when there is none to be had."""
        if held := self.fresh():
            return held
        async with self._lock:
            held = self.fresh() or await self._renewed()
            self._credential = held
            return held

    async def after_refusal(self, refused: Credential) -> bool:
        """Look again because the server said 401; say whether there is anything new to try."""
        user = self._access.user
        if not user.token_file and not user.plugin:
            before = self._contexts
            await self.context()
            return before is not self._contexts
        async with self._lock:
            if self._credential is refused or self._credential is None:
                self._credential = await self._renewed()
            held = self._credential
        return (held.authorization, held.certificate) != (refused.authorization, refused.certificate)

    async def context(self) -> ssl.SSLContext | None:
        """Return how to encrypt a new connection, None for plain HTTP. Another object means other certificates."""
        server = self._access.server
        if server.parts.scheme != "https":
            return None
        credential = await self.credential()
        ca = server.ca.read() if server.ca else b""
        certificate, key = credential.certificate, credential.key
        user = self._access.user
        if not certificate and user.certificate and user.key:
            certificate, key = user.certificate.read(), user.key.read()
        made_of = (ca, certificate, key)
        if self._contexts is None or self._contexts[0] != made_of:
            self._contexts = made_of, tls(server, ca, certificate, key)
        return self._contexts[1]

    async def _renewed(self) -> Credential:
        user = self._access.user
        if user.plugin:
            return await self._from_plugin(user.plugin)
        if user.token_file:
            token = _token(user.token_file, user.token)
            return Credential(f"Bearer {token}", until=self._clock() + _REREAD_SECONDS)
        if user.token:
            return Credential(f"Bearer {user.token}")
        if user.username:
            pair = f"{user.username}:{user.password}".encode()
            return Credential(f"Basic {base64.b64encode(pair).decode()}")
        return Credential()

    async def _from_plugin(self, plugin: Plugin) -> Credential:
        info = exec_info(plugin, self._access.server, interactive=_interactive(plugin))
        printed = await run_plugin(plugin, info, self._environ)
        return read_credential(plugin, printed, self._clock(), self._now())


def tls(server: Server, ca: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return how to know the server and how to show who we are."""
    context = ssl.create_default_context()
    if ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=ca.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise HomeError(f"certificate-authority of {server.url}: no certificate in PEM form: {error}") from error
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    if certificate:
        _load_pair(context, certificate, key)
    return context


def exec_info(plugin: Plugin, server: Server, *, interactive: bool) -> str:
    """Return what a plugin is told in KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster_info:
        about = {
            "server": server.url,
            "tls-server-name": server.tls_name,
            "insecure-skip-tls-verify": server.insecure,
            "certificate-authority-data": base64.b64encode(server.ca.read()).decode() if server.ca else "",
            "proxy-url": server.proxy,
            "config": server.exec_config,
        }
        spec["cluster"] = {name: value for name, value in about.items() if value}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


async def run_plugin(plugin: Plugin, info: str, environ: Mapping[str, str]) -> bytes:
    """Run a plugin and return what it printed."""
    if plugin.interactive == "Always" and not _interactive(plugin):
        raise HomeError(f"{plugin.command} must ask for input (interactiveMode: Always), and this is no terminal")
    quiet = None if _interactive(plugin) else asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=quiet,
            stdout=asyncio.subprocess.PIPE,
            env={**environ, **plugin.env, "KUBERNETES_EXEC_INFO": info},
        )
    except OSError as error:
        hint = f"\n{plugin.hint}" if plugin.hint else ""
        raise HomeError(f"cannot run {plugin.command} to get credentials: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError as error:
        raise HomeError(f"{plugin.command} printed no credentials within {_PLUGIN_SECONDS:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise HomeError(f"{plugin.command} exited with code {process.returncode} instead of printing credentials")
    return printed


def read_credential(plugin: Plugin, printed: bytes, clock: float, now: datetime) -> Credential:
    """Return the credential a plugin printed."""
    try:
        answer = msgspec.json.decode(printed)
    except msgspec.DecodeError as error:
        raise HomeError(f"{plugin.command} printed no JSON: {error}") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict) or answer.get("kind") != "ExecCredential":
        raise HomeError(f"{plugin.command} printed no ExecCredential with a status")
    if answer.get("apiVersion") != plugin.api_version:
        raise HomeError(
            f"{plugin.command} printed apiVersion {answer.get('apiVersion')!r}, expected {plugin.api_version!r}"
        )
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if not token and not certificate:
        raise HomeError(f"{plugin.command} printed neither a token nor a client certificate")
    if bool(certificate) != bool(key):
        raise HomeError(f"{plugin.command} printed only one of clientCertificateData and clientKeyData")
    if not token.isprintable():
        raise HomeError(f"{plugin.command} printed a token that cannot stand in an HTTP header")
    until = float("inf")
    if ends := moment(status.get("expirationTimestamp")):
        # Never less than a second, or a plugin that gives out stale credentials would be run for every request.
        until = clock + max((ends - now).total_seconds() - _EARLY_SECONDS, 1.0)
    return Credential(f"Bearer {token}" if token else "", certificate.encode(), key.encode(), until)


def _interactive(plugin: Plugin) -> bool:
    return plugin.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()


def _token(path: Path, otherwise: str) -> str:
    try:
        token = path.read_text().strip()
    except OSError as error:
        if otherwise:
            return otherwise
        raise HomeError(f"cannot read the token in {path}: {error.strerror}") from error
    if not token or not token.isprintable():
        raise HomeError(f"{path} holds no token")
    return token


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate. `ssl` reads files only: they live for this moment, readable by us alone."""
    with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
        certificate_file, key_file = Path(folder, "certificate"), Path(folder, "key")
        for path, data in ((certificate_file, certificate), (key_file, key)):
            path.touch(0o600)
            path.write_bytes(data)
        try:
            context.load_cert_chain(certificate_file, key_file)
        except ssl.SSLError as error:
            raise HomeError(f"the client certificate and its key cannot be used: {error}") from error
