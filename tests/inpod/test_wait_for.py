"""The step that waits for peers: for their names, or for their answer."""

import socket
import subprocess
import sys

import pytest

from trainwright.inpod import wait_for


class Clock:
    """A clock that moves only when somebody sleeps, and peers that are there after a while."""

    def __init__(self, resolves_after: float) -> None:
        self.time = 0.0
        self.said: list[str] = []
        self.asked: list[str] = []
        self._resolves_after = resolves_after

    def ask(self, host: str, port: int | None) -> None:
        self.asked.append(host)
        if self.time < self._resolves_after:
            raise socket.gaierror(-2, "Name or service not known")

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def wait(self, seconds: float, *peers: wait_for.Peer) -> int:
        return wait_for.wait(
            peers or [("j-master-0", None)],
            seconds,
            ask=self.ask,
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


def test_a_peer_that_does_not_answer_is_named_with_its_port():
    clock = Clock(1000)
    clock.wait(20, ("j-worker-0.j", 22))

    assert clock.said[0] == "waiting for j-worker-0.j to answer on port 22, 19 s left"
    assert clock.said[-1].startswith("j-worker-0.j did not answer on port 22 within 20 s (")


def test_every_peer_is_waited_for_within_one_bound():
    clock = Clock(3)

    assert clock.wait(20, ("a", 22), ("b", 22)) == 0
    assert set(clock.asked) == {"a", "b"}
    assert clock.time <= 3.5


def test_an_answer_on_the_port_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert wait_for.main(["--host", "127.0.0.1", "--port", str(port), "--seconds", "5"]) == 0
        assert wait_for.main(["--host", f"127.0.0.1:{port}", "--seconds", "5"]) == 0

    assert wait_for.main(["--host", "127.0.0.1", "--port", str(port), "--seconds", "0"]) == 1


def test_it_runs_alone_without_our_package():
    done = subprocess.run(
        [sys.executable, "-I", str(wait_for.__file__), "--host", "localhost", "--seconds", "5"],
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == b""
