"""What a node answers over HTTPS: the API server passes on to it what users ask about its pods.

    /containerLogs/NS/POD/CONTAINER   kubectl logs
    /exec/NS/POD/CONTAINER            kubectl exec: a WebSocket
    /attach/NS/POD/CONTAINER          kubectl attach: a WebSocket; output only, as processes here have no input
    /portForward/NS/POD               kubectl port-forward: a WebSocket
    /pods, /healthz

Who may ask is settled by certificates (`certificate`), what is said over a WebSocket by `remote_command` and
`port_forward`.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Literal

import msgspec

from trainwright.cluster.base import Session
from trainwright.cluster.kubernetes.connection import Broken
from trainwright.core.errors import BadRequest, ClusterError, NotFound
from trainwright.node import port_forward, remote_command
from trainwright.node.connections import Connections
from trainwright.node.exchange import HEAD_BYTES, Exchange, Request, receive
from trainwright.node.kubelet import Kubelet

log = logging.getLogger(__name__)

_NO_INPUT = (
    "a container of this node has no standard input to attach to: it runs as a process that began without one; "
    "attach without -i to see its output, or use kubectl exec -i"
)
_NO_TIMES = (
    "this node does not know when a line was printed, because processes write their logs themselves; "
    "leave out --since, --since-time and --timestamps, or use --tail"
)


class NodeServer:
    """Serves one kubelet. An async context manager: leaving it ends everything that is under way."""

    def __init__(self, kubelet: Kubelet, listener: socket.socket, context: ssl.SSLContext) -> None:
        self._kubelet = kubelet
        self._connections = Connections(listener, self._answer, limit=HEAD_BYTES, context=context)
        self._routes: dict[tuple[str, int], Callable[[Exchange], Awaitable[None]]] = {
            ("containerLogs", 3): self._logs,
            ("exec", 3): self._exec,
            ("attach", 3): self._attach,
            ("portForward", 2): self._port_forward,
            ("pods", 0): self._pods,
            ("healthz", 0): self._health,
        }

    async def __aenter__(self) -> "NodeServer":
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connections.__aexit__(*error)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            exchange = await receive(reader, writer)
            if exchange is not None:
                await self._serve(exchange)
        except (Broken, asyncio.CancelledError):
            log.debug("a client has gone before it was answered")
        except Exception:
            log.exception("a request broke")

    async def _serve(self, exchange: Exchange) -> None:
        what, *names = exchange.request.path
        handle = self._routes.get((what, len(names)))
        try:
            if handle is None:
                raise NotFound(f"this node does not serve /{'/'.join(exchange.request.path)}")
            await handle(exchange)
        except ClusterError as error:
            await exchange.answer(f"{error}\n".encode(), status=f"{error.code} {error.reason}")

    # What is asked for

    async def _health(self, exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    async def _pods(self, exchange: Exchange) -> None:
        listed = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": self._kubelet.pods()}
        await exchange.answer(msgspec.json.encode(listed), kind="application/json")

    async def _logs(self, exchange: Exchange) -> None:
        request = exchange.request
        if any(request.value(name) for name in ("sinceSeconds", "sinceTime")) or request.flag("timestamps"):
            raise BadRequest(_NO_TIMES)
        answering = asyncio.create_task(exchange.answer_pieces(self._pieces(request)))
        leaving = asyncio.create_task(exchange.gone())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _exec(self, exchange: Exchange) -> None:
        request = exchange.request
        _, namespace, pod, container = request.path

        async def start() -> Session:
            return await self._kubelet.exec(
                namespace,
                pod,
                request.query.get("command", []),
                container=container,
                stdin=request.flag("input"),
                tty=request.flag("tty"),
            )

        await remote_command.serve(await exchange.upgrade(remote_command.PROTOCOLS), start)

    async def _attach(self, exchange: Exchange) -> None:
        request = exchange.request
        _, namespace, pod, container = request.path

        async def start() -> Session:
            if request.flag("input"):
                raise BadRequest(_NO_INPUT)
            return _Output(self._kubelet.logs(namespace, pod, container=container, follow=True, restart=-1, tail=0))

        await remote_command.serve(await exchange.upgrade(remote_command.PROTOCOLS), start)

    async def _port_forward(self, exchange: Exchange) -> None:
        _, namespace, pod = exchange.request.path

        async def dial(port: int) -> socket.socket:
            return await self._kubelet.connect(namespace, pod, port)

        await port_forward.serve(await exchange.upgrade((port_forward.PROTOCOL,)), dial)

    async def _pieces(self, request: Request) -> AsyncGenerator[bytes, None]:
        """Yield the part of a log that is asked for: of the last run, or of the one before."""
        _, namespace, pod, container = request.path
        left, previous = request.number("limitBytes"), request.flag("previous")
        pieces = self._kubelet.logs(
            namespace,
            pod,
            container=container,
            follow=request.flag("follow") and not previous,
            restart=-2 if previous else -1,
            tail=request.number("tailLines"),
        )
        try:
            async for piece in pieces:
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                yield piece
                if left == 0:
                    return
        except NotFound as error:
            which = "previous terminated container" if previous else "log of container"
            raise BadRequest(f"{which} {container!r} in pod {pod!r} not found") from error


class _Output:
    """What a container prints from now on, as a `Session` that has no input."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def write(self, data: bytes) -> None:
        """Drop it: there is nobody to read it."""

    async def close_input(self) -> None:
        """Do nothing: there is none."""

    async def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Yield what the container prints."""
        async for piece in self._pieces:
            yield "stdout", piece

    async def wait(self) -> int:
        """Return 0: how the container ended is in its status."""
        return 0

    async def kill(self) -> None:
        """Stop looking; the container goes on."""
        if close := getattr(self._pieces, "aclose", None):
            await close()
