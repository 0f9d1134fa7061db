"""Logs: following loses nothing, kept files are found."""

import asyncio
import os

import pytest

from trainwright.core.errors import BadRequest, NotFound
from trainwright.node.logs import FileLogs, Growth, follow, last_lines, log_path, open_log, pod_folder, runs, tail


@pytest.fixture
def folder(tmp_path):
    return pod_folder(tmp_path, "ns", "p", "u")


def write(path, text, mode="w"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.write(text)


async def collect(stream):
    return b"".join([chunk async for chunk in stream]).decode()


def test_paths(tmp_path, folder):
    assert log_path(folder, "main", 2) == tmp_path / "logs" / "ns" / "p_u" / "main" / "2.log"


def test_a_log_is_appended_to(folder):
    for text in (b"a", b"b"):
        file = open_log(log_path(folder, "c", 0))
        os.write(file, text)
        os.close(file)

    assert log_path(folder, "c", 0).read_text() == "ab"


async def test_following_ends_after_the_end_with_everything(folder):
    growth, log = Growth(), log_path(folder, "c", 0)
    stream = follow(folder, "c", growth)
    write(log, "one\n")
    growth.begin(0)
    assert await anext(stream) == b"one\n"
    write(log, "two\n", "a")
    assert await anext(stream) == b"two\n"
    write(log, "three", "a")
    growth.finish(0)
    growth.end()

    assert await collect(stream) == "three"


async def test_a_follower_may_come_before_the_container(folder):
    growth = Growth()
    reading = asyncio.create_task(collect(follow(folder, "c", growth)))
    await asyncio.wait({reading}, timeout=0)
    write(log_path(folder, "c", 0), "here")
    growth.begin(0)
    growth.end()

    assert await asyncio.wait_for(reading, 5) == "here"


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        pytest.param(None, "ac", id="all runs in order, also one that never wrote"),
        pytest.param(0, "a", id="the first alone"),
        pytest.param(1, "", id="the one that never wrote"),
    ],
)
async def test_following_goes_through_restarts(only, expected, folder):
    growth = Growth()
    for restart, text in enumerate(["a", None, "c"]):
        if text:
            write(log_path(folder, "c", restart), text)
            growth.begin(restart)
        growth.finish(restart)
    growth.end()

    assert await collect(follow(folder, "c", growth, only)) == expected


async def test_following_what_ended_before_it_began_ends(folder):
    growth = Growth()
    growth.end()

    assert await collect(follow(folder, "c", growth)) == ""


class Impatient(Growth):
    """Never waits, but notes how long it should have; ends after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == 8:
            self.end()
        return False


async def test_a_follower_looks_less_and_less_often_while_nothing_comes(folder):
    growth = Impatient()
    write(log_path(folder, "c", 0), "")
    growth.begin(0)

    await collect(follow(folder, "c", growth))

    assert growth.waits == [0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]


async def test_kept_logs_are_read_from_files_alone(tmp_path):
    write(log_path(pod_folder(tmp_path, "ns", "p", "old"), "main", 0), "old")
    new = pod_folder(tmp_path, "ns", "p", "new")
    write(log_path(new, "main", 0), "a\n")
    write(log_path(new, "main", 1), "b\n")
    write(log_path(pod_folder(tmp_path, "ns", "p-2", "x"), "main", 0), "another pod")
    os.utime(new)
    logs = FileLogs(tmp_path)

    assert await collect(logs.logs("ns", "p")) == "a\nb\n"
    assert await collect(logs.logs("ns", "p", container="main", follow=True)) == "a\nb\n"
    assert await collect(logs.logs("ns", "p", restart=-1)) == "b\n"
    assert await collect(logs.logs("ns", "p", restart=0)) == "a\n"
    for bad in ({"pod": "no"}, {"pod": "p", "container": "no"}, {"pod": "p", "restart": 9}):
        with pytest.raises(NotFound):
            await collect(logs.logs("ns", **bad))
    with pytest.raises(BadRequest):
        await logs.exec("ns", "p", ["true"])


def test_runs_ignore_other_files(folder):
    for name in ("0.log", "10.log", "2.log", "x.log", "1.txt"):
        write(folder / "c" / name, "")

    assert runs(folder, "c") == [0, 2, 10]
    assert runs(folder, "none") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\nb\n", "a\nb", id="a short log"),
        pytest.param("x\n" * 200, "\n".join("x" * 80), id="eighty lines"),
        pytest.param("y" * 5000, "y" * 2048, id="two kilobytes"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_tail(text, expected, tmp_path):
    (tmp_path / "log").write_text(text)

    assert tail(tmp_path / "log") == expected


def test_tail_of_no_file_is_empty(tmp_path):
    assert tail(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("text", "lines", "rest"),
    [
        pytest.param("a\nb\nc\n", 2, "b\nc\n", id="the last two"),
        pytest.param("a\nb\nc", 2, "b\nc", id="a line that is not complete yet is one"),
        pytest.param("a\nb\n", 9, "a\nb\n", id="more than there are"),
        pytest.param("a\nb\n", 0, "", id="none"),
        pytest.param("a\n\n\n", 2, "\n\n", id="empty lines are lines"),
        pytest.param("", 3, "", id="an empty log"),
        pytest.param("a\nb\n", None, "a\nb\n", id="all of them"),
        pytest.param(
            "x" * 300_000 + "\nend\n", 2, "x" * 300_000 + "\nend\n", id="a line longer than what is read at once"
        ),
        pytest.param("\n" * 300_000 + "end\n", 1, "end\n", id="more lines than are read at once"),
    ],
)
def test_the_last_lines_of_a_log(tmp_path, text, lines, rest):
    path = tmp_path / "0.log"
    path.write_text(text)

    assert path.read_text()[last_lines(path, lines) :] == rest
