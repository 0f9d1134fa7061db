"""The scheduler over a cluster: what may start is bound, and why the rest waits is written where people look."""

import asyncio
import contextlib
from datetime import UTC, datetime

import pytest

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.resources import BUILT_IN, NODE, POD
from trainwright.workloads.scheduler import Scheduler


@pytest.fixture
async def cluster():
    cluster = MemoryCluster(BUILT_IN, now=lambda: datetime.now(UTC))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "pods": "10"}}
    await cluster.create(NODE, {"metadata": {"name": "box"}, "status": ready})
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Scheduler(cluster).run())
        yield cluster
        running.cancel()


def member(name, cpu="1", minimum=2):
    meta = {"name": name, "namespace": "default", "labels": {GANG_LABEL: "a"}}
    meta["annotations"] = {GANG_MIN_ANNOTATION: str(minimum)}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


async def seen(cluster, name, check):
    """Wait until a pod looks as `check` wants it."""
    start = await cluster.get(POD, "default", name)
    if check(start):
        return
    version = start["metadata"]["resourceVersion"]
    async with asyncio.timeout(5), contextlib.aclosing(cluster.watch(POD, "default", since=version)) as changes:
        async for change in changes:
            if change.object["metadata"]["name"] == name and check(change.object):
                return


def bound(pod):
    return pod["spec"].get("nodeName") == "box"


def waiting(words):
    return lambda pod: any(words in each.get("message", "") for each in pod["status"].get("conditions", ()))


async def test_a_gang_is_bound_once_it_is_whole(cluster):
    await cluster.create(POD, member("a-0"))
    await seen(cluster, "a-0", waiting("1 of 2 pods are there"))

    await cluster.create(POD, member("a-1"))

    await seen(cluster, "a-0", bound)
    await seen(cluster, "a-1", bound)


async def test_a_gang_starts_when_room_is_made(cluster):
    await cluster.create(POD, member("x", cpu="2", minimum=1))
    await seen(cluster, "x", bound)
    await cluster.create(POD, member("b-0", cpu="2", minimum=1))
    await seen(cluster, "b-0", waiting("one pod needs cpu 2, but 0 of 2 is free"))

    await cluster.delete(POD, "default", "x", grace=0)

    await seen(cluster, "b-0", bound)
