"""The pool: connections are used again, never two at a time, never half-read, and none is left behind."""

import asyncio

import pytest
from tests.cluster.kubernetes.server import Request, serve
from tests.cluster.kubernetes.serving import answers, breaks, in_turn, never, until

from trainwright.cluster.kubernetes.transport import Broken, Connection, Pool, lines

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def pool_to(port: int, **options: float) -> Pool:
    async def connect() -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
        return connection

    return Pool(connect, **options)  # type: ignore[arg-type]


async def test_one_after_the_other_share_a_connection():
    async with serve(answers(200)) as serving:
        pool = pool_to(serving.port)
        for _ in range(5):
            assert (await pool.request(REQUEST, 1)).status == 200
        assert (serving.connections, pool.counts()) == (1, (1, 1))
        await pool.close()
        assert pool.counts() == (0, 0)


async def test_no_more_than_the_limit_at_once():
    together = most = 0

    async def handle(request: Request) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.001)
        together -= 1
        await request.answer(200)

    async with serve(handle) as serving:
        pool = pool_to(serving.port, limit=3)
        await asyncio.gather(*(pool.request(REQUEST, 5) for _ in range(20)))
        assert (most, serving.connections) == (3, 3)
        await pool.close()


async def test_a_cancelled_request_leaves_no_connection_behind():
    async with serve(in_turn(never, answers(200))) as serving:
        pool = pool_to(serving.port, limit=1)
        task = asyncio.create_task(pool.request(REQUEST, 5))
        await until(lambda: bool(serving.seen))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert pool.counts() == (0, 0)
        assert (await pool.request(REQUEST, 5)).status == 200
        await until(lambda: serving.live() == 1)
        await pool.close()


async def test_who_is_cancelled_while_waiting_for_a_turn_takes_none():
    async with serve(in_turn(never, answers(200))) as serving:
        pool = pool_to(serving.port, limit=1)
        first, second = (asyncio.create_task(pool.request(REQUEST, 5)) for _ in range(2))
        await until(lambda: bool(serving.seen))
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (await pool.request(REQUEST, 5)).status == 200
        await pool.close()


async def test_what_the_server_closed_while_idle_is_not_used():
    async with serve(answers(200)) as serving:
        pool = pool_to(serving.port)
        await pool.request(REQUEST, 1)
        serving.cut()
        await until(lambda: pool.counts() == (0, 0))
        assert (await pool.request(REQUEST, 1)).status == 200
        assert serving.connections == 2
        await pool.close()


async def test_what_was_idle_for_too_long_is_not_used():
    async with serve(answers(200)) as serving:
        pool = pool_to(serving.port, idle_seconds=0.0)
        await pool.request(REQUEST, 1)
        await pool.request(REQUEST, 1)
        assert serving.connections == 2
        await pool.close()


async def test_a_broken_request_leaves_no_connection_behind():
    async with serve(breaks) as serving:
        pool = pool_to(serving.port)
        with pytest.raises(Broken):
            await pool.request(REQUEST, 1)
        assert pool.counts() == (0, 0)
        await pool.close()


async def test_with_new_credentials_old_connections_are_not_used():
    go_on = asyncio.Event()

    async def slow(request: Request) -> None:
        await go_on.wait()
        await request.answer(200)

    async with serve(in_turn(answers(200), slow, answers(200))) as serving:
        pool = pool_to(serving.port)
        await pool.request(REQUEST, 1)
        under_way = asyncio.create_task(pool.request(REQUEST, 1))
        await until(lambda: len(serving.seen) == 2)
        pool.drop_idle()
        go_on.set()
        assert (await under_way).status == 200
        assert pool.counts() == (0, 0)
        await pool.close()


class TestStreams:
    async def test_read_to_its_end_the_connection_is_used_again(self):
        async with serve(answers(200, b"body")) as serving:
            pool = pool_to(serving.port)
            stream = await pool.stream(REQUEST, 1)
            assert await stream.rest(1) == b"body"
            assert pool.counts() == (1, 1)
            await pool.close()

    async def test_closed_early_the_connection_is_gone(self):
        async def handle(request: Request) -> None:
            await request.begin()
            await request.chunk(b"some")
            await asyncio.Event().wait()

        async with serve(handle) as serving:
            pool = pool_to(serving.port)
            stream = await pool.stream(REQUEST, 1)
            assert await stream.read(1) == b"some"
            stream.close()
            stream.close()
            assert pool.counts() == (0, 0)
            await until(lambda: not serving.live())
            await pool.close()

    async def test_silence_is_noticed(self):
        async def handle(request: Request) -> None:
            await request.begin()
            await asyncio.Event().wait()

        async with serve(handle) as serving:
            pool = pool_to(serving.port)
            stream = await pool.stream(REQUEST, 1)
            with pytest.raises(Broken, match=r"nothing was heard for 0\.01 s"):
                await stream.read(0.01)
            assert pool.counts() == (0, 0)
            await pool.close()

    async def test_lines_are_whole_however_they_come(self):
        async def handle(request: Request) -> None:
            await request.begin()
            for piece in (b"one\ntw", b"o", b"\nthree\n\nfo"):
                await request.chunk(piece)
                await asyncio.sleep(0)
            await request.chunk(b"")

        async with serve(handle) as serving:
            pool = pool_to(serving.port)
            stream = await pool.stream(REQUEST, 1)
            assert [line async for batch in lines(stream, 1) for line in batch] == [b"one", b"two", b"three", b""]
            await pool.close()


async def test_a_closed_pool_says_so():
    async with serve(answers(200)) as serving:
        pool = pool_to(serving.port)
        stream = await pool.stream(REQUEST, 1)
        await pool.close()
        with pytest.raises(Broken, match="closed"):
            await pool.request(REQUEST, 1)
        stream.close()
        assert pool.counts() == (0, 0)
