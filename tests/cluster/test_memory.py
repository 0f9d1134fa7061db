"""What only the memory cluster has: admission, its clock and chance, bounded history, streams of pods."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from trainwright.cluster.base import Change, Cluster, Session
from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.errors import BadRequest, ClusterError, Expired, Invalid, ManifestError, NotFound, Problem
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, CONFIG_MAP, POD, SERVICE, Resource

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
JOB = Resource("example.com", "v1", "jobs", "ExampleJob")


def cluster(admit: Admit | None = None, **options: Any) -> MemoryCluster:
    return MemoryCluster((*BUILT_IN, JOB), admit=admit, now=lambda: NOON, **options)


def job(name: str = "job", **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **fields}


def reading(watch: AsyncIterator[Change]) -> "asyncio.Task[Change]":
    async def read() -> Change:
        return await anext(watch)

    return asyncio.create_task(read())


async def names(store: Cluster, resource: Resource = JOB) -> list[str]:
    return [obj["metadata"]["name"] for obj in (await store.list(resource)).items]


async def test_time_and_chance_are_given():
    store = cluster(uid=iter(["uid-1", "uid-2"]).__next__, random=random.Random(1))

    obj = await store.create(JOB, {"metadata": {"generateName": "a-", "namespace": "default"}})

    assert obj["metadata"]["uid"] == "uid-1"
    assert obj["metadata"]["creationTimestamp"] == "2026-11-15T12:00:00Z"
    again = cluster(random=random.Random(1))
    other = await again.create(JOB, {"metadata": {"generateName": "a-", "namespace": "default"}})
    assert other["metadata"]["name"] == obj["metadata"]["name"]


async def test_a_generated_name_that_is_taken_is_drawn_again():
    store = cluster(random=random.Random(1))
    taken = await store.create(JOB, {"metadata": {"generateName": "a-", "namespace": "default"}})
    store._random = random.Random(1)
    other = await store.create(JOB, {"metadata": {"generateName": "a-", "namespace": "default"}})
    assert taken["metadata"]["name"] != other["metadata"]["name"]


async def test_unchanged_parts_are_shared_between_versions():
    store = cluster()
    old = await store.create(JOB, job(spec={"big": [1, 2, 3]}))
    new = await store.patch(JOB, "default", "job", {"status": {"n": 1}}, subresource="status")
    assert new["spec"] is old["spec"]
    assert "status" not in old


class TestAdmission:
    async def test_it_may_fill_in(self):
        def admit(resource: Resource, obj: Object, old: Object | None) -> Object:
            return {**obj, "spec": {"size": 1, **obj.get("spec", {})}} if resource is JOB else obj

        store = cluster(admit)
        assert (await store.create(JOB, job()))["spec"] == {"size": 1}
        assert (await store.patch(JOB, "default", "job", {"spec": {"size": None, "a": 1}}))["spec"] == {
            "size": 1,
            "a": 1,
        }

    async def test_all_it_finds_is_told(self):
        def admit(resource: Resource, obj: Object, old: Object | None) -> Object:
            raise ManifestError([Problem("spec.a", "is wrong"), Problem("spec.b", "is missing")])

        store = cluster(admit)
        with pytest.raises(Invalid) as caught:
            await store.create(JOB, job())
        said = 'ExampleJob.example.com "job" is invalid: [spec.a: is wrong, spec.b: is missing]'
        assert str(caught.value) == said
        assert isinstance(caught.value.__cause__, ManifestError)
        assert await names(store) == []

    async def test_it_sees_what_was(self):
        seen = []

        def admit(resource: Resource, obj: Object, old: Object | None) -> Object:
            seen.append((obj.get("spec"), old and old.get("spec")))
            return obj

        store = cluster(admit)
        await store.create(JOB, job(spec={"size": 1}))
        await store.patch(JOB, "default", "job", {"spec": {"size": 2}})
        await store.patch(JOB, "default", "job", {"status": {"n": 1}}, subresource="status")
        await store.delete(JOB, "default", "job")
        assert seen == [({"size": 1}, None), ({"size": 2}, {"size": 1})]

    async def test_it_cannot_change_what_only_the_server_sets(self):
        def admit(resource: Resource, obj: Object, old: Object | None) -> Object:
            return {**obj, "metadata": {**obj["metadata"], "uid": "mine", "name": "other"}, "status": {"n": 9}}

        store = cluster(admit)
        obj = await store.create(JOB, job())
        patched = await store.patch(JOB, "default", "job", {"spec": {"a": 1}})
        assert obj["metadata"]["name"] == patched["metadata"]["name"] == "job"
        assert obj["metadata"]["uid"] == patched["metadata"]["uid"] != "mine"
        assert "status" not in obj
        assert "status" not in patched

    async def test_what_it_refuses_today_can_still_go(self):
        strict = False

        def admit(resource: Resource, obj: Object, old: Object | None) -> Object:
            if strict:
                raise ManifestError([Problem("spec", "is no longer allowed")])
            return obj

        store = cluster(admit)
        held = job()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await store.create(JOB, held)
        strict = True
        with pytest.raises(Invalid):
            await store.patch(JOB, "default", "job", {"spec": {"a": 1}})
        await store.delete(JOB, "default", "job")
        await store.patch(JOB, "default", "job", {"metadata": {"finalizers": None}})
        assert await names(store) == []


class TestBadInput:
    @pytest.mark.parametrize(
        "obj",
        [
            pytest.param({"metadata": "text"}, id="metadata that is text"),
            pytest.param({"metadata": {"name": 1, "namespace": "default"}}, id="a name that is a number"),
            pytest.param({"metadata": {"name": "a", "namespace": "default", "labels": ["x"]}}, id="labels in a list"),
            pytest.param(
                {"metadata": {"name": "a", "namespace": "default", "finalizers": "x"}}, id="finalizers as text"
            ),
            pytest.param({"metadata": {"name": "a", "namespace": "default", "ownerReferences": [1]}}, id="owner 1"),
            pytest.param({"metadata": {"name": "a", "namespace": "default"}, "spec": object()}, id="not JSON"),
            pytest.param([], id="a list"),
        ],
    )
    async def test_objects_that_are_none(self, obj):
        with pytest.raises(BadRequest):
            await cluster().create(JOB, obj)

    @pytest.mark.parametrize("patch", [[], {"metadata": []}, {"metadata": {"labels": {"a": 1}}}, {"kind": "Other"}])
    async def test_patches_that_are_none(self, patch):
        store = cluster()
        before = await store.create(JOB, job())
        with pytest.raises(BadRequest):
            await store.patch(JOB, "default", "job", patch)
        assert await store.get(JOB, "default", "job") is before

    async def test_metadata_cannot_be_removed(self):
        store = cluster()
        before = await store.create(JOB, job())
        assert await store.patch(JOB, "default", "job", {"metadata": None}) == before

    async def test_calls_that_make_no_sense(self):
        store = cluster()
        with pytest.raises(BadRequest):
            await store.get(JOB, "", "job")
        with pytest.raises(BadRequest):
            await store.get(JOB, "default", "")
        with pytest.raises(NotFound):
            await store.get(Resource("other", "v1", "things", "Thing"), "default", "x")

    async def test_two_owners_cannot_both_control(self):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True}
        obj = job()
        obj["metadata"]["ownerReferences"] = [owner, {**owner, "uid": "v"}]
        with pytest.raises(Invalid, match="controller"):
            await cluster().create(JOB, obj)

    async def test_annotations_have_a_limit(self):
        obj = job()
        obj["metadata"]["annotations"] = {"a": "x" * 300_000}
        with pytest.raises(Invalid, match="Too long"):
            await cluster().create(JOB, obj)


class TestHistory:
    async def test_so_many_changes_are_kept_and_no_more(self):
        store = cluster(history=3)
        versions = [(await store.create(JOB, job(f"job-{n}")))["metadata"]["resourceVersion"] for n in range(5)]

        change = await anext(store.watch(JOB, since=versions[1]))
        assert change.object["metadata"]["name"] == "job-2"
        with pytest.raises(Expired):
            await anext(store.watch(JOB, since=versions[0]))

    async def test_a_resource_where_nothing_happened_does_not_expire(self):
        store = cluster(history=3)
        since = (await store.list(SERVICE)).version
        for n in range(10):
            await store.create(JOB, job(f"job-{n}"))
        await store.create(SERVICE, job("service"))
        assert (await anext(store.watch(SERVICE, since=since))).object["metadata"]["name"] == "service"

    async def test_a_slow_watch_holds_nobody_up_and_is_told(self):
        store = cluster(history=3)
        await store.create(JOB, job("first"))
        watch = store.watch(JOB, since="1")
        assert (await anext(watch)).object["metadata"]["name"] == "first"
        for n in range(10):
            await store.create(JOB, job(f"job-{n}"))
        with pytest.raises(Expired, match="too slow"):
            await anext(watch)

    async def test_a_watch_that_keeps_up_never_expires(self):
        store = cluster(history=1)
        watch = store.watch(JOB, since=(await store.list(JOB)).version)
        for n in range(10):
            waiting = reading(watch)
            await asyncio.sleep(0)
            await store.create(JOB, job(f"job-{n}"))
            await store.create(CONFIG_MAP, job(f"job-{n}"))
            assert (await waiting).object["metadata"]["name"] == f"job-{n}"

    async def test_nor_does_one_that_waits_for_something_rare(self):
        store = cluster(history=3)
        watch = store.watch(JOB, since=(await store.list(JOB)).version, labels="rare=yes")
        waiting = reading(watch)
        await asyncio.sleep(0)
        for n in range(10):
            await store.create(JOB, job(f"job-{n}"))
        rare = job("rare")
        rare["metadata"]["labels"] = {"rare": "yes"}
        await store.create(JOB, rare)
        assert (await waiting).object["metadata"]["name"] == "rare"

    async def test_no_history_at_all(self):
        store = cluster(history=0)
        since = (await store.list(JOB)).version
        watch = store.watch(JOB, since=since)
        waiting = reading(watch)
        await asyncio.sleep(0)
        await store.create(JOB, job())
        assert (await waiting).type == "ADDED"
        with pytest.raises(Expired):
            await anext(store.watch(JOB, since=since))

    async def test_a_version_of_the_future(self):
        with pytest.raises(Expired, match="too large"):
            await anext(cluster().watch(JOB, since="1000"))

    async def test_a_reader_that_was_cancelled_goes_on(self):
        store = cluster()
        watch = store.watch(JOB, since="1")
        waiting = reading(watch)
        await asyncio.sleep(0)
        await store.create(JOB, job("a"))  # handed over, but the reader is cancelled before it runs
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await store.create(JOB, job("b"))
        assert [(await anext(watch)).object["metadata"]["name"] for _ in range(2)] == ["a", "b"]

    async def test_closing_ends_a_watch_that_waits(self):
        store = cluster()
        watch: Any = store.watch(JOB, since="1")

        async def read() -> list[Any]:
            return [change async for change in watch]

        waiting = asyncio.create_task(read())
        await asyncio.sleep(0)
        await store.create(JOB, job())
        await asyncio.sleep(0)
        await watch.aclose()
        assert len(await waiting) == 1

    async def test_a_watch_that_catches_up_lets_others_run(self):
        store = cluster()
        for n in range(1000):
            await store.create(JOB, job(f"job-{n}"))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        watch = store.watch(JOB, since="1")
        for _ in range(1000):
            await anext(watch)
        task.cancel()
        assert turns > 10


class Streams:
    """A kubelet that answers."""

    async def logs(self, namespace: str, pod: str, *, container: str = "", **asked: object) -> AsyncIterator[bytes]:
        yield f"{namespace}/{pod}/{container} {[name for name, value in asked.items() if value]}".encode()

    async def exec(self, namespace: str, pod: str, command: list[str], **asked: object) -> Session:
        raise ClusterError(" ".join(command))


class TestStreams:
    async def test_without_a_node(self):
        store = cluster()
        stream = store.logs("default", "pod")
        with pytest.raises(ClusterError, match="nobody runs pod default/pod"):
            await anext(stream)
        with pytest.raises(ClusterError, match="nobody runs pod default/pod"):
            await store.exec("default", "pod", ["true"])

    async def test_the_node_answers(self):
        store = cluster()
        store.serve_pods(Streams())
        stream = store.logs("default", "pod", container="main", previous=True, tail=5)
        assert [chunk async for chunk in stream] == [b"default/pod/main ['previous', 'tail']"]
        with pytest.raises(ClusterError, match="ls -l"):
            await store.exec("default", "pod", ["ls", "-l"])


def test_it_is_a_cluster():
    store: Cluster = cluster()
    assert store


async def test_pods_are_known_by_group_and_kind_only():
    odd = Resource("example.com", "v1", "pods", "Pod")
    store = MemoryCluster((POD, odd), now=lambda: NOON)
    obj = await store.create(odd, job(spec={"nodeName": "n"}))
    assert "status" not in obj
    await store.delete(odd, "default", "job")
    assert await names(store, odd) == []
