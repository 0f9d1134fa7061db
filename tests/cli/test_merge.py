"""The merged log: every line of every incarnation, whole, once, with its rank in front."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.cli.merge import CHUNK, Merger, Prefixes, Source, write_all

LONG = "x" * (3 * CHUNK)


class Output:
    def __init__(self) -> None:
        self.data = bytearray()

    def __call__(self, data: bytes) -> None:
        self.data += data

    def lines(self) -> list[str]:
        return self.data.decode().splitlines()


def until(seen: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def unbroken(error: OSError) -> None:
    raise AssertionError(error)


def rank(source: Source) -> str:
    return source.pod.removeprefix("mnist-")


def write(root: Path, pod: str, text: str, *, restart: int = 0, container: str = "pytorch") -> None:
    path = Source("default", pod, "u1", container, restart).path(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def merged(root: Path, **prefixes: bool) -> list[str]:
    output = Output()
    merger = Merger(root, output, rank, Prefixes(**{"terminal": False, "colour": False, **prefixes}), unbroken)
    merger.start()
    merger.finish()
    return output.lines()


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        pytest.param({("w-0", 0): "a\nb\n"}, ["w-0 | a", "w-0 | b"], id="every line gets its prefix"),
        pytest.param({("w-0", 0): "a"}, ["w-0 | a"], id="a last line without an end gets one"),
        pytest.param({("w-0", 0): "\n\nx\n"}, ["w-0 | ", "w-0 | ", "w-0 | x"], id="empty lines are lines"),
        pytest.param({("w-0", 0): ""}, [], id="a silent rank prints nothing"),
        pytest.param({("w-0", 0): "a", ("w-0", 1): "b\n"}, ["w-0 | a", "w-0 | b"], id="incarnations follow each other"),
        pytest.param({("w-0", 9): "a\n", ("w-0", 10): "b\n"}, ["w-0 | a", "w-0 | b"], id="in the order of numbers"),
        pytest.param(
            {("w-0", 0): LONG + "\nz\n"}, ["w-0 | " + LONG, "w-0 | z"], id="a line longer than a chunk is whole"
        ),
        pytest.param(
            {("w-0", 0): "y\n" + LONG}, ["w-0 | y", "w-0 | " + LONG], id="so is a long last one without an end"
        ),
    ],
)
def test_what_is_written_is_printed(tmp_path, written, printed):
    for (pod, restart), text in written.items():
        write(tmp_path, pod, text, restart=restart)

    assert merged(tmp_path) == printed


def test_lines_that_grow_while_we_look_are_printed_when_they_end(tmp_path):
    output = Output()
    merger = Merger(tmp_path, output, rank, Prefixes(terminal=False, colour=False), unbroken)
    merger.start()
    write(tmp_path, "mnist-worker-0", "ha")
    write(tmp_path, "mnist-worker-1", "whole\n")
    until(lambda: output.lines() == ["worker-1 | whole"])
    write(tmp_path, "mnist-worker-0", "lf\n")
    merger.finish()

    assert output.lines() == ["worker-1 | whole", "worker-0 | half"]


def test_a_container_that_ended_does_not_keep_its_last_words(tmp_path):
    output = Output()
    merger = Merger(tmp_path, output, rank, Prefixes(terminal=False, colour=False), unbroken)
    write(tmp_path, "mnist-worker-0", "bye")
    merger.ended("default", "mnist-worker-0", "u1", "pytorch", 0)
    merger.start()
    until(lambda: output.lines() == ["worker-0 | bye"])
    merger.finish()


def test_a_terminal_gets_aligned_prefixes_with_a_colour_per_rank(tmp_path):
    write(tmp_path, "mnist-worker-10", "a\n")
    write(tmp_path, "mnist-worker-2", "b\n")

    assert merged(tmp_path, terminal=True, colour=True) == [
        "\x1b[36mworker-10 |\x1b[0m a",
        "\x1b[33mworker-2  |\x1b[0m b",
    ]


def test_a_sink_that_breaks_is_reported_once_and_ends_the_thread(tmp_path):
    broken: list[OSError] = []

    def sink(data: bytes) -> None:
        raise BrokenPipeError

    write(tmp_path, "mnist-worker-0", "a\n" * 10)
    merger = Merger(tmp_path, sink, rank, Prefixes(terminal=False, colour=False), broken.append)
    merger.start()
    merger.finish()

    assert [type(error) for error in broken] == [BrokenPipeError]


def test_a_million_lines_pass_quickly_and_none_is_lost(tmp_path):
    ranks, lines = 8, 125_000
    for number in range(ranks):
        write(tmp_path, f"mnist-worker-{number}", "".join(f"{number} {line}\n" for line in range(lines)))
    out = tmp_path / "out"
    file = os.open(out, os.O_WRONLY | os.O_CREAT)
    prefixes = Prefixes(terminal=False, colour=False)
    merger = Merger(tmp_path, lambda data: write_all(file, data), rank, prefixes, unbroken)

    start = time.perf_counter()
    merger.start()
    merger.finish()
    took = time.perf_counter() - start
    os.close(file)

    seen = dict.fromkeys(range(ranks), 0)
    with out.open() as merged_file:
        for text in merged_file:
            name, _, rest = text.rstrip("\n").partition(" | ")
            number, line = map(int, rest.split())
            assert name == f"worker-{number}"
            assert line == seen[number]
            seen[number] += 1
    assert set(seen.values()) == {lines}
    assert took < 2, f"{ranks * lines / took:,.0f} lines/s"
    print(f"{ranks * lines / took:,.0f} lines/s")
