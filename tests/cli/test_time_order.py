"""Logs are merged in the order of time: no line lost, cut or doubled, and nothing grows while nobody reads."""

import asyncio
import random

import pytest

from trainwright.cli.time_order import MOST_BYTES, Order, sortable


async def arriving(*pieces: str | asyncio.Event):
    """Yield pieces of a log; an event among them is waited for."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece.encode()
        else:
            await piece.wait()


def stamped(*lines: str) -> str:
    return "".join(f"2026-01-31T12:00:{line[:2]}.000000000Z {line[3:]}\n" for line in lines)


async def merged(*logs, settle: float | None = None) -> list[str]:
    order, told = Order(settle=settle), []
    async with asyncio.TaskGroup() as group:
        for name, pieces in logs:
            group.create_task(order.bring(name, pieces))
        await asyncio.sleep(0)
        order.close()
        async for lines in order.batches():
            told += [f"{line.log} {line.text.decode()}" for line in lines]
    return [line.rstrip("\n") for line in told]


@pytest.mark.parametrize(
    ("a", "b", "lines"),
    [
        pytest.param([stamped("01 x", "03 z")], [stamped("02 y")], ["a x", "b y", "a z"], id="by their times"),
        pytest.param([stamped("01 x")], [], ["a x"], id="a log without lines"),
        pytest.param([stamped("01 x"), stamped("02 y")], [stamped("01 p")], ["a x", "b p", "a y"], id="in pieces"),
        pytest.param(
            [stamped("01 long line")[:40], stamped("01 long line")[40:]], [], ["a long line"], id="cut within a line"
        ),
        pytest.param([stamped("01 no end")[:-1]], [stamped("02 y")], ["a no end", "b y"], id="a last line without end"),
        pytest.param(
            [stamped("05 x", "04 back")], [stamped("06 y")], ["a x", "a back", "b y"], id="a clock that was set back"
        ),
        pytest.param([stamped("01 50%\r100%")], [], ["a 50%\r100%"], id="a progress bar is one line"),
        pytest.param([stamped("01 ")], [], ["a "], id="an empty line"),
    ],
)
async def test_lines_come_in_order(a, b, lines):
    assert await merged(("a", arriving(*a)), ("b", arriving(*b))) == lines


async def test_however_pieces_are_cut_every_line_comes_once():
    chance = random.Random(7)
    logs, expected = [], []
    for name in "abc":
        times = sorted(chance.randrange(60) for _ in range(200))
        text = stamped(*(f"{time:02} {name}{number}" for number, time in enumerate(times)))
        expected += [(time, name, number) for number, time in enumerate(times)]
        cuts = sorted(chance.sample(range(len(text)), 30))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        logs.append((name, arriving(*pieces)))

    told = await merged(*logs)

    assert sorted(told) == sorted(f"{name} {name}{number}" for _, name, number in expected)
    printed = {f"{name} {name}{number}": time for time, name, number in expected}
    assert [printed[line] for line in told] == sorted(printed[line] for line in told)


async def test_a_silent_log_holds_the_others_up_for_a_moment_only():
    order, never = Order(settle=0.02), asyncio.Event()
    silent = asyncio.create_task(order.bring("a", arriving(never)))
    busy = asyncio.create_task(order.bring("b", arriving(stamped("01 x"), never)))

    async with asyncio.timeout(5):
        first = await anext(order.batches())

    assert [line.text for line in first] == [b"x\n"]
    for task in (silent, busy):
        task.cancel()
    await asyncio.gather(silent, busy, return_exceptions=True)


async def test_whoever_brings_more_than_is_read_waits():
    order, brought = Order(), 0
    line = stamped(f"01 {'x' * 1000}")

    async def endless():
        nonlocal brought
        while True:
            brought += len(line)
            yield line.encode()

    bringing = asyncio.create_task(order.bring("a", endless()))
    for _ in range(2000):
        await asyncio.sleep(0)
    stopped_at = brought
    await anext(order.batches())
    await asyncio.sleep(0)
    bringing.cancel()
    await asyncio.gather(bringing, return_exceptions=True)

    assert stopped_at < MOST_BYTES + 10 * len(line)
    assert brought > stopped_at


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.5Z"),
        ("2026-01-31T14:00:00.500000000+02:00", "2026-01-31T12:00:00.500000000Z"),
        ("no time", ""),
    ],
)
def test_times_of_other_places_sort_with_ours(stamp, text):
    assert sortable(stamp) == text
