"""The step that waits for a peer's name."""

import socket
import subprocess
import sys

import pytest

from trainwright.inpod import wait_for


class Clock:
    """A clock that moves only when somebody sleeps, and a name that resolves after a while."""

    def __init__(self, resolves_after: float) -> None:
        self.time = 0.0
        self.said: list[str] = []
        self._resolves_after = resolves_after

    def resolve(self, host: str) -> None:
        if self.time < self._resolves_after:
            raise socket.gaierror(-2, "Name or service not known")

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def wait(self, seconds: float) -> int:
        return wait_for.wait(
            "j-master-0",
            seconds,
            resolve=self.resolve,
            clock=lambda: self.time,
            sleep=self.sleep,
            say=self.said.append,
        )


@pytest.mark.parametrize(
    ("resolves_after", "code", "lines"),
    [
        pytest.param(0, 0, 0, id="a name that resolves is not waited for"),
        pytest.param(3, 0, 1, id="what is waited for is said"),
        pytest.param(14, 0, 3, id="every few seconds"),
        pytest.param(1000, 1, 5, id="and there is a bound"),
    ],
)
def test_wait(resolves_after, code, lines):
    clock = Clock(resolves_after)

    assert clock.wait(20) == code
    assert len(clock.said) == lines
    assert clock.time <= 20.5


def test_the_last_words_say_what_did_not_happen():
    clock = Clock(1000)
    clock.wait(20)

    assert clock.said[-1].startswith("j-master-0 did not resolve within 20 s (")


def test_it_runs_alone_without_our_package():
    done = subprocess.run(
        [sys.executable, "-I", str(wait_for.__file__), "--host", "localhost", "--seconds", "5"],
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == b""
