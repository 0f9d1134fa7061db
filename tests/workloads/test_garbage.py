"""The garbage collector where the contract does not look: restarts, odd owners, circles, faults, and its cost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.cluster.base import Propagation
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import ClusterError, NotFound
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import BUILT_IN, CONFIG_MAP, NODE, POD, SERVICE, Resource
from trainwright.workloads.garbage import GarbageCollector

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
JOB = Resource("example.com", "v1", "jobs", "ExampleJob")
ROWS = (*BUILT_IN, JOB)


class Counting(MemoryCluster):
    """Counts calls, and fails some on request."""

    def __init__(self) -> None:
        super().__init__(ROWS, now=lambda: NOON)
        self.gets = 0
        self.failures = 0

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        self.gets += 1
        return await super().get(resource, namespace, name)

    async def delete(self, resource: Resource, namespace: str, name: str, **options: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise ClusterError("try again")
        await super().delete(resource, namespace, name, **options)


@contextlib.asynccontextmanager
async def collecting(cluster: MemoryCluster) -> AsyncIterator[None]:
    task = asyncio.create_task(GarbageCollector(cluster, ROWS, backoff=Backoff(first=0.001, longest=0.01)).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def make(
    cluster: MemoryCluster, resource: Resource, name: str, *owners: Object, block: bool = True, **meta: Any
) -> Object:
    references = [{**owner_reference(owner), "blockOwnerDeletion": block, "controller": False} for owner in owners]
    namespace = {"namespace": "default"} if resource.namespaced else {}
    return await cluster.create(
        resource, {"metadata": {"name": name, **namespace, "ownerReferences": references, **meta}}
    )


async def settle() -> None:
    for _ in range(300):
        await asyncio.sleep(0)


async def names(cluster: MemoryCluster, resource: Resource = CONFIG_MAP) -> str:
    return " ".join(obj["metadata"]["name"] for obj in (await cluster.list(resource)).items)


@pytest.fixture
def cluster() -> Counting:
    return Counting()


async def test_children_of_all_kinds(cluster: Counting):
    job = await make(cluster, JOB, "job")
    for resource in (CONFIG_MAP, SERVICE, POD):
        await make(cluster, resource, "child", job)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job")
        await settle()
    assert [await names(cluster, resource) for resource in (CONFIG_MAP, SERVICE, POD)] == ["", "", ""]


async def test_what_was_left_while_nobody_collected(cluster: Counting):
    job = await make(cluster, JOB, "job")
    await make(cluster, CONFIG_MAP, "child", job)
    await make(cluster, CONFIG_MAP, "free")
    await cluster.delete(JOB, "default", "job")
    async with collecting(cluster):
        await settle()
    assert await names(cluster) == "free"


@pytest.mark.parametrize("how", ["Foreground", "Orphan"])
async def test_a_deletion_that_was_under_way_is_finished(cluster: Counting, how: Propagation):
    job = await make(cluster, JOB, "job")
    await make(cluster, CONFIG_MAP, "child", job)
    await cluster.delete(JOB, "default", "job", propagation=how)
    async with collecting(cluster):
        await settle()
    assert await names(cluster, JOB) == ""
    assert await names(cluster) == ("child" if how == "Orphan" else "")


async def test_a_new_owner_of_the_same_name_is_another_one(cluster: Counting):
    async with collecting(cluster):
        old = await make(cluster, JOB, "job")
        await make(cluster, CONFIG_MAP, "of-the-old", old)
        await cluster.delete(JOB, "default", "job")
        new = await make(cluster, JOB, "job")
        await make(cluster, CONFIG_MAP, "of-the-new", new)
        await settle()
    assert await names(cluster) == "of-the-new"


async def test_a_child_made_after_its_owner_went(cluster: Counting):
    async with collecting(cluster):
        job = await make(cluster, JOB, "job")
        await settle()
        await cluster.delete(JOB, "default", "job")
        await settle()
        await make(cluster, CONFIG_MAP, "late", job)
        await settle()
    assert await names(cluster) == ""


async def test_owners_in_another_version_are_the_same(cluster: Counting):
    job = await make(cluster, JOB, "job")
    await make(cluster, CONFIG_MAP, "child", {**job, "apiVersion": "example.com/v1beta1"})
    async with collecting(cluster):
        await settle()
        assert await names(cluster) == "child"
        await cluster.delete(JOB, "default", "job")
        await settle()
    assert await names(cluster) == ""


async def test_owners_of_a_kind_nobody_knows_are_left_alone(cluster: Counting):
    stranger = {"apiVersion": "other.com/v1", "kind": "Thing", "metadata": {"name": "x", "uid": "u"}}
    await make(cluster, CONFIG_MAP, "child", stranger)
    async with collecting(cluster):
        await settle()
    assert await names(cluster) == "child"


async def test_what_has_no_namespace_cannot_belong_to_what_has_one(cluster: Counting):
    job = await make(cluster, JOB, "job")
    await make(cluster, NODE, "node", job)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job")
        await settle()
    assert await names(cluster, NODE) == "node"


async def test_owners_without_namespace(cluster: Counting):
    node = await make(cluster, NODE, "node")
    await make(cluster, POD, "pod", node)
    async with collecting(cluster):
        await settle()
        assert await names(cluster, POD) == "pod"
        await cluster.delete(NODE, "", "node")
        await settle()
    assert await names(cluster, POD) == ""


async def test_two_that_own_each_other_do_not_wait_for_ever(cluster: Counting):
    one = await make(cluster, JOB, "one")
    two = await make(cluster, JOB, "two", one)
    reference = [owner_reference(two)]
    await cluster.patch(JOB, "default", "one", {"metadata": {"ownerReferences": reference}})
    async with collecting(cluster):
        await settle()
        await cluster.delete(JOB, "default", "one", propagation="Foreground")
        await settle()
    assert await names(cluster, JOB) == ""


async def test_a_child_with_another_owner_is_kept_in_the_foreground_too(cluster: Counting):
    going, staying = await make(cluster, JOB, "going"), await make(cluster, JOB, "staying")
    await make(cluster, CONFIG_MAP, "shared", going, staying)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "going", propagation="Foreground")
        await settle()
    assert await names(cluster, JOB) == "staying"
    child = await cluster.get(CONFIG_MAP, "default", "shared")
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["staying"]


async def test_someone_elses_finalizer_is_left_alone(cluster: Counting):
    job = await make(cluster, JOB, "job", finalizers=["example.com/hold"])
    await make(cluster, CONFIG_MAP, "child", job)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job")
        await settle()
        assert await names(cluster) == "child", "the owner is still there"
        await cluster.patch(JOB, "default", "job", {"metadata": {"finalizers": None}})
        await settle()
    assert await names(cluster) == ""


async def test_the_childs_own_wish_is_respected(cluster: Counting):
    job = await make(cluster, JOB, "job")
    middle = await make(cluster, JOB, "middle", job, finalizers=["orphan"])
    await make(cluster, CONFIG_MAP, "grandchild", middle)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job")
        await settle()
    assert await names(cluster, JOB) == ""
    assert await names(cluster) == "grandchild"


async def test_failures_are_tried_again(cluster: Counting):
    job = await make(cluster, JOB, "job")
    await make(cluster, CONFIG_MAP, "child", job)
    async with collecting(cluster):
        await settle()
        await cluster.delete(JOB, "default", "job")
        cluster.failures = 5
        async with asyncio.timeout(10):
            while await names(cluster):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert cluster.failures == 0


async def test_children_of_living_owners_cost_nothing(cluster: Counting):
    async with collecting(cluster):
        await settle()
        job = await make(cluster, JOB, "job")
        await settle()
        for number in range(20):
            await make(cluster, POD, f"pod-{number}", job)
        for phase in ("Running", "Failed"):
            for number in range(20):
                await cluster.patch(POD, "default", f"pod-{number}", {"status": {"phase": phase}}, subresource="status")
        await settle()
        assert cluster.gets == 0


async def test_a_thousand_children(cluster: Counting):
    job = await make(cluster, JOB, "job")
    for number in range(1000):
        await make(cluster, CONFIG_MAP, f"c-{number}", job)
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job", propagation="Foreground")
        async with asyncio.timeout(20):
            while True:
                try:
                    await MemoryCluster.get(cluster, JOB, "default", "job")
                except NotFound:
                    break
                await asyncio.sleep(0)
    assert await names(cluster) == ""


async def test_an_owner_goes_when_a_user_takes_the_child_from_it(cluster: Counting):
    job = await make(cluster, JOB, "job")
    await make(cluster, CONFIG_MAP, "child", job, finalizers=["example.com/hold"])
    async with collecting(cluster):
        await cluster.delete(JOB, "default", "job", propagation="Foreground")
        await settle()
        assert await names(cluster, JOB) == "job"
        await cluster.patch(CONFIG_MAP, "default", "child", {"metadata": {"ownerReferences": None}})
        await settle()
    assert await names(cluster, JOB) == ""


SIZE = 6
# Owner and child. No circles: when two that own each other are both deleted in the foreground, by hand, they wait for
# ever, here as on Kubernetes.
EDGES = st.sets(st.sampled_from([(owner, child) for child in range(SIZE) for owner in range(child)]), max_size=10)
DELETIONS = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.sampled_from(["Background", "Foreground", "Orphan"]), st.booleans()),
    max_size=4,
)


@settings(deadline=None, max_examples=50)
@given(edges=EDGES, blocking=st.booleans(), deletions=DELETIONS)
def test_whoever_owns_whom_it_ends_well(edges, blocking, deletions):
    """Nothing hangs half deleted, nothing outlives all its owners, and what nobody asked to go is still there."""

    async def life() -> None:
        cluster = Counting()
        made = [await make(cluster, JOB, f"job-{number}") for number in range(SIZE)]
        for child in range(SIZE):
            owners = [made[owner] for owner, owned in sorted(edges) if owned == child]
            references = [{**owner_reference(o), "controller": False, "blockOwnerDeletion": blocking} for o in owners]
            await cluster.patch(JOB, "default", f"job-{child}", {"metadata": {"ownerReferences": references}})
        async with collecting(cluster):
            for number, how, pause in deletions:
                with contextlib.suppress(NotFound):
                    await cluster.delete(JOB, "default", f"job-{number}", propagation=how)
                if pause:
                    await settle()
            async with asyncio.timeout(10):
                while not await is_at_rest(cluster):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            await settle()
            assert await is_at_rest(cluster)
        left = {int(name.split("-")[1]) for name in (await names(cluster, JOB)).split()}
        assert left >= set(range(SIZE)) - reachable({number for number, _, _ in deletions}, edges)

    asyncio.run(life())


async def is_at_rest(cluster: Counting) -> bool:
    left = (await cluster.list(JOB)).items
    uids = {obj["metadata"]["uid"] for obj in left}
    return not any(
        "deletionTimestamp" in obj["metadata"]
        or any(owner["uid"] not in uids for owner in obj["metadata"].get("ownerReferences", ()))
        for obj in left
    )


def reachable(start: set[int], edges: set[tuple[int, int]]) -> set[int]:
    """Return those that may be touched when these are deleted: they, their children, the children of those."""
    found = set(start)
    while more := {child for owner, child in edges if owner in found} - found:
        found |= more
    return found
