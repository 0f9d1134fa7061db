"""Gates on a memory cluster: the real operator makes gated pods, and a scheduler that knows no gangs places them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster.virtual import run
from tests.operator.confined import confined
from tests.operator.scaling_world import World, node, pytorch_job, training_job, volcano_job

from trainwright.cluster.base import Change
from trainwright.core.names import GANG_GATE, GANG_LABEL, GANG_WAITS_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object, at
from trainwright.core.resources import NODE, POD
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS
from trainwright.operator.gates import PATIENCE_SECONDS, Gates, left_behind
from trainwright.operator.loop import Operator
from trainwright.placement.fit import Shortfall
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.ledger import Ledger
from trainwright.workloads.pod_owner import PodOwner

SETTINGS = replace(KUBERNETES, gang="gates")


def job(name: str, workers: int, cpu: str = "1", **template: Any) -> Object:
    """Return a static PyTorchJob: all its workers start together."""
    made = pytorch_job(name, workers, workers, workers, cpu)
    del made["spec"]["elasticPolicy"]
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"] |= template
    return made


def mpi_job(name: str, workers: int, cpu: str) -> Object:
    container = {"name": "mpi", "image": "i", "command": ["c"], "resources": {"requests": {"cpu": cpu}}}
    spec = {"replicas": workers, "template": {"spec": {"containers": [container]}}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta, "spec": spec}


class Gated(World):
    """A world whose scheduler knows no gangs and places pods one by one, wherever they fit."""

    refused: tuple[str, ...] = ()
    """Pods it does not place, for a reason of its own."""

    async def scheduler(self) -> None:
        while True:
            await asyncio.sleep(0.05)  # virtual
            nodes, pods = (await self.cluster.list(NODE)).items, (await self.cluster.list(POD)).items
            ledger = Ledger()
            for each in nodes:
                ledger.node_changed(Change("ADDED", each))
            for each in pods:
                ledger.pod_changed(Change("ADDED", each))
            room = ledger.room()
            assert room
            for pod in (each for each in ledger.members() if each.homeless and not each.gates):
                place = room.take([pod])
                if not isinstance(place, Shortfall) and pod.name not in self.refused:
                    await self.cluster.patch(POD, pod.gang[0], pod.name, {"spec": {"nodeName": place[pod.uid]}})

    async def placed(self) -> str:
        """Return the pods that have a node."""
        pods = (await self.cluster.list(POD)).items
        return " ".join(sorted(each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")))

    async def why(self) -> dict[str, str]:
        """Return what stands on pods about why they wait."""
        pods = (await self.cluster.list(POD)).items
        said = {each["metadata"]["name"]: at(each, ("metadata", "annotations", GANG_WAITS_ANNOTATION)) for each in pods}
        return {name: sentence for name, sentence in said.items() if sentence}


@asynccontextmanager
async def world(*objects: Object, **sight: Any) -> AsyncIterator[Gated]:
    """Open a world; `sight` is what the gates may see."""
    opened = Gated()
    await opened.submit(*objects)
    seen = confined(opened.cluster, sight["namespaces"]) if "namespaces" in sight else opened.cluster
    loops = [
        Operator(opened.cluster, KINDS, SETTINGS, opened.now).run(),
        PodOwner(opened.cluster, (stateful_set.WORKLOAD, batch_job.WORKLOAD), now=opened.now).run(),
        Gates(seen, KINDS, opened.now, measures=opened.measures, **sight).run(),
        opened.scheduler(),
        opened.kubelet(),
    ]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop) for loop in loops]
        yield opened
        for task in running:
            task.cancel()


def test_two_jobs_that_fit_only_alone_run_one_after_the_other():
    async def scene() -> None:
        async with world(node(cpu="4"), job("a", 3), job("b", 3)) as here:
            await here.wait(5)
            assert await here.placed() == "a-worker-0 a-worker-1 a-worker-2"
            assert "trainwright_gangs_waiting 1\n" in here.measures.text()

            await here.finish("a")
            await here.wait(5)
            assert "b-worker-0 b-worker-1 b-worker-2" in await here.placed()
            assert "trainwright_gangs_waiting 0\n" in here.measures.text()

    run(scene())


@pytest.mark.parametrize(
    ("made", "pods"),
    [
        pytest.param(job("j", 4), 4, id="PyTorchJob"),
        pytest.param(volcano_job("j", 4, 4, 4), 4, id="Volcano Job"),
        pytest.param(training_job("j", 3, 3, 3), 4, id="TrainingJob, its master first"),
        pytest.param(mpi_job("j", 4, "1"), 5, id="MPIJob, its launcher last"),
    ],
)
def test_jobs_of_every_kind_go_in_when_all_of_them_fit(made, pods):
    async def scene() -> None:
        web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}
        web["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}], "nodeName": "n"}
        async with world(node(cpu="5"), web, made) as here:
            await here.wait(5)
            gated = [
                each["metadata"]["name"]
                for each in (await here.cluster.list(POD)).items
                if at(each, ("spec", "schedulingGates"))
            ]
            assert len(gated) >= 3
            assert set(gated).isdisjoint((await here.placed()).split())

            await here.cluster.delete(POD, "shop", "web", grace=0)
            await here.wait(5)
            assert len((await here.placed()).split()) == pods

    run(scene())


def test_a_pod_that_is_made_again_joins_those_that_run():
    async def scene() -> None:
        async with world(node(cpu="3"), job("a", 3), job("b", 3)) as here:
            await here.wait(5)
            await here.cluster.delete(POD, "default", "a-worker-1", grace=0)
            await here.wait(5)
            assert await here.placed() == "a-worker-0 a-worker-1 a-worker-2"

    run(scene())


def test_an_elastic_job_goes_in_with_its_minimum_and_others_follow():
    async def scene() -> None:
        async with world(node(cpu="3"), pytorch_job("a", 2, 4, 4)) as here:
            await here.wait(5)
            assert len((await here.placed()).split()) == 3

            await here.submit(node("more", cpu="2"))
            await here.wait(5)
            assert len((await here.placed()).split()) == 4

    run(scene())


def test_why_a_gang_waits_is_an_event_and_stands_on_its_first_pod():
    sentence = "a gang of 3 pods needs cpu 3, but 1 of 4 is free"

    async def scene() -> None:
        async with world(node(cpu="4"), job("a", 3), job("b", 3), mpi_job("m", 3, "1")) as here:
            await here.wait(8)
            assert await here.told("b", "GangWaiting") == [sentence]
            assert await here.told("m", "GangWaiting") == [sentence]
            assert await here.told("a", "GangWaiting") == []
            assert await here.why() == {"b-worker-0": sentence, "m-worker-0": sentence}

            await here.finish("a")
            await here.wait(8)
            assert "b-worker-0" not in await here.why()

    run(scene())


def test_who_is_let_in_and_not_placed_does_not_hold_others_up_for_ever():
    async def scene() -> None:
        async with world(node(cpu="6"), job("a", 2), job("b", 2), job("c", 3)) as here:
            here.refused = ("a-worker-0", "a-worker-1")
            await here.wait(PATIENCE_SECONDS - 5)
            assert await here.placed() == ""

            await here.wait(10)
            assert await here.placed() == "b-worker-0 b-worker-1"
            (said,) = await here.told("a", "GangNotPlaced")
            assert said.startswith("a-worker-1 may go with its gang, but the scheduler finds no node for it")

    run(scene())


@pytest.mark.parametrize(
    ("taints", "template", "goes"),
    [
        pytest.param([{"key": "gpu", "effect": "NoSchedule"}], {}, False, id="a taint keeps it out"),
        pytest.param(
            [{"key": "gpu", "effect": "NoSchedule"}],
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            True,
            id="unless it is tolerated",
        ),
        pytest.param([], {"nodeSelector": {"disk": "fast"}}, False, id="a node selector keeps it out"),
    ],
)
def test_only_nodes_that_take_a_pod_count(taints, template, goes):
    async def scene() -> None:
        async with world(node(cpu="6", taints=taints), job("a", 2, **template)) as here:
            await here.wait(5)
            gates = [at(each, ("spec", "schedulingGates")) for each in (await here.cluster.list(POD)).items]
            assert gates == [None if goes else [{"name": GANG_GATE}]] * 2

    run(scene())


@pytest.mark.parametrize(
    ("capacity", "placed"),
    [
        pytest.param(None, "a-worker-0 a-worker-1 b-worker-0 b-worker-1", id="they go in one after the other"),
        pytest.param({"cpu": 3000, "pods": 100}, "a-worker-0 a-worker-1", id="or as long as the capacity has room"),
    ],
)
def test_where_nodes_cannot_be_seen(capacity, placed):
    async def scene() -> None:
        async with world(node(cpu="6"), job("a", 2), job("b", 2), namespaces=("default",), capacity=capacity) as here:
            await here.wait(10)
            assert await here.placed() == placed

    run(scene())


def test_gates_that_start_again_go_on_from_the_pods_alone():
    async def scene() -> None:
        async with world(node(cpu="4"), job("a", 3)) as here:
            await here.wait(5)
            for index in range(3):  # as an operator leaves them that was killed after the second call
                spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": index}
                gates = [{"name": GANG_GATE}] if index == 2 else []
                labels, least = {GANG_LABEL: "b", JOB_LABEL: "b"}, {"trainwright.dev/gang-min": "3"}
                meta = {"name": f"b-{index}", "namespace": "x", "labels": labels, "annotations": least}
                await here.submit({"kind": "Pod", "metadata": meta, "spec": {**spec, "schedulingGates": gates}})
            await here.submit(node("more", cpu="3"))
            await here.wait(5)
            assert "b-0 b-1 b-2" in await here.placed()

    run(scene())


def test_what_was_left_behind_gates_is_found():
    async def scene() -> None:
        async with world(node(cpu="4"), job("a", 3), job("b", 2)) as here:
            await here.wait(5)
            assert await left_behind(here.cluster) == ["default/b-worker-0", "default/b-worker-1"]
            assert await left_behind(here.cluster, ("elsewhere",)) == []

    run(scene())
