"""The network of a home without namespaces: everyone is at 127.0.0.1, each on ports of its own.

A replica's port is reserved when somebody first asks where it listens, and stays the same as long as the home lives.
Never is one port shared between jobs: ranks of one would silently train with ranks of the other.
"""

import contextlib
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from trainwright.api.common import Job
from trainwright.core.errors import HomeError
from trainwright.frameworks.base import Endpoint

FIRST, LAST = 20_000, 32_000
"""Below the range from which the kernel takes the ports of outgoing connections."""


class LoopbackNet:
    """Hands out distinct ports of 127.0.0.1; a context manager, because the ports are given back at the end."""

    names = False

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"trainwright-ports-{os.getuid()}"
        self._endpoints: dict[tuple[str, str, int, int], Endpoint] = {}
        self._locks = contextlib.ExitStack()
        self._untried = self._candidates()

    def __enter__(self) -> "LoopbackNet":
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def endpoint(self, job: Job, role: str, index: int, port: int) -> Endpoint:
        """Return where that replica listens instead of on `port`."""
        key = (job.uid or f"{job.namespace}/{job.name}", role, index, port)
        if key not in self._endpoints:
            self._endpoints[key] = Endpoint("127.0.0.1", self._reserve())
        return self._endpoints[key]

    def _candidates(self) -> Iterator[int]:
        """Yield every port once, from a different place in every process, so that two at once rarely meet."""
        start = os.getpid() * 7 % (LAST - FIRST)
        yield from (FIRST + (start + step) % (LAST - FIRST) for step in range(LAST - FIRST))

    def _reserve(self) -> int:
        for port in self._untried:
            lock = _lock(self._folder / str(port))
            if lock is None:
                continue
            if _is_free(port):
                self._locks.enter_context(lock)
                return port
            lock.close()
        raise HomeError(
            f"no free port is left between {FIRST} and {LAST} on 127.0.0.1; end what uses them, or use --isolation net"
        )


def _lock(path: Path) -> IO[bytes] | None:
    """Return the file, locked, or None when another process holds it. Locks end with their process."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
