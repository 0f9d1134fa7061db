"""The scheduler over a cluster: what may start is bound, and why the rest waits is written where people look."""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.errors import Forbidden, Invalid
from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.objects import owner_reference
from trainwright.core.resources import (
    BUILT_IN,
    CONFIG_MAP,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    STATEFUL_SET,
)
from trainwright.workloads.priorities import prioritising
from trainwright.workloads.quotas import counting
from trainwright.workloads.scheduler import Scheduler


@dataclass
class Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def cluster(clock):
    doors: list[Admit] = []

    def admitted(resource, new, old):
        for door in doors:
            new = door(resource, new, old)
        return new

    cluster = MemoryCluster(BUILT_IN, admit=admitted, now=lambda: clock.now)
    doors += (prioritising(cluster), counting(cluster))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "pods": "10"}}
    await cluster.create(NODE, {"metadata": {"name": "box"}, "status": ready})
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Scheduler(cluster, BUILT_IN).run())
        yield cluster
        running.cancel()


def member(name, cpu="1", minimum=2, gang="a", **spec):
    meta = {"name": name, "namespace": "default", "labels": {GANG_LABEL: gang}}
    meta["annotations"] = {GANG_MIN_ANNOTATION: str(minimum)}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec}}


async def seen(cluster, name, check):
    """Wait until a pod looks as `check` wants it."""
    return await shows(cluster, POD, name, check)


async def shows(cluster, resource, name, check):
    """Wait until an object looks as `check` wants it."""
    start = await cluster.get(resource, "default", name)
    if check(start):
        return
    version = start["metadata"]["resourceVersion"]
    async with asyncio.timeout(5), contextlib.aclosing(cluster.watch(resource, "default", since=version)) as changes:
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


# The queue


async def filled(cluster):
    """Have one pod hold the whole node."""
    await cluster.create(POD, member("x", cpu="2", minimum=1, gang="x"))
    await seen(cluster, "x", bound)


async def test_a_pod_says_its_place_and_who_is_ahead(cluster):
    await filled(cluster)
    await cluster.create(POD, member("b", cpu="2", minimum=1, gang="b"))
    await seen(cluster, "b", waiting("1st in the queue; one pod needs cpu 2, but 0 of 2 is free (default/x holds 2)"))
    await cluster.create(POD, member("c", cpu="1", minimum=1, gang="c"))

    await seen(cluster, "c", waiting("2nd in the queue behind default/b"))

    said = (await cluster.get(POD, "default", "c"))["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in said] == [("PodScheduled", "False", "Queued")]


@pytest.mark.parametrize(
    ("classes", "first", "second", "starts"),
    [
        pytest.param({}, {}, {"priority": 5}, "c", id="a priority of its own"),
        pytest.param({"urgent": 7}, {}, {"priorityClassName": "urgent"}, "c", id="that of its class"),
        pytest.param({}, {}, {"priorityClassName": "system-node-critical"}, "c", id="that of a class of the system"),
        pytest.param({}, {}, {"priorityClassName": "unheard-of"}, "b", id="a class that nobody knows is worth nothing"),
        pytest.param({"urgent": 7, "usual": 9}, {}, {"priorityClassName": "urgent"}, "b", id="less than the default"),
    ],
)
async def test_the_more_urgent_goes_first(cluster, classes, first, second, starts):
    for name, value in classes.items():
        made = {"metadata": {"name": name}, "value": value, "globalDefault": name == "usual"}
        await cluster.create(PRIORITY_CLASS, made)
    await filled(cluster)
    await cluster.create(POD, member("b", cpu="2", minimum=1, gang="b", **first))
    await cluster.create(POD, member("c", cpu="2", minimum=1, gang="c", **second))
    await seen(cluster, "c", waiting("in the queue"))

    await cluster.delete(POD, "default", "x", grace=0)

    await seen(cluster, starts, bound)


async def test_pods_that_are_made_again_keep_the_place_of_their_owner(cluster, clock):
    old = await cluster.create(STATEFUL_SET, {"metadata": {"name": "old", "namespace": "default"}, "spec": {}})
    await filled(cluster)
    clock.now += timedelta(seconds=1)
    await cluster.create(POD, member("b", cpu="2", minimum=1, gang="b"))
    again = member("again", cpu="2", minimum=1, gang="again")
    again["metadata"]["ownerReferences"] = [owner_reference(old)]
    await cluster.create(POD, again)
    await seen(cluster, "b", waiting("2nd in the queue behind default/again"))

    await cluster.delete(POD, "default", "x", grace=0)

    await seen(cluster, "again", bound)


# Quotas


def quota(name="team", **hard):
    named = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": named}}


async def test_a_gang_waits_for_its_quota(cluster):
    await cluster.create(RESOURCE_QUOTA, quota(requests_cpu="1"))
    await cluster.create(POD, member("a", cpu="1", minimum=1, gang="a"))
    await seen(cluster, "a", bound)
    await cluster.create(POD, member("b", cpu="1", minimum=1, gang="b"))

    await seen(cluster, "b", waiting("the quota team of default allows requests.cpu 1, 1 is used and 1 needed"))
    await cluster.patch(RESOURCE_QUOTA, "default", "team", {"spec": {"hard": {"requests.cpu": "2"}}})

    await seen(cluster, "b", bound)


async def test_a_quota_says_how_much_is_used(cluster):
    await cluster.create(RESOURCE_QUOTA, quota(cpu="1500m", pods="5", count__configmaps="2"))
    await cluster.create(POD, member("a", cpu="500m", minimum=1))
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "one", "namespace": "default"}})

    await shows(cluster, RESOURCE_QUOTA, "team", used({"cpu": "500m", "pods": "1", "count/configmaps": "1"}))
    await cluster.patch(RESOURCE_QUOTA, "default", "team", {"spec": {"hard": {"pods": None}}})

    await shows(cluster, RESOURCE_QUOTA, "team", used({"cpu": "500m", "count/configmaps": "1"}))


def used(wanted):
    return lambda obj: (obj.get("status") or {}).get("used") == wanted


async def test_objects_beyond_their_number_are_refused_as_an_api_server_does(cluster):
    await cluster.create(RESOURCE_QUOTA, quota(count__configmaps="1"))
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "one", "namespace": "default"}})

    with pytest.raises(Forbidden) as refusal:
        await cluster.create(CONFIG_MAP, {"metadata": {"name": "two", "namespace": "default"}})

    assert str(refusal.value) == (
        'configmaps "two" is forbidden: exceeded quota: team, requested: count/configmaps=1, '
        "used: count/configmaps=1, limited: count/configmaps=1"
    )
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "two", "namespace": "other"}})
    await cluster.delete(CONFIG_MAP, "default", "one")
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "two", "namespace": "default"}})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {"hard": {"cpus": 2}},
            "spec.hard[cpus]: this cannot be limited here "
            "(there are: cpu, memory, pods, requests.NAME, limits.NAME, count/KIND)",
            id="a key that nobody knows",
        ),
        pytest.param(
            {"hard": {"count/deployments.apps": 2}},
            "spec.hard[count/deployments.apps]: there are no deployments.apps to count; "
            "write for example count/pytorchjobs.kubeflow.org",
            id="objects that there are not",
        ),
        pytest.param(
            {"hard": {"cpu": "many"}},
            "spec.hard[cpu]: 'many' is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi",
            id="no number",
        ),
        pytest.param(
            {"hard": {}, "scopes": ["BestEffort"]},
            "spec.scopes: quotas are kept for whole namespaces here; leave it out",
            id="some pods only",
        ),
    ],
)
async def test_a_quota_that_cannot_be_kept_is_refused(cluster, spec, problem):
    with pytest.raises(Invalid) as refusal:
        await cluster.create(RESOURCE_QUOTA, {**quota(), "spec": spec})

    assert refusal.value.problems == (problem,)
