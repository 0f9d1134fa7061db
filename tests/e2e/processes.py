"""Finds, counts and kills real processes by a mark in their environment, whatever their parents or sessions are.

Pods run with the caller's environment, so a variable set for `tw run` is found in every process it ever started:
the ranks, their children, and those that have left their session on purpose.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "TRAINWRIGHT_E2E"


@dataclass(frozen=True)
class Found:
    """A running process."""

    pid: int
    parent: int
    name: str
    environment: dict[str, str]


def marked(mark: str, **also: str) -> list[Found]:
    """Return the processes that carry the mark and these further variables, zombies left out."""
    return [
        process
        for process in map(_read, _pids())
        if process and all(process.environment.get(k) == v for k, v in {MARK: mark, **also}.items())
    ]


def rank(mark: str, pod: str) -> Found:
    """Return the main process of a pod: the one that no other process of the pod has started."""
    inside = marked(mark, HOSTNAME=pod)
    pids = {process.pid for process in inside}
    tops = [process for process in inside if process.parent not in pids]
    assert len(tops) == 1, f"{pod} should have one main process, and has {tops or 'none'}"
    return tops[0]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to one process."""
    os.kill(pid, number)


def left(mark: str, seconds: float = 5.0) -> list[Found]:
    """Return what is still there after a while; returns at once when nothing is."""
    deadline = time.monotonic() + seconds
    while (rest := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return rest


def resident(pid: int) -> int:
    """Return a process's resident memory in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _read(pid: int) -> Found | None:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None  # it has ended meanwhile, or is somebody else's
    state, parent = rest.split()[:2]
    if state in "ZX":
        return None
    pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
    return Found(pid, int(parent), name, {key: value for key, _, value in pairs})
