"""The operator and its kind on a real API server, looked at with the real kubectl.

No node is needed: the pods stay pending, and the tests say of them what a kubelet would say. They select a node that
there is none of, so that a node of another test does not run them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kube.running import (
    Kubectl,
    Refusal,
    account,
    as_call,
    calls,
    install,
    operating,
    until,
)
from tests.kube.running import refused as refused_calls
from tools.kube import ControlPlane

from trainwright.operator.rights import REGISTER_RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def job(workers: int = 2, *, container: str = "pytorch", elastic: Any = None, **run_policy: Any) -> dict[str, Any]:
    template = {
        "spec": {
            "nodeSelector": {"trainwright.dev/test": "nowhere"},
            "containers": [{"name": container, "image": "train:1", "command": ["python", "train.py"]}],
        }
    }
    spec: dict[str, Any] = {
        "runPolicy": run_policy,
        "pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}},
    }
    if elastic is not None:
        spec["elasticPolicy"] = elastic
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist"}, "spec": spec}


def shown(kubectl: Kubectl) -> list[dict[str, str]]:
    """Return the rows of `kubectl get pytorchjobs`."""
    head, *rows = (line.split() for line in kubectl("get", "pytorchjobs").splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


def condition(kubectl: Kubectl, name: str) -> dict[str, Any]:
    conditions = kubectl.get("pytorchjob/mnist")["status"]["conditions"]
    found: dict[str, Any] = next(each for each in conditions if each["type"] == name)
    return found


def reasons(kubectl: Kubectl) -> dict[str, int]:
    """Return how often each thing was told of the job."""
    return {
        each["reason"]: each["count"] for each in kubectl.get("events") if each["involvedObject"]["name"] == "mnist"
    }


def test_a_person_sees_how_a_job_is(kubectl):
    kubectl.apply(job(2, backoffLimit=3))
    kubectl.move("Running", "mnist-worker-0")
    kubectl.wait("pytorchjob/mnist", "condition=Running")

    row = shown(kubectl)[0]

    assert (row["STATE"], row["ACTIVE"], row["RESTARTS"]) == ("Running", "1/2", "0")
    assert kubectl.names("training") == ["mnist"]


def test_restarts_are_shown(kubectl):
    kubectl.apply(job(1))
    kubectl.move("Running", "mnist-worker-0")
    kubectl.wait("pytorchjob/mnist", "condition=Running")
    kubectl.move("Failed", "mnist-worker-0", code=137)
    kubectl.wait("pytorchjob/mnist", "condition=Restarting")

    assert shown(kubectl)[0]["RESTARTS"] == "1"


def test_kubectl_explains_every_part_of_a_job(kubectl):
    said = kubectl("explain", "pytorchjob", "--recursive")

    assert {"elasticPolicy", "minReplicas", "cleanPodPolicy", "replicaStatuses"} <= set(said.split())
    assert "The fewest workers with which training goes on." in kubectl("explain", "pytorchjob.spec.elasticPolicy")
    assert "The pod template" in kubectl("explain", "pytorchjob.spec.pytorchReplicaSpecs.template")


def test_kubectl_scales_the_workers_up_and_down(kubectl):
    kubectl.apply(job(2))
    kubectl.until_names("pods", "mnist-worker-0", "mnist-worker-1")
    kubectl("scale", "pytorchjob/mnist", "--replicas=3")
    kubectl.until_names("pods", "mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    kubectl("scale", "pytorchjob/mnist", "--replicas=1", "--current-replicas=3")
    kubectl.until_names("pods", "mnist-worker-0")

    scale = json.loads(kubectl("get", "pytorchjob/mnist", "--subresource=scale", "-o", "json"))

    assert scale["spec"]["replicas"] == 1
    assert "training.kubeflow.org/replica-type=worker" in scale["status"]["selector"]


def test_a_job_cannot_be_scaled_to_nothing(kubectl):
    kubectl.apply(job(2))

    with pytest.raises(Refusal, match="should be greater than or equal to 1"):
        kubectl("scale", "pytorchjob/mnist", "--replicas=0")


def test_kubectl_waits_for_the_end_of_a_job(kubectl):
    kubectl.apply(job(2))
    kubectl.move("Running", "mnist-worker-0", "mnist-worker-1")
    kubectl.move("Succeeded", "mnist-worker-0", "mnist-worker-1")

    kubectl.wait("pytorchjob/mnist", "condition=Succeeded")

    assert shown(kubectl)[0]["STATE"] == "Succeeded"


def test_applying_again_changes_nothing_on_either_side(kubectl):
    for flags in ((), ("--server-side", "--force-conflicts", "--field-manager=team")):
        kubectl.apply(job(2), *flags)
        kubectl.until_names("pods", "mnist-worker-0", "mnist-worker-1")
        kubectl.apply(job(2), *flags)
    kubectl("diff", "-f", "-", stdin=job(2))

    with pytest.raises(Refusal, match="replicas: 3"):
        kubectl("diff", "-f", "-", stdin=job(3))
    managers = {
        each["manager"]
        for each in kubectl.get("pytorchjob/mnist", "--show-managed-fields")["metadata"]["managedFields"]
    }
    assert {"team", "trainwright"} <= managers


def test_a_suspended_job_has_nothing_and_comes_back(kubectl):
    kubectl.apply(job(1, elastic={"minReplicas": 1, "maxReplicas": 2, "metrics": [METRIC]}))
    kubectl.move("Running", "mnist-worker-0")
    kubectl.wait("pytorchjob/mnist", "condition=Running")
    kubectl.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": True}}})
    kubectl.wait("pytorchjob/mnist", "condition=Suspended")
    kubectl.until_gone("pod/mnist-worker-0", "service/mnist", "service/mnist-worker-0", "hpa/mnist")

    assert condition(kubectl, "Running")["status"] == "False"
    kubectl.patch("pytorchjob/mnist", {"spec": {"runPolicy": {"suspend": False}}})
    kubectl.until_names("pods", "mnist-worker-0")
    until(lambda: reasons(kubectl).get("SuccessfulCreatePod") == 2, "the second creation is counted")


def test_an_autoscaler_aims_at_the_scale_of_its_job_and_follows_it(kubectl):
    kubectl.apply(job(1, elastic={"minReplicas": 1, "maxReplicas": 2, "metrics": [METRIC]}))
    kubectl.wait("hpa/mnist", "jsonpath={.spec.maxReplicas}=2")
    scaler = kubectl.get("hpa/mnist")
    kubectl.patch("pytorchjob/mnist", {"spec": {"elasticPolicy": {"maxReplicas": 5}}})
    kubectl.wait("hpa/mnist", "jsonpath={.spec.maxReplicas}=5")

    assert scaler["spec"]["scaleTargetRef"] == {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "mnist"}


def test_a_service_that_was_changed_by_hand_is_put_right(kubectl):
    kubectl.apply(job(1))
    kubectl.wait("service/mnist", "jsonpath={.spec.publishNotReadyAddresses}=true")
    kubectl.patch("service/mnist", {"spec": {"publishNotReadyAddresses": False}})

    kubectl.wait("service/mnist", "jsonpath={.spec.publishNotReadyAddresses}=true")


def test_what_holds_our_names_is_left_alone(kubectl):
    mine = {"metadata": {"name": "mnist", "labels": {"mine": "yes"}}}
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "maxReplicas": 2}
    pod = {"nodeSelector": {"trainwright.dev/test": "nowhere"}, "containers": [{"name": "c", "image": "i"}]}
    kubectl.apply({"apiVersion": "v1", "kind": "Service", **mine, "spec": {"ports": [{"port": 1}]}})
    kubectl.apply({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **mine, "spec": target})
    mine["metadata"]["name"] = "mnist-worker-0"
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", **mine, "spec": pod})

    kubectl.apply(job(1, elastic={"minReplicas": 1, "maxReplicas": 2, "metrics": [METRIC]}))

    until(lambda: "NameTaken" in reasons(kubectl), "it is said that names are taken")
    assert [each["kind"] for each in kubectl.get("pods,services,hpa", "-l", "mine=yes")] == [
        "Pod",
        "Service",
        "HorizontalPodAutoscaler",
    ]


def test_a_job_that_has_ended_is_removed_in_time(kubectl):
    kubectl.apply(job(1, ttlSecondsAfterFinished=1))
    kubectl.move("Running", "mnist-worker-0")
    kubectl.move("Succeeded", "mnist-worker-0")

    kubectl.until_gone("pytorchjob/mnist", "pod/mnist-worker-0", "service/mnist")


def test_a_job_that_is_deleted_takes_everything_along(kubectl):
    kubectl.apply(job(2))
    kubectl.until_names("pods", "mnist-worker-0", "mnist-worker-1")
    kubectl("delete", "pytorchjob/mnist", "--cascade=foreground", "--timeout=30s")

    assert kubectl.names("pods,services") == []


def test_a_job_that_only_admission_would_refuse_fails_in_words(kubectl):
    kubectl.apply(job(1, container="main"))
    kubectl.wait("pytorchjob/mnist", "condition=Failed")

    said = condition(kubectl, "Failed")["message"]

    assert "spec.pytorchReplicaSpecs.Worker.template.spec.containers: one container must be named 'pytorch'" in said
    assert kubectl.names("pods,services") == []
    assert "PyTorchJobFailed" in reasons(kubectl)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        pytest.param(
            {"runPolicy": {"schedulingPolicy": {"queue": "b"}}}, "field is immutable", id="the queue cannot be changed"
        ),
        pytest.param(
            {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}},
            "field is immutable",
            id="who manages the job cannot be changed",
        ),
        pytest.param({"runPolicy": {"cleanPodPolicy": "Most"}}, "Unsupported value", id="a policy is one that exists"),
        pytest.param({"pytorchReplicaSpecs": {"Worker": {"replicas": 0}}}, "greater than or equal to 1", id="no zero"),
        pytest.param(
            {"runPolicy": {"suspended": True}}, 'unknown field "spec.runPolicy.suspended"', id="a misspelling"
        ),
    ],
)
def test_the_api_server_itself_refuses(kubectl, patch, said):
    kubectl.apply(job(1, schedulingPolicy={"queue": "a"}, managedBy="kubeflow.org/training-operator"))

    with pytest.raises(Refusal, match=said.replace("[", r"\[")):
        kubectl.apply({**job(1), "spec": merged(kubectl.get("pytorchjob/mnist")["spec"], patch)}, "--validate=strict")


def merged(before: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    below = {key: merged(before.get(key, {}), value) for key, value in patch.items() if isinstance(value, dict)}
    return {**before, **patch, **below}


def test_everything_that_is_shipped_is_accepted_without_a_warning(admin):
    printed = subprocess.run(
        [sys.executable, "-m", "trainwright", "install"], check=True, capture_output=True, text=True
    )

    admin("apply", "--dry-run=server", "-f", "-", stdin=printed.stdout)

    assert "Warning" not in admin.warnings


def test_the_operator_serves_its_metrics(kubectl, operator):
    kubectl.apply(job(1))
    kubectl.until_names("pods", "mnist-worker-0")
    until(lambda: 'phase="Created"' in operator.ask("/metrics")[1], "the job is counted")

    code, text = operator.ask("/metrics")

    assert code == 200
    for sample in (
        "trainwright_queue_depth ",
        'trainwright_queue_seconds_bucket{le="+Inf"} ',
        'trainwright_rounds_total{kind="PyTorchJob",result="done"} ',
        'trainwright_round_seconds_count{kind="PyTorchJob"} ',
        'trainwright_api_calls_total{verb="POST",code="201"} ',
        'trainwright_job_start_seconds_count{kind="PyTorchJob"} ',
    ):
        assert f"\n{sample}" in text
    assert operator.ask("/healthz") == (200, "ok\n")


def test_every_line_about_a_job_names_it(kubectl, operator):
    kubectl.apply(job(1))
    kubectl.until_names("pods", "mnist-worker-0")

    created = [line for line in operator.lines() if line["message"] == "created"]

    assert {line["kind"] for line in created if line["job"] == f"{kubectl.namespace}/mnist"} == {"PyTorchJob"}


def test_an_object_that_holds_up_its_owner_needs_the_right_we_ship(kubectl, admin):
    """The right is never called; this is what the API server does without it."""
    kubectl.apply(job(1))
    kubectl.until_names("pods", "mnist-worker-0")
    owner = kubectl.get("pytorchjob/mnist")
    reference = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "blockOwnerDeletion": True}
    reference |= {"name": "mnist", "uid": owner["metadata"]["uid"]}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "ownerReferences": [reference]}}
    kubectl("create", "role", "maker", "--verb=create,get,patch", "--resource=configmaps")
    kubectl("create", "rolebinding", "maker", "--role=maker", "--user=maker")

    with pytest.raises(Refusal, match="cannot set blockOwnerDeletion"):
        kubectl("create", "--as=maker", "-f", "-", stdin=child)


@pytest.fixture(scope="module")
def bare(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return another API server, for what would disturb the tests that share the first one."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("bare"), strict=True)
    try:
        control_plane.start(controllers=False)
        yield control_plane
    finally:
        control_plane.stop()


def test_missing_kinds_are_registered_and_what_is_there_is_left_alone(bare, tmp_path):
    admin, crd = Kubectl(bare.kubeconfig), "crd/pytorchjobs.kubeflow.org"
    admin("delete", crd, "--ignore-not-found")
    install(admin, "--install-crds")
    config = account(bare, admin)

    with operating(config, tmp_path, "--install-crds"):
        made = admin.get(crd)
    admin.patch(crd, {"spec": {"names": {"shortNames": ["ptj"]}}})
    with operating(config, tmp_path, "--install-crds"):
        left = admin.get(crd)

    assert [each["name"] for each in made["spec"]["versions"]] == ["v1"]
    assert left["spec"]["names"]["shortNames"] == ["ptj"]
    assert not refused_calls(bare)
    assert {call for call, _, _ in calls(bare)} >= {as_call(right) for right in REGISTER_RIGHTS}


def test_only_the_jobs_of_its_namespace_are_looked_after(bare, tmp_path):
    install(Kubectl(bare.kubeconfig))
    team, other = (Kubectl(bare.kubeconfig, namespace) for namespace in ("team", "other"))
    for each in (team, other):
        each("create", "namespace", each.namespace)
        each("create", "serviceaccount", "default")
        each.apply(job(1))
    with operating(account(bare, Kubectl(bare.kubeconfig)), tmp_path, "--namespace=team"):
        team.until_names("pods", "mnist-worker-0")

    assert "status" not in other.get("pytorchjob/mnist")


def test_a_signal_ends_it_in_good_order(bare, tmp_path):
    admin = Kubectl(bare.kubeconfig)
    install(admin)
    with operating(account(bare, admin), tmp_path) as running:
        assert running.stop() == 0

    said = [line["message"] for line in running.lines()]
    assert "stopping" in said
    assert said[-1] == "operator stopped"
