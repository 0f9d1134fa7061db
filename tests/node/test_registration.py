"""The node object: made, kept, taken over, given up and taken back."""

from datetime import UTC, datetime, timedelta

import pytest

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import NotFound
from trainwright.core.resources import BUILT_IN, LEASE, NODE
from trainwright.node.lease import NAMESPACE, Heartbeat
from trainwright.node.registration import NodeFacts, Registration, node_status

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACTS = NodeFacts("box", {"cpu": "4"}, port=10250, labels={"disk": "fast"})


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cluster(clock):
    return MemoryCluster((*BUILT_IN, LEASE), now=clock)


def conditions(node) -> dict[str, str]:
    return {each["type"]: each["status"] for each in node["status"]["conditions"]}


async def test_a_new_node_says_all_about_itself(cluster, clock):
    await Registration(cluster, FACTS, clock).register()

    node = await cluster.get(NODE, "", "box")
    assert node["metadata"]["labels"]["disk"] == "fast"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "box"
    assert node["status"]["allocatable"] == {"cpu": "4"}
    assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert node["status"]["declaredFeatures"] == ["ExtendWebSocketsToKubelet"]
    assert conditions(node) == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }


def test_a_node_that_serves_nothing_says_nothing_of_it():
    status = node_status(NodeFacts("box", {}), {}, ready=True, now="now")

    assert "daemonEndpoints" not in status
    assert "declaredFeatures" not in status


async def test_what_others_put_on_a_node_stays_when_it_comes_back(cluster, clock):
    old = {"metadata": {"name": "box", "labels": {"rack": "7"}}, "spec": {"unschedulable": True}}
    await cluster.create(NODE, {"apiVersion": "v1", "kind": "Node", **old})
    foreign = {"type": "NetworkUnavailable", "status": "False"}
    await cluster.patch(NODE, "", "box", {"status": {"conditions": [foreign]}}, subresource="status")

    await Registration(cluster, FACTS, clock).register()

    node = await cluster.get(NODE, "", "box")
    assert node["metadata"]["labels"]["rack"] == "7"
    assert node["spec"]["unschedulable"]
    assert conditions(node)["NetworkUnavailable"] == "False"
    assert conditions(node)["Ready"] == "True"


async def unknown(cluster) -> None:
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await cluster.patch(NODE, "", "box", {"status": {"conditions": [condition]}}, subresource="status")


async def deleted(cluster) -> None:
    await cluster.delete(NODE, "", "box")


@pytest.mark.parametrize(
    ("deed", "minutes", "writes"),
    [
        pytest.param(None, 1, 0, id="a node that is as it should be is left alone"),
        pytest.param(None, 6, 1, id="but not for long"),
        pytest.param(unknown, 1, 1, id="one that was given up says that it lives"),
        pytest.param(deleted, 1, 2, id="one that was deleted is made again"),
    ],
)
async def test_keep(cluster, clock, deed, minutes, writes):
    registration = Registration(cluster, FACTS, clock)
    await registration.register()
    if deed:
        await deed(cluster)
    before = int((await cluster.list(NODE)).version)
    clock.now += timedelta(minutes=minutes)

    await registration.keep()

    assert int((await cluster.list(NODE)).version) - before == writes
    assert conditions(await cluster.get(NODE, "", "box"))["Ready"] == "True"


async def test_the_time_of_a_condition_is_when_it_last_changed(cluster, clock):
    registration = Registration(cluster, FACTS, clock)
    await registration.register()
    clock.now += timedelta(minutes=10)
    await registration.keep()
    clock.now += timedelta(minutes=10)

    await registration.stopped()

    changed = {each["type"]: each for each in (await cluster.get(NODE, "", "box"))["status"]["conditions"]}
    assert changed["Ready"]["status"] == "False"
    assert changed["Ready"]["lastTransitionTime"] == "2026-01-01T12:20:00Z"
    assert changed["DiskPressure"]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert changed["DiskPressure"]["lastHeartbeatTime"] == "2026-01-01T12:20:00Z"


async def test_a_node_that_has_stopped_is_not_said_to_be_ready_again(cluster, clock):
    registration = Registration(cluster, FACTS, clock)
    await registration.register()
    await registration.stopped()
    clock.now += timedelta(minutes=6)

    await registration.keep()

    assert conditions(await cluster.get(NODE, "", "box"))["Ready"] == "False"


async def test_a_lease_is_made_and_renewed(cluster, clock):
    registration = Registration(cluster, FACTS, clock)
    await registration.register()
    heartbeat = Heartbeat(cluster, registration, "box", seconds=10, now=clock)
    with pytest.raises(NotFound):
        await cluster.get(LEASE, NAMESPACE, "box")

    await heartbeat.renew()
    clock.now += timedelta(seconds=10)
    await heartbeat.renew()

    lease = await cluster.get(LEASE, NAMESPACE, "box")
    assert lease["spec"] == {
        "holderIdentity": "box",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T12:00:10.000000Z",
    }
    node = await cluster.get(NODE, "", "box")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
