"""The terminal: the table stays below, no log line is torn, and nothing is drawn where nobody looks."""

import os
import pty
import re
import select
from datetime import UTC, datetime, timedelta

import pytest

from trainwright.cli.board import JobLine, frame, rank_change
from trainwright.cli.ranks import Ending, Rank
from trainwright.cli.screen import Screen

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def rank(label="worker-1", phase="Running", detail="", restarts=0):
    return Rank("mnist", label, "default", f"mnist-{label}", "u", phase, detail, "here", restarts, NOON)


@pytest.fixture
def terminal():
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def shown(master: int, screen: Screen) -> str:
    """Return what a terminal of endless height would show: the escapes we use, carried out."""
    screen.settle()
    lines, row, text = [""], 0, ""
    while select.select([master], [], [], 0.05)[0]:
        text += os.read(master, 1 << 16).decode()
    for token in re.findall(r"\x1b\[\d*[AJ]|\r\n|\r|[^\x1b\r\n]+", text):
        if token.endswith("A") and token.startswith("\x1b"):
            row -= int(token[2:-1])
        elif token.endswith("J") and token.startswith("\x1b"):
            lines = [*lines[:row], ""]
        elif token == "\r\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif token != "\r":
            lines[row] += token
    return "\n".join(lines)


def screen_on(slave: int, **options) -> Screen:
    size = os.terminal_size((60, 20))
    return Screen(logs=slave, words=slave, environment={"NO_COLOR": "1"}, size=lambda: size, **options)


def test_the_table_stays_below_logs_and_words(terminal):
    master, slave = terminal
    screen = screen_on(slave)
    screen.show(lambda columns, height: ["TABLE", "row"])
    screen.log(b"worker-0 | a\nworker-0 | b\n")
    screen.say("worker-1 running")
    screen.settle()
    screen.show(lambda columns, height: ["TABLE 2"])
    screen.log(b"worker-0 | c\n")

    assert shown(master, screen) == "worker-0 | a\nworker-0 | b\nworker-1 running\nworker-0 | c\nTABLE 2\n"


def test_a_table_taken_away_leaves_nothing(terminal):
    master, slave = terminal
    screen = screen_on(slave)
    screen.show(lambda columns, height: ["TABLE", "row"])
    screen.show(None)
    screen.say("done")

    assert shown(master, screen) == "done\n"


def test_a_long_line_that_comes_in_pieces_is_not_torn_by_the_table(terminal):
    master, slave = terminal
    screen = screen_on(slave)
    screen.show(lambda columns, height: ["TABLE"])
    screen.log(b"worker-0 | first half,")
    screen.show(lambda columns, height: ["TABLE 2"])
    screen.log(b" second half\n")

    assert shown(master, screen) == "worker-0 | first half, second half\nTABLE 2\n"


def test_a_pipe_gets_lines_and_no_escapes():
    read, write = os.pipe()
    screen = Screen(logs=write, words=write, environment={})
    screen.show(lambda columns, height: ["TABLE"])
    screen.log(b"worker-0 | a\n")
    screen.say("worker-1 failed", style="error")
    screen.settle()
    os.close(write)

    assert os.read(read, 1000) == b"worker-0 | a\nworker-1 failed\n"
    os.close(read)


def test_quiet_says_errors_only():
    read, write = os.pipe()
    screen = Screen(logs=write, words=write, quiet=True, environment={})
    screen.say("worker-1 running")
    screen.say("worker-1 failed", style="error")
    screen.settle()
    os.close(write)

    assert os.read(read, 1000) == b"worker-1 failed\n"
    os.close(read)


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_asked_for(terminal, environment, colour):
    _, slave = terminal

    assert Screen(logs=slave, words=slave, environment=environment).colour is colour


def test_the_table_names_ranks_and_fits_the_terminal():
    ranks = [rank(f"worker-{n}", "Failed" if n == 30 else "Running", "exited with code 3 " * 9) for n in range(40)]
    lines = frame([(JobLine("mnist", "Running"), ranks)], NOON + timedelta(seconds=75), colour=False)(60, 16)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]

    assert plain[0].startswith("mnist  Running  39 running, 1 failed")
    assert any(re.match(r"  worker-30\s+Failed\s+here\s+1m15s", line) for line in plain), "what failed is not hidden"
    assert plain[-1].startswith("  and 28 more ranks")
    assert len(lines) <= 15
    assert max(map(len, plain)) < 60


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        pytest.param(None, rank(phase="Waiting"), "", id="waiting is said for the whole job"),
        pytest.param(rank(phase="Starting"), rank(), "worker-1 running", id="it runs"),
        pytest.param(rank(), rank(), "", id="nothing new"),
        pytest.param(rank(), rank(restarts=1), "worker-1 starts again (1 restart): exited with code 3", id="restart"),
        pytest.param(
            rank(),
            rank(phase="Failed", detail="exited with code 3"),
            "worker-1 failed: exited with code 3",
            id="failed",
        ),
        pytest.param(rank(), rank(phase="Succeeded"), "worker-1 succeeded", id="done"),
    ],
)
def test_a_line_for_each_change(before, now, line):
    assert rank_change(before, now, Ending("pytorch", 0, 3)) == line
