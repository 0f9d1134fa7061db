"""What is noted of every run of a container in a file of its pod's, so that it is known even if the node is killed.

The file is made before the process is started and says how it ended once it has; the supervisor writes that, since it
lives a little longer than the agent. So after `kill -9` a run without a file was never begun, and one whose file says
nothing was lost. Written files survive every death but the machine's own.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainwright.node.base import Exit

_NAME = re.compile(r"run-(\d+)")
_ENDED = re.compile(r"(code|signal) (\d+)\n *")
_ROOM = b" " * 16
"""Taken on the disk beforehand, so that an end can be noted on a full one."""


@dataclass(frozen=True)
class Note:
    """The last run of a container that was begun, and how and when it ended, if anybody saw it."""

    run: int
    ended: Exit | None = None
    at: datetime | None = None


def begin(folder: Path, container: str, run: int) -> int:
    """Note that a run begins; return the descriptor in which its end is to be noted."""
    place = folder / "runs" / container
    place.mkdir(parents=True, exist_ok=True)
    note = os.open(place / f"run-{run}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.pwrite(note, _ROOM, 0)
    return note


def presume(folder: Path, container: str) -> Note:
    """Note that a run may have begun, of which the note is lost: from now on that is known."""
    os.close(begin(folder, container, 0))
    return Note(0)


def last(folder: Path, container: str) -> Note | None:
    """Return what is noted of the last run of a container; None if none was begun."""
    place = folder / "runs" / container
    if not place.is_dir():
        return None
    runs = [int(match[1]) for entry in place.iterdir() if (match := _NAME.fullmatch(entry.name))]
    if not runs:
        return None
    file = place / f"run-{max(runs)}"
    ended = _ENDED.fullmatch(file.read_text())
    if not ended:
        return Note(max(runs))
    number = int(ended[2])
    at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return Note(max(runs), Exit(number) if ended[1] == "code" else Exit(128 + number, number), at)
