"""Whole lives of MPIJobs on the memory cluster, each also with the operator killed after every single call it makes.

The controllers of StatefulSets and Jobs are the local home's own. What must hold above all: a launcher is started
once, and a job that has ended stays ended.
"""

from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any

import pytest
from tests.scenarios.world import World

from trainwright.cluster.events import Recorder
from trainwright.core.objects import Object, at, timestamp
from trainwright.core.resources import BATCH_JOB, POD, STATEFUL_SET
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.pod_owner import look_after

TEMPLATE = {"spec": {"containers": [{"name": "train", "image": "i", "command": ["mpirun", "train"]}]}}
SIGNALLED = "mpirun noticed that process rank 3 with PID 77 on node j-worker-1 exited on signal 9 (Killed)."


def old(**spec: Any) -> Object:
    return _job({"template": TEMPLATE, "slotsPerWorker": 2, **spec})


def modern(workers: int, *, transport: str = "exec", run: Object | None = None, **spec: Any) -> Object:
    roles = {"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": workers, "template": TEMPLATE}}
    job = _job({"mpiReplicaSpecs": roles, "runPolicy": run or {}, **spec})
    job["metadata"]["annotations"] = {"trainwright.dev/transport": transport}
    return job


def _job(spec: Object) -> Object:
    metadata = {"name": "j", "namespace": "ns"}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec}


class MpiWorld(World):
    """A world in which StatefulSets and Jobs have their controllers, which are never killed."""

    launchers: set[str]

    async def rest(self) -> None:
        self.launchers = getattr(self, "launchers", set())
        for _ in range(200):
            before = (await self.cluster.list(POD)).version
            await self._bury()
            await self._controllers()
            survived = await self._round()
            self.launchers |= {str(job["metadata"]["uid"]) for job in (await self.cluster.list(BATCH_JOB)).items}
            if survived and (await self.cluster.list(POD)).version == before:
                return
        raise AssertionError("the operator does not come to rest")

    async def _controllers(self) -> None:
        events = Recorder(self.cluster, lambda: self.now)
        for workload in (stateful_set.WORKLOAD, batch_job.WORKLOAD):
            for obj in (await self.cluster.list(workload.resource)).items:
                await look_after(self.cluster, workload, "ns", obj["metadata"]["name"], self.now, events)
        await self._collect()

    async def _collect(self) -> None:
        """Remove pods whose owner is gone, as the garbage collector does."""
        owners = {
            obj["metadata"]["uid"] for row in (STATEFUL_SET, BATCH_JOB) for obj in (await self.cluster.list(row)).items
        } | {job["metadata"]["uid"] for job in (await self.cluster.list(self.kind.resource)).items}
        for pod in (await self.cluster.list(POD)).items:
            if pod["metadata"]["ownerReferences"][0]["uid"] not in owners:
                nobody = {"metadata": {"finalizers": None}}
                await self.cluster.patch(POD, "ns", pod["metadata"]["name"], nobody)
                await self.cluster.delete(POD, "ns", pod["metadata"]["name"], grace=0)

    async def _run(self, *pods: str) -> None:
        """Let pods run and be ready; `launcher` is the newest of the launcher's."""
        for pod in pods:
            name = await self._pod(pod)
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(self.now)}
            running = {"name": "train", "restartCount": 0, "ready": True, "state": {"running": {}}}
            await self._report(name, {"phase": "Running", "conditions": [ready], "containerStatuses": [running]})

    async def _succeed(self, *pods: str) -> None:
        for pod in pods:
            await self._end(await self._pod(pod), "Succeeded", self._ended(0))

    async def _fail(self, pod: str, code: str) -> None:
        words = {"message": SIGNALLED} if pod == "launcher" else {}
        await self._end(await self._pod(pod), "Failed", {**self._ended(int(code)), **words})

    async def _forget(self, kind: str) -> None:
        """Let somebody delete the launcher's Job, or its pod."""
        row = BATCH_JOB if kind == "launcher" else POD
        name = "j-launcher" if kind == "launcher" else await self._pod("launcher")
        await self.cluster.delete(row, "ns", name)

    async def _pod(self, pod: str) -> str:
        if pod != "launcher":
            return f"j-{pod}"
        found = [each for each in (await self.cluster.list(POD)).items if "launcher" in each["metadata"]["name"]]
        newest = max(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
        return str(newest["metadata"]["name"])

    async def _end(self, name: str, phase: str, ended: Object) -> None:
        status = {
            "phase": phase,
            "conditions": [],
            "containerStatuses": [{"name": "train", "state": {"terminated": ended}}],
        }
        await self._report(name, status)

    async def _report(self, name: str, status: Object) -> None:
        await self.cluster.patch(POD, "ns", name, {"status": status}, subresource="status")


@dataclass(frozen=True)
class Life:
    """A job, what happens to it, and how it ends."""

    says: str
    job: Object
    script: str
    ends: str
    """Its conditions, and how many workers its StatefulSet wants (or how many worker pods there are)."""
    launchers: int = 1


LIVES = [
    Life(
        "the launcher starts once every worker is ready, and its success lets them go",
        old(replicas=2),
        "run worker-0\nrun worker-1\nrun launcher\nwait 60\nsucceed launcher",
        "Created -Running Succeeded; workers 0",
    ),
    Life("no launcher before the last worker", old(replicas=2), "run worker-0\nwait 600", "Created; workers 2", 0),
    Life(
        "a failing launcher is tried again",
        old(replicas=1, backoffLimit=1),
        "run worker-0\nrun launcher\nfail launcher 7\nwait 30\nrun launcher\nsucceed launcher",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a launcher that fails too often fails the job",
        old(replicas=2, backoffLimit=0),
        "run worker-0 worker-1\nrun launcher\nfail launcher 137",
        "Created -Running Failed; workers 0",
    ),
    Life(
        "a finished job stays finished when its launcher's Job is deleted",
        old(replicas=1),
        "run worker-0\nrun launcher\nsucceed launcher\nforget launcher\nwait 600",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a finished job stays finished when its launcher's pod is deleted",
        old(replicas=1),
        "run worker-0\nrun launcher\nsucceed launcher\nforget pod\nwait 600",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a job whose running launcher is deleted fails and is not started again",
        old(replicas=1),
        "run worker-0\nrun launcher\nforget launcher\nwait 600",
        "Created -Running Failed; workers 0",
    ),
    Life(
        "a worker that is lost while ranks run comes back, and the launcher is not touched",
        old(replicas=2),
        "run worker-0 worker-1\nrun launcher\nlose worker-1\nrun worker-1\nsucceed launcher",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a launcher that works alone needs no workers",
        old(gpus=8, slotsPerWorker=None, runLauncherAsWorker=True),
        "run launcher\nsucceed launcher",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a number that does not divide fails the job before anything is made",
        old(gpus=20),
        "wait 5",
        "Created Failed; workers 0",
        0,
    ),
    Life(
        "v2beta1 by exec waits for its workers and keeps them by default",
        modern(2),
        "run worker-0\nrun worker-1\nrun launcher\nsucceed launcher",
        "Created -Running Succeeded; workers 2",
    ),
    Life(
        "v2beta1 by ssh starts its launcher at once",
        modern(2, transport="ssh"),
        "run launcher worker-0 worker-1\nsucceed launcher",
        "Created -Running Succeeded; workers 2",
    ),
    Life(
        "v2beta1 lets workers go as it is told to",
        modern(2, run={"cleanPodPolicy": "Running"}),
        "run worker-0 worker-1\nrun launcher\nsucceed launcher",
        "Created -Running Succeeded; workers 0",
    ),
    Life(
        "a worker that failed is made again",
        modern(2),
        "run worker-0 worker-1\nrun launcher\nfail worker-1 1\nrun worker-1\nsucceed launcher",
        "Created -Running Succeeded; workers 2",
    ),
    Life(
        "a suspended job has no pods, and starts anew when it is resumed",
        modern(1),
        "run worker-0\nrun launcher\nsuspend\nwait 60\nresume\nrun worker-0\nrun launcher\nsucceed launcher",
        "Created -Suspended -Running Succeeded; workers 1",
        2,
    ),
    Life(
        "a cancelled job stops its workers and its launcher",
        modern(2),
        "run worker-0 worker-1\nrun launcher\ncancel\nwait 60",
        "Created -Running Failed; workers 0",
    ),
    Life(
        "so does one that is written as v1alpha1 has it",
        old(replicas=2),
        "run worker-0 worker-1\nrun launcher\ncancel\nwait 60",
        "Created -Running Failed; workers 0",
    ),
    Life(
        "a job is removed when its time after the end has come",
        modern(1, run={"ttlSecondsAfterFinished": 60}),
        "run worker-0\nrun launcher\nsucceed launcher\nwait 61",
        "gone",
    ),
]


async def ends(world: MpiWorld) -> str:
    outcome = await world.outcome()
    if outcome.get("job") == "gone":
        return "gone"
    conditions = " ".join(
        ("" if each["status"] == "True" else "-") + each["type"] for each in outcome["status"]["conditions"]
    )
    sets = (await world.cluster.list(STATEFUL_SET)).items
    plain = sum("worker" in pod["metadata"]["name"] for pod in (await world.cluster.list(POD)).items)
    return f"{conditions}; workers {at(sets[0], ('spec', 'replicas')) if sets else plain}"


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_life(life, prunes):
    world = MpiWorld(life.job, prunes=prunes)

    await world.play(life.script)

    assert await ends(world) == life.ends
    assert len(world.launchers) == life.launchers


@pytest.mark.e2e
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_every_call_it_comes_to_the_same_end(life, prunes):
    undisturbed = MpiWorld(life.job, prunes=prunes)
    await undisturbed.play(life.script)
    for last in range(1, undisturbed.calls + 1):
        killed = MpiWorld(life.job, prunes=prunes, dies=partial(eq, last))

        await killed.play(life.script)

        assert await ends(killed) == life.ends, f"killed after call {last}"
        assert len(killed.launchers) == life.launchers, f"killed after call {last}"


async def test_the_rank_that_failed_is_named():
    world = MpiWorld(old(replicas=2, backoffLimit=0))

    await world.play("run worker-0 worker-1\nrun launcher\nfail launcher 137")

    status = (await world.outcome())["status"]
    assert status["conditions"][-1]["message"].endswith("Rank 3 on j-worker-1 was killed by SIGKILL.")
    assert status["launcherStatus"] == "Failed"
