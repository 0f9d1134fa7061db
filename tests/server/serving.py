"""The API on a port, behind a gate that only asks for a token: what tests talk to, by our client or by kubectl."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.web.wire import Wire

from trainwright.admission import admit
from trainwright.api.faces import RESOURCES
from trainwright.cluster.kubernetes import Access, KubernetesCluster, User
from trainwright.cluster.kubernetes import Server as Address
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Forbidden, Unauthorized
from trainwright.core.objects import Object
from trainwright.core.resources import Resource
from trainwright.kinds import COMMANDS, KINDS
from trainwright.node.certificate import server_context
from trainwright.node.pod_streams import Streams
from trainwright.server.api import Api
from trainwright.server.base import Caller
from trainwright.web.exchange import Request
from trainwright.web.server import Server

TOKEN = "secret"
JOBS = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"
MAPS = "/api/v1/namespaces/ns/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class TokenGate:
    """Lets in who knows the token, marks what they store, and writes down when something had to be safe."""

    def __init__(self) -> None:
        self.saved = 0
        self.forbidden: set[str] = set()
        self.kept: set[str] = set()
        """Names of objects that nobody may delete."""

    def caller(self, request: Request) -> Caller:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Unauthorized("Unauthorized")
        return Caller("somebody", 1000)

    def admit(self, caller: Caller, resource: Resource, new: Object, old: Object | None) -> Object:
        if "admit" in self.forbidden:
            raise Forbidden(f"{caller.name} may not store {resource}")
        return new

    def allow(self, caller: Caller, verb: str, resource: Resource, obj: Object) -> None:
        if verb in self.forbidden or (verb == "delete" and obj["metadata"]["name"] in self.kept):
            raise Forbidden(f"{caller.name} may not {verb} {resource}")

    async def durable(self) -> None:
        self.saved += 1


class Asking:
    """Asks the API, one request at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def __call__(
        self, method: str, target: str, body: Any = None, *, accept: str = "", kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Return the code and the decoded answer."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        head = f"{method} {target} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(data)}\r\n"
        head += f"Content-Type: {kind}\r\n" + (f"Accept: {accept}\r\n" if accept else "")
        self._wire.send(f"{head}\r\n".encode() + data)
        status, headers, answer = await self._wire.answer()
        plain = not headers["content-type"].startswith("application/json")
        return int(status.split()[0]), answer.decode() if plain else msgspec.json.decode(answer)


class ServedApi:
    """A running API, and ways to it."""

    def __init__(self, cluster: MemoryCluster, gate: TokenGate, port: int, scheme: str) -> None:
        self.cluster = cluster
        self.gate = gate
        self.url = f"{scheme}://127.0.0.1:{port}"
        self._address = ("127.0.0.1", port)

    async def connect(self) -> Wire:
        return Wire(*await asyncio.open_connection(*self._address))

    def client(self, page: int = 500) -> KubernetesCluster:
        """Return our own client."""
        return KubernetesCluster(Access(Address(self.url), User(token=TOKEN)), page=page)

    def kubeconfig(self, folder: Path) -> Path:
        """Write what kubectl needs to know; it tells its token to nobody who has no certificate."""
        entry = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "me", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "default"}}],
        }
        path = folder / "kubeconfig"
        path.write_bytes(msgspec.json.encode(entry))
        return path


def memory_cluster(resources: tuple[Resource, ...] = RESOURCES, **options: Any) -> MemoryCluster:
    """Return an empty cluster with admission, as a local home has it."""
    kinds = {kind.resource for kind in KINDS} | set(COMMANDS)

    def admitted(resource: Resource, obj: Object, old: Object | None) -> Object:
        return admit(obj, old).object if resource in kinds else obj

    return MemoryCluster(resources, admit=admitted, now=lambda: datetime.now(UTC), **options)


@contextlib.asynccontextmanager
async def serving(
    cluster: MemoryCluster | None = None, streams: Streams | None = None, *, encrypted: bool = False
) -> AsyncIterator[ServedApi]:
    """Serve a cluster on a port."""
    cluster, gate = cluster or memory_cluster(), TokenGate()
    listener = socket.create_server(("127.0.0.1", 0))
    context = server_context("here", "127.0.0.1", None) if encrypted else None
    async with Server(listener, Api(cluster, KINDS, gate, streams).handle, context=context):
        yield ServedApi(cluster, gate, listener.getsockname()[1], "https" if encrypted else "http")
