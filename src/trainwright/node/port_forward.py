"""`kubectl port-forward`: connections of a client's, each passed on to a port inside a pod.

For every connection the client opens two SPDY streams that carry the same `requestid`: one for data, and one on which
it is told in words why there is none.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

from trainwright.cluster.kubernetes.websocket import WebSocket
from trainwright.core.errors import ClusterError
from trainwright.node.spdy import SpdyConnection, SpdyStream

log = logging.getLogger(__name__)

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_CHUNK = 1 << 16

Dial = Callable[[int], Awaitable[socket.socket]]


async def serve(websocket: WebSocket, dial: Dial) -> None:
    """Pass on connections until the client goes."""
    halves: dict[str, dict[str, SpdyStream]] = {}
    connections: set[asyncio.Task[None]] = set()
    try:
        async for stream in SpdyConnection(websocket).streams():
            request = stream.headers.get("requestid", "")
            pair = halves.setdefault(request, {})
            pair[stream.headers.get("streamtype", "")] = stream
            if pair.keys() == {"data", "error"}:
                task = asyncio.create_task(_pass_on(pair["data"], pair["error"], dial))
                connections.add(task)
                task.add_done_callback(connections.discard)
                del halves[request]
    finally:
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _pass_on(data: SpdyStream, error: SpdyStream, dial: Dial) -> None:
    """Pass one connection on until the pod's side has ended it, and say on the other stream if it cannot be."""
    with contextlib.suppress(OSError):  # the client has gone
        port = data.headers.get("port", "")
        try:
            connection = await dial(int(port))
        except (OSError, ValueError, ClusterError) as refused:
            await error.write(f"port {port} of the pod cannot be reached: {refused}".encode())
        else:
            await _relay(data, connection)
        await data.end()
        await error.end()


async def _relay(data: SpdyStream, connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    sending = asyncio.create_task(_send(data, writer))
    try:
        while chunk := await reader.read(_CHUNK):
            await data.write(chunk)
    except ConnectionError as error:
        log.debug("a forwarded connection broke: %s", error)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def _send(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await data.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
