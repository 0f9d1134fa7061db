"""When lines were printed: known to a fraction of a second, from notes made while a log grows."""

import os
from datetime import UTC, datetime

import pytest

from trainwright.node.log_times import Stamps, Timekeeper, Times, written
from trainwright.node.logs import Part, read

NANO = 10**9
NOON = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp())


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOON + seconds, UTC)


class Log:
    """A log that grows at times of our choosing, and whoever looks at it."""

    def __init__(self, path):
        self.path = path
        self.keeper = Timekeeper()
        path.touch()
        self.keeper.begin(path)

    def grow(self, text: str, seconds: float) -> None:
        with self.path.open("a") as file:
            file.write(text)
        moment = int((NOON + seconds) * NANO)
        os.utime(self.path, ns=(moment, moment))

    def look(self) -> None:
        self.keeper.finish(self.path)

    def look_and_go_on(self) -> None:
        (notes,) = self.keeper._notes.values()
        notes.look()


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path / "0.log")
    log.grow("a\nb\n", 1)
    log.look_and_go_on()
    log.grow("c\nlong", 2.5)
    log.look_and_go_on()
    log.grow(" line\nd\n", 4)
    return log


async def text(path, **part) -> list[str]:
    pieces = [piece async for piece in read(path, Part(**part))]
    return b"".join(pieces).decode().splitlines()


async def test_every_line_has_the_time_at_which_it_began(log):
    log.look()

    assert await text(log.path, timestamps=True) == [
        "2026-01-31T12:00:01.000000000Z a",
        "2026-01-31T12:00:01.000000000Z b",
        "2026-01-31T12:00:02.500000000Z c",
        "2026-01-31T12:00:02.500000000Z long line",
        "2026-01-31T12:00:04.000000000Z d",
    ]


async def test_what_nobody_has_looked_at_is_as_old_as_the_file(log):
    assert (await text(log.path, timestamps=True))[-1] == "2026-01-31T12:00:04.000000000Z d"


async def test_a_log_without_notes_is_as_old_as_its_last_line(log):
    log.path.with_suffix(".times").unlink()

    assert (await text(log.path, timestamps=True))[0] == "2026-01-31T12:00:04.000000000Z a"


@pytest.mark.parametrize(
    ("since", "lines"),
    [
        pytest.param(0, ["a", "b", "c", "long line", "d"], id="before everything"),
        pytest.param(1, ["a", "b", "c", "long line", "d"], id="just when it was printed"),
        pytest.param(1.5, ["c", "long line", "d"], id="between two lines"),
        pytest.param(3, ["d"], id="a line that had begun before is left out"),
        pytest.param(5, [], id="after everything"),
    ],
)
@pytest.mark.parametrize("noted", [True, False], ids=["all noted", "the last part not noted"])
async def test_since(log, since, lines, noted):
    if noted:
        log.look()

    assert await text(log.path, since=at(since)) == lines


async def test_since_and_tail_both_hold(log):
    assert await text(log.path, since=at(1.5), tail=2) == ["long line", "d"]
    assert await text(log.path, since=at(3), tail=4) == ["d"]


def test_pieces_may_be_cut_anywhere(log):
    log.look()
    data = log.path.read_bytes()
    whole = Stamps(log.path, 0).put(data)

    for cut in range(len(data)):
        stamps = Stamps(log.path, 0)
        assert stamps.put(data[:cut]) + stamps.put(data[cut:]) == whole


def test_notes_that_are_made_later_are_seen(log):
    times = Times(log.path)
    log.grow("e\n", 9)
    log.look()

    assert times.of(log.path.stat().st_size - 1)[0] == (NOON + 9) * NANO


def test_a_clock_that_is_set_back_does_not_set_lines_back(log):
    log.grow("e\n", 3)
    log.look_and_go_on()
    log.grow("f\n", 2)
    log.look()

    times = Times(log.path)
    assert [times.of(position)[0] for position in range(log.path.stat().st_size)] == sorted(
        times.of(position)[0] for position in range(log.path.stat().st_size)
    )


def test_times_sort_as_text():
    assert written(1) < written(NANO) < written(NOON * NANO) == "2026-01-31T12:00:00.000000000Z"
