"""Watches: they continue a list without a gap, see transitions through selectors, and say when it was too long ago."""

import asyncio

import pytest
from tests.contract.home import WIDGET, ClusterUnderTest

from trainwright.core.errors import BadRequest, Expired
from trainwright.core.resources import CONFIG_MAP


async def test_a_watch_continues_a_list(under: ClusterUnderTest):
    await under.create(WIDGET, "before")
    since = await under.version()
    obj = await under.create(WIDGET, "after")
    await under.patch(obj, {"spec": {"size": 2}})
    await under.delete(obj)

    async with under.watching(since) as watch:
        assert await watch.take(3) == ["ADDED after", "MODIFIED after", "DELETED after"]


async def test_a_watch_goes_on_with_what_happens_later(under: ClusterUnderTest):
    async with under.watching(await under.version()) as watch:
        waiting = asyncio.create_task(watch.take(2))
        await asyncio.sleep(0)
        obj = await under.create(WIDGET, "late")
        await under.patch(obj, {"status": {"n": 1}}, subresource="status")
        assert await waiting == ["ADDED late", "MODIFIED late"]


async def test_a_watch_may_begin_at_any_version_of_an_object(under: ClusterUnderTest):
    obj = await under.create(WIDGET, "thing")
    second = await under.patch(obj, {"spec": {"size": 2}})
    await under.patch(obj, {"spec": {"size": 3}})

    async with under.watching(second["metadata"]["resourceVersion"]) as watch:
        assert (await watch.next()).object["spec"] == {"size": 3}


async def test_every_step_is_seen_and_in_order(under: ClusterUnderTest):
    since = await under.version()
    obj = await under.create(WIDGET, spec={"size": 0})
    for size in range(1, 30):
        await under.patch(obj, {"spec": {"size": size}})

    async with under.watching(since) as watch:
        changes = [await watch.next() for _ in range(30)]
    assert [change.object["spec"]["size"] for change in changes] == list(range(30))
    versions = [int(change.object["metadata"]["resourceVersion"]) for change in changes]
    assert versions == sorted(set(versions))


async def test_without_a_version_a_watch_begins_with_what_is_there(under: ClusterUnderTest):
    await under.create(WIDGET, "a")
    await under.create(WIDGET, "b")

    async with under.watching("") as watch:
        assert sorted(await watch.take(2)) == ["ADDED a", "ADDED b"]
        await under.create(WIDGET, "c")
        assert await watch.take(1) == ["ADDED c"]


async def test_what_changes_nothing_is_not_seen(under: ClusterUnderTest):
    obj = await under.create(WIDGET, "same", spec={"size": 1})
    async with under.watching(await under.version()) as watch:
        await under.patch(obj, {"spec": {"size": 1}})
        await under.create(WIDGET, "next")
        assert await watch.take(1) == ["ADDED next"]


async def test_a_deletion_carries_the_last_state_and_its_own_version(under: ClusterUnderTest):
    obj = await under.create(WIDGET, spec={"size": 1})
    async with under.watching(await under.version()) as watch:
        await under.delete(obj)
        change = await watch.next()
    assert change.type == "DELETED"
    assert change.object["spec"] == {"size": 1}
    assert change.object["metadata"]["uid"] == obj["metadata"]["uid"]
    assert int(change.object["metadata"]["resourceVersion"]) > int(obj["metadata"]["resourceVersion"])

    async with under.watching(change.object["metadata"]["resourceVersion"]) as watch:
        await under.create(WIDGET, "next")
        assert await watch.take(1) == ["ADDED next"]


async def test_an_object_made_again_is_another_one(under: ClusterUnderTest):
    since = await under.version()
    first = await under.create(WIDGET, "again")
    await under.delete(first)
    second = await under.create(WIDGET, "again")

    async with under.watching(since) as watch:
        changes = [await watch.next() for _ in range(3)]
    assert [change.type for change in changes] == ["ADDED", "DELETED", "ADDED"]
    uids = [change.object["metadata"]["uid"] for change in changes]
    assert uids == [first["metadata"]["uid"], first["metadata"]["uid"], second["metadata"]["uid"]]


async def test_a_watch_sees_its_namespace_and_resource_only(under: ClusterUnderTest):
    since = await under.version()
    await under.create(WIDGET, "elsewhere", under.other_namespace)
    await under.create(CONFIG_MAP, "other")
    await under.create(WIDGET, "here")

    async with under.watching(since) as watch:
        assert await watch.take(1) == ["ADDED here"]
    async with under.watching(since, namespace="") as watch:
        assert await watch.take(2) == ["ADDED elsewhere", "ADDED here"]


async def test_watchers_do_not_disturb_each_other(under: ClusterUnderTest):
    since = await under.version()
    async with under.watching(since) as one, under.watching(since) as two, under.watching(since) as idle:
        await under.create(WIDGET, "a")
        assert await one.take(1) == ["ADDED a"]
        await under.create(WIDGET, "b")
        assert await two.take(2) == ["ADDED a", "ADDED b"]
        assert await one.take(1) == ["ADDED b"]
        assert await idle.take(2) == ["ADDED a", "ADDED b"]


class TestSelectors:
    async def test_what_starts_to_match_is_added_and_what_stops_is_deleted(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, "moody")
        async with under.watching(await under.version(), labels="mood=good") as watch:
            await under.patch(obj, {"metadata": {"labels": {"mood": "good"}}})
            await under.patch(obj, {"spec": {"size": 2}})
            gone = await under.patch(obj, {"metadata": {"labels": {"mood": "bad"}}})
            await under.patch(obj, {"spec": {"size": 3}})
            await under.patch(obj, {"metadata": {"labels": {"mood": "good"}}})
            await under.delete(obj)

            changes = [await watch.next() for _ in range(5)]

        assert [change.type for change in changes] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
        assert changes[2].object["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]

    async def test_what_never_matched_is_never_seen(self, under: ClusterUnderTest):
        async with under.watching(await under.version(), labels="a=b") as watch:
            obj = await under.create(WIDGET, "hidden")
            await under.patch(obj, {"spec": {"size": 2}})
            await under.delete(obj)
            await under.create(WIDGET, "shown", labels={"a": "b"})
            assert await watch.take(1) == ["ADDED shown"]

    async def test_one_object_by_name(self, under: ClusterUnderTest):
        async with under.watching(await under.version(), fields="metadata.name=mine") as watch:
            await under.create(WIDGET, "other")
            await under.create(WIDGET, "mine")
            assert await watch.take(1) == ["ADDED mine"]

    async def test_a_broken_selector(self, under: ClusterUnderTest):
        async with under.watching(await under.version(), labels="a in b") as watch:
            with pytest.raises(BadRequest):
                await watch.next()


class TestVersions:
    async def test_a_version_that_is_too_old(self, under: ClusterUnderTest):
        since = await under.expired(WIDGET)
        async with under.watching(since) as watch:
            with pytest.raises(Expired) as caught:
                await watch.take(1000)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")

    async def test_after_listing_again_it_works(self, under: ClusterUnderTest):
        await under.expired(WIDGET)
        async with under.watching(await under.version()) as watch:
            await under.create(WIDGET, "fresh")
            assert await watch.take(1) == ["ADDED fresh"]

    async def test_a_version_that_is_none(self, under: ClusterUnderTest):
        async with under.watching("yesterday") as watch:
            with pytest.raises(BadRequest):
                await watch.next()
