"""The elastic PyTorchJob examples on a real Kubernetes: trained by processes, disturbed and finished.

The trainers share out a fixed batch at each step and count each step once, so what the logs of all ranks tell together
must be every step exactly once, whatever happened meanwhile.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube.nodes import Nodes, RunningNode
from tests.kube.running import Kubectl, until

from trainwright.cli.training import Step, gaps

pytestmark = [pytest.mark.e2e, pytest.mark.torch, pytest.mark.timeout(240)]

PATIENCE = 90.0


class Training:
    """A job as its own logs tell of it."""

    def __init__(self, kubectl: Kubectl, nodes: Nodes) -> None:
        self.kubectl = kubectl
        self._nodes = nodes

    def steps(self) -> list[Step]:
        """Return the steps done so far."""
        return self._nodes.steps(self.kubectl.namespace)

    def goes_on(self, world: int, *, deed: Callable[[], object] = lambda: None, steps: int = 3) -> None:
        """Do something, and wait until that many ranks have taken so many steps together after it."""
        since = time.time()
        deed()
        until(
            lambda: sum(step.world == world and step.time > since for step in self.steps()) >= steps,
            f"{world} ranks train together; pods: {self.kubectl('get', 'pods', '-o', 'wide')}",
            PATIENCE,
        )

    def succeeds(self, job: str, steps: int) -> None:
        """Wait for the end: all steps done, each once."""
        self.kubectl("wait", "--for=condition=Succeeded", f"pytorchjob/{job}", f"--timeout={PATIENCE:g}s")
        done = self.steps()
        assert not gaps(done)
        assert len(done) == steps


@pytest.fixture
def training(kubectl: Kubectl, nodes: Nodes, node: RunningNode, torch_python: Path) -> Training:
    """Return what looks at the job of a test, on a cluster with one node that has torch."""
    return Training(kubectl, nodes)


def test_the_elastic_example_loses_a_pod_grows_and_shrinks(training, kubectl, root):
    kubectl("apply", "-f", str(root / "examples" / "pytorch" / "elastic.yaml"))
    training.goes_on(2)

    training.goes_on(2, deed=lambda: kubectl("delete", "pod", "elastic-worker-1"))
    training.goes_on(3, deed=lambda: kubectl("scale", "pytorchjob/elastic", "--replicas=3"))
    training.goes_on(2, deed=lambda: kubectl("scale", "pytorchjob/elastic", "--replicas=2"))

    assert kubectl.names("pods") == ["elastic-worker-0", "elastic-worker-1"]
    training.succeeds("elastic", 150)


def test_an_elastic_job_goes_on_without_a_node_and_takes_it_back(training, kubectl, admin, nodes, root):
    kubectl.apply(longer(root / "examples" / "pytorch" / "elastic.yaml", 300))
    training.goes_on(2)
    with nodes.running("two") as two:
        training.goes_on(3, deed=lambda: add_a_worker_on(two, admin, kubectl, "elastic"))

        training.goes_on(2, deed=lambda: two.stop(signal.SIGKILL))
    with nodes.running("two"):
        training.goes_on(3)
        training.succeeds("elastic", 300)


@pytest.mark.fault
def test_a_worker_moves_when_its_node_is_lost_for_good(training, kubectl, admin, nodes, node, root):
    kubectl.apply(longer(root / "examples" / "pytorch" / "light-elastic.yaml", 5000))
    training.goes_on(2)
    with nodes.running("two") as two:
        training.goes_on(3, deed=lambda: add_a_worker_on(two, admin, kubectl, "light-elastic"))
        training.goes_on(2, deed=lambda: two.stop(signal.SIGKILL))

    admin("wait", "node/two", "--for=condition=Ready=Unknown", "--timeout=60s")
    # What an administrator says who knows that the machine is off: until then nobody may say that the pod has ended.
    admin("taint", "node", "two", "node.kubernetes.io/out-of-service=lost:NoExecute")

    training.goes_on(3)
    assert kubectl.get("pod", "light-elastic-worker-2")["spec"]["nodeName"] == node.name
    kubectl("delete", "pytorchjob", "light-elastic")
    kubectl.until_gone(*(f"pod/light-elastic-worker-{index}" for index in range(3)))
    admin("delete", "node", "two")


def add_a_worker_on(two: RunningNode, admin: Kubectl, kubectl: Kubectl, job: str) -> None:
    """Give an elastic job of two workers a third one, on another node."""
    admin("cordon", "one")
    kubectl("scale", f"pytorchjob/{job}", "--replicas=3")
    pod = f"pod/{job}-worker-2"
    kubectl.wait(pod, f"jsonpath={{.spec.nodeName}}={two.name}")
    admin("uncordon", "one")


def longer(path: Path, steps: int) -> Any:
    """Return an example that trains for so many steps, and is otherwise as it stands there."""
    job = yaml.safe_load(path.read_text())
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    words = "args" if "args" in container else "command"
    container[words] = [f"--steps={steps}" if word.startswith("--steps=") else word for word in container[words]]
    return job
