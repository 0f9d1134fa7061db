"""The informer: its cache is what the cluster holds, whatever becomes of the watch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.virtual import run

from trainwright.cluster.base import Change, Listing
from trainwright.cluster.informer import Informer
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import ClusterError
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, NODE, Resource

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SOON = Backoff(first=0.1, longest=10.0, jitter=0.0)


class Unreliable(MemoryCluster):
    """A cluster whose watches can be cut, and which can be out of reach."""

    def __init__(self, history: int = 1000) -> None:
        super().__init__([CONFIG_MAP, NODE], now=lambda: NOON, history=history)
        self.lists = 0
        self.down = False
        self._watches: list[Any] = []

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        self.lists += 1
        if self.down:
            raise ClusterError("out of reach")
        return await super().list(resource, namespace, labels=labels, fields=fields)

    async def watch(
        self, resource: Resource, namespace: str = "", *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        watch: Any = super().watch(resource, namespace, since=since, labels=labels, fields=fields)
        self._watches.append(watch)
        try:
            async for change in watch:
                yield change
        finally:
            await watch.aclose()
        if self.down:
            raise ConnectionResetError("connection reset by peer")

    async def cut(self) -> None:
        """End every watch there is."""
        for watch in self._watches:
            await watch.aclose()
        self._watches.clear()


def config(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", **({"labels": labels} if labels else {})}}


async def patch(cluster: MemoryCluster, name: str, value: str) -> None:
    await cluster.patch(CONFIG_MAP, "default", name, {"data": {"x": value}})


class Story:
    """An informer that runs, and what it told."""

    def __init__(self, **options: Any) -> None:
        self.cluster = Unreliable(options.pop("history", 1000))
        self.informer = Informer(self.cluster, CONFIG_MAP, backoff=SOON, **options)
        self.told: list[str] = []
        self.informer.subscribe(self._heard)

    def _heard(self, change: Change) -> None:
        cached = self.informer.get("default", change.object["metadata"]["name"])
        assert cached is (None if change.type == "DELETED" else change.object), "the cache shows it first"
        self.told.append(f"{change.type} {change.object['metadata']['name']}")

    async def __aenter__(self) -> "Story":
        self._task = asyncio.create_task(self.informer.run())
        await self.informer.synced.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def news(self) -> str:
        """Let a minute pass, and return what was told since the last time."""
        await asyncio.sleep(60)
        told, self.told[:] = ", ".join(self.told), []
        return told

    def names(self) -> str:
        return " ".join(sorted(obj["metadata"]["name"] for obj in self.informer.items()))


def story(test: Callable[..., Any]) -> Callable[..., None]:
    """Run an async test at once, however long it waits."""

    def wrapped() -> None:
        run(test())

    wrapped.__name__ = test.__name__
    return wrapped


@story
async def test_what_is_there_comes_first_then_what_happens():
    it = Story()
    await it.cluster.create(CONFIG_MAP, config("a"))
    async with it:
        assert await it.news() == "ADDED a"
        await it.cluster.create(CONFIG_MAP, config("b"))
        await patch(it.cluster, "b", "1")
        await it.cluster.delete(CONFIG_MAP, "default", "a")
        assert await it.news() == "ADDED b, MODIFIED b, DELETED a"
        assert it.names() == "b"
        assert it.cluster.lists == 1


@story
async def test_who_subscribes_late_is_told_what_is_there():
    it = Story()
    await it.cluster.create(CONFIG_MAP, config("a"))
    async with it:
        late: list[str] = []
        it.informer.subscribe(lambda change: late.append(change.type))
        assert late == ["ADDED"]


@story
async def test_a_cut_watch_loses_nothing():
    it = Story()
    for name in ("changed", "gone", "same", "remade"):
        await it.cluster.create(CONFIG_MAP, config(name))
    async with it:
        await it.news()
        it.cluster.down = True
        await it.cluster.cut()
        await asyncio.sleep(0)
        await patch(it.cluster, "changed", "1")
        await it.cluster.delete(CONFIG_MAP, "default", "gone")
        await it.cluster.delete(CONFIG_MAP, "default", "remade")
        await it.cluster.create(CONFIG_MAP, config("remade"))
        await it.cluster.create(CONFIG_MAP, config("new"))
        assert await it.news() == ""
        it.cluster.down = False
        assert await it.news() == "DELETED gone, MODIFIED changed, ADDED new, DELETED remade, ADDED remade"
        assert it.names() == "changed new remade same"


@story
async def test_an_expired_version_is_listed_again():
    it = Story(history=2)
    await it.cluster.create(CONFIG_MAP, config("gone"))
    async with it:
        await it.news()
        await it.cluster.cut()
        await it.cluster.delete(CONFIG_MAP, "default", "gone")
        for n in range(10):
            await it.cluster.create(CONFIG_MAP, config(f"c-{n}"))
        assert "DELETED gone" in await it.news()
        assert len(it.informer.items()) == 10


@story
async def test_a_watch_that_is_too_slow_is_listed_again():
    it = Story(history=2)
    async with it:
        await asyncio.sleep(1)
        for n in range(10):  # without a pause: the informer cannot keep up
            await it.cluster.create(CONFIG_MAP, config(f"c-{n}"))
        await it.cluster.delete(CONFIG_MAP, "default", "c-0")
        await it.news()
        assert len(it.informer.items()) == 9


@story
async def test_it_waits_longer_each_time_and_recovers():
    it = Story()
    async with it:
        it.cluster.down = True
        await it.cluster.cut()
        before = it.cluster.lists
        await asyncio.sleep(60)
        assert 8 <= it.cluster.lists - before <= 14, "0.1 s, 0.2 s, ... 10 s, 10 s"
        it.cluster.down = False
        await it.cluster.create(CONFIG_MAP, config("a"))
        assert await it.news() == "ADDED a"


@story
async def test_a_watch_that_broke_after_a_long_time_is_resumed_at_once():
    it = Story()
    async with it:
        for _ in range(10):
            await asyncio.sleep(3600)
            before = it.cluster.lists
            await it.cluster.cut()
            await asyncio.sleep(0.2)
            assert it.cluster.lists == before + 1


@story
async def test_selectors():
    it = Story(labels="app=x")
    await it.cluster.create(CONFIG_MAP, config("mine", app="x"))
    await it.cluster.create(CONFIG_MAP, config("other", app="y"))
    async with it:
        assert it.names() == "mine"
        await it.cluster.patch(CONFIG_MAP, "default", "mine", {"metadata": {"labels": {"app": "y"}}})
        await it.cluster.patch(CONFIG_MAP, "default", "other", {"metadata": {"labels": {"app": "x"}}})
        assert await it.news() == "ADDED mine, DELETED mine, ADDED other"


@story
async def test_index():
    it = Story(index=lambda obj: obj["metadata"].get("labels", {}).values())
    await it.cluster.create(CONFIG_MAP, config("a", one="x", two="y"))
    await it.cluster.create(CONFIG_MAP, config("b", one="x"))

    def names(value: str) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in it.informer.indexed(value))

    async with it:
        assert (names("x"), names("y"), names("z")) == (["a", "b"], ["a"], [])
        await it.cluster.patch(CONFIG_MAP, "default", "a", {"metadata": {"labels": {"one": "z", "two": None}}})
        await it.news()
        assert (names("x"), names("y"), names("z")) == (["b"], [], ["a"])
        await it.cluster.delete(CONFIG_MAP, "default", "a")
        await it.news()
        assert names("z") == []


@story
async def test_kinds_without_namespace():
    cluster = Unreliable()
    await cluster.create(NODE, {"metadata": {"name": "n"}})
    informer = Informer(cluster, NODE)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    assert informer.get("", "n")
    task.cancel()


@story
async def test_a_subscriber_that_fails_is_heard():
    cluster = Unreliable()
    await cluster.create(CONFIG_MAP, config("a"))
    informer = Informer(cluster, CONFIG_MAP)

    def broken(change: Change) -> None:
        raise RuntimeError("mine")

    informer.subscribe(broken)
    with pytest.raises(RuntimeError, match="mine"):
        await informer.run()


STEPS = st.lists(st.sampled_from(["create", "patch", "delete", "remake", "pause", "cut", "down", "up"]), max_size=40)


@settings(deadline=None)
@given(
    steps=STEPS, picks=st.lists(st.integers(0, 3), min_size=40, max_size=40), history=st.sampled_from([0, 1, 3, 100])
)
def test_no_interruption_loses_anything(steps, picks, history):
    """Whoever only listens ends with exactly what a list shows, and was told of each object's end once."""

    async def life() -> None:
        cluster = Unreliable(history)
        informer = Informer(cluster, CONFIG_MAP, backoff=SOON)
        heard: dict[str, Object] = {}
        ended: list[str] = []

        def listen(change: Change) -> None:
            name, uid = change.object["metadata"]["name"], change.object["metadata"]["uid"]
            if change.type == "ADDED":
                assert name not in heard
                heard[name] = change.object
            elif change.type == "MODIFIED":
                assert heard[name]["metadata"]["uid"] == uid
                heard[name] = change.object
            else:
                assert heard.pop(name)["metadata"]["uid"] == uid
                ended.append(uid)

        informer.subscribe(listen)
        task = asyncio.create_task(informer.run())
        for number, (step, pick) in enumerate(zip(steps, picks, strict=False)):
            await take(cluster, step, f"c-{pick}", str(number))
        cluster.down = False
        await asyncio.sleep(600)
        listing = await cluster.list(CONFIG_MAP)
        assert heard == {obj["metadata"]["name"]: obj for obj in listing.items}
        assert sorted(map(str, informer.items())) == sorted(map(str, listing.items))
        assert len(ended) == len(set(ended))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(life())


async def take(cluster: Unreliable, step: str, name: str, value: str) -> None:
    exists = ("default", name) in cluster._tables[CONFIG_MAP].objects
    if step == "create" and not exists:
        await cluster.create(CONFIG_MAP, config(name))
    elif step == "patch" and exists:
        await patch(cluster, name, value)
    elif step in ("delete", "remake") and exists:
        await cluster.delete(CONFIG_MAP, "default", name)
        if step == "remake":
            await cluster.create(CONFIG_MAP, config(name))
    elif step == "pause":
        await asyncio.sleep(1)
    elif step == "cut":
        await cluster.cut()
    elif step in ("down", "up"):
        cluster.down = step == "down"


@story
async def test_a_cache_keeps_what_it_is_told_to_keep_and_tells_everything():
    heard: list[Object] = []
    cluster = Unreliable()
    informer = Informer(cluster, CONFIG_MAP, keep=lambda obj: {"metadata": obj["metadata"]}, backoff=SOON)
    informer.subscribe(lambda change: heard.append(change.object))
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await cluster.create(CONFIG_MAP, {**config("a"), "data": {"x": "1"}})
    await patch(cluster, "a", "2")
    await asyncio.sleep(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert [obj["data"]["x"] for obj in heard] == ["1", "2"]
    assert [list(obj) for obj in informer.items()] == [["metadata"]]
