"""The commands over jobs on a real cluster: the words of `tests/e2e/test_commands.py`, and turns with kubectl."""

import os

import pytest
from tests.cli.conftest import TW
from tests.e2e.commanding import BEGINNING, END, MANIFEST, MIDDLE, OTHER_KINDS, THROUGH, piped, steps_of, tell
from tests.kube.nodes import RunningNode
from tests.kube.running import Kubectl

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "120"}


@pytest.fixture
def manifest(tmp_path):
    file = tmp_path / "lab.yaml"
    file.write_text(MANIFEST)
    return file


@pytest.mark.parametrize("through", THROUGH)
def test_a_cluster_does_what_it_is_told(through, kubectl: Kubectl, node: RunningNode, environment, manifest):
    home = ("--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace)

    tell((*BEGINNING, *MIDDLE, *END), through, environment, manifest, *home)


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_every_kind_is_told_in_its_own_way(name, kubectl: Kubectl, node: RunningNode, environment, tmp_path):
    file = tmp_path / "lab.yaml"
    file.write_text(OTHER_KINDS[name][0])

    tell(steps_of(name), piped, environment, file, "--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace)


def test_kubectl_and_tw_take_turns(kubectl: Kubectl, environment, manifest):
    def tw(*words: str) -> str:
        home = ("--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace)
        said = piped([TW, *words, *home], environment)
        assert said.code == 0, said
        return said.out

    said = [tw("apply", "-f", str(manifest)), kubectl("apply", "-f", str(manifest))]
    manifest.write_text(MANIFEST.replace("labels: {team: vision}", "labels: {group: speech}"))
    said += [kubectl("apply", "-f", str(manifest)), tw("apply", "-f", str(manifest))]
    manifest.write_text(MANIFEST)
    said += [tw("apply", "-f", str(manifest)), kubectl("apply", "-f", str(manifest))]

    turns = ["created", "unchanged", "configured", "unchanged", "configured", "unchanged"]
    assert [text.split()[1] for text in said] == turns
    assert kubectl.get("pytorchjob", "lab")["metadata"]["labels"] == {"team": "vision"}
    kubectl("delete", "pytorchjob", "lab")


def test_an_older_version_of_a_kind_is_applied_as_the_newer_one(kubectl: Kubectl, environment, tmp_path):
    file = tmp_path / "mpi.yaml"
    file.write_text(
        "{apiVersion: kubeflow.org/v1alpha1, kind: MPIJob, metadata: {name: ring}, spec: {replicas: 2, template: "
        "{spec: {containers: [{name: c, image: none, command: [mpirun, sleep, '600']}]}}}}"
    )
    home = ("--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace)

    first, second = (piped([TW, "apply", "-f", str(file), *home], environment) for _ in range(2))

    assert (first.out, second.out) == ("mpijob.kubeflow.org/ring created\n", "mpijob.kubeflow.org/ring unchanged\n")
    assert kubectl.get("mpijob", "ring")["spec"]["replicas"] == 2
    kubectl("delete", "mpijob", "ring")
