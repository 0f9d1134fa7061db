"""The autoscaler on a cluster: what it does to the sizes of jobs, what it leaves alone, and what it tells."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.cluster import virtual
from tests.operator.scaling_world import (
    World,
    node,
    opted_out,
    pod,
    pytorch_job,
    training_job,
    volcano_job,
    world,
)

from trainwright.core.names import SCALED_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import AUTOSCALER, NODE, POD
from trainwright.placement import amounts

KINDS = [
    pytest.param(pytorch_job, id="PyTorchJob"),
    pytest.param(volcano_job, id="Volcano Job"),
    pytest.param(training_job, id="TrainingJob"),
]


def play(script: Callable[[World], Awaitable[None]], *objects: Object, **how: Any) -> None:
    """Run a script in a world of its own, in virtual time."""

    async def played() -> None:
        async with world(*objects, **how) as opened:
            await script(opened)

    virtual.run(played())


@pytest.mark.parametrize("make", KINDS)
def test_a_job_of_every_kind_grows_into_free_room(make):
    async def script(w: World) -> None:
        await w.wait()

        assert await w.sizes() == {"a": 6}
        assert await w.history("a") == ["2-6"]
        assert await w.told("a", "Scaled") == ["grows from 2 to 6: there is room for it"]

    play(script, node(), make("a", 2, 6, 2))


@pytest.mark.parametrize("make", KINDS)
def test_a_job_of_every_kind_makes_room_for_anothers_minimum(make):
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(pytorch_job("b", 3, 4, 3))
        await w.wait(60)

        assert await w.sizes() == {"a": 5, "b": 3}
        assert await w.history("a") == ["2-7", "7-5"]
        assert (await w.told("a", "Scaled"))[-1] == "shrinks from 7 to 5: job default/b's minimum of 3 is not met"

    play(script, node(), make("a", 2, 7, 2))


def test_jobs_share_fairly_shrink_for_a_newcomer_and_grow_when_one_ends():
    async def script(w: World) -> None:
        await w.wait()
        assert await w.sizes() == {"a": 6}
        await w.submit(volcano_job("b", 1, 6, 1))
        await w.wait(120)
        assert await w.sizes() == {"a": 4, "b": 4}
        await w.submit(training_job("c", 2, 6, 2))
        await w.wait(120)
        assert await w.sizes() == {"a": 3, "b": 3, "c": 2}
        await w.finish("a")
        await w.wait(120)
        assert await w.sizes() == {"a": 3, "b": 4, "c": 4}

    play(script, node(), pytorch_job("a", 1, 6, 1))


def test_nothing_is_restarted_that_stays():
    async def script(w: World) -> None:
        await w.wait()
        before = await uids(w, "a-worker-0", "a-worker-1")
        await w.submit(volcano_job("b", 3, 6, 3))
        await w.wait(120)

        assert (await w.sizes())["a"] < 6
        assert await uids(w, "a-worker-0", "a-worker-1") == before

    play(script, node(), pytorch_job("a", 2, 6, 2))


async def uids(w: World, *names: str) -> list[str]:
    return [(await w.cluster.get(POD, "default", name))["metadata"]["uid"] for name in names]


HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "mine", "namespace": "default"},
    "spec": {"scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "a"}, "maxReplicas": 4},
}
METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
]


@pytest.mark.parametrize(
    ("job", "without", "scaler", "why"),
    [
        pytest.param(
            opted_out(pytorch_job("a", 2, 4, 2)),
            (),
            None,
            'its annotation trainwright.dev/autoscale is "false"',
            id="a job that has opted out",
        ),
        pytest.param(
            pytorch_job("a", 2, 4, 2),
            ("PyTorchJob",),
            None,
            "jobs of kind PyTorchJob are not scaled here",
            id="a kind that is not scaled",
        ),
        pytest.param(
            pytorch_job("a", 2, 4, 2, metrics=METRICS),
            (),
            None,
            "its size is decided by the HorizontalPodAutoscaler a",
            id="a job with metrics, which gets a horizontal pod autoscaler",
        ),
        pytest.param(
            pytorch_job("a", 2, 4, 2),
            (),
            HPA,
            "its size is decided by the HorizontalPodAutoscaler mine",
            id="a job that somebody's horizontal pod autoscaler aims at",
        ),
    ],
)
def test_left_alone_and_said_once(job, without, scaler, why):
    async def script(w: World) -> None:
        await w.wait()

        assert await w.sizes() == {"a": 2}
        assert (await w.told("a", "NotScaled"))[-1:] == [f"the autoscaler leaves its size alone: {why}"]
        assert await w.told("a", "Scaled") == []

    async def beside(w: World) -> None:
        if scaler:
            await w.cluster.create(AUTOSCALER, scaler)
        await w.submit(job)
        await script(w)

    play(beside, node(), without=without)


def test_a_job_that_opts_in_again_is_scaled():
    async def script(w: World) -> None:
        await w.wait()
        await w.change("a", {"metadata": {"annotations": {"trainwright.dev/autoscale": None}}})
        await w.wait()

        assert await w.sizes() == {"a": 4}

    play(script, node(), opted_out(pytorch_job("a", 2, 4, 2)))


def test_jobs_that_are_left_alone_get_their_room():
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(opted_out(pytorch_job("b", 1, 5, 5)))
        await w.wait(60)

        assert await w.sizes() == {"a": 3, "b": 5}

    play(script, node(), pytorch_job("a", 1, 8, 1))


@pytest.mark.parametrize(
    ("objects", "size"),
    [
        pytest.param([node(cpu="8"), pod("web", "3")], 5, id="pods of others on a node take room"),
        pytest.param([node(cpu="8", unschedulable=True), node("m", "4")], 4, id="a cordoned node offers nothing"),
        pytest.param(
            [node(cpu="8", taints=[{"key": "gpu", "effect": "NoSchedule"}]), node("m", "4")],
            4,
            id="a node with a taint that no job tolerates offers nothing",
        ),
        pytest.param([node(cpu="3"), node("m", "3"), node("k", "500m")], 6, id="no unit is planned across nodes"),
    ],
)
def test_what_there_is_to_share(objects, size):
    async def script(w: World) -> None:
        await w.wait()

        assert await w.sizes() == {"a": size}

    play(script, *objects, pytorch_job("a", 1, 8, 1))


def test_growth_ends_at_the_load_that_is_allowed():
    async def script(w: World) -> None:
        await w.wait()

        assert await w.sizes() == {"a": 6}

    play(script, node(), pytorch_job("a", 1, 8, 1), max_load=0.8)


def test_elastic_jobs_yield_to_pods_of_others():
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(pod("web", "3"))
        await w.wait(60)

        assert await w.sizes() == {"a": 5}
        assert (await w.told("a", "Scaled"))[-1] == "shrinks from 8 to 5: pods of others wait for room"
        assert (await w.cluster.get(POD, "shop", "web"))["spec"]["nodeName"] == "n"

    play(script, node(), pytorch_job("a", 1, 8, 1))


def test_a_job_that_has_lost_its_node_shrinks_to_what_is_left():
    async def script(w: World) -> None:
        await w.wait()
        await w.cluster.patch(NODE, "", "n", {"status": {"conditions": []}}, subresource="status")
        for each in (await w.cluster.list(POD, fields="spec.nodeName=n")).items:
            await w.cluster.delete(POD, "default", each["metadata"]["name"], grace=0)
        await w.wait(60)

        assert await w.sizes() == {"a": 3}
        assert await w.history("a") == ["1-8", "8-3"]

    play(script, node(cpu="5"), node("m", "3"), pytorch_job("a", 1, 8, 1))


@pytest.mark.parametrize("make", KINDS)
def test_a_minimum_that_cannot_be_met_is_said_once(make):
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(make("b", 9, 12, 9))
        await w.wait(600)

        assert await w.told("b", "Waiting") == [
            "its minimum of 9 is not met: it needs cpu 9, but only 7 of 8 can be had",
        ]
        assert await w.sizes() == {"a": 4, "b": 9}

    play(script, node(), pytorch_job("a", 1, 4, 1))


def test_a_job_that_was_resized_rests_before_it_grows():
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(node("m", "2"))
        await w.wait(5)
        assert await w.sizes() == {"a": 3}
        await w.wait(30)

        assert await w.sizes() == {"a": 5}
        assert await w.history("a") == ["1-3", "3-5"]

    play(script, node(cpu="3"), pytorch_job("a", 1, 8, 1))


def test_a_resting_job_shrinks_at_once():
    async def script(w: World) -> None:
        await w.wait(5)
        await w.submit(pod("web", "2"))
        await w.wait(5)

        assert await w.sizes() == {"a": 6}

    play(script, node(), pytorch_job("a", 1, 8, 1))


def test_a_quiet_cluster_is_left_in_peace():
    async def script(w: World) -> None:
        await w.wait(60)
        before = [await w.job(name) for name in ("a", "b")]
        await w.wait(3600)

        assert [await w.job(name) for name in ("a", "b")] == before

    play(script, node(), pytorch_job("a", 1, 8, 1), volcano_job("b", 1, 8, 1))


class Fragile:
    """A cluster whose caller dies after its n-th write."""

    def __init__(self, cluster: Any, writes: int) -> None:
        self._cluster = cluster
        self._left = writes

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        if name not in ("create", "patch"):
            return call

        async def counted(*args: Any, **kwargs: Any) -> Any:
            if self._left <= 0:
                raise asyncio.CancelledError
            self._left -= 1
            return await call(*args, **kwargs)

        return counted


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param(0, id="before the size is written"),
        pytest.param(1, id="between the size and the event"),
        pytest.param(2, id="between the event and the history"),
        pytest.param(3, id="after the history"),
    ],
)
def test_killed_at_any_point_every_change_has_its_reason(writes):
    async def script(w: World) -> None:
        first = asyncio.create_task(w.autoscaler(Fragile(w.cluster, writes)).run())
        await w.wait()
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(w.autoscaler().run())
        await w.wait()
        second.cancel()
        await asyncio.wait([second])

        assert await w.sizes() == {"a": 4}
        assert await w.history("a") == ["2-4"]
        assert set(await w.told("a", "Scaled")) == {"grows from 2 to 4: there is room for it"}

    play(script, node(), pytorch_job("a", 2, 4, 2), scaling=False)


def test_the_history_is_bounded_and_survives_what_the_operator_writes():
    old = [{"time": "2026-03-01T11:00:00Z", "from": 2, "to": 3, "reason": f"change {n}"} for n in range(20)]

    async def script(w: World) -> None:
        await w.wait(0.5)
        await w.change("a", {"status": {"scaleHistory": old}}, subresource="status")
        await w.wait()
        await w.finish("a")
        await w.wait()
        status = (await w.job("a"))["status"]

        assert [entry["reason"] for entry in status["scaleHistory"]] == [
            *(f"change {n}" for n in range(1, 20)),
            "grows from 2 to 4: there is room for it",
        ]
        assert status["conditions"][-1]["type"] == "Succeeded"

    play(script, node(), pytorch_job("a", 2, 4, 2))


def test_a_copy_of_a_job_does_not_inherit_its_history():
    async def script(w: World) -> None:
        await w.wait()
        copied = (await w.job("a"))["metadata"]["annotations"]
        fresh = pytorch_job("b", 4, 5, 4)
        await w.submit({**fresh, "metadata": {**fresh["metadata"], "annotations": copied}})
        await w.wait(60)

        assert SCALED_ANNOTATION in copied
        assert "2-4" not in await w.history("b")

    play(script, node(), pytorch_job("a", 2, 4, 2))


class Pruning:
    """An API server whose definition of a kind does not know the field that is the size."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, resource: Any, namespace: str, name: str, patch: Object, **how: Any) -> Object:
        kept = {each: value for each, value in patch.items() if each != "spec"}
        stored: Object = await self._cluster.patch(resource, namespace, name, kept, **how)
        return stored


def test_a_size_that_is_not_kept_is_said_and_not_written_again():
    async def script(w: World) -> None:
        scaler = asyncio.create_task(w.autoscaler(Pruning(w.cluster)).run())
        await w.wait(300)
        scaler.cancel()
        await asyncio.wait([scaler])

        assert await w.sizes() == {"a": 2}
        [said] = await w.told("a", "NotScaled")
        assert await w.told("a", "Scaled") == []
        assert said.endswith(
            "elasticReplicas is not kept: the definition of Job in this cluster does not know the field"
        )

    play(script, node(), volcano_job("a", 2, 4, 2), scaling=False)


class Meddled:
    """A cluster in which somebody changes a job just before we write to it for the first time."""

    def __init__(self, cluster: Any, meddle: Callable[[], Awaitable[None]]) -> None:
        self._cluster = cluster
        self._meddle: Callable[[], Awaitable[None]] | None = meddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *args: Any, **how: Any) -> Object:
        meddle, self._meddle = self._meddle, None
        if meddle:
            await meddle()
        stored: Object = await self._cluster.patch(*args, **how)
        return stored


def test_who_changes_a_job_meanwhile_wins():
    async def script(w: World) -> None:
        out = {"metadata": {"annotations": {"trainwright.dev/autoscale": "false"}}}
        scaler = asyncio.create_task(w.autoscaler(Meddled(w.cluster, lambda: w.change("a", out))).run())
        await w.wait()
        scaler.cancel()
        await asyncio.wait([scaler])

        assert await w.sizes() == {"a": 2}
        assert await w.told("a", "Scaled") == []

    play(script, node(), pytorch_job("a", 2, 4, 2), scaling=False)


def test_a_change_that_does_not_matter_only_delays():
    async def script(w: World) -> None:
        def count() -> Awaitable[None]:
            return w.change("a", {"status": {"active": "1/2"}}, subresource="status")

        scaler = asyncio.create_task(w.autoscaler(Meddled(w.cluster, count)).run())
        await w.wait()
        scaler.cancel()
        await asyncio.wait([scaler])

        assert await w.sizes() == {"a": 4}

    play(script, node(), pytorch_job("a", 2, 4, 2), scaling=False)


def test_counts_what_it_did():
    async def script(w: World) -> None:
        await w.wait()
        await w.submit(pod("web", "6"))
        await w.wait(60)

        lines = w.measures.text().splitlines()
        assert 'trainwright_resizes_total{kind="PyTorchJob",direction="up"} 1' in lines
        assert 'trainwright_resizes_total{kind="PyTorchJob",direction="down"} 1' in lines

    play(script, node(), pytorch_job("a", 1, 4, 1))


def test_a_capacity_is_shared_where_nodes_cannot_be_seen():
    async def script(w: World) -> None:
        await w.wait()

        assert await w.sizes() == {"a": 5}
        assert await w.told("a", "Scaled") == ["grows from 1 to 5: there is room for it"]

    offered = amounts({"cpu": "5", "memory": "64Gi", "pods": "100"})
    everybody = (node("n", "64"), pytorch_job("a", 1, 10, 1), pod("web", "6"))
    play(script, *everybody, namespaces=("default",), capacity=offered)
