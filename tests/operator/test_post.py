"""What an operator tells those who probe it, while it leads, stands by or can do neither."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from tests.cluster.kubernetes.server import Api, Handler, Request, serve
from tests.cluster.kubernetes.serving import until

from trainwright.api.faces import RESOURCES
from trainwright.cluster.kubernetes import Access, Server
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.resources import LEASE
from trainwright.operator.leader import Leadership
from trainwright.operator.serve import Options, Post

ROWS = (*RESOURCES, LEASE)


@pytest.fixture
def store() -> MemoryCluster:
    """Return what the API server has."""
    return MemoryCluster(ROWS, now=lambda: datetime.now(UTC))


@asynccontextmanager
async def posted(url: str, leader: Leadership | None) -> AsyncIterator[Callable[[], str]]:
    """Run an operator without webhooks and autoscaler; yield what tells how it is."""
    post = Post(Options(leader=leader, gang="none", scaling=None), Access(Server(url)))
    task = asyncio.create_task(post.keep())

    def told() -> str:
        reply = post.routes()["/readyz"]()
        measured = post.routes()["/metrics"]().text.splitlines()
        leads = next(line.split()[1] for line in measured if line.startswith("trainwright_leader "))
        return f"{reply.status.value} {reply.text.strip()}, leader {leads}"

    try:
        yield told
    finally:
        post.stopping.set()
        assert "stopping" in told()
        await task


async def test_one_is_ready_and_the_other_stands_by(store):
    async with (
        serve(Api(store, ROWS)) as serving,
        posted(serving.url, Leadership("ns", identity="a")) as first,
    ):
        await until(lambda: first() == "200 ready, leader 1")
        async with posted(serving.url, Leadership("ns", identity="b")) as second:
            await until(lambda: second() == "200 standing by, leader 0")

    lease = await store.get(LEASE, "ns", "trainwright")
    assert "holderIdentity" not in lease["spec"], "who has ended well has given it up"


async def test_who_is_alone_shares_no_lease(store):
    async with serve(Api(store, ROWS)) as serving, posted(serving.url, None) as told:
        assert told() == "503 starting, leader 1"
        await until(lambda: told() == "200 ready, leader 1")

    assert (await store.list(LEASE)).items == []


async def test_who_may_not_see_the_lease_is_not_ready(store):
    async with serve(without_leases(Api(store, ROWS))) as serving, posted(serving.url, Leadership("ns")) as told:
        await until(lambda: told() == "503 cannot read or write the lease: leases are not for you, leader 0")


def without_leases(api: Api) -> Handler:
    async def handle(request: Request) -> None:
        if "/leases" in request.path:
            await request.refuse(403, "Forbidden", "leases are not for you")
        else:
            await api(request)

    return handle
