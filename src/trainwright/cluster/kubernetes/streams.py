"""Exec and attach: a command inside a pod, as channels over one WebSocket (`v5.channel.k8s.io`).

The first byte of a message is its channel: 0 standard input, 1 standard output, 2 standard error, 3 the `Status` that
says how it ended, 4 the terminal's size, 255 (v5 only) the end of a channel. Closing the connection does not end the
command on an ordinary kubelet: whoever needs that keeps standard input open as a lifeline.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import msgspec

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.kubernetes.errors import Unreachable, refusal, status_error
from trainwright.cluster.kubernetes.rest import Query, Rest
from trainwright.cluster.kubernetes.websocket import WebSocket, handshake
from trainwright.core.errors import ClusterError

Output = Literal["stdout", "stderr"]

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_OUTPUTS: dict[int, Output] = {1: "stdout", 2: "stderr"}
_WRITE = 1 << 16
_KEPT = 1 << 20
"""So many bytes of output are kept for a reader who may come later."""


class PodSession:
    """A `Session` over a WebSocket. Nothing is read ahead: a reader that stops reading stops the command."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self._protocol = protocol
        self._reading = asyncio.Lock()
        self._kept: deque[tuple[Output, bytes]] = deque()
        self._kept_size = 0
        self._room = asyncio.Event()
        self._code: int | None = None
        self._error: ClusterError | None = None

    async def __aenter__(self) -> "PodSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def write(self, data: bytes) -> None:
        """Send bytes to its standard input; what a command that has ended would not read is dropped."""
        for start in range(0, len(data), _WRITE):
            await self._send(_STDIN, data[start : start + _WRITE])

    async def close_input(self) -> None:
        """End its standard input."""
        if self._protocol == V4:
            raise Unreachable(f"this API server speaks only {V4}, which cannot end standard input; Kubernetes 1.30 can")
        await self._send(_CLOSE, bytes([_STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Tell its terminal how large it is now."""
        await self._send(_RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))

    async def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        """Yield what it prints, until it has ended and everything was read."""
        while True:
            async with self._reading:
                received = self._taken() or await self._next()
            if received is None:
                return
            yield received

    async def wait(self) -> int:
        """Return its exit code, 128 + n after signal n. As with a pipe, much output nobody reads holds it up."""
        while not self._over:
            if self._kept_size > _KEPT:
                self._room.clear()
                await self._room.wait()
            async with self._reading:
                if received := await self._next():
                    self._kept.append(received)
                    self._kept_size += len(received[1])
        if self._error is not None:
            raise self._error
        assert self._code is not None
        return self._code

    async def kill(self) -> None:
        """Let go of it. An ordinary kubelet lets a command without terminal run on; a process node ends it."""
        if not self._over:
            self._error = Unreachable("the session was closed before the command ended")
        self._room.set()
        await self._socket.close()

    @property
    def _over(self) -> bool:
        return self._code is not None or self._error is not None

    def _taken(self) -> tuple[Output, bytes] | None:
        """Return what `wait` read and kept for whoever reads."""
        if not self._kept:
            return None
        received = self._kept.popleft()
        self._kept_size -= len(received[1])
        self._room.set()
        return received

    async def _send(self, channel: int, data: bytes) -> None:
        if self._over:
            return
        with contextlib.suppress(Broken):  # a reader learns how it ended
            await self._socket.send(bytes([channel]) + data)

    async def _next(self) -> tuple[Output, bytes] | None:
        """Return the next piece of output; None once it is known how the command ended."""
        while not self._over:
            try:
                message = await self._socket.receive()
            except Broken as error:
                self._error = self._error or Unreachable(f"the connection to the pod broke: {error}")
                break
            if message is None:
                self._error = self._error or Unreachable("the connection to the pod ended before the command did")
                break
            _, data = message
            if not data:
                continue
            channel, data = data[0], data[1:]
            if channel == _ERROR and data:
                self._ended(data)
            elif channel in _OUTPUTS and data:
                return _OUTPUTS[channel], data
        await self._socket.close()
        return None

    def _ended(self, data: bytes) -> None:
        try:
            self._code = exit_code(msgspec.json.decode(data))
        except msgspec.DecodeError:
            self._error = Unreachable(f"the command ended with an unreadable status: {data[:200]!r}")
        except ClusterError as error:
            self._error = error


def exit_code(status: Mapping[str, Any]) -> int:
    """Return the exit code a `Status` tells of; raise when the command could not be run at all."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    raise status_error(status)


async def connect(rest: Rest, path: str, query: Query) -> PodSession:
    """Ask for an exec or attach, and return the session."""
    headers, expected = handshake(f"{V5}, {V4}")
    # Starting a command is never repeated: nobody knows whether it runs.
    stream = await rest.open(path, query=query, headers=headers, timeout=rest.timeout, repeatable=False)
    try:
        if stream.status != 101:
            raise refusal(500, b"the server did not switch to WebSocket")
        protocol = stream.headers.get("sec-websocket-protocol", "")
        if stream.headers.get("sec-websocket-accept") != expected or protocol not in (V5, V4):
            raise refusal(500, f"the server switched to something else: {protocol!r}".encode())
    except BaseException:
        stream.close()
        raise
    return PodSession(WebSocket(stream), protocol)
