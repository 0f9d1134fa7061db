"""The queue of `tw serve`: who is urgent goes first, quotas are kept, and every job says why it waits."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.e2e.running import Start
from tests.e2e.served import JOBS, Served, finished, job, lines, pods

from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import Forbidden
from trainwright.core.objects import Object, at
from trainwright.core.resources import PRIORITY_CLASS, RESOURCE_QUOTA

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def server(start: Start, tmp_path: Path) -> Served:
    return Served(start, tmp_path / "serve", "--cpu", "2").start()


def asking(made: Object, cpu: str, **pod: str) -> Object:
    """Return a job whose pods ask for processors."""
    for role in made["spec"]["pytorchReplicaSpecs"].values():
        spec = role["template"]["spec"]
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        spec |= pod
    return made


async def until(check: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110 - asked as a user asks, over the API
            await asyncio.sleep(0.05)


async def why(cluster: KubernetesCluster, pod: str) -> Object:
    """Return what a pod's condition says about its place."""
    found = (await pods(cluster)).get(pod, {})
    conditions = at(found, ("status", "conditions")) or ()
    return next((each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"), {})


async def test_two_jobs_wait_and_the_more_urgent_goes_first(server: Served, start: Start, tmp_path: Path):
    ran, go = tmp_path / "ran", tmp_path / "go"
    async with server.client() as cluster:
        await cluster.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 100})
        await cluster.create(JOBS, asking(job("holds", f"until test -e {go}; do sleep 0.05; done"), "2"))
        await until(lambda: has_node(cluster, "holds-master-0"))
        await cluster.create(JOBS, asking(job("first", f"echo first >> {ran}"), "2"))
        await until(
            lambda: says(cluster, "first-master-0", "1st in the queue; one pod needs cpu 2, but 0 of 2 is free")
        )
        await cluster.create(JOBS, asking(job("urgent", f"echo urgent >> {ran}"), "2", priorityClassName="urgent"))

        await until(lambda: says(cluster, "first-master-0", "2nd in the queue behind default/urgent"))
        listed = start("ps", "--kubeconfig", str(server.kubeconfig))
        assert await asyncio.to_thread(listed.wait) == 0
        assert "2nd in the queue behind default/urgent" in "".join(listed.out)
        go.touch()
        await finished(cluster, ["holds", "first", "urgent"])

    assert lines(ran) == ["urgent", "first"]


async def test_a_quota_holds_jobs_back_and_says_what_is_used(server: Served, tmp_path: Path):
    go = tmp_path / "go"
    hard = {"requests.cpu": "1", "count/pytorchjobs.kubeflow.org": "2"}
    async with server.client() as cluster:
        await cluster.create(
            RESOURCE_QUOTA, {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": hard}}
        )
        await cluster.create(JOBS, asking(job("first", f"until test -e {go}; do sleep 0.05; done"), "1"))
        await until(lambda: has_node(cluster, "first-master-0"))
        await cluster.create(JOBS, asking(job("second", "true"), "1"))
        sentence = "the quota team of default allows requests.cpu 1, 1 is used and 1 needed"
        await until(lambda: says(cluster, "second-master-0", sentence))
        assert (await why(cluster, "second-master-0"))["reason"] == "QuotaExceeded"
        with pytest.raises(Forbidden, match="exceeded quota: team, requested: count/pytorchjobs"):
            await cluster.create(JOBS, job("third", "true"))

        async def counted() -> bool:
            quota = await cluster.get(RESOURCE_QUOTA, "default", "team")
            used: Object = at(quota, ("status", "used"))
            return used == {"requests.cpu": "1", "count/pytorchjobs.kubeflow.org": "2"}

        await until(counted)
        await asyncio.to_thread(os.mknod, go)
        assert set((await finished(cluster, ["first", "second"])).values()) == {"Succeeded"}


async def has_node(cluster: KubernetesCluster, pod: str) -> bool:
    return bool(at((await pods(cluster)).get(pod, {}), ("spec", "nodeName")))


async def says(cluster: KubernetesCluster, pod: str, words: str) -> bool:
    return words in str((await why(cluster, pod)).get("message"))
