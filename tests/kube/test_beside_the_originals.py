"""Beside and after the original operators, on a real API server: their definitions, and jobs that they have begun.

The training-operator and the MPI operator are the real ones, built from their modules. Volcano's cannot be fetched so:
its definition is ours without what is ours, and what its controllers would have made is made here.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kube.nodes import Nodes, node_account
from tests.kube.running import Kubectl, RunningOperator, operating, until
from tools import originals
from tools.kube import ControlPlane, KubeError

from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object
from trainwright.kinds import VOLCANO_JOB
from trainwright.operator.crds import definition, is_ours
from trainwright.operator.keeping import OURS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SPACE = "team"


def volcano_definition() -> Object:
    """Return a definition of Volcano's Job that knows nothing of ours."""
    found = definition(VOLCANO_JOB)
    found["metadata"].pop("labels")
    for version in found["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        schema["status"]["properties"] = {
            name: value for name, value in schema["status"]["properties"].items() if (name,) not in OURS
        }
        schema["spec"]["properties"].pop("elasticReplicas")
        schema["spec"].pop("x-kubernetes-validations", None)
        version["subresources"].pop("scale")
    return found


def fetched(kind: str) -> Object:
    """Return an original definition. Where no modules can be fetched the test is skipped."""
    try:
        return originals.definition(kind)
    except (KubeError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NOTHING WAS TESTED HERE: the module with the definition cannot be fetched: {error}")


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane on which the original projects were first."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("theirs"))
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    admin = Kubectl(plane.kubeconfig)
    for crd in (fetched("PyTorchJob"), fetched("MPIJob"), volcano_definition()):
        # What they say is too long for the annotation that `kubectl apply` makes.
        admin("create", "-f", "-", stdin={name: part for name, part in crd.items() if name != "status"})
        admin.wait(f"crd/{crd['metadata']['name']}", "condition=Established")
    command = [sys.executable, "-m", "trainwright", "install", "--without=webhooks", "-o", "json"]
    printed = subprocess.run([*command, f"--kubeconfig={plane.kubeconfig}"], check=True, capture_output=True, text=True)
    admin("apply", "-f", "-", stdin=printed.stdout)
    admin("create", "namespace", SPACE)
    kubectl = Kubectl(plane.kubeconfig, SPACE)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    return kubectl


@pytest.fixture
def ours(plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> Iterator[RunningOperator]:
    with operating(plane.kubeconfig, tmp_path) as running:
        yield running


@contextlib.contextmanager
def theirs(program: Path, *flags: str, log: Path) -> Iterator[None]:
    """Run an original operator while the body runs."""
    with log.open("wb") as file:
        process = subprocess.Popen([str(program), *flags], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def pod_spec(script: str, container: str) -> Object:
    return {"spec": {"containers": [{"name": container, "image": "any", "command": ["sh", "-c", script]}]}}


def pytorch_job(name: str, script: str, workers: int = 2) -> Object:
    role = {"replicas": workers, "restartPolicy": "OnFailure", "template": pod_spec(script, "pytorch")}
    spec = {"pytorchReplicaSpecs": {"Worker": role}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def mpi_job(name: str) -> Object:
    roles = {
        "Launcher": {"replicas": 1, "template": pod_spec("true", "main")},
        "Worker": {"replicas": 2, "template": pod_spec("sleep 60", "main")},
    }
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def volcano_job(name: str) -> Object:
    tasks = [{"name": "worker", "replicas": 2, "template": pod_spec("true", "main")}]
    spec = {"minAvailable": 2, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def uids(kubectl: Kubectl, *words: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in kubectl.get("pods", *words)}


def running(kubectl: Kubectl, *pods: str) -> bool:
    phases = {each["metadata"]["name"]: each["status"].get("phase") for each in kubectl.get("pods")}
    return all(phases.get(pod) == "Running" for pod in pods)


@pytest.mark.parametrize(
    ("job", "resource", "pods"),
    [
        pytest.param(
            pytorch_job("keeps", "true"), "pytorchjobs", ["keeps-worker-0", "keeps-worker-1"], id="PyTorchJob"
        ),
        pytest.param(mpi_job("keeps"), "mpijobs", ["keeps-worker-0", "keeps-worker-1"], id="MPIJob"),
        pytest.param(
            volcano_job("keeps"), "jobs.batch.volcano.sh", ["keeps-worker-0", "keeps-worker-1"], id="Volcano Job"
        ),
    ],
)
def test_with_the_original_definition_an_annotation_has_the_record(job, resource, pods, kubectl, ours):
    kubectl.apply(job)
    until(lambda: set(pods) <= set(kubectl.names("pods")), f"{', '.join(pods)} are there")

    until(lambda: RECORD_ANNOTATION in annotations(kubectl, resource), "the record is in the annotation")
    assert "record" not in kubectl.get(resource, "keeps")["status"]
    for pod in pods:
        kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    until(lambda: set(pods) <= set(kubectl.names("pods")), "lost pods come back")
    kubectl("delete", resource, "keeps", "--cascade=foreground")
    assert not [line for line in ours.lines() if line["level"] == "error"]


def annotations(kubectl: Kubectl, resource: str) -> dict[str, str]:
    return dict(kubectl.get(resource, "keeps")["metadata"].get("annotations") or {})


def test_a_running_job_of_the_training_operator_goes_on(plane, kubectl, tmp_path):
    node_config = node_account(plane, Kubectl(plane.kubeconfig))
    gate = tmp_path / "go-on"
    script = f"until test -e {gate}; do sleep 0.1; done"
    flags = f"--kubeconfig={plane.kubeconfig}"
    with Nodes(plane, node_config, tmp_path).running("one"):
        with theirs(originals.training_operator(), flags, log=tmp_path / "theirs.log"):
            kubectl.apply(pytorch_job("begun", script))
            until(lambda: running(kubectl, "begun-worker-0", "begun-worker-1"), "their pods run")
            until(lambda: "Running" in conditions(kubectl, "begun"), "they say that it runs")
        before = uids(kubectl)

        with operating(plane.kubeconfig, tmp_path) as ours:
            until(
                lambda: any(line["message"] == "jobs of another operator are taken over" for line in ours.lines()),
                "the job is taken over",
            )
            until(lambda: active(kubectl, "begun") == 2, "both workers are seen")
            assert uids(kubectl) == before
            gate.touch()
            kubectl.wait("pytorchjob/begun", "condition=Succeeded")
            assert uids(kubectl) == before

    assert restarts(kubectl) == 0
    kubectl("delete", "pytorchjob", "begun", "--cascade=foreground")


def conditions(kubectl: Kubectl, name: str) -> list[str]:
    status = kubectl.get("pytorchjob", name).get("status") or {}
    return [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]


def active(kubectl: Kubectl, name: str) -> Any:
    return kubectl.get("pytorchjob", name)["status"]["replicaStatuses"]["Worker"].get("active")


def restarts(kubectl: Kubectl) -> int:
    return sum(each["restartCount"] for pod in kubectl.get("pods") for each in pod["status"]["containerStatuses"])


def test_adopting_keeps_the_jobs_and_brings_the_record_back(plane, kubectl, tmp_path):
    with operating(plane.kubeconfig, tmp_path):
        kubectl.apply(pytorch_job("kept", "true"))
        until(lambda: "kept-worker-0" in kubectl.names("pods"), "its pods are there")
    command = [sys.executable, "-m", "trainwright", "install", "--without=webhooks,operator", "--adopt-crds"]
    printed = subprocess.run([*command, f"--kubeconfig={plane.kubeconfig}"], check=True, capture_output=True, text=True)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=printed.stdout)
    before = uids(kubectl)

    with operating(plane.kubeconfig, tmp_path):
        kubectl.move("Running", "kept-worker-0", "kept-worker-1")
        until(lambda: "record" in kubectl.get("pytorchjob", "kept")["status"], "the status has the record")
        until(
            lambda: RECORD_ANNOTATION not in str(kubectl.get("pytorchjob", "kept")["metadata"]), "nothing else has it"
        )

    assert is_ours(kubectl.get("crd", "pytorchjobs.kubeflow.org"))
    assert uids(kubectl) == before
