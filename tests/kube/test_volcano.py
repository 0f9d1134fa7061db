"""Volcano Jobs on a real Kubernetes: logins between pods, commands by kubectl, and what stands around a job.

The definitions are those `tw install` prints, and the API server checks against them. The scheduler is the stock one:
`schedulerName: volcano`, which most manifests say, must not reach the pods.
"""

from typing import Any

import pytest
from tests.conftest import Framework
from tests.kube.running import Kubectl, Refusal, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

JOBS = "jobs.batch.volcano.sh"
PATIENCE = 90


def until_phase(kubectl: Kubectl, job: str, phase: str) -> None:
    """Wait until a job is in a phase."""
    kubectl("wait", f"--for=jsonpath={{.status.state.phase}}={phase}", f"{JOBS}/{job}", f"--timeout={PATIENCE}s")


@pytest.mark.usefixtures("node")
def test_a_pod_logs_in_to_another(kubectl: Kubectl, framework: Framework) -> None:
    sshd = framework("sshd")
    ssh = "ssh -F /etc/keys/config -i /etc/keys/id_rsa -p 2222"
    words = [str(sshd), "-D", "-p", "2222", "-o", "AuthorizedKeysFile=/etc/keys/authorized_keys"]
    client = task("client", ["sh", "-c", f"{ssh} logins-server-0 hostname; {ssh} logins-server-1.logins hostname"])
    client["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    client["template"]["metadata"] = {"annotations": {"trainwright.dev/wait-for": "server:2222"}}
    plugins = {"svc": [], "ssh": ["--ssh-key-file-path=/etc/keys", "--ssh-port=2222"]}
    kubectl.apply(volcano_job("logins", client, task("server", words, replicas=2), plugins=plugins))
    until_phase(kubectl, "logins", "Completed")

    said = kubectl("logs", "logins-client-0", "-c", "main").split("\n")
    assert [line for line in said if line.startswith("logins-")] == ["logins-server-0", "logins-server-1"]
    assert kubectl.names("pods") == ["logins-client-0"], "what has ended by itself stays"
    kubectl.until_gone("service/logins", "configmap/logins-svc", "secret/logins-ssh", "networkpolicy/logins")


@pytest.mark.usefixtures("node")
def test_a_job_is_aborted_and_resumed_by_command(kubectl: Kubectl) -> None:
    kubectl.apply(volcano_job("long", task("main", ["sleep", "1000"], replicas=2)))
    until_phase(kubectl, "long", "Running")
    assert {pod["spec"]["schedulerName"] for pod in kubectl.get("pods")} == {"default-scheduler"}
    before = {pod["metadata"]["uid"] for pod in kubectl.get("pods")}

    kubectl.apply(command("AbortJob", "long"))
    until_phase(kubectl, "long", "Aborted")
    assert kubectl.names("pods") == []

    kubectl.apply(command("ResumeJob", "long"))
    until_phase(kubectl, "long", "Running")
    after = {pod["metadata"]["uid"] for pod in kubectl.get("pods")}
    assert len(after) == 2
    assert not after & before

    until(lambda: not kubectl.names("commands.bus.volcano.sh"), "what was carried out is removed")
    status = kubectl.get(f"{JOBS}/long")["status"]
    assert status.get("retryCount", 0) == 0, "to resume is no retry"
    kubectl("delete", f"{JOBS}/long")
    kubectl.until_gone("pod/long-main-0", "pod/long-main-1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"minAvailable": -1}, "spec.minAvailable", id="a minimum below 0"),
        pytest.param({"tasks": []}, "spec.tasks", id="no task at all"),
        pytest.param({"policies": [{"event": "PodFled", "action": "AbortJob"}]}, "PodFled", id="an event nobody knows"),
    ],
)
def test_the_api_server_itself_refuses(change: dict[str, Any], said: str, kubectl: Kubectl) -> None:
    job = volcano_job("wrong", task("main", ["true"]))
    job["spec"] |= change

    with pytest.raises(Refusal, match=said):
        kubectl.apply(job)


AROUND = ("service/full", "configmap/full-svc", "networkpolicy/full", "secret/full-ssh")
"""What stands around a job with the plugins svc and ssh."""


def full_job(**spec: Any) -> dict[str, Any]:
    """Return a job with everything that a job can have around it; its pod finds no node."""
    main = task("main", ["true"])
    main["template"]["spec"]["nodeSelector"] = {"trainwright.dev/test": "nowhere"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/data", "volumeClaim": claim}]
    return volcano_job("full", main, plugins={"svc": [], "ssh": []}, volumes=volumes, **spec)


def test_what_was_changed_by_hand_is_put_right_and_keys_stay(kubectl: Kubectl) -> None:
    kubectl.apply(full_job())
    kubectl.until_names("pods", "full-main-0")
    before = [kubectl.get(each) for each in AROUND]

    kubectl.patch("service/full", {"spec": {"publishNotReadyAddresses": True}})
    kubectl.patch("configmap/full-svc", {"data": {"main.host": "elsewhere"}})
    kubectl.patch("networkpolicy/full", {"spec": {"ingress": []}})
    kubectl.patch("secret/full-ssh", {"data": {"config": ""}})

    until(lambda: contents(kubectl) == [content(each) for each in before], "everything is as it was")


def contents(kubectl: Kubectl) -> list[Any]:
    return [content(kubectl.get(each)) for each in AROUND]


def content(obj: dict[str, Any]) -> Any:
    """Return what an object says, without who says it."""
    return {name: value for name, value in obj.items() if name != "metadata"}


def test_what_holds_our_names_is_left_alone(kubectl: Kubectl) -> None:
    kubectl.apply(full_job())
    kubectl.until_names("pods", "full-main-0")
    (claim,) = kubectl.names("pvc")
    held = [kubectl.get(each) for each in (*AROUND, f"pvc/{claim}")]
    kubectl("delete", f"{JOBS}/full")
    kubectl.until_gone("pod/full-main-0", *AROUND, f"pvc/{claim}")
    for obj in held:
        obj["metadata"] = {"name": obj["metadata"]["name"], "labels": {"mine": "yes"}}
        obj.pop("status", None)
        kubectl.apply(obj)

    kubectl.apply(full_job())

    ours = {f"{obj['kind']} {obj['metadata']['name']}" for obj in held}
    until(lambda: taken(kubectl) == ours, "it is said which names are taken")
    assert all(kubectl.get(each)["metadata"]["labels"] == {"mine": "yes"} for each in (*AROUND, f"pvc/{claim}"))


def taken(kubectl: Kubectl) -> set[str]:
    """Return the kinds and names of which it was said that somebody else holds them."""
    told = [each["message"].split() for each in kubectl.get("events") if each["reason"] == "NameTaken"]
    return {" ".join(words[:2]) for words in told}


@pytest.mark.usefixtures("node")
def test_a_job_that_has_ended_is_removed_in_time(kubectl: Kubectl) -> None:
    kubectl.apply(volcano_job("short", task("main", ["true"]), plugins={"svc": []}, ttlSecondsAfterFinished=1))

    kubectl.wait("pod/short-main-0", "delete")
    kubectl.until_gone(f"{JOBS}/short", "service/short")


def volcano_job(name: str, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Volcano Job as most are written: with Volcano's own scheduler."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "tasks": list(tasks), **spec},
    }


def task(name: str, words: list[str], replicas: int = 1) -> dict[str, Any]:
    """Return a task of one container."""
    container = {"name": "main", "image": "any", "command": words}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def command(action: str, job: str) -> dict[str, Any]:
    """Return a Command for a job."""
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": f"{job}-{action.lower()}"},
        "action": action,
        "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job},
    }
