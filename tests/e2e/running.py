"""`tw` as a user runs it: a process of its own, whose output is read while it runs."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.e2e import processes


class Running:
    """A command that runs. Every line of its output is kept; one can wait for a line, and end it by signals."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self.words = list(words)
        self.mark = environment[processes.MARK]
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            self.words,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout
        assert self.process.stderr
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.out)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.err)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], into: list[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    into.append(line.rstrip("\n"))
                    self.lines.append(into[-1])
                    self._news.notify_all()

    def until(self, pattern: str, seconds: float = 60, *, after: int = 0) -> re.Match[str]:
        """Return the first match among the lines from number `after` on, waiting for it; fail if it never comes."""
        looked = after
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for line in self.lines[looked:]:
                    looked += 1
                    if match := re.search(pattern, line):
                        return match
                ended = self.process.poll() is not None and not any(reader.is_alive() for reader in self._readers)
                if ended or time.monotonic() > deadline:
                    why = f"it ended with {self.process.returncode}" if ended else f"{seconds:.0f} s have passed"
                    raise AssertionError(f"no line matches {pattern!r}, and {why}; {self.tail()}")
                self._news.wait(0.2)

    def wait(self, seconds: float = 60) -> int:
        """Return its exit code once it has ended and everything was read."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{' '.join(self.words)} did not end within {seconds:.0f} s; {self.tail()}") from None
        for reader in self._readers:
            reader.join(10)
        return code

    def tail(self, count: int = 30) -> str:
        """Return its last words, for a failed assertion."""
        return "its last lines:\n" + "\n".join(self.lines[-count:])

    def signal(self, number: int) -> None:
        """Send a signal to `tw` itself, as `kill` does."""
        self.process.send_signal(number)

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends SIGINT to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def stop(self) -> None:
        """End it, and everything it has started, unless it has ended by itself: then whatever is left is a fault."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
            for found in processes.marked(self.mark):
                with contextlib.suppress(ProcessLookupError):
                    processes.kill(found.pid)
        for reader in self._readers:
            reader.join(10)


def tw(*words: str) -> list[str]:
    """Return the command line that runs this checkout's `tw`."""
    return [str(Path(sys.executable).with_name("tw")), *words]


Start = Callable[..., Running]
Activate = Callable[..., list[Path]]
AsPlainUser = Callable[..., Callable[[list[str]], list[str]]]
