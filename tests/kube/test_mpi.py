"""MPIJob on a real Kubernetes: mpirun reaches its workers by exec through the API server, with the launcher's token.

The kubectl behind the agent is the real one, and what it may do is what the launcher's Role says: the API server
decides that, nobody here.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Framework
from tests.kube.nodes import Nodes, RunningNode, pod
from tests.kube.running import Kubectl, Refusal, until
from tests.node.launching import ALL_REDUCE
from tests.node.world import ASLEEP, sleepers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.usefixtures("node")]

PATIENCE = 90
NOTHING: Mapping[str, str] = {}
KUBEXEC = "/etc/mpi/kubexec.sh"
KUBECTL = "KUBECONFIG=/dev/null /opt/kube/kubectl"
LAUNCHER = "pod", "-l", "mpi_role_type=launcher"
APART = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"mpi_role_type": "worker"}},
}
MAY = [
    ("exec sum-worker-1 -- hostname", "sum-worker-1"),
    ("get pod sum-worker-0 -o name", "pod/sum-worker-0"),
]
MAY_NOT = [
    ("get pods", "list pods"),
    ("get pod stranger", "get pods"),
    ("exec stranger -- hostname", "get pods"),
    ("get secret key", "get secrets"),
    ("get configmap sum-config", "get configmaps"),
    ("delete pod sum-worker-0", "delete pods"),
    ("create token sum-launcher", "create serviceaccounts/token"),
]
"""What a launcher's kubectl is asked for, and what it answers or which right it lacks."""


def mpi_job(*command: str, workers: int = 2, env: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """Return a v1alpha1 job."""
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "MPIJob",
        "metadata": {"name": "sum"},
        "spec": {
            "replicas": workers,
            "slotsPerWorker": 2,
            "backoffLimit": 0,
            "template": template(command, env),
        },
    }


def template(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "mpi", "image": "any", "resources": {"requests": {"cpu": "100m"}}}
    container["env"] = [{"name": name, "value": value} for name, value in {"TMPDIR": "/dev/shm", **env}.items()]
    if command:
        container["command"] = [*command]
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}


def modern(*command: str, workers: int = 2, env: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """Return a v2beta1 job that is started by exec, too."""
    roles = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template(command, env)},
        "Worker": {"replicas": workers, "template": template((), env)},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "sum", "annotations": {"trainwright.dev/transport": "exec"}},
        "spec": {
            "slotsPerWorker": 2,
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "All"},
            "mpiReplicaSpecs": roles,
        },
    }


def sums(framework: Framework, mpi: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return a command that sums over all ranks, and what an image with that MPI would have in its environment."""
    python = framework(mpi)
    (folder / "rank.py").write_text(ALL_REDUCE)
    found = {"PATH": f"{python.parent}:/usr/bin:/bin", "OPAL_PREFIX": str(python.parent.parent)}
    return ["mpirun", str(python), str(folder / "rank.py")], found


def until_condition(kubectl: Kubectl, condition: str) -> None:
    kubectl("wait", f"--for=condition={condition}", "mpijob/sum", f"--timeout={PATIENCE}s")


def launcher(kubectl: Kubectl) -> str:
    """Return the name of the launcher's pod, once it runs."""
    found = kubectl.names(*LAUNCHER)
    return found[0] if found and kubectl.get(f"pod/{found[0]}")["status"]["phase"] == "Running" else ""


@pytest.mark.parametrize(
    ("make", "mpi"),
    [
        pytest.param(mpi_job, "openmpi4", id="v1alpha1 with Open MPI 4"),
        pytest.param(modern, "mpich", id="v2beta1 with MPICH"),
    ],
)
def test_every_rank_starts_on_its_host(kubectl: Kubectl, framework: Framework, make, mpi, tmp_path: Path):
    command, env = sums(framework, mpi, tmp_path)
    kubectl.apply(make(*command, workers=3, env=env))
    until_condition(kubectl, "Succeeded")

    (name,) = kubectl.names("pod", "-l", "batch.kubernetes.io/job-name=sum-launcher")
    ranks = re.findall(r"rank=(\d) of=6 host=([a-z0-9-]+) sum=21;", kubectl("logs", name))
    assert sorted(int(rank) for rank, _ in ranks) == [*range(6)]
    assert Counter(host for _, host in ranks) == {f"sum-worker-{index}": 2 for index in range(3)}
    kubectl.until_gone(*(f"pod/sum-worker-{index}" for index in range(3)))
    assert kubectl.names("pods") == [name], "the launcher stays, for its logs"


def test_workers_may_be_on_other_nodes_than_the_launcher(
    kubectl: Kubectl, admin: Kubectl, nodes: Nodes, framework: Framework, tmp_path: Path
):
    command, env = sums(framework, "openmpi5", tmp_path)
    job = mpi_job(*command, env=env)
    job["spec"]["template"]["spec"]["topologySpreadConstraints"] = [APART]

    with nodes.running("other"):
        kubectl.apply(job)
        until_condition(kubectl, "Succeeded")
        assert kubectl("logs", kubectl.names(*LAUNCHER)[0]).count("of=4") == 4
    admin("delete", "node", "other")

    told = kubectl("get", "events", "--field-selector=reason=Scheduled", "-o", "jsonpath={.items[*].message}")
    assert set(re.findall(r"sum-worker-\d to (\w+)", told)) == {"one", "other"}


def test_both_versions_are_one_kind(kubectl: Kubectl):
    kubectl.apply(mpi_job("sleep", "1000"))
    until(lambda: launcher(kubectl), "the launcher runs", PATIENCE)
    until_condition(kubectl, "Running")

    for version in ("v1alpha1", "v2beta1"):
        head, row = kubectl("get", f"mpijobs.{version}.kubeflow.org").splitlines()
        assert head.split() == ["NAME", "STATE", "ACTIVE", "RESTARTS", "AGE"]
        assert row.split()[:4] == ["sum", "Running", "3/3", "0"]
    assert kubectl.names("mpij") == kubectl.names("training") == ["sum"]
    status = kubectl.get("mpijob/sum")["status"]
    assert (status["launcherStatus"], status["workerReplicas"]) == ("Active", 2)


def test_the_launcher_may_exec_into_its_workers_and_do_nothing_else(kubectl: Kubectl, node: RunningNode):
    kubectl("create", "secret", "generic", "key", "--from-literal=id=1")
    kubectl.apply(pod("stranger", "sleep 1000", node=node.name))
    kubectl.apply(mpi_job("sleep", "1000"))
    until(lambda: launcher(kubectl), "the launcher runs", PATIENCE)
    kubectl.wait("pod/stranger", "condition=Ready")

    def asked(words: str) -> str:
        """Return what kubectl says in the launcher's pod, with nothing but what it finds there."""
        try:
            return kubectl("exec", launcher(kubectl), "-c", "mpi", "--", "sh", "-c", f"{KUBECTL} {words} 2>&1").strip()
        except Refusal as refusal:
            return " ".join(re.findall(r"cannot (\w+) resource \"([\w/]+)\"", str(refusal))[0])

    other = f"/api/v1/namespaces/{kubectl.namespace}/pods/stranger/exec?command=id&stdout=1"
    assert asked("auth whoami -o jsonpath={.status.userInfo.username}").endswith(f"{kubectl.namespace}:sum-launcher")
    assert [(words, asked(words)) for words, _ in (*MAY, *MAY_NOT)] == [*MAY, *MAY_NOT]
    assert asked(f"get --raw '{other}'") == "get pods/exec"
    assert asked(f"create --raw '{other}' -f /dev/null") == "create pods/exec"


@pytest.mark.parametrize(
    ("kill", "condition"),
    [
        pytest.param("kill -9 $agent", "Running", id="the agent is killed"),
        pytest.param("kill -9 $(pgrep -f '^/opt/kube/kubectl exec')", "Running", id="kubectl is killed"),
        pytest.param("kill -9 $$$$", "Failed", id="the launcher is killed"),
    ],
)
def test_nothing_is_left_when_the_agent_is_cut_off(kubectl: Kubectl, kill: str, condition: str, tmp_path: Path):
    asleep = f"setsid sleep {ASLEEP} & sleep {ASLEEP}"
    begin = f'{KUBEXEC} sum-worker-0 "{asleep}" & agent=$!; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done'
    kubectl.apply(mpi_job("sh", "-c", f"{begin}; {kill}; sleep 1000"))
    until(lambda: sleepers() == 2, "the command runs in the worker", PATIENCE)

    (tmp_path / "go").touch()

    until(lambda: sleepers() == 0, "nothing is left of it in the worker")
    until_condition(kubectl, condition)


@pytest.mark.parametrize("mpi", ["openmpi5", "mpich"])
def test_no_rank_outlives_the_launcher(kubectl: Kubectl, framework: Framework, mpi: str, tmp_path: Path):
    _, env = sums(framework, mpi, tmp_path)
    kubectl.apply(mpi_job("mpirun", "sleep", ASLEEP, env=env))
    until(lambda: sleepers() == 4, "all ranks run", PATIENCE)
    until(lambda: launcher(kubectl), "that is known")

    # What mpirun really is goes by other names.
    kubectl("exec", launcher(kubectl), "-c", "mpi", "--", "sh", "-c", "kill -9 $(pgrep -o 'mpirun|prterun|mpiexec')")

    until_condition(kubectl, "Failed")
    until(lambda: sleepers() == 0, "no rank is left")
