"""A command executed inside a running pod with a terminal of its own: what `kubectl exec -it` asks for.

Both outputs are one, the command sees a terminal as large as the client's, and Ctrl-C reaches what is in front.
"""

import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Literal

from trainwright.node.base import Exit, Launch, Process, ProcessSpec

_CHUNK = 1 << 16
_END_OF_INPUT = b"\x04"


class TerminalSession:
    """A `Session` over a pseudo terminal."""

    def __init__(self, process: Process, terminal: int) -> None:
        self._process = process
        self._terminal: int | None = terminal
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Task[Exit] = asyncio.create_task(process.wait())

    async def write(self, data: bytes) -> None:
        """Type into the terminal; what a command that has ended would not read is dropped."""
        view = memoryview(data)
        while view and self._terminal is not None and not self._exit.done():
            try:
                view = view[os.write(self._terminal, view) :]
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer, self._terminal)
            except OSError:
                return

    async def close_input(self) -> None:
        """Type Ctrl-D: a terminal knows no other end."""
        await self.write(_END_OF_INPUT)

    async def resize(self, columns: int, rows: int) -> None:
        """Make the terminal so large; the kernel tells the command."""
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Yield what appears on the terminal, until the command has ended and everything was read."""
        while self._terminal is not None:
            ended = self._exit.done()  # asked before reading: what it wrote is then all there
            chunk = _read(self._terminal)
            if chunk:
                yield "stdout", chunk
            elif chunk == b"" or ended:
                return
            else:
                await self._ready(self._loop.add_reader, self._loop.remove_reader, self._terminal)

    async def wait(self) -> int:
        """Return its exit code, 128 + n after signal n."""
        return (await asyncio.shield(self._exit)).code

    async def kill(self) -> None:
        """End it and everything it started."""
        await self._process.kill()
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            os.close(terminal)

    async def _ready(
        self,
        add: Callable[[int, Callable[[], object]], object],
        remove: Callable[[int], object],
        terminal: int,
    ) -> None:
        """Wait until the terminal can be read or written, or the command has ended."""
        ready = asyncio.Event()

        def wake(_: object = None) -> None:
            ready.set()

        self._exit.add_done_callback(wake)
        add(terminal, wake)
        try:
            await ready.wait()
        finally:
            remove(terminal)
            self._exit.remove_done_callback(wake)


async def start(launch: Launch, spec: ProcessSpec) -> TerminalSession:
    """Start a command on a new terminal; SpawnError says why it could not."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    on_terminal = replace(
        spec,
        env={"TERM": "xterm", **spec.env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        terminal=True,
        leave_children=True,
    )
    try:
        process = await launch(on_terminal)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return TerminalSession(process, ours)


def _read(terminal: int) -> bytes | None:
    """Return what is there: None if nothing is right now, b"" at the end."""
    try:
        return os.read(terminal, _CHUNK)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:  # nobody has the other side open any more
            return b""
        raise
