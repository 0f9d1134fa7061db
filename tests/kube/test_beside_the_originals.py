"""Beside and after the original operators, on a real API server: their definitions, and jobs that they have begun.

The training-operator and the MPI operator are the real ones, built from their modules. Volcano's cannot be fetched so:
its definition is ours without what is ours, and what its controllers would have made is made here.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.kube.nodes import Nodes, node_account
from tests.kube.running import Kubectl, Refusal, RunningOperator, account, operating, refused, until
from tools import originals
from tools.kube import ControlPlane, KubeError

from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object, owner_reference
from trainwright.kinds import TRAINING_JOB, VOLCANO_JOB, Kind
from trainwright.operator.configurations import Webhooks, configurations
from trainwright.operator.crds import definition, is_ours
from trainwright.operator.keeping import OURS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SPACE = "team"


def without_ours(kind: Kind) -> Object:
    """Return a definition that knows nothing of ours, as that of the kind's original project does not."""
    found = definition(kind)
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
    """Return an original definition."""
    try:
        return originals.definition(kind)
    except (KubeError, subprocess.CalledProcessError):
        missing(f"the definition of {kind}")


def program(wanted: originals.Program) -> Path:
    """Return an original operator."""
    if not wanted.path.is_file():
        missing(f"the {wanted.name}")
    return wanted.path


def missing(what: str) -> NoReturn:
    """End a test for want of something. CI fails then; elsewhere the test is skipped."""
    words = f"{what} is not there; `python -m tools.originals` brings it"
    if os.environ.get("CI") == "true":
        pytest.fail(words, pytrace=False)
    pytest.skip(f"NOTHING WAS TESTED HERE: {words}")


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane on which the original projects were first."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("theirs"), strict=True)
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    admin = Kubectl(plane.kubeconfig)
    for crd in (fetched("PyTorchJob"), fetched("MPIJob"), without_ours(VOLCANO_JOB), without_ours(TRAINING_JOB)):
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


@pytest.fixture(scope="module")
def rights(plane: ControlPlane, kubectl: Kubectl) -> Iterator[Path]:
    """Return a kubeconfig with the rights we ship; at the end nothing may have been refused."""
    yield account(plane, Kubectl(plane.kubeconfig))
    assert not refused(plane)


@pytest.fixture
def ours(rights: Path, tmp_path: Path) -> Iterator[RunningOperator]:
    with operating(rights, tmp_path) as running:
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


def unscheduled(template: Object) -> Object:
    """Return a template whose pods nobody runs: the test says how they go."""
    return {"spec": {**template["spec"], "schedulerName": "nobody"}}


def pytorch_job(name: str, script: str, workers: int = 2) -> Object:
    role = {"replicas": workers, "restartPolicy": "OnFailure", "template": pod_spec(script, "pytorch")}
    spec = {"pytorchReplicaSpecs": {"Worker": role}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def mpi_job(name: str, script: str = "true") -> Object:
    roles = {
        "Launcher": {"replicas": 1, "template": pod_spec(script, "main")},
        "Worker": {"replicas": 2, "template": pod_spec("sleep 600", "main")},
    }
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def volcano_job(name: str, **more: Any) -> Object:
    tasks = [{"name": "worker", "replicas": 2, "template": pod_spec("true", "main")}]
    spec = {"minAvailable": 2, "tasks": tasks, **more}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def training_job(name: str) -> Object:
    template = {"entrypoint": "true", "min-instance": 2, "max-instance": 2}
    spec = {"image": "any", "trainer": template}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


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
        pytest.param(training_job("keeps"), "trainingjobs", ["keeps-trainer-0", "keeps-trainer-1"], id="TrainingJob"),
    ],
)
def test_with_the_original_definition_an_annotation_has_the_record(job, resource, pods, kubectl, ours):
    kubectl.apply(job)
    until(lambda: set(pods) <= set(kubectl.names("pods")), f"{', '.join(pods)} are there")

    until(lambda: RECORD_ANNOTATION in annotations(kubectl, f"{resource}/keeps"), "the record is in the annotation")
    assert "record" not in kubectl.get(resource, "keeps")["status"]
    for pod in pods:
        kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    until(lambda: set(pods) <= set(kubectl.names("pods")), "lost pods come back")
    kubectl("delete", resource, "keeps", "--cascade=foreground")
    assert not [line for line in ours.lines() if line["level"] == "error"]


def test_a_size_that_cannot_be_stored_is_refused(kubectl, ours):
    kubectl.apply(volcano_job("sized"))
    until(lambda: RECORD_ANNOTATION in annotations(kubectl, "jobs.batch.volcano.sh/sized"), "it is looked after")

    command = [sys.executable, "-m", "trainwright", "scale", "sized", "1", f"--namespace={SPACE}"]
    done = subprocess.run([*command, f"--kubeconfig={kubectl.kubeconfig}"], check=False, capture_output=True, text=True)

    assert done.returncode == 1
    assert "sized keeps its size: the cluster's definition of Job is not ours" in done.stderr
    kubectl("delete", "jobs.batch.volcano.sh", "sized", "--cascade=foreground")


def annotations(kubectl: Kubectl, name: str) -> dict[str, str]:
    return dict(kubectl.get(name)["metadata"].get("annotations") or {})


@pytest.fixture(scope="module")
def node(plane: ControlPlane, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run a node on which pods are processes."""
    folder = tmp_path_factory.mktemp("nodes")
    with Nodes(plane, node_account(plane, Kubectl(plane.kubeconfig)), folder).running("one"):
        yield


def waiting_for(gate: Path) -> str:
    return f"until test -e {gate}; do sleep 0.1; done"


def until_taken_over(ours: RunningOperator) -> None:
    said = "jobs of another operator are taken over"
    until(lambda: any(line["message"] == said for line in ours.lines()), "the job is taken over")


def test_a_running_job_of_the_training_operator_goes_on(plane, rights, kubectl, node, tmp_path):
    gate = tmp_path / "go-on"
    flags = f"--kubeconfig={plane.kubeconfig}"
    with theirs(program(originals.TRAINING_OPERATOR), flags, log=tmp_path / "theirs.log"):
        kubectl.apply(pytorch_job("begun", waiting_for(gate)))
        until(lambda: running(kubectl, "begun-worker-0", "begun-worker-1"), "their pods run")
        until(lambda: "Running" in conditions(kubectl, "pytorchjob/begun"), "they say that it runs")
    before = uids(kubectl)

    with operating(rights, tmp_path) as ours:
        until_taken_over(ours)
        until(lambda: active(kubectl, "begun") == 2, "both workers are seen")
        assert uids(kubectl) == before
        gate.touch()
        kubectl.wait("pytorchjob/begun", "condition=Succeeded")
        assert uids(kubectl) == before

    assert restarts(kubectl) == 0
    kubectl("delete", "pytorchjob", "begun", "--cascade=foreground")


def test_a_running_job_of_the_mpi_operator_goes_on(plane, rights, kubectl, node, tmp_path):
    gate = tmp_path / "go-on"
    flags = (f"-kubeConfig={plane.kubeconfig}", f"-lock-namespace={SPACE}", "-kube-api-qps=50", "-kube-api-burst=50")
    with theirs(program(originals.MPI_OPERATOR), *flags, log=tmp_path / "theirs.log"):
        kubectl.apply(mpi_job("begun", waiting_for(gate)))
        until(lambda: len(uids(kubectl)) == 3, "workers and launcher are there", 60)
        until(lambda: running(kubectl, *uids(kubectl)), "their pods run", 60)
        until(lambda: "Running" in conditions(kubectl, "mpijob/begun"), "they say that it runs")
    before, launcher = uids(kubectl), kubectl.get("job.batch", "begun-launcher")["metadata"]["uid"]

    with operating(rights, tmp_path) as ours:
        until_taken_over(ours)
        until(lambda: RECORD_ANNOTATION in annotations(kubectl, "mpijob/begun"), "it is looked after")
        assert uids(kubectl) == before
        gate.touch()
        kubectl.wait("mpijob/begun", "condition=Succeeded")

    assert kubectl.get("job.batch", "begun-launcher")["metadata"]["uid"] == launcher
    assert uids(kubectl).items() <= before.items()
    kubectl("delete", "mpijob", "begun", "--cascade=foreground")


def test_a_running_job_as_volcanos_controllers_make_it_goes_on(rights, kubectl, tmp_path):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    volume = {"mountPath": "/data", "volumeClaimName": "begun-data", "volumeClaim": claim}
    kubectl.apply(volcano_job("begun", volumes=[volume]))
    job = kubectl.get("jobs.batch.volcano.sh", "begun")
    named = {"name": "begun-data", "ownerReferences": [owner_reference(job)]}
    kubectl.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": named, "spec": claim})
    for index in (0, 1):
        kubectl.apply(volcanos_pod(job, index))
    status = {"state": {"phase": "Running"}, "running": 2, "minAvailable": 2}
    kubectl.patch("jobs.batch.volcano.sh/begun", {"status": status}, "--subresource=status")
    pods = ("begun-worker-0", "begun-worker-1")
    kubectl.move("Running", *pods)
    before = uids(kubectl)

    with operating(rights, tmp_path) as ours:
        until_taken_over(ours)
        until(lambda: RECORD_ANNOTATION in annotations(kubectl, "jobs.batch.volcano.sh/begun"), "it is looked after")
        assert kubectl.get("jobs.batch.volcano.sh", "begun")["status"]["state"]["phase"] == "Running"
        kubectl.move("Succeeded", *pods)
        kubectl.wait("jobs.batch.volcano.sh/begun", "jsonpath={.status.state.phase}=Completed")

    assert uids(kubectl) == before
    kubectl("delete", "jobs.batch.volcano.sh", "begun", "--cascade=foreground")


def volcanos_pod(job: Object, index: int) -> Object:
    """Return a pod of the task "worker" as Volcano's job controller makes it."""
    told = {
        "volcano.sh/job-name": "begun",
        "volcano.sh/job-namespace": SPACE,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
        "volcano.sh/queue-name": "default",
    }
    owner = owner_reference(job)
    meta = {"name": f"begun-worker-{index}", "labels": told, "annotations": told, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **unscheduled(pod_spec("true", "main"))}


def conditions(kubectl: Kubectl, name: str) -> list[str]:
    status = kubectl.get(name).get("status") or {}
    return [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]


def active(kubectl: Kubectl, name: str) -> Any:
    return kubectl.get("pytorchjob", name)["status"]["replicaStatuses"]["Worker"].get("active")


def restarts(kubectl: Kubectl) -> int:
    return sum(each["restartCount"] for pod in kubectl.get("pods") for each in pod["status"]["containerStatuses"])


def test_writing_the_record_asks_no_webhook(kubectl):
    kubectl.apply(pytorch_job("asked", "true"))
    hooks = list(configurations(Webhooks(namespace="trainwright-system", url="https://127.0.0.1:1")))
    try:
        for each in hooks:
            kubectl("apply", "-f", "-", stdin=each)
        until(lambda: is_refused(kubectl, "example.com/note=a"), "the webhook that nobody answers is asked about jobs")
        assert not is_refused(kubectl, f"{RECORD_ANNOTATION}=a")
        assert not is_refused(kubectl, f"{RECORD_ANNOTATION}=b")
        assert not is_refused(kubectl, f"{RECORD_ANNOTATION}-")
        assert is_refused(kubectl, "example.com/note=b")
    finally:
        for each in hooks:
            Kubectl(kubectl.kubeconfig)("delete", each["kind"], each["metadata"]["name"])
    kubectl("delete", "pytorchjob", "asked", "--cascade=foreground")


def is_refused(kubectl: Kubectl, change: str) -> bool:
    """Say whether an annotation of the job cannot be changed."""
    try:
        kubectl("annotate", "--overwrite", "pytorchjob/asked", change)
    except Refusal as refusal:
        return "webhook" in str(refusal)
    return False


def test_adopting_keeps_the_jobs_and_brings_the_record_back(plane, rights, kubectl, tmp_path):
    with operating(rights, tmp_path):
        job = pytorch_job("kept", "true")
        worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
        worker["template"] = unscheduled(worker["template"])
        kubectl.apply(job)
        until(lambda: "kept-worker-0" in kubectl.names("pods"), "its pods are there")
    command = [sys.executable, "-m", "trainwright", "install", "--without=webhooks,operator", "--adopt-crds"]
    printed = subprocess.run([*command, f"--kubeconfig={plane.kubeconfig}"], check=True, capture_output=True, text=True)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=printed.stdout)
    before = uids(kubectl)

    with operating(rights, tmp_path):
        kubectl.move("Running", "kept-worker-0", "kept-worker-1")
        until(lambda: "record" in kubectl.get("pytorchjob", "kept")["status"], "the status has the record")
        until(
            lambda: RECORD_ANNOTATION not in str(kubectl.get("pytorchjob", "kept")["metadata"]), "nothing else has it"
        )

    assert is_ours(kubectl.get("crd", "pytorchjobs.kubeflow.org"))
    assert uids(kubectl) == before
