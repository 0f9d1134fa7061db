"""Deletion: at once, held by finalizers, and with time for pods that run."""

from datetime import timedelta

import pytest
from tests.contract.home import WIDGET, ClusterUnderTest, eventually

from trainwright.core.errors import Conflict, Invalid, NotFound
from trainwright.core.objects import Object, moment
from trainwright.core.resources import POD, Resource

HOLD = "example.com/hold"
NODE_NAME = "no-such-node"


async def is_gone(under: ClusterUnderTest, obj: Object, resource: Resource = WIDGET) -> bool:
    try:
        return bool((await under.get(obj, resource))["metadata"]["uid"] != obj["metadata"]["uid"])
    except NotFound:
        return True


async def test_without_finalizers_it_is_gone_at_once(under: ClusterUnderTest):
    obj = await under.create(WIDGET)
    await under.delete(obj)
    assert await is_gone(under, obj)


async def test_only_the_very_one(under: ClusterUnderTest):
    obj = await under.create(WIDGET)
    with pytest.raises(Conflict):
        await under.delete(obj, uid="another")
    assert not await is_gone(under, obj)
    await under.delete(obj, uid=obj["metadata"]["uid"])
    assert await is_gone(under, obj)


class TestFinalizers:
    async def test_a_finalizer_holds_it(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD])

        await under.delete(obj)

        held = await under.get(obj)
        assert held["metadata"]["deletionTimestamp"]
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["generation"] == obj["metadata"]["generation"] + 1
        await under.patch(obj, {"metadata": {"finalizers": None}})
        assert await is_gone(under, obj)

    async def test_the_last_finalizer_lets_it_go(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD, "example.com/also"])
        await under.delete(obj)
        async with under.watching(await under.version()) as watch:
            await under.patch(obj, {"metadata": {"finalizers": [HOLD]}})
            assert not await is_gone(under, obj)
            await under.patch(obj, {"metadata": {"finalizers": []}})
            assert await is_gone(under, obj)
            assert [change.split()[0] for change in await watch.take(2)] == ["MODIFIED", "DELETED"]

    async def test_deleting_twice_changes_nothing(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD])
        await under.delete(obj)
        once = await under.get(obj)
        await under.delete(obj)
        twice = await under.get(obj)
        assert once["metadata"]["resourceVersion"] == twice["metadata"]["resourceVersion"]
        await under.patch(obj, {"metadata": {"finalizers": None}})

    async def test_the_name_is_free_only_when_it_is_gone(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, "name", finalizers=[HOLD])
        await under.delete(obj)
        with pytest.raises(Exception, match="name"):
            await under.create(WIDGET, "name")
        await under.patch(obj, {"metadata": {"finalizers": None}})
        await under.create(WIDGET, "name")

    async def test_what_goes_can_still_be_changed(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD])
        await under.delete(obj)
        patched = await under.patch(obj, {"status": {"phase": "Leaving"}}, subresource="status")
        assert patched["status"] == {"phase": "Leaving"}
        assert (await under.patch(obj, {"metadata": {"annotations": {"a": "b"}}}))["metadata"]["annotations"]
        await under.patch(obj, {"metadata": {"finalizers": None}})

    async def test_no_finalizer_is_added_to_what_goes(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD])
        await under.delete(obj)
        with pytest.raises(Invalid):
            await under.patch(obj, {"metadata": {"finalizers": [HOLD, "example.com/late"]}})
        await under.patch(obj, {"metadata": {"finalizers": None}})

    async def test_a_finalizer_taken_away_before_holds_nothing(self, under: ClusterUnderTest):
        obj = await under.create(WIDGET, finalizers=[HOLD])
        await under.patch(obj, {"metadata": {"finalizers": None}})
        assert not await is_gone(under, obj)
        await under.delete(obj)
        assert await is_gone(under, obj)


class TestPods:
    async def test_a_pod_without_node_is_gone_at_once(self, under: ClusterUnderTest):
        pod = await under.pod()
        await under.delete(pod, POD)
        assert await is_gone(under, pod, POD)

    async def test_a_running_pod_is_given_time(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME, grace=7)

        await under.delete(pod, POD)

        meta = (await under.get(pod, POD))["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 7
        left = moment(meta["deletionTimestamp"]) - moment(meta["creationTimestamp"])  # type: ignore[operator]
        assert timedelta(seconds=7) <= left <= timedelta(seconds=30)
        await under.delete(pod, POD, grace=0)
        assert await is_gone(under, pod, POD)

    async def test_thirty_seconds_unless_told(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME)
        await under.delete(pod, POD)
        assert (await under.get(pod, POD))["metadata"]["deletionGracePeriodSeconds"] == 30
        await under.delete(pod, POD, grace=0)

    async def test_who_deletes_may_say_how_long(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME, grace=7)
        await under.delete(pod, POD, grace=20)
        assert (await under.get(pod, POD))["metadata"]["deletionGracePeriodSeconds"] == 20
        await under.delete(pod, POD, grace=0)

    async def test_time_is_shortened_but_never_lengthened(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME, grace=20)
        await under.delete(pod, POD)
        first = (await under.get(pod, POD))["metadata"]
        for grace, then in ((40, 20), (None, 20), (5, 5), (9, 5)):
            await under.delete(pod, POD, grace=grace)
            assert (await under.get(pod, POD))["metadata"]["deletionGracePeriodSeconds"] == then
        last = (await under.get(pod, POD))["metadata"]
        shortened = moment(first["deletionTimestamp"]) - moment(last["deletionTimestamp"])  # type: ignore[operator]
        assert shortened == timedelta(seconds=15)
        await under.delete(pod, POD, grace=0)

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    async def test_a_pod_that_has_ended_is_gone_at_once(self, under: ClusterUnderTest, phase):
        pod = await under.pod(node=NODE_NAME)
        await under.patch(pod, {"status": {"phase": phase}}, POD, subresource="status")
        await under.delete(pod, POD)
        assert await is_gone(under, pod, POD)

    async def test_grace_zero_is_at_once(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME)
        await under.delete(pod, POD, grace=0)
        assert await is_gone(under, pod, POD)

    async def test_finalizers_hold_a_pod_after_its_time(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME, finalizers=[HOLD])
        await under.delete(pod, POD)
        await under.delete(pod, POD, grace=0)
        assert (await under.get(pod, POD))["metadata"]["deletionGracePeriodSeconds"] == 0
        await under.patch(pod, {"metadata": {"finalizers": None}}, POD)
        assert await is_gone(under, pod, POD)

    async def test_without_finalizers_a_pod_still_has_its_time(self, under: ClusterUnderTest):
        pod = await under.pod(node=NODE_NAME, finalizers=[HOLD])
        await under.delete(pod, POD)
        await under.patch(pod, {"metadata": {"finalizers": None}}, POD)
        assert not await is_gone(under, pod, POD)
        await under.delete(pod, POD, grace=0)
        assert await is_gone(under, pod, POD)


def owned(*owners: Object, block: bool = True) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": position == 0,
            "blockOwnerDeletion": block,
        }
        for position, owner in enumerate(owners)
    ]


@pytest.fixture
def collecting(under: ClusterUnderTest) -> ClusterUnderTest:
    if not under.collects_garbage:
        pytest.skip("no garbage collector runs in this home")
    return under


class TestGarbage:
    """What becomes of children when their owner goes, in the three ways to ask for it."""

    async def test_background(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner))
        grandchild = await collecting.create(WIDGET, ownerReferences=owned(child))
        stranger = await collecting.create(WIDGET)

        await collecting.delete(owner, propagation="Background")

        assert await is_gone(collecting, owner)
        await eventually(lambda: is_gone(collecting, child))
        await eventually(lambda: is_gone(collecting, grandchild))
        assert not await is_gone(collecting, stranger)

    async def test_foreground_waits_for_children(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner), finalizers=[HOLD])

        await collecting.delete(owner, propagation="Foreground")

        held = await collecting.get(owner)
        assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert held["metadata"]["deletionTimestamp"]

        async def child_is_leaving() -> bool:
            return "deletionTimestamp" in (await collecting.get(child))["metadata"]

        await eventually(child_is_leaving)
        await collecting.settle()
        assert not await is_gone(collecting, owner)
        await collecting.patch(child, {"metadata": {"finalizers": None}})
        await eventually(lambda: is_gone(collecting, owner))
        assert await is_gone(collecting, child)

    async def test_foreground_waits_for_grandchildren_too(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner))
        grandchild = await collecting.create(WIDGET, ownerReferences=owned(child), finalizers=[HOLD])
        await collecting.settle()

        await collecting.delete(owner, propagation="Foreground")

        async def grandchild_is_leaving() -> bool:
            return "deletionTimestamp" in (await collecting.get(grandchild))["metadata"]

        await eventually(grandchild_is_leaving)
        assert not await is_gone(collecting, child)
        assert not await is_gone(collecting, owner)
        await collecting.patch(grandchild, {"metadata": {"finalizers": None}})
        await eventually(lambda: is_gone(collecting, owner))

    async def test_foreground_does_not_wait_for_children_that_do_not_block(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner, block=False), finalizers=[HOLD])

        await collecting.delete(owner, propagation="Foreground")

        await eventually(lambda: is_gone(collecting, owner))

        async def child_is_leaving() -> bool:
            return "deletionTimestamp" in (await collecting.get(child))["metadata"]

        await eventually(child_is_leaving)
        await collecting.patch(child, {"metadata": {"finalizers": None}})

    async def test_foreground_without_children(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        await collecting.delete(owner, propagation="Foreground")
        await eventually(lambda: is_gone(collecting, owner))

    async def test_orphan_lets_children_go(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        other = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner))
        shared = await collecting.create(WIDGET, ownerReferences=owned(owner, other))

        await collecting.delete(owner, propagation="Orphan")

        await eventually(lambda: is_gone(collecting, owner))
        assert "ownerReferences" not in (await collecting.get(child))["metadata"]
        left = (await collecting.get(shared))["metadata"]["ownerReferences"]
        assert [reference["uid"] for reference in left] == [other["metadata"]["uid"]]
        await collecting.settle()
        assert not await is_gone(collecting, child)

    async def test_a_child_with_another_owner_stays(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        other = await collecting.create(WIDGET)
        child = await collecting.create(WIDGET, ownerReferences=owned(owner, other))

        await collecting.delete(owner)

        async def has_one_owner() -> bool:
            return len((await collecting.get(child))["metadata"]["ownerReferences"]) == 1

        await eventually(has_one_owner)
        await collecting.delete(other)
        await eventually(lambda: is_gone(collecting, child))

    async def test_a_child_of_an_owner_that_never_was(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        ghost = {**owner, "metadata": {**owner["metadata"], "uid": "b9f5a2f0-5d70-4a7c-8b43-6d2c5f1e0a11"}}
        child = await collecting.create(WIDGET, ownerReferences=owned(ghost))
        await eventually(lambda: is_gone(collecting, child))
        assert not await is_gone(collecting, owner)

    async def test_running_pods_of_a_deleted_owner_are_given_their_time(self, collecting: ClusterUnderTest):
        owner = await collecting.create(WIDGET)
        pod = await collecting.pod(node=NODE_NAME, grace=7, ownerReferences=owned(owner))
        await collecting.delete(owner, propagation="Foreground")

        async def is_leaving() -> bool:
            return bool((await collecting.get(pod, POD))["metadata"].get("deletionGracePeriodSeconds") == 7)

        await eventually(is_leaving)
        assert not await is_gone(collecting, owner)
        await collecting.delete(pod, POD, grace=0)
        await eventually(lambda: is_gone(collecting, owner))
