"""`tw why` on a real API server, for what only a cluster can do: quotas, claims, images, evictions, nodes that go."""

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.e2e.situations import asking, container, torch
from tests.kube.nodes import Nodes, RunningNode, pod
from tests.kube.running import SECONDS, Kubectl, until

from trainwright.core.objects import Object

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

ON_ONE = {"nodeSelector": {"kubernetes.io/hostname": "one"}}


def why(kubectl: Kubectl, job: str) -> dict[str, Any]:
    """Return the verdict about a job, as a user of the cluster gets it."""
    command = [sys.executable, "-m", "trainwright", "why", job, f"--kubeconfig={kubectl.kubeconfig}"]
    done = subprocess.run(
        [*command, f"--namespace={kubectl.namespace}", "-o", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def until_why(kubectl: Kubectl, job: str, situation: str) -> str:
    """Wait until a job is in a situation, and return the sentence about it."""
    said: dict[str, Any] = {}

    def asked() -> bool:
        said.update(why(kubectl, job))
        return bool(said["situation"] == situation)

    try:
        until(asked, f"{job} is {situation}", SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}; {said}") from None
    return str(said["sentence"])


def apply(kubectl: Kubectl, job: Object) -> None:
    kubectl.apply({**job, "metadata": {**job["metadata"], "namespace": kubectl.namespace}})


def says(kubectl: Kubectl, pod: str, **status: Any) -> None:
    """Say of a pod what a kubelet would say."""
    kubectl("wait", "--for=create", f"pod/{pod}", f"--timeout={SECONDS}s")
    kubectl.patch(f"pod/{pod}", {"status": status}, "--subresource=status")


def test_a_quota_that_is_used_up(kubectl: Kubectl):
    kubectl("create", "quota", "small", "--hard=pods=0")
    until(lambda: "used" in kubectl.get("quota/small")["status"], "the quota counts")
    apply(kubectl, torch("many"))

    assert until_why(kubectl, "many", "over-quota") == (
        "many waits for its quota: small allows no more (requested: pods=1, used: pods=0, limited: pods=0)"
    )


def test_a_pod_that_the_api_refuses(kubectl: Kubectl):
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    meta = {"name": "tight"}
    kubectl.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}})
    apply(kubectl, torch("wide", **asking(cpu="2")))

    said = until_why(kubectl, "wide", "not-created")

    assert said.startswith("wide cannot make its Pod wide-master-0: ")
    assert "maximum cpu usage per Container is 1, but limit is 2" in said


def test_a_claim_without_a_volume(kubectl: Kubectl):
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    apply(kubectl, torch("reads", pod={"volumes": [volume]}))
    assert until_why(kubectl, "reads", "unbound-claim") == (
        "reads waits for a volume: the claim data that master-0 needs is not there"
    )

    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    kubectl.apply(claim)
    sentence = "reads waits for a volume: the claim data of class fast that master-0 needs is Pending"
    until(lambda: why(kubectl, "reads")["sentence"] == sentence, sentence)


def test_an_image_that_cannot_be_pulled(kubectl: Kubectl):
    apply(kubectl, torch("pulls", pod={"nodeName": "elsewhere"}))
    waiting = {"reason": "ErrImagePull", "message": "manifest for any:1 not found"}
    container = {"name": "pytorch", "image": "any:1", "imageID": "", "ready": False, "restartCount": 0}
    says(kubectl, "pulls-master-0", containerStatuses=[{**container, "state": {"waiting": waiting}}])

    assert until_why(kubectl, "pulls", "no-image") == (
        "pulls waits for its image: master-0 cannot pull any:1 (ErrImagePull)"
    )


def test_nodes_that_keep_a_pod_away(kubectl: Kubectl, node: RunningNode):
    assert node.process.poll() is None
    apply(kubectl, torch("picky", pod={"nodeSelector": {"disk": "ssd"}}))
    wish = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [wish]}}
    apply(kubectl, torch("choosy", pod={"affinity": affinity}))

    assert "node one has not the label disk=ssd" in until_why(kubectl, "picky", "kept-away")
    said = until_why(kubectl, "choosy", "unplaced")
    assert "didn't match pod affinity rules" in said


def test_a_pod_that_was_evicted(kubectl: Kubectl):
    apply(kubectl, torch("low", pod={"nodeName": "elsewhere"}))
    says(kubectl, "low-master-0", phase="Failed", reason="Evicted", message="The node was low on resource: memory.")

    assert until_why(kubectl, "low", "evicted") == (
        "low failed: low-master-0 was evicted: The node was low on resource: memory."
    )


def test_a_pod_that_made_room_for_one_of_higher_priority(kubectl: Kubectl, nodes: Nodes):
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    kubectl.apply({**urgent, "value": 1000})
    with nodes.running("small", "--cpu=4"):
        here = {"nodeSelector": {"kubernetes.io/hostname": "small"}}
        apply(kubectl, torch("calm", pod=here, **asking(cpu="3")))
        kubectl.wait("pod/calm-master-0", "jsonpath={.status.phase}=Running")
        more = {"priorityClassName": "urgent", "container": asking(cpu="3")}
        kubectl.apply(pod("hurry", "sleep 1000", node="small", **more))
        kubectl.wait("pod/hurry", "jsonpath={.status.phase}=Running")

        assert until_why(kubectl, "calm", "no-room") == (
            "calm waits for cpu: calm-master-0 needs 3, and 1 of 4 is free on node small: 2 too little; "
            "pod hurry holds 3"
        )
        assert any(
            "calm-master-0, " in line and "Preempted by pod" in line for line in why(kubectl, "calm")["evidence"]
        )


def test_a_node_that_stops(kubectl: Kubectl, nodes: Nodes):
    with nodes.running("leaves") as node:
        apply(kubectl, torch("rides", pod={"nodeSelector": {"kubernetes.io/hostname": "leaves"}}))
        kubectl.wait("pod/rides-master-0", "jsonpath={.status.phase}=Running")
        node.stop()

    assert until_why(kubectl, "rides", "node-lost") == (
        "rides failed: rides-master-0 was lost with node leaves (ended because its node stops)"
    )


def test_a_manifest_that_no_webhook_has_seen(kubectl: Kubectl):
    apply(kubectl, torch("wrong", pod={"containers": [container("true", name="main")]}))

    said = until_why(kubectl, "wrong", "refused")

    assert said.startswith("wrong was refused: spec.pytorchReplicaSpecs.Master.template.spec.containers: ")


def test_a_job_that_trains_and_one_that_fails(kubectl: Kubectl, node: RunningNode):
    assert node.process.poll() is None
    apply(kubectl, torch("fine", "echo begin; sleep 1000", workers=1, pod=ON_ONE))
    apply(kubectl, torch("bad", "echo no data; exit 3", pod=ON_ONE))

    assert until_why(kubectl, "bad", "exited") == "bad failed: bad-master-0 exited with code 3"
    assert "| no data" in why(kubectl, "bad")["evidence"]
    assert until_why(kubectl, "fine", "well").startswith("fine is running well: 2 of 2 ranks")
