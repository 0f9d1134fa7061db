"""What another operator has begun gets our label, and only that; and kinds whose version nobody reads are left out."""

from collections.abc import Sequence

import pytest
from tests.reconcile.making import manifest
from tests.scenarios.world import NOON, RESOURCES, World

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.names import JOB_LABEL, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import POD, SERVICE, Resource
from trainwright.kinds import KINDS, MPI_JOB, PYTORCH_JOB
from trainwright.operator.adoption import adopt
from trainwright.operator.crds import understood

RUNNING: Object = {"conditions": [{"type": "Running", "status": "True"}]}
ENDED: Object = {"conditions": [{"type": "Succeeded", "status": "True"}]}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(RESOURCES, now=lambda: NOON)


async def begun(cluster: MemoryCluster, status: Object, namespace: str = "ns") -> Object:
    """Make a job that somebody has looked after, with a pod and a Service."""
    job = manifest(workers=1)
    job = await cluster.create(PYTORCH_JOB.resource, {**job, "metadata": {**job["metadata"], "namespace": namespace}})
    if status:
        await cluster.patch(PYTORCH_JOB.resource, namespace, "j", {"status": status}, subresource="status")
    for row in (POD, SERVICE):
        labels = {REPLICA_TYPE_LABEL: "worker", REPLICA_INDEX_LABEL: "0"}
        meta = {
            "name": "j-worker-0",
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        }
        spec: Object = {"containers": [{"name": "pytorch"}]} if row is POD else {}
        await cluster.create(row, {"apiVersion": "v1", "kind": row.kind, "metadata": meta, "spec": spec})
    return job


async def labelled(cluster: MemoryCluster) -> list[str]:
    objects = [obj for row in (POD, SERVICE) for obj in (await cluster.list(row, labels=JOB_LABEL)).items]
    return [f"{obj['metadata']['namespace']}/{obj['kind']}" for obj in objects]


@pytest.mark.parametrize(
    ("status", "namespaces", "found"),
    [
        pytest.param(RUNNING, (), ["ns/Pod"], id="the pods of a job that somebody else looked after; not its Services"),
        pytest.param(RUNNING, ("ns",), ["ns/Pod"], id="in a namespace that is looked into"),
        pytest.param(RUNNING, ("other",), [], id="and in no other"),
        pytest.param(ENDED, (), [], id="not those of a job that has ended"),
        pytest.param({**RUNNING, "record": {"version": 0}}, (), [], id="nor of one that we have looked after"),
        pytest.param({}, (), [], id="nor of one that nobody has looked at yet"),
    ],
)
async def test_what_is_taken_over(cluster, status, namespaces, found):
    await begun(cluster, status)

    await adopt(cluster, KINDS, namespaces)

    assert await labelled(cluster) == found


async def test_a_pod_of_somebody_else_is_left_alone(cluster):
    await begun(cluster, RUNNING)
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "ns"}}
    await cluster.create(POD, {**stranger, "spec": {"containers": [{"name": "c"}]}})

    await adopt(cluster, KINDS)

    assert await labelled(cluster) == ["ns/Pod"]


async def test_what_was_made_before_a_status_was_written_is_taken_over_when_it_would_be_made():
    world = World(manifest(workers=1))
    await begun(world.cluster, {})
    before = await world.cluster.get(POD, "ns", "j-worker-0")

    await world.rest()

    after = await world.cluster.get(POD, "ns", "j-worker-0")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await labelled(world.cluster) == ["ns/Pod", "ns/Service", "ns/Service"]


class Serving:
    """An API server that serves the kinds of some groups in these versions."""

    def __init__(self, *versions: str) -> None:
        self._versions = versions

    async def versions(self, resource: Resource) -> Sequence[str]:
        return self._versions if resource == MPI_JOB.resource else ()


@pytest.mark.parametrize(
    ("served", "left_out"),
    [
        pytest.param((), [], id="a kind that is not there may still come"),
        pytest.param(("v2beta1",), [], id="a version that is read here"),
        pytest.param(("v1",), ["MPIJob"], id="one that is not: its jobs are left to whoever brought it"),
    ],
)
async def test_which_kinds_are_looked_after(served, left_out):
    found = await understood(Serving(*served), KINDS)

    assert [kind.name for kind in KINDS if kind not in found] == left_out
