"""`kubectl exec` and `kubectl attach`, the node's side: a command's input and output as channels over a WebSocket.

The first byte of a message is its channel: 0 standard input, 1 standard output, 2 standard error, 3 the `Status` that
says how it ended, 4 the terminal's size; 255 (v5 only) and a channel's number end that channel.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from trainwright.cluster.base import Session
from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.websocket import WebSocket
from trainwright.core.errors import ClusterError
from trainwright.core.objects import Object

log = logging.getLogger(__name__)

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STATUS, _RESIZE, _END = 0, 3, 4, 255
_OUTPUTS = {"stdout": 1, "stderr": 2}
_GOODBYE_SECONDS = 5.0


async def serve(websocket: WebSocket, start: Callable[[], Awaitable[Session]]) -> None:
    """Start a command and connect it to a client until it has ended; a client that goes away ends it."""
    try:
        command = await start()
    except ClusterError as error:
        await _goodbye(websocket, failure(error))
        return
    listening = asyncio.create_task(_listen(websocket, command))
    running = asyncio.create_task(_tell(websocket, command))
    try:
        await asyncio.wait((listening, running), return_when=asyncio.FIRST_COMPLETED)
        await _end(listening)
        if running.done():
            await _goodbye(websocket, ended(running.result()))
    except Broken as error:
        log.debug("the client of a command has gone: %s", error)
    finally:
        await _end(listening, running)
        await command.kill()


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _tell(websocket: WebSocket, command: Session) -> int:
    """Send what a command prints and return its exit code."""
    async for stream, data in command.output():
        await websocket.send(bytes([_OUTPUTS[stream]]) + data)
    return await command.wait()


async def _listen(websocket: WebSocket, command: Session) -> None:
    """Do what the client asks until it goes."""
    while (message := await websocket.receive()) is not None:
        _, data = message
        if not data:
            continue
        channel, rest = data[0], data[1:]
        if channel == _STDIN:
            await command.write(rest)
        elif channel == _END and rest[:1] == bytes([_STDIN]):
            await command.close_input()
        elif channel == _RESIZE:
            await _resize(command, rest)


async def _resize(command: Session, data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError, ValueError):  # a size nobody can read is no loss
        size = msgspec.json.decode(data)
        await command.resize(int(size["Width"]), int(size["Height"]))


async def _goodbye(websocket: WebSocket, status: Object) -> None:
    """Say how it ended, and wait a moment for the client to have heard it: closing at once could lose it."""
    await websocket.send(bytes([_STATUS]) + msgspec.json.encode(status))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await websocket.finish()


def ended(code: int) -> Object:
    """Return the `Status` for an exit code."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(error: ClusterError) -> Object:
    """Return the `Status` for a command that was not started."""
    return {"metadata": {}, "status": "Failure", "reason": error.reason, "message": str(error), "code": error.code}
