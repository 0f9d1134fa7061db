"""Waiting for children and ending whole process trees: what zygote, pod init and supervisor have in common.

Each of them adopts the orphans below it, so everything a pod ever started stays in one tree, however often it forks
and whatever session it makes, and can be found and ended from its root.
"""

from __future__ import annotations

import os
import select
import signal
import time

from trainwright.node import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

_MOST_DOUBTS = 20
"""How often to look again when the parent of somebody is missing: where /proc hides processes it always is."""
_LEFT_ALONE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Children:
    """The children of this process: tells when one has ended. To be made anew after every fork."""

    def __init__(self) -> None:
        self._wake, write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A pod that signals everything it can see (`kill -TERM -1`) must not end its own supervision.
        for number in _LEFT_ALONE:
            signal.signal(number, signal.SIG_IGN)

    def wait(self, control: socket.socket) -> bool:
        """Wait until a child may have ended or `control` can be read; say whether it can."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(control, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        if self._wake in ready:
            os.read(self._wake, 4096)
        return control.fileno() in ready


def forget_signals() -> None:
    """Handle every signal in the usual way, whatever whoever started us had set."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except OSError:  # a number the C library keeps for itself
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def release_signals() -> None:
    """Take back what `Children` has set, before another program takes over."""
    signal.set_wakeup_fd(-1)
    for number in (*_LEFT_ALONE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def fork(task: Callable[[], None]) -> int:
    """Fork a child that does `task` and ends; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        task()
        code = 0
    except ConnectionError:  # the agent has gone: nobody is left to talk to
        pass
    except BaseException:  # noqa: BLE001 - nothing may return into the parent's code
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def reap() -> dict[int, int]:
    """Return the children that have ended, with their wait status."""
    ended: dict[int, int] = {}
    _collect(ended)
    return ended


def _collect(ended: dict[int, int]) -> bool:
    """Add the children that have ended; return whether there are others."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True
        ended[pid] = status


def end_all(spare: Iterable[int] = (), mark: str = "") -> dict[int, int]:
    """SIGKILL every descendant except the children in `spare` and theirs; return when they are gone.

    With `mark` also the processes that carry it in their environment: where orphans cannot be adopted, that is how
    they are found. Returns the wait status of the children that ended.
    """
    ended: dict[int, int] = {}
    spared, doubts = set(spare), 0
    # Whoever has no child has no descendant, because orphans come to us: that the kernel tells for certain. A look at
    # /proc takes a while, and may miss a branch whose parent ended meanwhile.
    while _collect(ended):
        tree = linux.parents()
        kept = spared.union(*(linux.descendants(pid, tree) for pid in spared))
        below = linux.descendants(os.getpid(), tree) - kept
        if below:
            _kill(below)
            # Each of them is a child of ours or has one above it, and that one is dying: this wait ends.
            pid, status = os.waitpid(-1, 0)
            ended[pid] = status
        elif spared and (doubts == _MOST_DOUBTS or tree.keys() | {0} >= set(tree.values())):
            break
        else:
            doubts += 1
    while mark and _kill(linux.marked(mark) - {os.getpid()}):
        time.sleep(0.002)
    return ended


def _kill(pids: set[int]) -> bool:
    """SIGKILL processes; return whether any was there and ours."""
    found = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            found = True
        except (ProcessLookupError, PermissionError):
            continue
    return found
