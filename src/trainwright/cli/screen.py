"""Where the words of `tw run` go: logs to stdout, our own words to stderr, and on a terminal a table that stays below.

Whoever reads may stop reading (a pager, Ctrl-S), so the event loop never writes: the log merger's thread writes the
logs, a second thread our words. On one terminal both hold one lock for a write; the table is erased, the new lines are
written, and the table is drawn again in one go, so that nothing flickers and no line is torn.
"""

import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Mapping

from trainwright.cli.merge import write_all

Frame = Callable[[int, int], list[str]]
"""Draws the table for a terminal of so many columns and lines."""


class Screen:
    """Stdout and stderr of one command. `logs` is the descriptor the rank logs go to."""

    def __init__(
        self,
        *,
        logs: int = 1,
        words: int = 2,
        quiet: bool = False,
        environment: Mapping[str, str] = os.environ,
        size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
    ) -> None:
        self._logs, self._words, self._quiet = logs, words, quiet
        self._size = size
        self._lock = threading.Condition()
        self._words_left: queue.Queue[bytes] = queue.Queue()
        """What is to be said; nothing but a drawing is an empty one."""
        self._writer = threading.Thread(target=self._write_words, name="words", daemon=True)
        self._frame: Frame | None = None
        self._drawn = 0
        self._open_line = False
        smart = environment.get("TERM") != "dumb"
        self.live = os.isatty(words) and smart and not quiet
        self._shared = self.live and os.isatty(logs)
        self.terminal = os.isatty(logs)
        self.colour = self.terminal and smart and not environment.get("NO_COLOR")
        self.colour_words = os.isatty(words) and smart and not environment.get("NO_COLOR")

    @property
    def busy(self) -> bool:
        """Say whether there are words that were not written yet."""
        return bool(self._words_left.unfinished_tasks)

    def log(self, data: bytes) -> None:
        """Write log lines; raises OSError when nobody reads them any more, and blocks while nobody does."""
        if not self._shared:
            write_all(self._logs, data)
            return
        with self._lock:
            self._open_line = not data.endswith(b"\n")
            write_all(self._logs, self._erased() + data + (b"" if self._open_line else self._drawing()))
            self._lock.notify_all()

    def say(self, text: str, *, style: str = "") -> None:
        """Have words of our own written, on lines of their own; lost without complaint when nobody reads them.

        Styles are error, detail (of an error), good and dim; when quiet, only the first two are written.
        """
        if self._quiet and style not in ("error", "detail"):
            return
        self._put("".join(f"{self._styled(line, style)}\n" for line in text.split("\n")).encode())

    def hush(self) -> None:
        """Say nothing more but errors."""
        self.show(None)
        self._quiet, self.live = True, False

    def show(self, frame: Frame | None) -> None:
        """Have a new table drawn below everything, or the old one taken away."""
        if self.live and (frame or self._frame):
            self._frame = frame
            if self._words_left.empty():
                self._put(b"")

    def settle(self, seconds: float = 5.0) -> None:
        """Wait until everything is written, but no longer than that."""
        with self._words_left.all_tasks_done:
            self._words_left.all_tasks_done.wait_for(lambda: not self.busy, seconds)

    def _put(self, words: bytes) -> None:
        self._words_left.put(words)
        if not self._writer.ident:
            self._writer.start()

    def _write_words(self) -> None:
        while True:
            words = self._words_left.get()
            with self._lock:
                self._lock.wait_for(lambda: not self._open_line)  # a long line is written in pieces
                self._write(self._erased() + words + self._drawing())
            self._words_left.task_done()

    def _styled(self, line: str, style: str) -> str:
        code = {"error": "31", "good": "32", "dim": "2"}.get(style)
        return f"\x1b[{code}m{line}\x1b[0m" if code and self.colour_words else line

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._words, data)
        except OSError:
            self._quiet = True

    def _erased(self) -> bytes:
        """Return what takes the drawn table away and leaves the cursor where it began."""
        lines, self._drawn = self._drawn, 0
        return f"\x1b[{lines}A\r\x1b[J".encode() if lines else b""

    def _drawing(self) -> bytes:
        if self._frame is None:
            return b""
        columns, height = self._size()
        lines = self._frame(columns, height)
        self._drawn = len(lines)
        return "".join(f"{line}\n" for line in lines).encode()


def forget_stdout() -> None:
    """Keep the interpreter from failing once more when it flushes a pipe nobody reads."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
