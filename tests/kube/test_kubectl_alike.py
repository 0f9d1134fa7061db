"""The real kubectl sees no difference: the same commands against a real API server and against `tw serve`.

Each row of STEPS is run on both, in order; what kubectl printed and its exit code must be equal but for times, uids,
versions, addresses and the names of nodes.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kube.nodes import RunningNode, started
from tests.kube.running import SECONDS, Kubectl, until
from tools.kube import binaries

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SERVER_NODE = "local"


def job(name: str, team: str, replicas: int = 1) -> dict[str, Any]:
    """Return a job in which nothing is left to be filled in."""
    container = {
        "name": "pytorch",
        "image": "any",
        "command": ["sh", "-c", "echo one; echo rank $RANK; exec sleep 600"],
        "ports": [{"containerPort": 23456, "name": "pytorchjob-port"}],
    }
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    role = {"replicas": 1, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "labels": {"team": team}},
        "spec": {
            "nprocPerNode": "auto",
            "runPolicy": {"cleanPodPolicy": "None", "suspend": False},
            "pytorchReplicaSpecs": {"Master": role, "Worker": {**role, "replicas": replicas}},
        },
    }


class Step(NamedTuple):
    """One command, and what is given to it."""

    words: str
    stdin: Any = None
    env: dict[str, str] | None = None
    more: tuple[str, ...] = ()
    """Words that hold spaces."""
    code: int = 0


def patch(form: str, value: Any) -> tuple[str, ...]:
    return (f"--type={form}", "-p", json.dumps(value))


LABELS = {"metadata": {"labels": {"size": "small"}}}
ADD = [{"op": "add", "path": "/metadata/labels/colour", "value": "red"}]
COLUMNS = "custom-columns=NAME:.metadata.name,WORKERS:.spec.pytorchReplicaSpecs.Worker.replicas"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "1", "b": "2"}}

SLEEPER = {"containers": [{"name": "main", "image": "any", "command": ["sleep", "600"]}]}
VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "tasks"},
    "spec": {
        "minAvailable": 1,
        "queue": "default",
        "maxRetry": 3,
        "schedulerName": "default-scheduler",
        "tasks": [
            {
                "name": "work",
                "replicas": 1,
                "template": {"spec": {**SLEEPER, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}},
            }
        ],
    },
}
COMMAND = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"name": "stop"},
    "action": "AbortJob",
    "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "tasks"},
}
MPI = {
    "apiVersion": "kubeflow.org/v1alpha1",
    "kind": "MPIJob",
    "metadata": {"name": "ranks"},
    "spec": {"replicas": 1, "template": {"spec": {**SLEEPER, "terminationGracePeriodSeconds": 1}}},
}

STEPS = {
    "apply creates": Step("apply -f -", job("train", "a")),
    "apply again changes nothing": Step("apply -f -", job("train", "a")),
    "wait for a condition": Step("wait --for=condition=Running pytorchjob/train --timeout=30s"),
    "get": Step("get pytorchjobs"),
    "get one, wide": Step("get pytorchjob train -o wide"),
    "get by category": Step("get training"),
    "get as yaml": Step("get pytorchjob train -o yaml"),
    "get as json": Step("get pytorchjob train -o json"),
    "get names": Step("get pytorchjobs,configmaps -l team=a -o name"),
    "get by jsonpath": Step("get pytorchjobs -o jsonpath={.items[*].status.conditions[*].type}"),
    "get columns of one's own": Step(f"get pytorchjobs -o {COLUMNS}"),
    "get by label": Step("get pytorchjobs -l team=a --show-labels"),
    "get by a label nobody has": Step("get pytorchjobs -l team=z"),
    "get by field": Step("get pytorchjobs --field-selector metadata.name=train"),
    "get from all namespaces": Step("get pytorchjobs -A -l team=a"),
    "get what is not there": Step("get pytorchjob nobody", code=1),
    "get a kind that is not there": Step("get nosuchkind", code=1),
    "get pods": Step("get pods"),
    "get pods, wide": Step("get pods -o wide"),
    "get pods by phase": Step("get pods --field-selector status.phase=Running --no-headers"),
    "get services": Step("get services -o wide"),
    "describe a job": Step("describe pytorchjob train"),
    "diff without a difference": Step("diff -f -", job("train", "a")),
    "create, dry run": Step("create -f - --dry-run=server", job("dry", "a")),
    "a dry run leaves nothing": Step("get pytorchjob dry", code=1),
    "create what is there": Step("create -f -", job("train", "a"), code=1),
    "label": Step("label pytorchjob train mood=good"),
    "label again without --overwrite": Step("label pytorchjob train mood=bad", code=1),
    "annotate": Step("annotate pytorchjob train note=short"),
    "patch, merge": Step("patch pytorchjob train", more=patch("merge", LABELS)),
    "patch that changes nothing": Step("patch pytorchjob train", more=patch("merge", LABELS)),
    "patch, json": Step("patch pytorchjob train", more=patch("json", ADD)),
    "patch, json, of what is not there": Step(
        "patch pytorchjob train", more=patch("json", [{"op": "remove", "path": "/metadata/labels/none"}]), code=1
    ),
    "patch, strategic, of a pod": Step("patch pod train-master-0", more=patch("strategic", LABELS)),
    "edit": Step("edit pytorchjob train", env={"KUBE_EDITOR": "sed -i s/good/best/"}),
    "edit that changes nothing": Step("edit pytorchjob train", env={"KUBE_EDITOR": "true"}),
    "what has become of the labels": Step("get pytorchjob train -o jsonpath={.metadata.labels}"),
    "scale": Step("scale pytorchjob train --replicas=2"),
    "scale only from a size": Step("scale pytorchjob train --current-replicas=7 --replicas=3", code=1),
    "wait for a field": Step("wait --for=jsonpath={.status.active}=3/3 pytorchjob/train --timeout=30s"),
    "logs": Step("logs train-master-0"),
    "logs, last line": Step("logs train-worker-0 --tail=1"),
    "logs with times": Step("logs train-master-0 --timestamps --since=10m"),
    "logs by label": Step("logs -l training.kubeflow.org/replica-type=master --prefix"),
    "logs of a run that never was": Step("logs train-master-0 --previous", code=1),
    "exec": Step("exec train-master-0 -- sh -c", more=("echo inside; echo beside >&2; exit 3",), code=3),
    "exec with input": Step("exec -i train-worker-1 -- cat", stdin="to be said again"),
    "events of a job": Step("events --for=pytorchjob/train"),
    "get events": Step("get events --field-selector involvedObject.kind=PyTorchJob --sort-by=.firstTimestamp"),
    "a config map": Step("apply -f -", MAP),
    "apply takes away what is gone": Step("apply -f -", {**MAP, "data": {"b": "3"}}),
    "the config map": Step("get configmap words -o jsonpath={.data}"),
    "create a config map from words": Step("create configmap more --from-literal=x=y"),
    "get config maps": Step("get configmaps more words"),
    "create a secret": Step("create secret generic hidden --from-literal=x=y"),
    "get secrets": Step("get secret hidden"),
    "may I": Step("auth can-i create pytorchjobs"),
    "api-resources": Step("api-resources --api-group=kubeflow.org --sort-by=name"),
    "explain": Step("explain pytorchjob.spec.elasticPolicy"),
    "a volcano job": Step("apply -f -", VOLCANO),
    "it runs": Step("wait --for=jsonpath={.status.state.phase}=Running vcjob/tasks --timeout=30s"),
    "get volcano jobs, wide": Step("get vcjob -o wide"),
    "get jobs of its kind alone": Step("get jobs.batch.volcano.sh tasks -o jsonpath={.spec.tasks[*].name}"),
    "tell it to stop": Step("create -f -", COMMAND),
    "it stops": Step("wait --for=jsonpath={.status.state.phase}=Aborted vcjob/tasks --timeout=30s"),
    "an MPI job of the old version": Step("create -f -", MPI),
    "it has both versions": Step(
        "get mpijobs.v1alpha1.kubeflow.org/ranks mpijobs.v2beta1.kubeflow.org/ranks -o jsonpath={.items[*].apiVersion}"
    ),
    "delete them": Step("delete vcjob/tasks mpijob/ranks --cascade=foreground --timeout=60s"),
    "a second job": Step("create -f -", job("second", "b", 2)),
    "delete by label": Step("delete pytorchjobs -l team=b --timeout=30s"),
    "delete with all that belongs to it": Step("delete pytorchjob train --cascade=foreground --timeout=60s"),
    "its pods are gone": Step("get pods"),
    "delete what is not there": Step("delete pytorchjob train", code=1),
    "delete it if it is there": Step("delete pytorchjob train --ignore-not-found"),
    "nothing is left": Step("get pytorchjobs"),
}


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    error: str


Sides = tuple[dict[str, Said], dict[str, Said]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Path]:
    """Run `tw serve`, and return the kubeconfig for it."""
    folder = tmp_path_factory.mktemp("serve")
    command = [sys.executable, "-m", "trainwright", "serve", f"--state={folder}", "--port=0", "--no-autoscale"]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen([*command, "--grace=1s"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(lambda: (folder / "kubeconfig").exists() or process.poll() is not None, "tw serve is ready")
        assert process.poll() is None, (folder / "serve.log").read_text()
        yield folder / "kubeconfig"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)


@pytest.fixture(scope="module")
def places(plane: Any, admin: Kubectl, operator: Any, node: RunningNode, served: Path) -> tuple[Kubectl, Kubectl]:
    """Return kubectl in one namespace of the same name on both sides."""
    admin("create", "namespace", "alike")
    there, here = Kubectl(plane.kubeconfig, "alike"), Kubectl(served, "alike")
    there("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    return there, here


@pytest.fixture(scope="module")
def sides(places: tuple[Kubectl, Kubectl], node: RunningNode) -> Sides:
    """Return what every step came to, on a real API server and here."""
    there, here = ({name: said(each, step) for name, step in STEPS.items()} for each in places)
    return there, here


def said(kubectl: Kubectl, step: Step) -> Said:
    """Run a command in its place."""
    command = [str(binaries() / "kubectl"), f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={kubectl.namespace}"]
    given = step.stdin if isinstance(step.stdin, str | None) else json.dumps(step.stdin)
    home = {**os.environ, "HOME": str(kubectl.kubeconfig.parent), **(step.env or {})}
    words = [*command, *step.words.split(), *step.more]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, env=home, timeout=60)
    return Said(done.returncode, alike(done.stdout), alike(done.stderr))


_SAME = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(\"?resourceVersion\"?:|Resource Version:) *\"?\d+\"?"), "VERSION"),
    (re.compile(r"\b\d+(m\d+)?s\b"), "AGE"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(rf"\b({SERVER_NODE}|one)(?= +<none>)"), "NODE"),
    (re.compile(r"/\S*/kubectl-edit-\S+"), "FILE"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
)


def alike(text: str) -> str:
    """Return a text without what differs from one cluster to the next."""
    for pattern, word in _SAME:
        text = pattern.sub(word, text)
    return text


@pytest.mark.parametrize("step", STEPS)
def test_kubectl_sees_no_difference(sides: Sides, step: str):
    there, here = sides
    assert there[step].code == STEPS[step].code, there[step]
    assert here[step] == there[step]


def test_a_watch_shows_the_same(places: tuple[Kubectl, Kubectl]):
    shown = []
    for kubectl in places:
        kubectl.apply({**MAP, "metadata": {"name": "watched"}})
        watch = started(kubectl, "get", "configmap", "watched", "-w", "--output-watch-events")
        assert watch.stdout
        lines = [alike(watch.stdout.readline()) for _ in range(2)]
        kubectl("patch", "configmap", "watched", *patch("strategic", {"data": {"c": "3"}}))
        lines.append(alike(watch.stdout.readline()))
        kubectl("delete", "configmap", "watched")
        lines.append(alike(watch.stdout.readline()))
        watch.kill()
        watch.communicate()
        shown.append(lines)
    assert shown[1] == shown[0]
