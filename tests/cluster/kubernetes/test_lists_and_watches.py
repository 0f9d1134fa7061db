"""Lists in pages and watches that go on: against a server that does what real ones do on bad days."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.cluster.kubernetes.server import Api, Handler, Request, Serving, failure, serve
from tests.cluster.kubernetes.serving import QUICK, breaks, cluster_at, in_turn, never, refuses, rest_to

from trainwright.cluster.base import Change
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.cluster.kubernetes.watch import Watching
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import Expired, Forbidden
from trainwright.core.resources import CONFIG_MAP

PATH = "/api/v1/configmaps"
FAST = Backoff(first=0.001, longest=0.01)


def line(kind: str, version: int, name: str = "a") -> bytes:
    obj = {"metadata": {"name": name, "resourceVersion": str(version)}}
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def sends(*pieces: bytes, end: bool = True) -> Handler:
    """Return a handler that streams these pieces, and then ends the answer or cuts it."""

    async def handle(request: Request) -> None:
        await request.begin()
        for piece in pieces:
            await request.chunk(piece)
        if end:
            await request.chunk(b"")
        else:
            await asyncio.sleep(0.01)
            request.writer.transport.abort()

    return handle


@contextlib.asynccontextmanager
async def watching(
    *handlers: Handler, since: str = "5", **options: Any
) -> AsyncIterator[tuple[AsyncIterator[Change], Serving]]:
    async with serve(in_turn(*handlers)) as serving, rest_to(serving.url) as rest:
        watch = Watching(rest, PATH, {}, since, backoff=FAST, **options)
        async with contextlib.aclosing(watch.changes()) as changes:
            yield changes, serving


async def take(changes: AsyncIterator[Change], count: int) -> list[str]:
    async with asyncio.timeout(5):
        taken = [await anext(changes) for _ in range(count)]
    return [f"{change.type} {change.object['metadata']['resourceVersion']}" for change in taken]


def asked(serving: Serving) -> list[str]:
    return [request.query["resourceVersion"] for request in serving.seen]


class TestResume:
    async def test_it_asks_for_bookmarks_from_its_version(self):
        async with watching(sends(line("ADDED", 6)), never) as (changes, serving):
            assert await take(changes, 1) == ["ADDED 6"]
        query = serving.seen[0].query
        assert (query["watch"], query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "true", "5")
        assert 290 <= int(query["timeoutSeconds"]) <= 590

    async def test_after_the_servers_end_it_goes_on_where_it_was(self):
        async with watching(sends(line("ADDED", 6), line("MODIFIED", 7)), sends(line("DELETED", 8)), never) as (
            changes,
            serving,
        ):
            assert await take(changes, 3) == ["ADDED 6", "MODIFIED 7", "DELETED 8"]
            assert asked(serving) == ["5", "7"]

    async def test_a_bookmark_moves_it_on(self):
        async with watching(sends(line("BOOKMARK", 90)), sends(line("ADDED", 91)), never) as (changes, serving):
            assert await take(changes, 2) == ["BOOKMARK 90", "ADDED 91"]
            assert asked(serving) == ["5", "90"]

    @pytest.mark.parametrize("cut", [1, 10, 40])
    async def test_a_line_that_is_cut_is_seen_once_and_whole(self, cut):
        broken = sends(line("ADDED", 6), line("MODIFIED", 7)[:-cut], end=False)
        async with watching(broken, sends(line("MODIFIED", 7)), never) as (changes, serving):
            assert await take(changes, 2) == ["ADDED 6", "MODIFIED 7"]
            assert asked(serving) == ["5", "6"]

    async def test_many_events_in_one_piece(self):
        piece = b"".join(line("MODIFIED", version) for version in range(6, 506))
        async with watching(sends(piece), never) as (changes, _):
            assert await take(changes, 500) == [f"MODIFIED {version}" for version in range(6, 506)]

    @pytest.mark.parametrize(
        "trouble",
        [
            pytest.param(breaks, id="the connection breaks"),
            pytest.param(refuses(429, "TooManyRequests", Retry_After="0"), id="too many requests"),
            pytest.param(refuses(500, "InternalError"), id="a server in trouble"),
            pytest.param(refuses(503, "ServiceUnavailable"), id="a server that is away"),
            pytest.param(sends(b"{nonsense\n"), id="a line that is none"),
            pytest.param(
                sends(msgspec.json.encode({"type": "ERROR", "object": failure(504, "Timeout")}) + b"\n"),
                id="an error in between",
            ),
        ],
    )
    async def test_trouble_passes(self, trouble):
        async with watching(trouble, trouble, sends(line("ADDED", 6)), never) as (changes, serving):
            assert await take(changes, 1) == ["ADDED 6"]
            assert asked(serving) == ["5", "5", "5"]

    async def test_silence_is_broken(self):
        async def silent(request: Request) -> None:
            await request.begin()
            await request.chunk(line("ADDED", 6))
            await asyncio.Event().wait()

        async with watching(silent, sends(line("ADDED", 7)), never, silence=0.02) as (changes, serving):
            assert await take(changes, 2) == ["ADDED 6", "ADDED 7"]
            assert asked(serving) == ["5", "6"]


class TestEnd:
    @pytest.mark.parametrize(
        "says",
        [
            pytest.param(refuses(410, "Expired", "too old"), id="by its answer"),
            pytest.param(refuses(410, "Gone", "too old"), id="by an older server's answer"),
            pytest.param(
                sends(msgspec.json.encode({"type": "ERROR", "object": failure(410, "Expired", "too old")}) + b"\n"),
                id="by an event",
            ),
        ],
    )
    async def test_an_expired_version_is_told(self, says):
        async with watching(says) as (changes, serving):
            with pytest.raises(Expired, match="too old"):
                await take(changes, 1)
            assert len(serving.seen) == 1

    async def test_what_is_not_allowed_is_told(self):
        async with watching(refuses(403, "Forbidden", "you may not watch")) as (changes, _):
            with pytest.raises(Forbidden, match="you may not watch"):
                await take(changes, 1)

    async def test_closed_it_leaves_nothing(self):
        async with serve(sends(line("ADDED", 6), end=False)) as serving, rest_to(serving.url) as rest:
            changes = Watching(rest, PATH, {}, "5").changes()
            await anext(changes)
            await changes.aclose()
            assert rest.connections() == (0, 0)

    async def test_a_cancelled_reader_leaves_nothing(self):
        async with serve(sends(end=False)) as serving, rest_to(serving.url) as rest:
            changes = Watching(rest, PATH, {}, "5", backoff=Backoff(first=60.0)).changes()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(changes)
            assert rest.connections() == (0, 0)


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop():
    async with serve(sends()) as serving, rest_to(serving.url) as rest:
        changes = Watching(rest, PATH, {}, "5", backoff=Backoff(first=0.02, longest=30.0)).changes()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(changes)
    assert 2 <= len(serving.seen) <= 8


@contextlib.asynccontextmanager
async def paged(count: int, page: int, forget_before: int = 0) -> AsyncIterator[tuple[KubernetesCluster, Serving]]:
    """Serve so many objects; before one request, counted from 1, all lists that were begun expire."""
    store = MemoryCluster((CONFIG_MAP,), now=lambda: datetime.now(UTC))
    for number in range(count):
        await store.create(CONFIG_MAP, {"metadata": {"name": f"c{number:04}", "namespace": "a"}})
    api, requests = Api(store, (CONFIG_MAP,)), itertools.count(1)

    async def handle(request: Request) -> None:
        if next(requests) == forget_before:
            api.forget_pages()
        await api(request)

    async with serve(handle) as serving, cluster_at(serving.url, page=page, patience=QUICK) as cluster:
        yield cluster, serving


class TestPages:
    @pytest.mark.parametrize(("count", "requests"), [(0, 1), (3, 1), (10, 1), (11, 2), (35, 4)])
    async def test_all_of_them_come(self, count, requests):
        async with paged(count, 10) as (cluster, serving):
            listing = await cluster.list(CONFIG_MAP)
        assert [obj["metadata"]["name"] for obj in listing.items] == [f"c{number:04}" for number in range(count)]
        assert len(serving.seen) == requests

    async def test_a_list_that_expires_halfway_begins_again_and_is_whole(self):
        async with paged(35, 10, forget_before=3) as (cluster, serving):
            listing = await cluster.list(CONFIG_MAP)
        assert len(listing.items) == 35
        assert "limit" not in serving.seen[-1].query
        assert len(serving.seen) == 4
