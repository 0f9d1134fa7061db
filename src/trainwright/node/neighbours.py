"""Nodes of one cluster on one machine share a network, as nodes of a cluster do: their pods reach each other.

Whoever comes first makes the network, the others join it, and it stays as long as one of them does: losing a node,
the first one too, is no loss to the pods of the others. Each has a place, a number that no other has while its
process lives, and gives its pods the 254 addresses of that place. A place is a locked file that names the process in
whose namespace the network is; locks end with their process, however it ends.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright.core.errors import HomeError

PLACES = range(1, 255)


@dataclass(frozen=True)
class NetworkPlace:
    """A node's place in the network."""

    number: int
    neighbours: tuple[int, ...]
    """Processes that are in the network already."""
    file: int

    def settle(self, pid: int) -> None:
        """Let others find the network by our process."""
        os.truncate(self.file, 0)
        os.pwrite(self.file, str(pid).encode(), 0)


class Neighbourhood:
    """The nodes of one cluster, and of this user, on this machine."""

    def __init__(self, cluster: str, folder: Path | None = None) -> None:
        parent = folder or Path(tempfile.gettempdir()) / f"trainwright-nodes-{os.getuid()}"
        self._folder = parent / hashlib.sha256(cluster.encode()).hexdigest()[:16]
        self._file: int | None = None

    @contextlib.contextmanager
    def moving_in(self) -> Iterator[NetworkPlace]:
        """Take a place; one at a time, so that two who come first do not each make a network."""
        self._make_folder()
        with (self._folder / "door").open("ab") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            place = self._take()
            try:
                yield place
            except BaseException:
                self.leave()
                raise

    def leave(self) -> None:
        """Give the place back."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _take(self) -> NetworkPlace:
        free: int | None = None
        neighbours: list[int] = []
        for number in PLACES:
            path = self._folder / str(number)
            if free is not None and not path.exists():
                break  # places are taken in order: nobody lives beyond
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not _locked(file):
                neighbours += _pids(file)
                os.close(file)
            elif free is None:
                free, self._file = number, file
            else:
                os.close(file)
        if free is None or self._file is None:
            raise HomeError(f"{len(PLACES)} nodes of this cluster run on this machine already, and no more can")
        return NetworkPlace(free, tuple(neighbours), self._file)

    def _make_folder(self) -> None:
        parent = self._folder.parent
        parent.mkdir(mode=0o700, exist_ok=True)
        if parent.stat().st_uid != os.getuid():
            raise HomeError(f"{parent} belongs to somebody else; remove it, or set TMPDIR to a folder of your own")
        self._folder.mkdir(mode=0o700, exist_ok=True)


def _locked(file: int) -> bool:
    """Lock a file unless somebody else has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pids(file: int) -> list[int]:
    text = os.pread(file, 32, 0)
    return [int(text)] if text.isdigit() else []
