"""The autoscaler on a real API server, with the real scheduler, a node whose pods run, and only the rights we ship."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kube.nodes import RunningNode, pod
from tests.kube.running import Call, Kubectl, account, calls, operating, refused, until
from tests.operator.scaling_world import pytorch_job, training_job, volcano_job
from tools.kube import ControlPlane

from trainwright.core.objects import Object, at
from trainwright.kinds import kind_of
from trainwright.operator.rights import SCALING_RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

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


def stored(kubectl: Kubectl, like: Object) -> Object:
    kind = kind_of(like)
    assert kind
    found: Object = json.loads(kubectl("get", f"{kind.resource}/{like['metadata']['name']}", "-o", "json"))
    return found


def size(kubectl: Kubectl, like: Object) -> int:
    kind = kind_of(like)
    assert kind
    return int(at(stored(kubectl, like), kind.size_path))


def sleeping(job: Object) -> Object:
    """Return a job whose pods do nothing until they are told to go."""
    text = json.dumps(job).replace('["c"]', '["sleep", "1000"]').replace("python train.py", "sleep 1000")
    return {**json.loads(text), "metadata": {**job["metadata"], "namespace": "scaled"}}


def test_jobs_of_every_kind_share_a_node_and_yield_to_others(plane, scaled: Kubectl):
    for job in JOBS:
        scaled.apply(sleeping(job))
    until(lambda: sum(size(scaled, job) for job in JOBS) == 8, "the jobs use all 8 processors")
    assert sorted(size(scaled, job) for job in JOBS) == [2, 3, 3]

    container = {"resources": {"requests": {"cpu": "2"}}}
    scaled.apply(pod("web", "sleep 1000", node="one", container=container))
    scaled.wait("pod/web", "jsonpath={.status.phase}=Running")

    assert sum(size(scaled, job) for job in JOBS) == 6
    reasons = [entry["reason"] for job in JOBS for entry in stored(scaled, job)["status"]["scaleHistory"]]
    assert [reason for reason in reasons if reason.endswith(": pods of others wait for room")]
    told = scaled("get", "events", "--field-selector=reason=Scaled", "-o", "jsonpath={.items[*].message}")
    assert all(reason in told for reason in reasons)
    used = {call for call, _, _ in calls(plane)}
    assert {Call(right.group, right.resource, right.verb) for right in SCALING_RIGHTS} - used == set()
    assert not refused(plane)
