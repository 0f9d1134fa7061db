"""The loop of StatefulSets and Jobs where the contract does not look: kills, clocks, refusals, names that are taken."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cluster.virtual import run
from tests.scenarios.world import Crash, Mortal

from trainwright.cluster.events import Recorder
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import AlreadyExists
from trainwright.core.objects import Object, at, timestamp
from trainwright.core.resources import BATCH_JOB, BUILT_IN, EVENT, POD, STATEFUL_SET
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.owned_pods import Workload
from trainwright.workloads.pod_owner import PodOwner, look_after

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PODS = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
ONCE = {"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "web"}}


class World:
    """A cluster whose clock stands still, and a controller that is killed after its n-th call."""

    def __init__(self, workload: Workload, spec: Object, killed_after: int = 0) -> None:
        self.now = NOON
        self.workload = workload
        self.spec = spec
        self.uids = itertools.count()
        self.calls = 0
        self.killed_after = killed_after
        self.cluster = MemoryCluster(BUILT_IN, now=lambda: self.now, uid=lambda: f"uid-{next(self.uids)}")

    async def begin(self) -> "World":
        await self.cluster.create(
            self.workload.resource, {"metadata": {"name": "a", "namespace": "d"}, "spec": self.spec}
        )
        await self.settle()
        return self

    def _is_last(self) -> bool:
        self.calls += 1
        return self.calls == self.killed_after

    async def settle(self) -> datetime | None:
        """Run rounds until nothing changes any more; a controller that was killed is started again."""
        while True:
            before = await self._objects()
            mortal: Any = Mortal(self.cluster, self._is_last)
            try:
                later = await look_after(mortal, self.workload, "d", "a", self.now, Recorder(mortal, lambda: self.now))
            except Crash:
                continue
            if await self._objects() == before:
                return later

    async def _objects(self) -> list[Object]:
        """Return what a round is about; events are not."""
        return [obj for row in (POD, self.workload.resource) for obj in (await self.cluster.list(row)).items]

    async def pods(self, *phases: str) -> list[str]:
        listing = await self.cluster.list(POD)
        return [pod["metadata"]["name"] for pod in listing.items if not phases or pod["status"]["phase"] in phases]

    async def move(self, phase: str) -> None:
        """Say of all pods that have not ended that they are in a phase now."""
        for name in await self.pods("Pending", "Running"):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(self.now)}
            ended = {"name": "main", "state": {"terminated": {"finishedAt": timestamp(self.now)}}}
            status = {"phase": phase, "conditions": [ready], "containerStatuses": [ended]}
            await self.cluster.patch(POD, "d", name, {"status": status}, subresource="status")
        await self.settle()

    async def status(self) -> Object:
        found: Object = (await self.cluster.get(self.workload.resource, "d", "a"))["status"]
        return found

    async def events(self) -> dict[str, str]:
        return {event["reason"]: event["message"] for event in (await self.cluster.list(EVENT)).items}


def counts(status: Object) -> tuple[int, int, int]:
    return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


class TestKilledAfterAnyCall:
    @pytest.mark.parametrize("call", range(1, 41))
    async def test_a_job_counts_every_pod_once(self, call: int):
        spec = {"template": ONCE, "completions": 4, "parallelism": 2, "backoffLimit": 3}
        world = await World(batch_job.WORKLOAD, spec, killed_after=call).begin()
        assert len(await world.pods()) == 2
        await world.move("Failed")
        world.now += timedelta(minutes=1)
        await world.settle()
        for _ in range(2):
            assert len(await world.pods("Pending")) == 2
            await world.move("Succeeded")

        status = await world.status()
        assert counts(status) == (0, 4, 2)
        assert status["uncountedTerminatedPods"] == {}
        assert status["conditions"][-1]["type"] == "Complete"
        assert len(await world.pods()) == 6

    @pytest.mark.parametrize("call", range(1, 21))
    async def test_a_job_that_fails_counts_every_pod_once(self, call: int):
        spec = {"template": ONCE, "completions": 3, "parallelism": 3, "backoffLimit": 0}
        world = await World(batch_job.WORKLOAD, spec, killed_after=call).begin()
        first = (await world.pods())[0]
        await world.cluster.patch(POD, "d", first, {"status": {"phase": "Failed"}}, subresource="status")
        await world.settle()

        status = await world.status()
        assert counts(status) == (0, 0, 3)
        assert [each["type"] for each in status["conditions"]] == ["FailureTarget", "Failed"]
        assert await world.pods() == [first]

    @pytest.mark.parametrize("call", range(1, 21))
    async def test_a_set_has_each_pod_once(self, call: int):
        spec = {"replicas": 3, "selector": SELECTOR, "template": PODS, "podManagementPolicy": "Parallel"}
        world = await World(stateful_set.WORKLOAD, spec, killed_after=call).begin()
        await world.move("Running")
        assert await world.pods() == ["a-0", "a-1", "a-2"]
        await world.cluster.patch(STATEFUL_SET, "d", "a", {"spec": {"replicas": 1}})
        await world.settle()
        assert await world.pods() == ["a-0"]
        assert (await world.status())["readyReplicas"] == 1


class TestTime:
    @pytest.mark.parametrize(
        ("failures", "seconds"),
        [
            pytest.param(1, 10, id="ten seconds after the first failure"),
            pytest.param(2, 20, id="twice as long after the second"),
            pytest.param(4, 80, id="and so on"),
            pytest.param(9, 600, id="but never longer than ten minutes"),
        ],
    )
    async def test_the_pause_after_failures(self, failures: int, seconds: int):
        world = await World(batch_job.WORKLOAD, {"template": ONCE, "backoffLimit": 20}).begin()
        for _ in range(failures - 1):
            await world.move("Failed")
            world.now += timedelta(minutes=15)
            await world.settle()
        await world.move("Failed")

        assert await world.settle() == world.now + timedelta(seconds=seconds)
        assert await world.pods("Pending") == []
        world.now += timedelta(seconds=seconds)
        await world.settle()
        assert len(await world.pods("Pending")) == 1

    async def test_a_job_that_is_over_goes_when_its_time_is_up(self):
        world = await World(batch_job.WORKLOAD, {"template": ONCE, "ttlSecondsAfterFinished": 60}).begin()
        await world.move("Succeeded")

        assert await world.settle() == NOON + timedelta(seconds=60)
        world.now += timedelta(seconds=60)
        await world.settle()
        assert (await world.cluster.list(BATCH_JOB)).items == []

    def test_the_loop_looks_again_by_itself(self):
        async def life() -> Object:
            loop = asyncio.get_running_loop()

            def now() -> datetime:
                return NOON + timedelta(seconds=loop.time())

            cluster = MemoryCluster(BUILT_IN, now=now)
            spec = {"template": ONCE, "activeDeadlineSeconds": 3600}
            await cluster.create(BATCH_JOB, {"metadata": {"name": "a", "namespace": "d"}, "spec": spec})
            owner = asyncio.create_task(PodOwner(cluster, (batch_job.WORKLOAD,), now=now).run())
            await asyncio.sleep(3599)
            assert "conditions" not in (await cluster.get(BATCH_JOB, "d", "a"))["status"]
            await asyncio.sleep(2)
            owner.cancel()
            return await cluster.get(BATCH_JOB, "d", "a")

        assert at(run(life()), ("status", "conditions"))[-1]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("workload", "spec", "words"),
    [
        pytest.param(
            stateful_set.WORKLOAD,
            {"selector": SELECTOR, "template": PODS, "volumeClaimTemplates": [{}]},
            "spec.volumeClaimTemplates: there are no volumes to claim here",
            id="claims for volumes",
        ),
        pytest.param(
            stateful_set.WORKLOAD,
            {"selector": {"matchLabels": {"app": "other"}}, "template": PODS},
            "spec.selector: does not match the labels of spec.template",
            id="a selector that misses its own pods",
        ),
        pytest.param(
            stateful_set.WORKLOAD,
            {"replicas": "three", "selector": SELECTOR, "template": PODS},
            "spec.replicas: expected a whole number, 0 or more, found 'three'",
            id="a number that is none",
        ),
        pytest.param(
            stateful_set.WORKLOAD,
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}, "template": PODS},
            "spec.selector: cannot be read",
            id="an operator there is not",
        ),
        pytest.param(
            batch_job.WORKLOAD,
            {"template": ONCE, "completionMode": "Indexed"},
            "spec.completionMode: Indexed is not supported here",
            id="an indexed Job",
        ),
        pytest.param(
            batch_job.WORKLOAD,
            {"template": PODS},
            "restartPolicy: found 'Always'; the pods of a Job need Never or OnFailure",
            id="pods that never end",
        ),
        pytest.param(
            batch_job.WORKLOAD,
            {"template": ONCE, "podFailurePolicy": {}},
            "spec.podFailurePolicy: is not supported here",
            id="a policy that nobody would keep",
        ),
    ],
)
async def test_what_cannot_be_run_is_said(workload: Workload, spec: Object, words: str):
    world = await World(workload, spec).begin()

    assert words in (await world.events())["NotSupported"]
    assert await world.pods() == []


async def test_a_name_that_is_taken_is_said():
    world = World(stateful_set.WORKLOAD, {"replicas": 1, "selector": SELECTOR, "template": PODS})
    await world.cluster.create(POD, {"metadata": {"name": "a-0", "namespace": "d"}, "spec": {}})
    with pytest.raises(AlreadyExists):
        await world.begin()

    assert (await world.events())["FailedCreate"] == "pod a-0 is there already and belongs to another"


async def test_the_pods_of_a_job_that_is_gone_are_let_go_of():
    world = await World(batch_job.WORKLOAD, {"template": ONCE}).begin()
    [name] = await world.pods()
    await world.cluster.delete(BATCH_JOB, "d", "a")
    await world.cluster.delete(POD, "d", name)
    assert await world.pods() == [name]

    await world.settle()

    assert await world.pods() == []


async def test_another_job_of_the_same_name_is_another_job():
    world = await World(batch_job.WORKLOAD, {"template": ONCE}).begin()
    [old] = await world.pods()
    await world.cluster.delete(BATCH_JOB, "d", "a")
    await world.begin()

    assert len(await world.pods()) == 2
    held = (await world.cluster.get(POD, "d", old))["metadata"].get("finalizers")
    assert held is None
    assert counts(await world.status()) == (1, 0, 0)
