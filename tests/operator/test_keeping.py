"""Where the status of a job is written to, beside definitions that keep it and definitions that do not."""

from typing import Any

import pytest
from tests.reconcile.making import manifest
from tests.scenarios.world import Pruning, World

from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.whole import whole
from trainwright.operator.keeping import Keeping

FIRST: Object = {"conditions": [{"type": "Created"}], "record": {"version": 0}}
LATER: Object = {"conditions": [{"type": "Running"}], "record": {"version": 0, "cause": "Deadline"}}


class Counting:
    """A cluster that notes what is written."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *args: Any, **kwargs: Any) -> Object:
        self.writes.append(kwargs.get("subresource") or "annotation")
        patched: Object = await self._cluster.patch(*args, **kwargs)
        return patched


@pytest.fixture
def world() -> World:
    return World(manifest(workers=1))


async def kept(world: World, cluster: Any, keeping: Keeping, status: Object) -> Object:
    """Write a status as a round does, and return the job."""
    job = await cluster.get(world.kind.resource, "ns", "j")
    if not keeping.is_kept(job, status):
        await keeping.keep(world.kind, job, status)
    job = await cluster.get(world.kind.resource, "ns", "j")
    assert whole(job)["status"] == status
    assert keeping.is_kept(job, status), "what was written needs no writing"
    return dict(job)


@pytest.mark.parametrize(
    ("prunes", "writes"),
    [
        pytest.param(False, ["status", "status"], id="ours keeps the status, which is all that is written"),
        pytest.param(
            True,
            ["status", "annotation", "annotation", "status"],
            id="where the first one comes back without its record, the annotation is written, from then on first",
        ),
    ],
)
@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"version": 0}, id="nothing was seen"),
        pytest.param({"version": 0, "roles": {"Worker": {"seen": {"0": "u"}}}}, id="its pods were seen"),
    ],
)
async def test_what_is_written(world, prunes, writes, record):
    cluster = Counting(Pruning(world.cluster) if prunes else world.cluster)
    await cluster.create(world.kind.resource, world.manifest)
    keeping = Keeping(cluster)

    await kept(world, cluster, keeping, {**FIRST, "record": record})
    await kept(world, cluster, keeping, LATER)

    assert cluster.writes == writes


async def test_a_first_status_that_counts_something_is_not_risked(world):
    cluster = Counting(Pruning(world.cluster))
    await cluster.create(world.kind.resource, world.manifest)

    await kept(world, cluster, Keeping(cluster), LATER)

    assert cluster.writes == ["annotation", "status"]


async def test_a_status_of_another_operator_is_completed_in_the_annotation_first(world):
    cluster = Counting(Pruning(world.cluster))
    await cluster.create(world.kind.resource, world.manifest)
    theirs = {"status": {"conditions": [{"type": "Running"}]}}
    await world.cluster.patch(world.kind.resource, "ns", "j", theirs, subresource="status")

    job = await kept(world, cluster, Keeping(cluster), LATER)

    assert cluster.writes == ["annotation"], "what the definition keeps is said already"
    assert RECORD_ANNOTATION in job["metadata"]["annotations"]


async def test_under_a_definition_that_keeps_everything_again_the_annotation_goes(world):
    pruning = Pruning(world.cluster)
    await pruning.create(world.kind.resource, world.manifest)
    await kept(world, pruning, Keeping(pruning), FIRST)

    job = await kept(world, world.cluster, Keeping(world.cluster), LATER)

    assert job["status"] == LATER
    assert not job["metadata"].get("annotations")
