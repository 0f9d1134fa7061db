"""Paths of unix sockets. One may have 107 bytes, a folder's many more: a long one is reached through its folder."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED = Path("/run/trainwright/api.sock")
"""Where every user of a machine asks a server that serves them all."""
_LONGEST = 107


@contextmanager
def reachable(path: str) -> Iterator[str]:
    """Yield a path to the same place that is short enough to listen at or to connect to."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield path
        return
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{Path(path).name}"
    finally:
        os.close(folder)


def is_answered(path: Path) -> bool:
    """Say whether somebody listens at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            with reachable(str(path)) as short:
                asking.connect(short)
        except OSError:
            return False
    return True
