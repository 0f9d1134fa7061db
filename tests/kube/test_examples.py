"""Every example manifest on a real Kubernetes: applied with kubectl as it stands, trained with its real framework.

Nodes whose pods are processes pull no images. What an image would bring is on the PATH of its pods instead: a policy of
the API server puts it there by the image's name, so that the manifests need no change. Several jobs train at once, each
in a namespace of its own, and an autoscaler gives the elastic ones what is free.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.conftest import ROOT, Framework
from tests.kube.nodes import Nodes, RunningNode
from tests.kube.running import Kubectl, account, operating
from tools.kube import ControlPlane

from trainwright.core.objects import Object
from trainwright.kinds import KINDS, kind_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

AT_ONCE = 4
PATIENCE = 300
IMAGES = {
    "pytorch-examples:2.13.0": ("torch",),
    "tensorflow-examples:2.21.0": ("tensorflow",),
    "mxnet-examples:1.9.1": ("mxnet",),
    "rayproject/ray:latest-py311-cpu": ("ray",),
    "paddlepaddle/paddle:3.3.1": ("paddle",),
    "paddlepaddle/paddle:2.6.2": ("paddle-ps",),
    "mpi-examples:5.0.11": ("openmpi5",),
    "mpi-examples:5": ("openmpi5", "sshd"),
    "mpi-examples:5.0.2": ("mpich", "sshd"),
}
"""What the images of the examples hold, besides what the node has: Python."""
POLICY = "images-bring-their-programs"
ENDS = {
    "PyTorchJob": "condition=Succeeded",
    "MPIJob": "condition=Succeeded",
    "Job": "jsonpath={.status.state.phase}=Completed",
    "TrainingJob": "jsonpath={.status.phase}=succeeded",
}
COLUMNS = {
    "PyTorchJob": "STATE=Succeeded ACTIVE=0/",
    "MPIJob": "STATE=Succeeded ACTIVE=0/",
    "Job": "STATUS=Completed RUNNINGS=0",
    "TrainingJob": "STATE=succeeded WANTED=",
}
"""By which words of `kubectl get` a user sees that a job has ended well."""

LAST_STEP = r"^(\S+) step 20 rank (\d) loss \S+ world \d$"
LOSS = r"^(\S+) rank (\d) final loss "
EXAMPLES = {
    "volcano/ray": (r"^submit-0 rank \d ran on ray-cluster-job-(\S+)$", "head-0, worker-0, worker-1"),
    "elastic/volcano": (r"^worker-\d (done shares \d+) ", "done shares 300"),
    "volcano/tensorflow-ps": (LOSS, "chief-0 0"),
    "volcano/tensorflow-workers": (LOSS, "worker-0 0, worker-1 1"),
    "elastic/training-job": (r"^trainer-\d (done shares \d+) ", "done shares 300"),
    "elastic/pytorch": (r" (done steps \d+) ", "done steps 300"),
    "pytorch/static": (LAST_STEP, "master-0 0, worker-0 1, worker-1 2, worker-2 3"),
    "paddle/fault-tolerant": (r"^(trainer-[01]) rank \d final loss ", "trainer-0, trainer-1"),
    "paddle/parameter-server": (LOSS, "trainer-0 0, trainer-1 1"),
    "paddle/collective": (LOSS, "trainer-0 0, trainer-1 1"),
    "volcano/pytorch": (LAST_STEP, "master-0 0, worker-0 1, worker-1 2"),
    "volcano/mxnet": (r"^worker-\d rank (\d) final loss ", "0, 1"),
    "volcano/mpi": (
        r"^mpimaster-0 rank (\d) of 4 on mpi-job-mpi(\S+): sum 6$",
        "0 worker-0, 1 worker-0, 2 worker-1, 3 worker-1",
    ),
    "mpi/train": (r"^launcher-\w+ rank (\d) final loss ", "0, 1, 2, 3"),
    "mpi/allreduce": (r"^launcher-\w+ rank \d of 6 on allreduce-(\S+): sum 15$", "worker-0, worker-1, worker-2"),
    "mpi/v2beta1": (r"^launcher-\w+ rank \d of 6 on allreduce-v2-(\S+): sum 15$", "worker-0, worker-1, worker-2"),
    "mpi/v2beta1-ssh": (r"^launcher-\w+ rank \d of 6 on allreduce-v2-(\S+): sum 15$", "worker-0, worker-1, worker-2"),
    "pytorch/light-static": (LAST_STEP, "master-0 0, worker-0 1, worker-1 2, worker-2 3"),
    "pytorch/light-elastic": (r" (done steps \d+) ", "done steps 150"),
    "volcano/plain": (r"^master-0 plain-job-(\S+)\.plain-job 200$", "worker-0, worker-1"),
}
"""What a pattern finds in what the pods of each have said, every line with its pod in front; the longest are first."""
ELSEWHERE = {"pytorch/elastic"}
"""What is disturbed while it trains, in test_training.py."""


@dataclass(frozen=True)
class Ended:
    """A job that has ended well."""

    shown: Mapping[str, str]
    """What `kubectl get` shows of it, by column."""
    said: str
    """What its pods have printed, with the pod's name in front of each line."""


@dataclass(frozen=True)
class Stage:
    """Where examples are played."""

    admin: Kubectl
    nodes: Nodes

    def play(self, example: str) -> Ended:
        """Apply an example in a namespace of its own, and see it to its end."""
        path = manifest(example)
        job: Object = yaml.safe_load(path.read_text())
        kind = kind_of(job)
        assert kind
        kubectl = Kubectl(self.admin.kubeconfig, f"example-{path.parent.name}-{path.stem}")
        self.admin("create", "namespace", kubectl.namespace)
        kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        kubectl("apply", "-f", str(path))
        name = f"{kind.resource}/{job['metadata']['name']}"
        kubectl("wait", f"--for={ENDS[kind.name]}", name, f"--timeout={PATIENCE}s")
        head, row = (re.split(r"\s{2,}", line.strip()) for line in kubectl("get", name).splitlines())
        return Ended(dict(zip(head, row, strict=True)), self._said(kubectl.namespace, job["metadata"]["name"]))

    def _said(self, namespace: str, job: str) -> str:
        """Return what the pods have said; some are gone by now, but not their logs."""
        logs = sorted(self.nodes.folder.glob(f"*/logs/{namespace}/*/*/*.log"))
        pods = [path.parts[-3].rpartition("_")[0].removeprefix(f"{job}-") for path in logs]
        return "\n".join(
            f"{pod} {line}" for pod, path in zip(pods, logs, strict=True) for line in path.read_text().splitlines()
        )


def manifest(example: str) -> Path:
    return ROOT / "examples" / f"{example}.yaml"


def images(example: str) -> set[str]:
    """Return the images an example names."""
    return set(re.findall(r"^\s*(?:- )?image: (\S+)", manifest(example).read_text(), re.MULTILINE))


def policy(programs: Mapping[str, Object]) -> list[Object]:
    """Return what has an API server put variables into containers, by their images."""
    given = (
        "variables.images[container.image].map(each, Object.spec.containers.env{name: each.name, value: each.value})"
    )
    changed = f"Object.spec.containers{{name: container.name, env: {given}}}"
    ours = "object.spec.containers.filter(container, container.image in variables.images)"
    told = {image: [{"name": name, "value": value} for name, value in env.items()] for image, env in programs.items()}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [pods]},
        "variables": [{"name": "images", "expression": json.dumps(told)}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": f"Object{{spec: Object.spec{{containers: {ours}.map(container, {changed})}}}}"
                },
            }
        ],
    }
    common = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": POLICY}}
    return [
        {**common, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**common, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": POLICY}},
    ]


def environment(framework: Framework, names: tuple[str, ...]) -> dict[str, str]:
    """Return what an image with these programs would have in its environment."""
    folders = [framework(name).parent for name in names]
    found = {"PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}
    if "mpi" in names[0]:
        # Wheels of Open MPI are told where they are; its sockets are below TMPDIR, and their names must not be long.
        found |= {"OPAL_PREFIX": str(folders[0].parent), "TMPDIR": "/dev/shm"}
    return found


@pytest.fixture(scope="module")
def stage(
    plane: ControlPlane,
    admin: Kubectl,
    nodes: Nodes,
    node: RunningNode,
    framework: Framework,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """Return a node where pods find what their images would hold, and an operator with an autoscaler."""
    assert node.process.poll() is None
    for each in policy({image: environment(framework, names) for image, names in IMAGES.items()}):
        admin.apply(each)
    try:
        with operating(account(plane, admin), tmp_path_factory.mktemp("operator"), "--autoscaler", "--rest=5s"):
            yield Stage(admin, nodes)
    finally:
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            admin("delete", kind, POLICY)


@pytest.fixture(scope="module")
def played(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Mapping[str, "Future[Ended]"]]:
    """Play all examples that are asked for, several at a time, and return how they end."""
    asked = {item.callspec.params.get("example") for item in request.session.items if hasattr(item, "callspec")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {example: pool.submit(stage.play, example) for example in EXAMPLES if example in asked}
        pool.shutdown(cancel_futures=True)
    for example in EXAMPLES:
        stage.admin("delete", "namespace", f"example-{example.replace('/', '-')}", "--ignore-not-found", "--wait=false")


def test_the_table_has_every_example() -> None:
    there = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "examples").glob("*/*.yaml")}

    assert EXAMPLES.keys() | ELSEWHERE == there
    assert {kind.name for kind in KINDS} == ENDS.keys() == COLUMNS.keys()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_trains_to_its_end(example: str, played: Mapping[str, "Future[Ended]"]) -> None:
    ended = played[example].result(PATIENCE)

    pattern, wanted = EXAMPLES[example]
    found = {
        " ".join([each] if isinstance(each, str) else each) for each in re.findall(pattern, ended.said, re.MULTILINE)
    }
    assert ", ".join(sorted(found)) == wanted, ended.said[-3000:]


def test_kubectl_shows_them_all(played: Mapping[str, "Future[Ended]"], admin: Kubectl) -> None:
    for example, future in played.items():
        shown = future.result(PATIENCE).shown
        kind = kind_of(yaml.safe_load(manifest(example).read_text()))
        assert kind
        words = " ".join(f"{column}={value}" for column, value in shown.items())
        assert all(word in words for word in COLUMNS[kind.name].split()), words
    there = {line.split()[0] for line in admin("get", "training", "-A", "--no-headers").splitlines()}
    assert {f"example-{example.replace('/', '-')}" for example in played} <= there
