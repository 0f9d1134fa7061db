"""Small messages with file descriptors between the agent and its helper processes, over a unix stream socket.

A message is one line of JSON that says how many descriptors come with it. What is large (environments have no bound)
travels as a descriptor of a file in memory, so that no message ever fills a socket's buffer half.
"""

from __future__ import annotations

import json
import os
import socket
import struct

TYPE_CHECKING = False  # importing typing costs the helpers 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Message = dict[str, Any]
else:
    Message = dict

_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_CREDENTIALS = getattr(socket, "SCM_CREDENTIALS", -1)


class Received:
    """A message, the descriptors that came with it, and the host's process id of its sender (0 if not told)."""

    def __init__(self, message: Message, fds: list[int], sender: int) -> None:
        self.message, self.fds, self.sender = message, fds, sender


class Channel:
    """One end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = b""
        self._fds: list[int] = []

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message; BlockingIOError on a non-blocking socket whose buffer is full."""
        data = json.dumps(message | {"fds": len(fds)}).encode() + b"\n"
        socket.send_fds(self.socket, [data], list(fds))

    def receive(self) -> list[Received] | None:
        """Return what has arrived, waiting for something if the socket is a blocking one; None at the end."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, 1024, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        sender = 0
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                size = len(content) - len(content) % 4
                self._fds += struct.unpack(f"={size // 4}i", content[:size])
            elif level == socket.SOL_SOCKET and kind == _CREDENTIALS:
                sender = struct.unpack_from("=i", content)[0]
        if not data:
            return None
        return list(self._messages(data, sender))

    def _messages(self, data: bytes, sender: int) -> Iterator[Received]:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            count = message.pop("fds")
            fds, self._fds = self._fds[:count], self._fds[count:]
            yield Received(message, fds, sender)

    def close(self) -> None:
        """Close the socket and whatever came without being asked for."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self.socket.close()


def pack(message: Message) -> int:
    """Return the descriptor of a file in memory that holds a message of any size."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("trainwright")
    else:
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps(message).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def unpack(fd: int) -> Message:
    """Read what `pack` wrote, and close the descriptor."""
    with open(fd, "rb") as file:
        message: Message = json.load(file)
    return message
