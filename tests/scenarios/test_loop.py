"""The running operator: informers, queue and overlays together, also when its caches lag behind."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.reconcile import volcano
from tests.reconcile.making import conditions, manifest
from tests.scenarios.world import RESOURCES, World

from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import WorkQueue
from trainwright.core.errors import Ending, Forbidden
from trainwright.core.objects import Object
from trainwright.core.resources import EVENT, POD, SERVICE, Resource
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS, PYTORCH_JOB, VOLCANO_JOB
from trainwright.operator.loop import Operator

JOBS = PYTORCH_JOB.resource


class Slow:
    """A cluster whose watches tell everything late, and that counts what is asked of it."""

    def __init__(self, cluster: MemoryCluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self.calls: Counter[str] = Counter()
        self.refuse: set[str] = set()
        self.ending = False
        """Whether the namespaces are being deleted: nothing is made there any more."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for change in self._cluster.watch(*args, **kwargs):
            await asyncio.sleep(self._seconds)
            yield change

    async def create(self, resource: Any, obj: Object) -> Object:
        name = f"create {obj['kind']}/{obj['metadata']['name']}"
        self.calls[name] += 1
        if self.ending:
            raise Ending(f"unable to create new content in namespace {obj['metadata']['namespace']}")
        if name in self.refuse:
            raise Forbidden("exceeded quota: pods=0")
        return await self._cluster.create(resource, obj)

    async def patch(self, resource: Any, namespace: str, name: str, *args: Any, **kwargs: Any) -> Object:
        self.calls[f"patch {resource.kind}/{name}"] += 1
        return await self._cluster.patch(resource, namespace, name, *args, **kwargs)

    def about(self, job: str) -> int:
        """Return how many calls were about a job or anything that is named after it."""
        return sum(times for call, times in self.calls.items() if call.split("/")[1].split("-")[0].split(".")[0] == job)


@contextlib.asynccontextmanager
async def operating(seconds: float = 0.0) -> AsyncIterator[tuple[MemoryCluster, Slow]]:
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
    slow = Slow(cluster, seconds)
    async with running(slow):
        yield cluster, slow


@contextlib.asynccontextmanager
async def running(cluster: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(Operator(cluster, KINDS, KUBERNETES).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(cluster: MemoryCluster, resource: Resource, holds: Callable[[list[Object]], bool], seconds: float = 5):
    """Wait until something holds of all objects of a resource, by following their changes."""
    listing = await cluster.list(resource)
    async with asyncio.timeout(seconds):
        changes = cluster.watch(resource, since=listing.version)
        while not holds((await cluster.list(resource)).items):
            await anext(changes)


async def start(cluster: MemoryCluster, job: Object) -> None:
    meta = {"name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"]}
    await cluster.create(JOBS, {**job, "metadata": meta})


async def pods_are(cluster: MemoryCluster, *names: str) -> None:
    def holds(pods: list[Object]) -> bool:
        staying = (each["metadata"] for each in pods if "deletionTimestamp" not in each["metadata"])
        return {meta["name"] for meta in staying} >= set(names) and (bool(names) or not pods)

    await until(cluster, POD, holds)


async def pod_is(cluster: MemoryCluster, name: str, phase: str) -> None:
    await until(
        cluster,
        POD,
        lambda pods: phase in [each["status"]["phase"] for each in pods if each["metadata"]["name"] == name],
    )


async def job_is(cluster: MemoryCluster, expected: str) -> None:
    await until(
        cluster, JOBS, lambda jobs: any(conditions(each["status"]) == expected for each in jobs if "status" in each)
    )


async def event_is(cluster: MemoryCluster, reason: str) -> None:
    await until(cluster, EVENT, lambda events: any(each["reason"] == reason for each in events))


async def set_phase(cluster: MemoryCluster, name: str, phase: str, code: int = 0) -> None:
    ended = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
    state = {"running": {}} if phase == "Running" else {"terminated": ended}
    status = {"phase": phase, "containerStatuses": [{"name": "pytorch", "restartCount": 0, "state": state}]}
    await cluster.patch(POD, "ns", name, {"status": status}, subresource="status")


async def test_of_many_new_jobs_all_have_their_pods_before_anything_is_told_of_one():
    names = [f"j{number}" for number in range(40)]
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
    for name in names:
        job = manifest(workers=2)
        await start(cluster, {**job, "metadata": {**job["metadata"], "name": name}})
    slow = Slow(cluster, 0)
    async with running(slow):
        await until(cluster, EVENT, lambda events: len(events) == len(names))
        await until(cluster, JOBS, lambda jobs: all("status" in each for each in jobs))

    calls = list(slow.calls)
    last_pod = max(calls.index(f"create Pod/{name}-worker-1") for name in names)
    assert last_pod < min(calls.index(f"patch PyTorchJob/{name}") for name in names)
    events = (await cluster.list(EVENT)).items
    assert {each["reason"] for each in events} == {"SuccessfulCreatePod"}
    assert {slow.calls[f"patch PyTorchJob/{name}"] for name in names} == {1}


async def test_what_could_not_be_made_does_not_hold_back_what_is_told():
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
    slow = Slow(cluster, 0)
    slow.refuse.add("create Pod/j-worker-1")
    async with running(slow):
        await start(cluster, manifest(workers=2))
        await job_is(cluster, "Created")
        await event_is(cluster, "FailedCreatePod")


@pytest.mark.parametrize("lag", [0.0, 0.05], ids=["caches that keep up", "caches that lag"])
async def test_a_job_is_run_to_its_end_and_nothing_is_made_twice(lag):
    async with operating(lag) as (cluster, slow):
        await start(cluster, manifest(master=1, workers=2))
        await pods_are(cluster, "j-master-0", "j-worker-0", "j-worker-1")
        for name in ("j-master-0", "j-worker-0", "j-worker-1"):
            await set_phase(cluster, name, "Running")
        await job_is(cluster, "Created Running")
        await set_phase(cluster, "j-worker-1", "Failed", 137)
        await pod_is(cluster, "j-worker-1", "Pending")
        await job_is(cluster, "Created Running")
        await set_phase(cluster, "j-master-0", "Succeeded")
        await job_is(cluster, "Created -Running Succeeded")

        job = await cluster.get(JOBS, "ns", "j")
        assert job["status"]["record"]["roles"]["Worker"]["restarts"] == 1
        made = {call: times for call, times in slow.calls.items() if call.startswith(("create Pod", "create Service"))}
        assert made == {
            "create Service/j-master-0": 1,
            "create Service/j": 1,
            "create Pod/j-master-0": 1,
            "create Pod/j-worker-0": 1,
            "create Pod/j-worker-1": 2,
        }


async def test_a_quiet_job_costs_no_calls():
    async with operating() as (cluster, slow):
        await start(cluster, manifest(workers=2))
        await pods_are(cluster, "j-worker-0", "j-worker-1")
        await another(cluster, "first")
        before = slow.about("j")
        label = {"metadata": {"labels": {"touched": "1"}}}
        await cluster.patch(JOBS, "ns", "j", label)
        await cluster.patch(POD, "ns", "j-worker-0", label)
        await another(cluster, "second")

        assert slow.about("j") == before


async def another(cluster: MemoryCluster, name: str) -> None:
    """Start one more job and wait for its pod: by then the operator has come past all that changed before."""
    job = manifest(workers=1)
    await start(cluster, {**job, "metadata": {**job["metadata"], "name": name}})
    await pods_are(cluster, f"{name}-worker-0")


async def test_a_deadline_comes_without_anybody_knocking():
    async with operating() as (cluster, _):
        await start(cluster, manifest(workers=1, activeDeadlineSeconds=1))
        await pods_are(cluster, "j-worker-0")

        await job_is(cluster, "Created Failed")
        await pods_are(cluster)


async def test_what_is_refused_is_said_and_tried_again_and_others_go_on():
    async with operating() as (cluster, slow):
        slow.refuse.add("create Pod/j-worker-1")
        await start(cluster, manifest(workers=3))
        await pods_are(cluster, "j-worker-0", "j-worker-2")
        await event_is(cluster, "FailedCreatePod")
        slow.refuse.clear()
        await pods_are(cluster, "j-worker-0", "j-worker-1", "j-worker-2")


async def test_a_name_that_somebody_else_holds_is_waited_for():
    async with operating() as (cluster, _):
        foreign = {"metadata": {"name": "j-worker-0", "namespace": "ns"}, "spec": {"containers": []}}
        await cluster.create(POD, foreign)
        await start(cluster, manifest(workers=1))
        await event_is(cluster, "NameTaken")
        assert "ownerReferences" not in (await cluster.get(POD, "ns", "j-worker-0"))["metadata"]
        assert len((await cluster.list(SERVICE)).items) == 2


async def test_a_job_that_admission_should_have_refused_fails_in_words():
    async with operating() as (cluster, _):
        broken = manifest(workers=1)
        broken["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Sometimes"
        await start(cluster, broken)

        await job_is(cluster, "Created Failed")
        job = await cluster.get(JOBS, "ns", "j")
        assert "spec.pytorchReplicaSpecs.Worker.restartPolicy: " in job["status"]["conditions"][-1]["message"]
        assert (await cluster.list(POD)).items == []


async def test_a_thousand_pods_are_made_quickly():
    async with operating() as (cluster, _):
        await start(cluster, manifest(workers=1000))

        await until(cluster, POD, lambda pods: len(pods) == 1000, seconds=20)


async def test_events_are_counted_not_repeated():
    world = World(manifest(workers=1))
    await world.play("run worker-0\nevict worker-0\nrun worker-0\nevict worker-0")

    said = {each["message"]: each["count"] for each in (await world.cluster.list(EVENT)).items}

    assert said["Deleted pod: j-worker-0"] == 2
    assert said["Created pod: j-worker-0"] == 3


async def test_a_worker_that_is_stopped_while_work_comes_in_stops_quietly():
    queue: WorkQueue[str] = WorkQueue()
    stopped, waiting = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)  # both wait for work now

    stopped.cancel()
    queue.add("job")

    assert await waiting == "job"
    with pytest.raises(asyncio.CancelledError):
        await stopped


@pytest.mark.parametrize("lag", [0.0, 0.02], ids=["caches are quick", "caches lag behind"])
async def test_a_command_wakes_its_job_and_is_carried_out_once(lag):
    row = VOLCANO_JOB.commands
    assert row
    async with operating(lag) as (cluster, _):
        job = volcano.manifest("worker=2")
        await cluster.create(VOLCANO_JOB.resource, {**job, "metadata": {"name": "j", "namespace": "ns"}})
        await pods_are(cluster, "j-worker-0", "j-worker-1")

        order = volcano.command("RestartJob")
        await cluster.create(row, {**order, "metadata": {"name": "c", "namespace": "ns"}})

        await until(cluster, row, lambda commands: not commands)
        stored = await cluster.get(VOLCANO_JOB.resource, "ns", "j")
        assert (stored["status"]["retryCount"], stored["status"]["version"]) == (1, 1)


async def test_that_a_namespace_is_being_deleted_is_said_once_and_nobody_is_warned(caplog):
    caplog.set_level("INFO", logger="trainwright")
    async with operating() as (cluster, slow):
        slow.ending = True
        await start(cluster, manifest(workers=2))
        async with asyncio.timeout(5):
            while slow.calls["create Pod/j-worker-0"] < 3:  # noqa: ASYNC110 - a refusal leaves no trace to follow
                await asyncio.sleep(0.01)

    said = [record for record in caplog.records if "being deleted" in record.getMessage()]
    assert len(said) == 1
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
