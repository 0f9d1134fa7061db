"""The autoscaler on a real API server, with the real scheduler, a node whose pods run, and only the rights we ship."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kube.nodes import Nodes, RunningNode, pod
from tests.kube.running import Kubectl, account, as_call, calls, operating, refused, until
from tests.operator.scaling_world import pytorch_job, training_job, volcano_job
from tools.kube import ControlPlane

from trainwright.core.objects import Object, at
from trainwright.kinds import kind_of
from trainwright.operator.rights import SCALING_RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

PATIENCE = 60
JOBS = [make(name, 1, 4, 1) for make, name in ((pytorch_job, "a"), (volcano_job, "b"), (training_job, "c"))]


@pytest.fixture
def scaled(plane: ControlPlane, admin: Kubectl, node: RunningNode, tmp_path: Path) -> Iterator[Kubectl]:
    """Return kubectl in a namespace where an operator with its autoscaler looks after jobs, on a node with 8 cpus."""
    assert node.process.poll() is None
    admin("create", "namespace", "scaled")
    kubectl = Kubectl(plane.kubeconfig, "scaled")
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    with operating(account(plane, admin), tmp_path, "--autoscaler", "--rest=2s"):
        yield kubectl
    admin("delete", "namespace", "scaled", "--wait=false")


def jobs(kubectl: Kubectl) -> dict[str, Object]:
    """Return the three jobs that share, by name."""
    found: list[Object] = json.loads(kubectl("get", "training", "-o", "json"))["items"]
    return {job["metadata"]["name"]: job for job in found if job["metadata"]["name"] in "abc"}


def sizes(kubectl: Kubectl) -> list[int]:
    """Return the sizes that were written, from the smallest to the largest."""
    kinds = [(kind_of(job), job) for job in jobs(kubectl).values()]
    return sorted(int(at(job, kind.size_path)) for kind, job in kinds if kind)


def until_sizes(kubectl: Kubectl, *wanted: int) -> None:
    until(lambda: sizes(kubectl) == [*wanted], f"the sizes are {wanted}", PATIENCE)


def sleeping(job: Object) -> Object:
    """Return a job whose pods do nothing until they are told to go."""
    text = json.dumps(job).replace('["c"]', '["sleep", "1000"]').replace("python train.py", "sleep 1000")
    return {**json.loads(text), "metadata": {**job["metadata"], "namespace": "scaled"}}


def test_jobs_of_every_kind_share_the_nodes_and_yield_to_others(plane, admin, nodes: Nodes, scaled: Kubectl):
    with nodes.running("two", "--cpu=2"):
        for job in JOBS:
            scaled.apply(sleeping(job))
        until_sizes(scaled, 3, 3, 4)  # of 8 processors on one node and 2 on the other

        scaled.apply(sleeping(pytorch_job("fourth", 3, 3, 3)))
        until_sizes(scaled, 2, 2, 3)
        scaled.wait("pod/fourth-worker-2", "jsonpath={.status.phase}=Running")

        container = {"resources": {"requests": {"cpu": "2"}}}
        scaled.apply(pod("web", "sleep 1000", node="one", container=container))
        scaled.wait("pod/web", "jsonpath={.status.phase}=Running")
        assert sizes(scaled) == [1, 2, 2]

        scaled("delete", "pod/web", "pytorchjob/fourth", "--wait=false")
        until_sizes(scaled, 3, 3, 4)
        told = [entry["reason"] for job in jobs(scaled).values() for entry in job["status"]["scaleHistory"]]
        scaled("delete", "training", "--all", "--cascade=foreground")
    admin("delete", "node", "two")

    for why in (
        ": there is room for it",
        ": job scaled/fourth's minimum of 3 is not met",
        ": pods of others wait for room",
    ):
        assert any(reason.endswith(why) for reason in told), why
    events = scaled("get", "events", "--field-selector=reason=Scaled", "-o", "jsonpath={.items[*].message}")
    assert all(reason in events for reason in told)
    used = {call for call, _, _ in calls(plane)}
    assert {as_call(right) for right in SCALING_RIGHTS} - used == set()
    assert not refused(plane)
