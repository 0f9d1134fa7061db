"""The life of an MPIJob on a real API server, with the real controllers for StatefulSet and Job.

No node is needed: the pods stay pending, and the tests say of them what a kubelet would say. Every kind of object that
such a job has is made, changed by hand, held by somebody else and removed here, so each right is needed.
"""

from typing import Any

import pytest
from tests.kube.running import Kubectl, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

LAUNCHER = "batch.kubernetes.io/job-name=sum-launcher"
RIGHTS = ("serviceaccount/sum-launcher", "role/sum-launcher", "rolebinding/sum-launcher")
TEMPLATE: dict[str, Any] = {
    "spec": {
        "nodeSelector": {"trainwright.dev/test": "nowhere"},
        "containers": [{"name": "mpi", "image": "train:1", "command": ["mpirun", "train"]}],
    }
}


def mpi_job(**spec: Any) -> dict[str, Any]:
    """Return a v1alpha1 job of two workers."""
    whole = {"replicas": 2, "slotsPerWorker": 1, "backoffLimit": 0, "template": TEMPLATE, **spec}
    return {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "sum"}, "spec": whole}


def modern(transport: str, **run_policy: Any) -> dict[str, Any]:
    """Return a v2beta1 job of one worker."""
    role = {"replicas": 1, "template": TEMPLATE}
    spec = {"runPolicy": run_policy, "mpiReplicaSpecs": {"Launcher": role, "Worker": role}}
    meta = {"name": "sum", "annotations": {"trainwright.dev/transport": transport}}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta, "spec": spec}


def move(kubectl: Kubectl, phase: str, pod: str) -> None:
    """Say of a pod what a kubelet would say."""
    kubectl.wait(f"pod/{pod}", "create")
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}}
    container = {"name": "mpi", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": state}
    ready = {"type": "Ready", "status": str(phase == "Running")}
    status = {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
    kubectl.patch(f"pod/{pod}", {"status": status}, "--subresource=status")


def launcher(kubectl: Kubectl) -> str:
    """Return the launcher's pod, once there is one."""
    until(lambda: kubectl.names("pods", "-l", LAUNCHER), "the launcher has a pod")
    return kubectl.names("pods", "-l", LAUNCHER)[0]


def taken(kubectl: Kubectl) -> set[str]:
    """Return the objects of which it was told that they hold a name of the job's."""
    told = [each["message"].split() for each in kubectl.get("events") if each["reason"] == "NameTaken"]
    return {f"{kind.lower()}/{name}" for kind, name, *_ in told}


def test_the_launcher_comes_last_and_never_again(kubectl: Kubectl):
    kubectl.apply(mpi_job())
    move(kubectl, "Running", "sum-worker-0")
    kubectl.wait("mpijob/sum", "jsonpath={.status.workerReplicas}=1")
    assert kubectl.names("jobs.batch") == [], "one worker is not ready"
    move(kubectl, "Running", "sum-worker-1")

    move(kubectl, "Succeeded", launcher(kubectl))

    kubectl.wait("mpijob/sum", "condition=Succeeded")
    kubectl.wait("statefulset/sum-worker", "jsonpath={.spec.replicas}=0")
    kubectl("delete", "job.batch/sum-launcher")
    kubectl("annotate", "mpijob/sum", "looked=again")
    until(lambda: kubectl.names("pods") == [], "nothing is left of it")
    assert kubectl.names("jobs.batch") == []


@pytest.mark.parametrize(
    ("name", "part", "change"),
    [
        pytest.param("configmap/sum-config", "data", {"hostfile": "elsewhere"}, id="the hosts"),
        pytest.param("role/sum-launcher", "rules", [], id="what the launcher may"),
        pytest.param("rolebinding/sum-launcher", "subjects", [], id="who may"),
        pytest.param("statefulset/sum-worker", "spec", {"replicas": 5}, id="the number of workers"),
    ],
)
def test_what_was_changed_by_hand_is_put_right(kubectl: Kubectl, name: str, part: str, change: Any):
    kubectl.apply(mpi_job())
    kubectl.wait("statefulset/sum-worker", "create")
    before = kubectl.get(name)[part]

    kubectl.patch(name, {part: change})

    until(lambda: kubectl.get(name).get(part) == before, f"{name} is as it was")


@pytest.mark.parametrize(
    ("job", "names"),
    [
        pytest.param(mpi_job(), RIGHTS, id="the launcher's account and rights"),
        pytest.param(mpi_job(), ("configmap/sum-config", "statefulset/sum-worker"), id="the hosts and the workers"),
        pytest.param(modern("ssh"), ("secret/sum-ssh", "job/sum-launcher"), id="the keys and the launcher"),
    ],
)
def test_what_holds_our_names_is_left_alone(kubectl: Kubectl, job: Any, names: tuple[str, ...]):
    strangers = [stranger(*name.split("/")) for name in names]
    for each in strangers:
        kubectl.apply(each)

    kubectl.apply(job)

    until(lambda: taken(kubectl) == set(names), "it is said which names are taken")
    assert all("ownerReferences" not in kubectl.get(name)["metadata"] for name in names)


def stranger(kind: str, name: str) -> dict[str, Any]:
    """Return an object of somebody else that does nothing."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"}
    pods = {"metadata": {"labels": {"mine": "yes"}}, **TEMPLATE}
    once = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    known: dict[str, tuple[str, str, dict[str, Any]]] = {
        "configmap": ("v1", "ConfigMap", {}),
        "secret": ("v1", "Secret", {}),
        "serviceaccount": ("v1", "ServiceAccount", {}),
        "role": ("rbac.authorization.k8s.io/v1", "Role", {"rules": []}),
        "rolebinding": ("rbac.authorization.k8s.io/v1", "RoleBinding", {"roleRef": role}),
        "statefulset": (
            "apps/v1",
            "StatefulSet",
            {"spec": {"replicas": 0, "selector": {"matchLabels": {"mine": "yes"}}, "template": pods}},
        ),
        "job": ("batch/v1", "Job", {"spec": {"suspend": True, "template": once}}),
    }
    version, spelt, contents = known[kind]
    return {"apiVersion": version, "kind": spelt, "metadata": {"name": name}, **contents}


def test_the_launcher_keeps_neither_rights_nor_keys_that_it_does_not_need(kubectl: Kubectl):
    kubectl.apply(modern("exec"))
    for name in RIGHTS:
        kubectl.wait(name, "create")

    kubectl("annotate", "mpijob/sum", "trainwright.dev/transport-")

    kubectl.until_gone(*RIGHTS)
    kubectl.wait("secret/sum-ssh", "create")

    kubectl("annotate", "mpijob/sum", "trainwright.dev/transport=exec")

    kubectl.until_gone("secret/sum-ssh")
    for name in RIGHTS:
        kubectl.wait(name, "create")


def test_a_job_without_workers_has_no_set_of_them(kubectl: Kubectl):
    kubectl.apply(mpi_job())
    kubectl.wait("statefulset/sum-worker", "create")

    kubectl.patch("mpijob/sum", {"spec": {"replicas": 1, "runLauncherAsWorker": True}})

    kubectl.until_gone("statefulset/sum-worker")


def test_a_job_is_suspended_resumed_and_removed_in_time(kubectl: Kubectl):
    kubectl.apply(modern("ssh", ttlSecondsAfterFinished=1))
    first = launcher(kubectl)
    kubectl.patch("mpijob/sum", {"spec": {"runPolicy": {"suspend": True}}})
    kubectl.until_gone("job.batch/sum-launcher", f"pod/{first}", "pod/sum-worker-0")
    kubectl.patch("mpijob/sum", {"spec": {"runPolicy": {"suspend": False}}})
    kubectl.wait("pod/sum-worker-0", "create")

    move(kubectl, "Succeeded", launcher(kubectl))

    kubectl.until_gone("mpijob/sum", "job.batch/sum-launcher", "service/sum")
