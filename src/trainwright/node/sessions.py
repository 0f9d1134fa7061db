"""A command executed inside a running pod: three pipes and an exit code.

Nothing is read ahead: a reader that stops reading stops the command, as a pipe does. Output ends when the command has
ended and all it wrote was read; children it left behind in the background keep running and do not hold the reader.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Literal

from trainwright.node.base import Exit, Launch, Process, ProcessSpec

Stream = Literal["stdout", "stderr"]
_CHUNK = 1 << 16


class ProcessSession:
    """A `Session` over a process."""

    def __init__(self, process: Process, stdin: int | None, stdout: int, stderr: int) -> None:
        self._process = process
        self._stdin = stdin
        self._outputs: dict[int, Stream] = {stdout: "stdout", stderr: "stderr"}
        self._exit: asyncio.Task[Exit] = asyncio.create_task(process.wait())
        self._woken = asyncio.Event()
        self._exit.add_done_callback(lambda _: self._woken.set())

    async def write(self, data: bytes) -> None:
        """Send bytes to its standard input; what a command that has ended would not read is dropped."""
        view = memoryview(data)
        while view and self._stdin is not None:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await self._writable(self._stdin)
            except BrokenPipeError:
                return

    async def close_input(self) -> None:
        """End its standard input."""
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    async def resize(self, columns: int, rows: int) -> None:
        """Do nothing: it has no terminal."""

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield what it prints, until it has ended and everything was read."""
        loop = asyncio.get_running_loop()
        while self._outputs:
            ended = self._exit.done()  # asked before reading: what it wrote is then all in the pipes
            self._woken.clear()
            idle = True
            for file, stream in list(self._outputs.items()):
                chunk = _read(file)
                if chunk:
                    idle = False
                    yield stream, chunk
                elif chunk == b"":
                    self._close(file)
            if idle and ended:
                break
            if idle and self._outputs and not self._exit.done():
                for file in self._outputs:
                    loop.add_reader(file, self._woken.set)
                try:
                    await self._woken.wait()
                finally:
                    for file in self._outputs:
                        loop.remove_reader(file)
        for file in list(self._outputs):
            self._close(file)

    async def wait(self) -> int:
        """Return its exit code, 128 + n after signal n."""
        return (await asyncio.shield(self._exit)).code

    async def kill(self) -> None:
        """End it and everything it started."""
        await self._process.kill()
        await self.close_input()
        for file in list(self._outputs):
            self._close(file)

    def _close(self, file: int) -> None:
        if self._outputs.pop(file, None):
            asyncio.get_running_loop().remove_reader(file)
            os.close(file)

    async def _writable(self, file: int) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(file, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(file)


async def start(launch: Launch, spec: ProcessSpec, *, stdin: bool) -> ProcessSession:
    """Start a command with pipes; SpawnError says why it could not."""
    theirs: list[int] = []
    ours: list[int] = []
    try:
        given = None
        if stdin:
            given, end = os.pipe()
            theirs.append(given)
            ours.append(end)
        ends = []
        for _ in range(2):
            end, given_end = os.pipe()
            ours.append(end)
            theirs.append(given_end)
            ends.append((end, given_end))
        for file in ours:
            os.set_blocking(file, False)
        piped = replace(spec, stdin=given, stdout=ends[0][1], stderr=ends[1][1], leave_children=True)
        process = await launch(piped)
    except BaseException:
        for file in ours:
            os.close(file)
        raise
    finally:
        for file in theirs:
            os.close(file)
    return ProcessSession(process, ours[0] if stdin else None, ends[0][0], ends[1][0])


def _read(file: int) -> bytes | None:
    """Return what is there: None if nothing is right now, b"" at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(file, _CHUNK)
    return None
