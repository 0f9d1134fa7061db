"""`tw install` and `tw uninstall` against a real API server: what others have brought stays, what is ours goes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kube.nodes import Nodes, node_account
from tests.kube.running import Kubectl, Refusal, until
from tools.kube import ControlPlane

from trainwright.kinds import KINDS, PYTORCH_JOB, kind_of
from trainwright.operator.crds import definition

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PYTORCH = "pytorchjobs.kubeflow.org"
OURS = "app.kubernetes.io/name=trainwright"


@pytest.fixture(scope="module")
def bare(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return an API server of these tests' own: they install and remove what others rely on."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("bare"))
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def kubectl(bare: ControlPlane) -> Kubectl:
    return Kubectl(bare.kubeconfig)


def tw(kubectl: Kubectl, *words: str) -> tuple[str, str]:
    """Return what a command prints about the cluster, and what it says beside it."""
    command = [sys.executable, "-m", "trainwright", *words, f"--kubeconfig={kubectl.kubeconfig}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def install(kubectl: Kubectl, *flags: str) -> str:
    printed, said = tw(kubectl, "install", *flags)
    kubectl("apply", "-f", "-", stdin=printed)
    for kind in KINDS:
        kubectl("wait", "--for=condition=Established", f"crd/{kind.resource}", "--timeout=30s")
    return said


@pytest.fixture(scope="module")
def installed(kubectl: Kubectl) -> str:
    """Return what was said when everything was installed that needs no operator to answer."""
    return install(kubectl, "--without=webhooks")


CONTAINER = {"name": "pytorch", "image": "i", "command": ["sleep", "600"]}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def job(kind: str, spec: Any, version: str = "kubeflow.org/v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "mnist"}, "spec": spec}


def pytorch(replicas: int | None = None, **elastic: int) -> dict[str, Any]:
    worker = {"template": TEMPLATE, **({"replicas": replicas} if replicas else {})}
    return job("PyTorchJob", {"elasticPolicy": elastic, "pytorchReplicaSpecs": {"Worker": worker}})


def training(fewest: int, most: int, **spec: Any) -> dict[str, Any]:
    trainer = {"entrypoint": "python train.py", "min-instance": fewest, "max-instance": most}
    return job("TrainingJob", {"trainer": trainer, **spec}, "paddlepaddle.org/v1")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(pytorch(minReplicas=4, maxReplicas=2), id="an elastic job whose bounds cross"),
        pytest.param(training(3, 2), id="trainers whose bounds cross"),
        pytest.param(pytorch(5, minReplicas=1, maxReplicas=2), id="an elastic job that is too large"),
        pytest.param(pytorch(1, minReplicas=2, maxReplicas=3), id="an elastic job that is too small"),
        pytest.param(training(1, 2, fault_tolerant=True, elasticReplicas=3), id="too many trainers"),
        pytest.param(training(2, 3, fault_tolerant=True, elasticReplicas=1), id="too few trainers"),
        pytest.param(
            job("MPIJob", {"slotsPerWorker": 1}, "kubeflow.org/v2beta1"), id="an MPIJob that does not say its size"
        ),
        pytest.param(
            job("MPIJob", {"gpus": 8, "replicas": 2, "template": TEMPLATE}, "kubeflow.org/v1alpha1"),
            id="an MPIJob that says it twice",
        ),
    ],
)
def test_an_api_server_refuses_in_the_words_of_lint(kubectl, installed, wrong):
    kind = kind_of(wrong)
    assert kind
    problem = kind.check(wrong, None)[0]

    with pytest.raises(Refusal) as refusal:
        kubectl.apply(wrong, "--dry-run=server")

    said = re.sub(r"\[(\w+)\]", r".\1", str(refusal.value))  # so it writes keys of a map
    assert problem.path in said
    assert problem.message in said


@pytest.mark.parametrize(
    "right",
    [
        pytest.param(pytorch(minReplicas=2, maxReplicas=2), id="bounds that meet"),
        pytest.param(pytorch(2, minReplicas=1, maxReplicas=2), id="the largest size there is"),
        pytest.param(training(1, 2, fault_tolerant=True, elasticReplicas=2), id="as many trainers as there may be"),
        pytest.param(training(2, 2), id="trainers of a fixed number"),
    ],
)
def test_what_goes_together_is_accepted(kubectl, installed, right):
    kubectl.apply(right, "--dry-run=server")


def test_scaling_beyond_the_bounds_is_refused_where_no_webhook_is_asked(kubectl, installed):
    kubectl.apply(pytorch(1, minReplicas=1, maxReplicas=2))

    with pytest.raises(Refusal, match=r"5 is more than maxReplicas \(2\); lower it"):
        kubectl("scale", "pytorchjob/mnist", "--replicas=5")


def test_what_was_installed_is_ours_and_installing_again_changes_nothing(kubectl, installed):
    printed, said = tw(kubectl, "install", "--without=webhooks")

    kubectl("diff", "-f", "-", stdin=printed)

    assert said == ""
    assert "is ours already" in tw(kubectl, "install", "--plan")[0]


def test_a_kind_with_jobs_is_not_deleted(kubectl, installed):
    kubectl.apply(pytorch(minReplicas=1, maxReplicas=2))

    printed, said = tw(kubectl, "uninstall", "-o", "json")
    forced, _ = tw(kubectl, "uninstall", "--force", "-o", "json")

    assert f"{PYTORCH} stays: 1 stored under it (default/mnist) would be deleted with it" in said
    assert names(printed) == names(forced) - {PYTORCH}


def names(printed: str) -> set[str]:
    found = [each for each in json.loads(printed)["items"] if each["kind"] == "CustomResourceDefinition"]
    return {each["metadata"]["name"] for each in found}


@pytest.fixture
def theirs(kubectl: Kubectl, installed: str) -> Iterator[None]:
    """Let another project's definition be there, with a job: one version, whatever fields."""
    kubectl("delete", f"crd/{PYTORCH}")
    ours = definition(PYTORCH_JOB)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    brought = {**ours, "metadata": {"name": PYTORCH}, "spec": {**ours["spec"], "versions": [version]}}
    kubectl.apply(brought)
    kubectl("wait", "--for=condition=Established", f"crd/{PYTORCH}", "--timeout=30s")
    kubectl.apply(pytorch(minReplicas=1, maxReplicas=2))
    yield
    kubectl("delete", f"crd/{PYTORCH}")
    install(kubectl, "--without=webhooks")


def test_what_another_project_has_brought_is_left_alone(kubectl, theirs):
    said = install(kubectl, "--without=webhooks")
    printed, _ = tw(kubectl, "install", "--plan")

    assert f"{PYTORCH} is left alone" in said
    assert len(kubectl.get(f"crd/{PYTORCH}")["spec"]["versions"][0]) == 4
    assert "is somebody else's (v1); it is left alone" in printed
    assert "1 job, 1 not ended: default/mnist" in printed


def test_it_is_adopted_when_asked_and_its_jobs_stay(kubectl, theirs):
    install(kubectl, "--adopt-crds", "--without=webhooks")

    assert "additionalPrinterColumns" in kubectl.get(f"crd/{PYTORCH}")["spec"]["versions"][0]
    assert kubectl.names("training") == ["mnist"]


def test_a_namespace_that_is_there_is_left_as_it_is(kubectl):
    kubectl("create", "namespace", "theirs")

    printed, said = tw(kubectl, "install", "--namespace=theirs", "-o", "json")

    assert "the namespace theirs is there already and left as it is" in said
    assert not [each for each in json.loads(printed)["items"] if each["kind"] == "Namespace"]


def test_what_is_installed_runs_and_goes_on_when_its_leader_is_gone(bare, kubectl, installed, tmp_path, monkeypatch):
    """The Deployment as it is printed, on a node whose pods are processes."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    home, team = (Kubectl(bare.kubeconfig, namespace) for namespace in ("trainwright-system", "team"))
    team("create", "namespace", "team")
    with Nodes(bare, node_account(bare, kubectl), tmp_path).running("one"):
        home("rollout", "status", "deployment/trainwright", "--timeout=60s")
        team.apply(pytorch(minReplicas=1, maxReplicas=2))
        team("wait", "--for=create", "pod/mnist-worker-0", "--timeout=30s")

        first = leader(home)
        home("delete", f"pod/{first}", "--wait=false")
        until(lambda: leader(home) not in ("", first), "another one leads")
        team("scale", "pytorchjob/mnist", "--replicas=2")
        team("wait", "--for=create", "pod/mnist-worker-1", "--timeout=30s")


def leader(kubectl: Kubectl) -> str:
    """Return the pod that leads."""
    holder: str = kubectl.get("lease/trainwright")["spec"].get("holderIdentity") or ""
    return next((name for name in kubectl.names("pods") if holder.startswith(name)), "")


def test_nothing_of_ours_is_left(kubectl, installed):
    """Removes what the other tests need, so it stands last."""
    printed, _ = tw(kubectl, "uninstall", "--force")

    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=printed)

    kinds = "crd,clusterrole,clusterrolebinding,validatingwebhookconfiguration,mutatingwebhookconfiguration"
    until(lambda: kubectl.names(kinds, "-l", OURS) == [], "nothing of the cluster's is left")
    kubectl.until_gone("namespace/trainwright-system")
    spaced = "deployment,service,serviceaccount,role,rolebinding,poddisruptionbudget,secret"
    assert kubectl.names(spaced, "-A", "-l", OURS) == []
