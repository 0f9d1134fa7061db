"""A client that has lost its permission: what it reads goes on, and nothing that changes something is sent any more."""

import asyncio

import pytest
from tests.cluster.kubernetes.server import Request, serve
from tests.cluster.kubernetes.serving import answers, in_turn, refuses, rest_to, until

from trainwright.cluster.kubernetes.errors import Withheld


class Permission:
    """What may be taken away."""

    given = True

    def __call__(self) -> bool:
        return self.given


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_no_change_is_sent(method):
    async with serve(answers(200, b'"done"')) as serving, rest_to(serving.url) as rest:
        rest.permitted = lambda: False
        with pytest.raises(Withheld, match=f"{method} was not sent"):
            await rest.request(method, "/x", body={})

        assert await rest.request("GET", "/x") == "done"
        assert [request.method for request in serving.seen] == ["GET"]


async def test_nor_one_that_waits_for_its_turn():
    permission, answered = Permission(), asyncio.Event()

    async def late(request: Request) -> None:
        await answered.wait()
        await request.answer(200, b'"done"')

    async with serve(late) as serving, rest_to(serving.url, connections=1) as rest:
        rest.permitted = permission
        first = asyncio.create_task(rest.request("POST", "/first"))
        await until(lambda: len(serving.seen) == 1)
        second = asyncio.create_task(rest.request("POST", "/second"))
        await asyncio.sleep(0)
        permission.given = False
        answered.set()

        assert await first == "done"
        with pytest.raises(Withheld):
            await second
        assert [request.path for request in serving.seen] == ["/first"]


async def test_nor_one_more_time():
    permission = Permission()

    async def busy(request: Request) -> None:
        permission.given = False
        await refuses(429, "TooManyRequests")(request)

    async with serve(in_turn(busy, answers(200))) as serving, rest_to(serving.url) as rest:
        rest.permitted = permission
        with pytest.raises(Withheld):
            await rest.request("PATCH", "/x", body={})

        assert len(serving.seen) == 1


async def test_what_is_withheld_costs_no_connection():
    async with serve(answers(200, b"1")) as serving, rest_to(serving.url) as rest:
        await rest.request("GET", "/x")
        rest.permitted = lambda: False
        with pytest.raises(Withheld):
            await rest.request("POST", "/x")
        await rest.request("GET", "/x")

        assert serving.connections == 1
