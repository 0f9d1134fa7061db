"""The homes the contract suite runs on: today the memory cluster with its garbage collector."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.contract.home import WIDGET, ClusterUnderTest

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, Resource
from trainwright.workloads.garbage import GarbageCollector

HISTORY = 200


@pytest.fixture(params=["memory"])
async def under(request: pytest.FixtureRequest) -> AsyncIterator[ClusterUnderTest]:
    home = {"memory": memory}[request.param]
    async with home() as it:
        yield it


@contextlib.asynccontextmanager
async def memory() -> AsyncIterator[ClusterUnderTest]:
    rows = (*BUILT_IN, WIDGET)
    cluster = MemoryCluster(rows, now=lambda: datetime.now(UTC), history=HISTORY)

    async def expired(resource: Resource) -> str:
        """Let a version grow old: the store forgets it after so many further changes."""
        since = (await cluster.list(resource)).version
        obj: Object = {"metadata": {"name": "ages", "namespace": "elsewhere" if resource.namespaced else ""}}
        await cluster.create(resource, obj)
        for age in range(HISTORY + 1):
            patch = {"metadata": {"annotations": {"age": str(age)}}}
            await cluster.patch(resource, obj["metadata"]["namespace"], "ages", patch)
        return since

    async def settle() -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    collector = asyncio.create_task(GarbageCollector(cluster, rows).run())
    try:
        yield ClusterUnderTest(cluster, "contract-a", "contract-b", expired, settle)
    finally:
        collector.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collector
