"""What the tests of the client share: certificates, accesses, and a client whose patience is short."""

import asyncio
import atexit
import functools
import shutil
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.kubernetes.certificates import make
from tests.cluster.kubernetes.server import Handler, Request

from trainwright.cluster.kubernetes import Access, KubernetesCluster, Patience, Rest, Server, User
from trainwright.cluster.kubernetes.transport import Connection
from trainwright.cluster.queue import Backoff

QUICK = Patience(tries=4, seconds=5.0, backoff=Backoff(first=0.001, longest=0.01))


@functools.cache
def certificates() -> Path:
    """Return the folder with the certificates and keys of this run, which is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="trainwright-certificates-"))
    atexit.register(shutil.rmtree, folder)
    make(folder)
    return folder


def pem(name: str) -> bytes:
    """Return one of the certificates or keys."""
    return (certificates() / name).read_bytes()


def server_tls(*, ask_client: bool = False) -> ssl.SSLContext:
    """Return how the test server encrypts, and whether it wants a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates() / "server.pem", certificates() / "server.key")
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates() / "ca.pem")
    return context


def rest_to(url: str, user: User | None = None, **options: Any) -> Rest:
    """Return a client of that server."""
    return Rest(Access(Server(url), user or User()), **{"patience": QUICK, "timeout": 2.0, **options})


def cluster_at(url: str, **options: Any) -> KubernetesCluster:
    """Return a cluster at that server."""
    return KubernetesCluster(Access(Server(url)), **{"patience": QUICK, "timeout": 2.0, **options})


def in_turn(*handlers: Handler) -> Handler:
    """Return a handler that answers the first request with the first, and all after the last with the last."""
    waiting = list(handlers)

    async def handle(request: Request) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request)

    return handle


def answers(status: int, body: bytes = b"{}", **headers: str) -> Handler:
    """Return a handler that always answers so."""
    return lambda request: request.answer(status, body, **headers)


def refuses(status: int, reason: str, message: str = "no", **headers: str) -> Handler:
    """Return a handler that always refuses so."""
    return lambda request: request.refuse(status, reason, message, **headers)


async def breaks(request: Request) -> None:
    """Cut the connection instead of answering."""
    request.writer.transport.abort()


async def never(_: Request) -> None:
    """Answer nothing."""
    await asyncio.Event().wait()


def raw(*pieces: bytes) -> Handler:
    """Return a handler that writes these very bytes, each apart, and closes the connection."""

    async def handle(request: Request) -> None:
        for piece in pieces:
            request.writer.write(piece)
            await request.writer.drain()
            await asyncio.sleep(0)
        request.writer.close()

    return handle


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - a server can only be asked
            await asyncio.sleep(0.001)


class Wire(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self.paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def wired() -> tuple[Connection, Wire]:
    """Return a connection whose other end is the test."""
    connection, wire = Connection(), Wire()
    connection.connection_made(wire)
    return connection, wire
