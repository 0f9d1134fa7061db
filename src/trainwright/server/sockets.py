"""Unix sockets to listen on, and one that is answered only once somebody asks."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.cluster.unix import reachable
from trainwright.core.errors import HomeError

if TYPE_CHECKING:
    from trainwright.operator.home import LocalHome

_BACKLOG = 1024


def listen(path: Path, mode: int) -> socket.socket:
    """Return a unix socket that listens at a path, in the place of what was there; HomeError says why it cannot."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~mode)
    try:
        path.unlink(missing_ok=True)
        with reachable(str(path)) as short:
            listener.bind(short)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise HomeError(f"{path}: nobody can be answered there: {error.strerror or error}") from error
    finally:
        os.umask(mask)
    return listener


@asynccontextmanager
async def answering(home: "LocalHome", path: Path) -> AsyncIterator[None]:
    """Answer this user at a socket while the body runs; what that takes is loaded when somebody asks.

    Where there can be no socket nobody is answered, and the body runs all the same.
    """
    try:
        listener = listen(path, 0o600)
    except HomeError:
        yield
        return
    answering = asyncio.create_task(_answer(home, listener))
    try:
        yield
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        listener.close()
        await asyncio.to_thread(path.unlink, missing_ok=True)


async def _answer(home: "LocalHome", listener: socket.socket) -> None:
    await _asked(listener)
    from trainwright.kinds import KINDS
    from trainwright.server.api import Api
    from trainwright.server.gate import LocalGate
    from trainwright.web.server import Server

    api = Api(home.cluster, KINDS, LocalGate(home.cluster), home.kubelet)
    async with Server(listener, api.handle):
        await asyncio.get_running_loop().create_future()


async def _asked(listener: socket.socket) -> None:
    """Return when somebody waits to be answered."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, asked.set)
    try:
        await asked.wait()
    finally:
        loop.remove_reader(listener)
