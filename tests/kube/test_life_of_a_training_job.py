"""A TrainingJob on a real API server, seen with the real kubectl; the tests say of its pods what a kubelet would."""

import json
from typing import Any

import pytest
from tests.kube.running import Refusal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TRAINER = {"entrypoint": "python train.py", "min-instance": 1, "max-instance": 3}


def job(**spec: Any) -> dict[str, Any]:
    wanted = {"NodeSelector": {"trainwright.dev/test": "nowhere"}, "trainer": TRAINER, **spec}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": "mnist"}, "spec": wanted}


def test_stages_start_one_after_the_other_and_only_logs_are_left(kubectl):
    kubectl.apply(job(fault_tolerant=True, pserver={"min-instance": 1}))
    kubectl.until_names("pods", "mnist-master-0")
    kubectl.move("Running", "mnist-master-0")
    kubectl.until_names("pods", "mnist-master-0", "mnist-pserver-0")
    kubectl.move("Running", "mnist-pserver-0")
    kubectl.move("Running", "mnist-trainer-0")
    kubectl.wait("tj/mnist", "jsonpath={.status.phase}=running")
    kubectl.move("Succeeded", "mnist-trainer-0")
    kubectl.wait("tj/mnist", "jsonpath={.status.phase}=succeeded")
    kubectl.until_names("pods", "mnist-trainer-0")
    kubectl.until_names("services")

    status = kubectl.get("tj/mnist")["status"]

    assert status["reason"] == "Success!"
    trainers = status["replica_statuses"][-1]
    assert (trainers["training_resource_type"], trainers["resource_states"]) == ("TRAINER", {"succeeded": 1})


def test_kubectl_scales_the_trainers_of_a_fault_tolerant_job(kubectl):
    kubectl.apply(job(fault_tolerant=True, elasticReplicas=1))
    kubectl.move("Running", "mnist-master-0")
    kubectl.until_names("pods", "mnist-master-0", "mnist-trainer-0")
    kubectl("scale", "tj/mnist", "--replicas=3")
    kubectl.until_names("pods", "mnist-master-0", "mnist-trainer-0", "mnist-trainer-1", "mnist-trainer-2")
    kubectl("scale", "tj/mnist", "--replicas=2")
    kubectl.until_names("pods", "mnist-master-0", "mnist-trainer-0", "mnist-trainer-1")

    scale = json.loads(kubectl("get", "tj/mnist", "--subresource=scale", "-o", "json"))

    assert scale["status"]["selector"] == "paddle-job=mnist"


def test_the_api_server_itself_refuses_what_cannot_be_changed(kubectl):
    kubectl.apply(job(port=7164))

    with pytest.raises(Refusal, match="field is immutable"):
        kubectl.patch("tj/mnist", {"spec": {"port": 80}})
