"""The work queue: each key once, one at a time, in order, and later after a failure."""

import asyncio

import pytest
from tests.cluster.virtual import run

from trainwright.cluster.queue import Backoff, Closed, WorkQueue


def queue(chance: float = 0.0) -> WorkQueue[str]:
    return WorkQueue(Backoff(first=1.0, longest=8.0, jitter=0.5, chance=lambda: chance))


async def drain(work: WorkQueue[str]) -> list[str]:
    keys = []
    while len(work):
        key = await work.get()
        keys.append(key)
        work.done(key)
    return keys


async def test_first_come_first_served():
    work = queue()
    for key in "cab":
        work.add(key)
    assert await drain(work) == ["c", "a", "b"]


async def test_a_key_added_often_is_looked_at_once():
    work = queue()
    for key in "aabab":
        work.add(key)
    assert await drain(work) == ["a", "b"]


async def test_how_long_a_key_was_in_line_is_told():
    told: list[float] = []
    work: WorkQueue[str] = WorkQueue(waited=told.append)
    work.add("a")
    await asyncio.sleep(0.01)
    work.add("b")

    assert await drain(work) == ["a", "b"]
    assert told[0] >= 0.01 > told[1] >= 0


async def test_a_key_added_while_somebody_looks_is_looked_at_again_afterwards():
    work = queue()
    work.add("a")
    key = await work.get()
    work.add("a")
    work.add("a")
    assert len(work) == 0
    work.done(key)
    assert await drain(work) == ["a"]


async def test_no_key_is_worked_on_twice_at_once():
    work = queue()
    busy: set[str] = set()
    seen = []

    async def worker() -> None:
        while True:
            key = await work.get()
            assert key not in busy
            busy.add(key)
            seen.append(key)
            await asyncio.sleep(0)
            if len(seen) < 50:
                work.add(key)
                work.add("other")
            await asyncio.sleep(0)
            busy.discard(key)
            work.done(key)

    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(worker()) for _ in range(4)]
        work.add("a")
        work.add("b")
        while len(seen) < 50 or busy or len(work):  # noqa: ASYNC110
            await asyncio.sleep(0)
        for task in workers:
            task.cancel()
    assert {"a", "b", "other"} == set(seen)


async def test_whoever_waits_is_woken():
    work = queue()
    waiting = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("a")
    assert await waiting == "a"


async def test_a_cancelled_waiter_takes_no_key_with_it():
    work = queue()
    first, second = asyncio.create_task(work.get()), asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("a")  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_several_workers_share_what_is_there():
    work = queue()
    waiting = [asyncio.create_task(work.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in "abc":
        work.add(key)
    assert sorted(await asyncio.gather(*waiting)) == ["a", "b", "c"]


async def test_the_end():
    work = queue()
    waiting = [asyncio.create_task(work.get()) for _ in range(2)]
    await asyncio.sleep(0)
    work.close()
    for task in waiting:
        with pytest.raises(Closed):
            await task
    work.add("a")
    work.add_after("a", 1)
    with pytest.raises(Closed):
        await work.get()


class TestLater:
    def test_a_key_comes_when_it_is_due(self):
        async def story() -> list[tuple[str, float]]:
            work, loop = queue(), asyncio.get_running_loop()
            work.add_after("late", 10)
            work.add_after("soon", 2)
            work.add_after("now", 0)
            times = []
            for _ in range(3):
                key = await work.get()
                times.append((key, round(loop.time(), 3)))
                work.done(key)
            return times

        assert run(story()) == [("now", 0), ("soon", 2), ("late", 10)]

    @pytest.mark.parametrize("wishes", [(5, 3, 9), (3, 5, 9), (9, 5, 3)])
    def test_the_earliest_wish_wins(self, wishes):
        async def story() -> tuple[float, int]:
            work, loop = queue(), asyncio.get_running_loop()
            for seconds in wishes:
                work.add_after("a", seconds)
            work.done(await work.get())
            due = loop.time()
            await asyncio.sleep(100)
            return round(due, 3), len(work)

        assert run(story()) == (3, 0)

    def test_a_closed_queue_has_no_timers(self):
        async def story() -> int:
            work = queue()
            work.add_after("a", 1)
            work.close()
            await asyncio.sleep(10)
            return len(work)

        assert run(story()) == 0


class TestRetry:
    def test_later_each_time_up_to_the_longest(self):
        async def story() -> list[float]:
            work = queue()
            return [work.retry("a") for _ in range(6)]

        assert run(story()) == [1, 2, 4, 8, 8, 8]

    def test_chance_takes_part_of_it_away(self):
        async def story() -> list[float]:
            work = queue(chance=1.0)
            return [work.retry("a") for _ in range(3)]

        assert run(story()) == [0.5, 1, 2]

    def test_what_is_fine_begins_again(self):
        async def story() -> tuple[int, float]:
            work = queue()
            work.retry("a")
            work.retry("a")
            failures = work.failures("a")
            work.forget("a")
            return failures, work.retry("a")

        assert run(story()) == (2, 1)

    def test_keys_fail_on_their_own(self):
        async def story() -> float:
            work = queue()
            work.retry("a")
            return work.retry("b")

        assert run(story()) == 1

    def test_the_key_does_come_again(self):
        async def story() -> list[float]:
            work, loop, times = queue(), asyncio.get_running_loop(), []
            work.add("a")
            for _ in range(4):
                key = await work.get()
                times.append(round(loop.time(), 3))
                work.retry(key)
                work.done(key)
            return times

        assert run(story()) == [0, 1, 3, 7]

    def test_countless_failures_overflow_nothing(self):
        assert Backoff(longest=8, jitter=0).seconds(100_000) == 8
        assert Backoff().seconds(0) == 0
