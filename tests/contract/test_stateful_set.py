"""StatefulSets: the same lives under our controller and under kube-controller-manager."""

from typing import Any

import pytest
from tests.contract.home import ClusterUnderTest
from tests.contract.workload import Play, play, template

from trainwright.core.objects import owner_reference
from trainwright.core.resources import POD, STATEFUL_SET

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def controlled(under: ClusterUnderTest) -> ClusterUnderTest:
    if not under.collects_garbage:
        pytest.skip("NOTHING WAS TESTED HERE: the named cluster has no controllers")
    return under


async def web(under: ClusterUnderTest, replicas: int = 3, **spec: Any) -> Play:
    given = {"serviceName": "sites", "selector": SELECTOR, "template": template(), **spec}
    return await play(under, STATEFUL_SET, "web", replicas=replicas, **given)


async def ready_web(under: ClusterUnderTest, replicas: int = 3, **spec: Any) -> Play:
    """A set whose pods are all ready."""
    names = [f"web-{number}" for number in range(replicas)]
    started = await web(under, replicas, podManagementPolicy="Parallel", **spec)
    await started.has(*names)
    await started.ready(*names)
    await started.says(readyReplicas=replicas)
    return started


async def test_in_order_each_waits_for_the_one_before(controlled: ClusterUnderTest):
    started = await web(controlled)
    await started.stays("web-0")
    await started.ready("web-0")
    await started.stays("web-0", "web-1")
    await started.ready("web-1")
    await started.stays("web-0", "web-1", "web-2")


async def test_in_parallel_nobody_waits(controlled: ClusterUnderTest):
    started = await web(controlled, podManagementPolicy="Parallel")
    await started.has("web-0", "web-1", "web-2")


async def test_a_pod_has_its_number_its_host_name_and_its_owner(controlled: ClusterUnderTest):
    started = await web(controlled, 1)
    await started.has("web-0")
    pod = (await started.pods())["web-0"]
    revision = (await started.says(replicas=1))["status"]["updateRevision"]

    assert pod["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "0",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "controller-revision-hash": revision,
    }
    assert pod["metadata"]["ownerReferences"] == [owner_reference(await started.get())]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "sites")


async def test_numbers_may_start_elsewhere(controlled: ClusterUnderTest):
    started = await web(controlled, 2, ordinals={"start": 5}, podManagementPolicy="Parallel")
    await started.has("web-5", "web-6")


async def test_the_status_of_a_set_that_is_well(controlled: ClusterUnderTest):
    started = await ready_web(controlled)
    status = (await started.says(availableReplicas=3))["status"]
    revision = status["updateRevision"]

    assert revision.startswith("web-")
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }


async def test_the_status_of_a_set_that_has_only_begun(controlled: ClusterUnderTest):
    started = await web(controlled, 2)
    status = (await started.says(replicas=1, currentReplicas=1))["status"]
    assert (status["availableReplicas"], status.get("readyReplicas"), status["updatedReplicas"]) == (0, None, 1)


async def test_a_pod_is_available_only_after_a_while(controlled: ClusterUnderTest):
    started = await web(controlled, 1, minReadySeconds=1)
    await started.has("web-0")
    await started.ready("web-0")
    await started.says(readyReplicas=1, availableReplicas=0)
    await started.says(readyReplicas=1, availableReplicas=1)


class TestSize:
    async def test_more(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled, 1)
        await started.change(replicas=3)
        await started.has("web-0", "web-1", "web-2")
        await started.says(observedGeneration=2, replicas=3, readyReplicas=1)

    async def test_fewer_in_order_the_highest_first(self, controlled: ClusterUnderTest):
        node = template(nodeName="no-such-node")  # so that pods take their time to go
        started = await web(controlled, 1, template=node)
        for number in range(3):
            await started.change(replicas=number + 1)
            await started.has(*(f"web-{each}" for each in range(number + 1)))
            await started.ready(f"web-{number}")
        await started.says(readyReplicas=3)

        await started.change(replicas=0)

        for number in (2, 1, 0):
            await started.has_active(number)
            await controlled.settle()
            assert sorted(await started.active()) == [f"web-{each}" for each in range(number)]
            await started.remove(f"web-{number}", grace=0)
        await started.says(replicas=0, readyReplicas=None, currentReplicas=None)

    async def test_fewer_in_parallel(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled)
        await started.change(replicas=1)
        await started.stays("web-0")

    async def test_none_in_parallel_also_of_those_that_are_not_ready(self, controlled: ClusterUnderTest):
        started = await web(controlled, podManagementPolicy="Parallel")
        await started.has("web-0", "web-1", "web-2")
        await started.change(replicas=0)
        await started.has()
        await started.says(replicas=0)


class TestLosses:
    async def test_a_deleted_pod_comes_back(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled)
        uid = await started.remove("web-1")
        await started.is_replaced("web-1", uid)

    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    async def test_a_pod_that_has_ended_is_replaced(self, controlled: ClusterUnderTest, phase: str):
        started = await ready_web(controlled)
        uid = (await started.pods())["web-1"]["metadata"]["uid"]
        await started.ended(phase, "web-1")
        await started.is_replaced("web-1", uid)

    async def test_a_pod_that_is_leaving_is_waited_for(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled, template=template(nodeName="no-such-node"))
        uid = await started.remove("web-1")
        await controlled.settle()
        assert (await started.pods())["web-1"]["metadata"]["uid"] == uid
        await started.remove("web-1", grace=0)
        await started.is_replaced("web-1", uid)


class TestOwners:
    async def test_a_pod_that_is_nobodys_is_adopted(self, controlled: ClusterUnderTest):
        await controlled.pod("web-0", labels={"app": "web"})
        started = await web(controlled, 1)
        await started.has("web-0")

    async def test_a_pod_of_another_name_is_not(self, controlled: ClusterUnderTest):
        await controlled.pod("other", labels={"app": "web"})
        started = await web(controlled, 1)
        await started.stays("web-0")

    async def test_a_pod_that_no_longer_matches_is_released(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled, 2)
        await controlled.cluster.patch(POD, controlled.namespace, "web-1", {"metadata": {"labels": {"app": "else"}}})
        await started.has("web-0")
        await controlled.cluster.delete(POD, controlled.namespace, "web-1")
        await started.has("web-0", "web-1")

    async def test_a_name_that_is_taken_is_waited_for(self, controlled: ClusterUnderTest):
        await controlled.pod("web-0", labels={"app": "else"})
        started = await web(controlled, 1)
        await started.stays()
        await controlled.cluster.delete(POD, controlled.namespace, "web-0")
        await started.has("web-0")

    @pytest.mark.parametrize("how", ["Background", "Foreground"])
    async def test_its_pods_go_with_it(self, controlled: ClusterUnderTest, how: Any):
        started = await ready_web(controlled)
        await started.delete(propagation=how)
        await started.is_gone()


class TestUpdates:
    async def test_one_by_one_from_the_highest(self, controlled: ClusterUnderTest):
        started = await ready_web(controlled, 2)
        before = await started.pods()
        old = (await started.get())["status"]["currentRevision"]

        await started.change(template=template(terminationGracePeriodSeconds=3))

        for name in ("web-1", "web-0"):
            await started.is_replaced(name, before[name]["metadata"]["uid"])
            await controlled.settle()
            if name == "web-1":
                assert (await started.pods())["web-0"]["metadata"]["uid"] == before["web-0"]["metadata"]["uid"]
                status = (await started.says(updatedReplicas=1, currentReplicas=1))["status"]
                assert status["currentRevision"] == old != status["updateRevision"]
            await started.ready(name)
        status = (await started.says(updatedReplicas=2, currentReplicas=2, readyReplicas=2))["status"]
        assert status["currentRevision"] == status["updateRevision"] != old

    @pytest.mark.parametrize(
        "strategy",
        [
            pytest.param({"type": "OnDelete", "rollingUpdate": None}, id="on delete"),
            pytest.param({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, id="behind a partition"),
        ],
    )
    async def test_none_unless_asked_for(self, controlled: ClusterUnderTest, strategy: Any):
        started = await ready_web(controlled, 2, updateStrategy=strategy)
        before = await started.pods()
        await started.change(template=template(terminationGracePeriodSeconds=3))
        await started.says(observedGeneration=2, updatedReplicas=None)
        await controlled.settle()
        assert {pod["metadata"]["uid"] for pod in (await started.pods()).values()} == {
            pod["metadata"]["uid"] for pod in before.values()
        }
