"""What users ask of a single pod, over HTTP: its log, a command in it, its output from now on, its ports.

Served by a node to an API server (`serving`), and by the local API to kubectl itself: paths and the names of
parameters differ, what is said is the same.
"""

import socket
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from trainwright.cluster.base import Session
from trainwright.core.errors import BadRequest, NotFound
from trainwright.core.objects import Object, moment
from trainwright.node import port_forward, remote_command
from trainwright.node.logs import BEFORE, LAST
from trainwright.web.exchange import Exchange, Request
from trainwright.web.server import TEXT

_NO_INPUT = (
    "a container of this node has no standard input to attach to: it runs as a process that began without one; "
    "attach without -i to see its output, or use kubectl exec -i"
)


class Streams(Protocol):
    """Whoever runs pods: the kubelet."""

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        restart: int | None = None,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output; `restart` picks one run (-1 is the last), `tail` so many of its last lines."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: list[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Session:
        """Start a command inside a running pod."""

    async def connect(self, namespace: str, pod: str, port: int) -> socket.socket:
        """Return a socket connected to a port of a running pod's own localhost."""

    async def usage(self) -> list[Object]:
        """Return what each running pod uses, as PodMetrics."""


async def log(exchange: Exchange, streams: Streams, namespace: str, pod: str, container: str) -> None:
    """Answer with a container's log, the part that the request's parameters ask for."""
    await exchange.answer_pieces(_pieces(exchange.request, streams, namespace, pod, container), kind=TEXT)


async def execute(
    exchange: Exchange, streams: Streams, namespace: str, pod: str, container: str, *, stdin: bool
) -> None:
    """Run the command that the request names, over a WebSocket."""
    request = exchange.request

    async def start() -> Session:
        command = request.query.get("command", [])
        return await streams.exec(namespace, pod, command, container=container, stdin=stdin, tty=request.flag("tty"))

    await remote_command.serve(await exchange.upgrade(remote_command.PROTOCOLS), start)


async def attach(
    exchange: Exchange, streams: Streams, namespace: str, pod: str, container: str, *, stdin: bool
) -> None:
    """Show what a container prints from now on, over a WebSocket."""

    async def start() -> Session:
        if stdin:
            raise BadRequest(_NO_INPUT)
        return _Output(streams.logs(namespace, pod, container=container, follow=True, restart=LAST, tail=0))

    await remote_command.serve(await exchange.upgrade(remote_command.PROTOCOLS), start)


async def forward(exchange: Exchange, streams: Streams, namespace: str, pod: str) -> None:
    """Pass connections on to ports of a pod, over a WebSocket."""

    async def dial(port: int) -> socket.socket:
        return await streams.connect(namespace, pod, port)

    await port_forward.serve(await exchange.upgrade((port_forward.PROTOCOL,)), dial)


async def _pieces(
    request: Request, streams: Streams, namespace: str, pod: str, container: str
) -> AsyncGenerator[bytes, None]:
    """Yield the part of a log that is asked for: of the last run, or of the one before."""
    left, previous = request.number("limitBytes"), request.flag("previous")
    pieces = streams.logs(
        namespace,
        pod,
        container=container,
        follow=request.flag("follow") and not previous,
        restart=BEFORE if previous else LAST,
        tail=request.number("tailLines"),
        since=_since(request),
        timestamps=request.flag("timestamps"),
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


def _since(request: Request) -> datetime | None:
    """Return since when lines are asked for: a moment, or seconds back."""
    seconds, text = request.number("sinceSeconds"), request.value("sinceTime")
    if seconds is not None and text:
        raise BadRequest("at most one of sinceSeconds and sinceTime may be given")
    if seconds is not None:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    try:
        return moment(text or None)
    except ValueError as error:
        raise BadRequest(f"sinceTime: found {text!r}, expected a time such as 2026-01-31T12:00:00Z") from error


class _Output:
    """What a container prints from now on, as a `Session` that has no input."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def write(self, data: bytes) -> None:
        """Drop it: there is nobody to read it."""

    async def close_input(self) -> None:
        """Do nothing: there is none."""

    async def resize(self, columns: int, rows: int) -> None:
        """Do nothing: it has no terminal of its own."""

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
