"""Where the words of `tw run` go: logs to stdout, our own words to stderr, and on a terminal a table that stays below.

Two threads write here (the log merger and the event loop), so every write holds one lock. The table is erased, the new
lines are written, and the table is drawn again in a single write, so that nothing flickers and no line is torn.
"""

import os
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
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._drawn = 0
        self._open_line = False
        smart = environment.get("TERM") != "dumb"
        self.live = os.isatty(words) and smart and not quiet
        self._shared = self.live and os.isatty(logs)
        self.terminal = os.isatty(logs)
        self.colour = self.terminal and smart and not environment.get("NO_COLOR")
        self.colour_words = os.isatty(words) and smart and not environment.get("NO_COLOR")

    def log(self, data: bytes) -> None:
        """Write log lines; raises OSError when nobody reads them any more."""
        with self._lock:
            if not self._shared:
                write_all(self._logs, data)
                return
            self._open_line = not data.endswith(b"\n")
            write_all(self._logs, self._erased() + data + (b"" if self._open_line else self._drawing()))

    def say(self, text: str, *, style: str = "") -> None:
        """Write words of our own, on lines of their own; lost without complaint when nobody reads them.

        Styles are error, detail (of an error), good and dim; when quiet, only the first two are written.
        """
        if self._quiet and style not in ("error", "detail"):
            return
        words = "\n".join(self._styled(line, style) for line in text.splitlines())
        with self._lock:
            self._write(self._erased() + f"{words}\n".encode() + (b"" if self._open_line else self._drawing()))

    def show(self, frame: Frame | None) -> None:
        """Draw a new table below everything, or take it away."""
        if not self.live:
            return
        with self._lock:
            self._frame = frame
            if not self._open_line:
                self._write(self._erased() + self._drawing())

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
