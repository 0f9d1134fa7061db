"""Gangs on a real API server with the real scheduler: by our gates, by PodGroups of Kubernetes itself, and objects for
schedulers of others that their definitions accept."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.desired.jobs import JOBS, mpi_job
from tests.kube.nodes import Nodes, node_account
from tests.kube.running import Call, Kubectl, account, calls, install, operating, refused, until
from tools.kube import ControlPlane

from trainwright.core.names import GANG_WAITS_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import PLUGIN_POD_GROUP, POD_GROUP, Resource
from trainwright.desired import KUBERNETES, render
from trainwright.kinds import kind_of
from trainwright.operator.rights import GANG_RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NUMBER, WORD = {"type": "integer", "format": "int32"}, {"type": "string"}
AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
THEIRS = {
    POD_GROUP: {
        "minMember": NUMBER,
        "minTaskMember": {"type": "object", "additionalProperties": NUMBER},
        "queue": WORD,
        "priorityClassName": WORD,
        "minResources": AMOUNTS,
    },
    PLUGIN_POD_GROUP: {"minMember": NUMBER, "minResources": AMOUNTS, "scheduleTimeoutSeconds": NUMBER},
}
"""What the definitions of other projects know of a PodGroup, as far as jobs without partitions go."""


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane whose API server and scheduler have gangs of their own switched on."""
    assert programs
    control_plane = ControlPlane(tmp_path_factory.mktemp("gangs"), strict=True, gangs=True)
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop()


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Kubectl:
    """Return the administrator's kubectl, after what we ship for every strategy was applied."""
    kubectl = Kubectl(plane.kubeconfig)
    install(kubectl, "--gang=auto")
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return kubectl


@pytest.fixture(scope="module")
def node(plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run a node with 4 cpus, whose pods run."""
    nodes = Nodes(plane, node_account(plane, admin), tmp_path_factory.mktemp("nodes"))
    with nodes.running("one", "--cpu=4"):
        yield


def namespace(plane: ControlPlane, admin: Kubectl, name: str) -> Kubectl:
    admin("create", "namespace", name)
    kubectl = Kubectl(plane.kubeconfig, name)
    kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    return kubectl


def job(name: str, workers: int, script: str, cpu: str = "1") -> Object:
    container = {
        "name": "pytorch",
        "image": "any",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": cpu}},
    }
    worker = {"replicas": workers, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    spec = {"pytorchReplicaSpecs": {"Worker": worker}, "runPolicy": {"cleanPodPolicy": "None"}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def spans(kubectl: Kubectl, name: str) -> tuple[str, str]:
    """Return when the first container of a job began and when the last one ended."""
    pods = json.loads(kubectl("get", "pods", f"--selector=training.kubeflow.org/job-name={name}", "-o", "json"))[
        "items"
    ]
    ends = [each["status"]["containerStatuses"][0]["state"]["terminated"] for each in pods]
    return min(end["startedAt"] for end in ends), max(end["finishedAt"] for end in ends)


def one_after_the_other(kubectl: Kubectl) -> None:
    """Apply two jobs that fit only alone and each wait for all their pods, and see both through to their ends."""
    meet = 'touch "$TMPDIR/$JOB-$(hostname)"; while [ "$(ls "$TMPDIR" | grep -c "^$JOB-")" -lt 3 ]; do sleep 0.1; done'
    for name in ("a", "b"):
        kubectl.apply(job(name, 3, f"export JOB={kubectl.namespace}-{name}; {meet}; sleep 1"))
    for name in ("a", "b"):
        kubectl("wait", "--for=condition=Succeeded", f"pytorchjob/{name}", "--timeout=60s")
    first, second = sorted((spans(kubectl, "a"), spans(kubectl, "b")))
    assert first[1] <= second[0]


def definition(resource: Resource, spec: Object) -> Object:
    """Return the definition of a kind whose spec has these fields and no others."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource), "annotations": approved},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def definitions(admin: Kubectl) -> None:
    """Have the PodGroups of other projects served, and pods accepted."""
    admin("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    for resource, spec in THEIRS.items():
        admin.apply(definition(resource, spec))
        admin("wait", "--for=condition=Established", f"crd/{resource}", "--timeout=30s")


@pytest.mark.parametrize("gang", ["native", "volcano", "scheduler-plugins", "gates"])
@pytest.mark.parametrize("name", [*JOBS, "MPIJob v2beta1"])
def test_an_api_server_accepts_what_keeps_gangs_together(admin, definitions, name, gang):
    job = mpi_job(3, modern=True) if name not in JOBS else JOBS[name]
    kind = kind_of(job)
    assert kind
    desired = kind.build(kind.read(kind.default(job)), replace(KUBERNETES, gang=gang), 0)
    made = [each for each in render(desired) if each["kind"] in ("PodGroup", "Pod", "StatefulSet", "Job")]

    admin(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin={"kind": "List", "apiVersion": "v1", "items": made},
    )


def goes_in(kubectl: Kubectl, like: Object) -> None:
    """Apply a job, see all its pods that start together on the node, and remove it again."""
    text = json.dumps({**like, "metadata": {"name": "j"}}).replace('["c"]', '["sleep", "1000"]')
    kubectl.apply(text.replace('"entrypoint": "c"', '"entrypoint": "sleep 1000"'))
    kind = kind_of(like)
    assert kind
    for index in range(3):
        role = "trainer" if kind.name == "TrainingJob" else "worker"
        kubectl.wait(f"pod/j-{role}-{index}", "jsonpath={.spec.nodeName}=one")
    kubectl("delete", f"{kind.resource}/j", "--cascade=foreground", "--grace-period=1", "--timeout=60s")


def test_gates_let_one_gang_in_after_the_other(plane, admin, node, tmp_path):
    kubectl = namespace(plane, admin, "gates")
    with operating(account(plane, admin), tmp_path, "--gang=gates"):
        one_after_the_other(kubectl)

        for each in JOBS.values():
            goes_in(kubectl, each)

        kubectl.apply(job("large", 5, "true"))
        path = f"jsonpath={{.metadata.annotations['{GANG_WAITS_ANNOTATION.replace('.', chr(92) + '.')}']}}"
        until(lambda: kubectl("get", "pod/large-worker-0", "-o", path), "it is said why the gang waits")
        words = kubectl("get", "pod/large-worker-0", "-o", path)
        assert words == "a gang of 5 pods needs cpu 5, but 4 of 4 is free; it can never fit here"
        told = kubectl("get", "events", "--field-selector=reason=GangWaiting", "-o", "json")
        assert {each["involvedObject"]["name"]: each["message"] for each in json.loads(told)["items"]}["large"] == words
        kubectl("delete", "pytorchjob/large")

    used = {call for call, _, _ in calls(plane)}
    assert {Call(right.group, right.resource, right.verb) for right in GANG_RIGHTS["gates"]} - used == set()
    assert not refused(plane)


def test_native_groups_are_found_and_keep_gangs_together(plane, admin, node, tmp_path):
    kubectl = namespace(plane, admin, "native")
    with operating(account(plane, admin), tmp_path, "--gang=auto") as operator:
        one_after_the_other(kubectl)

        assert [line["gang"] for line in operator.lines() if line["message"] == "gang strategy found"] == ["native"]
        kubectl.until_gone("podgroups.scheduling.k8s.io/a-v0")  # its job has ended
        kubectl.apply(job("c", 3, "sleep 1000"))
        kubectl("wait", "--for=create", "podgroups.scheduling.k8s.io/c-v0", "--timeout=30s")
        group = kubectl.get("podgroups.scheduling.k8s.io/c-v0")
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        kubectl("delete", "pytorchjob/c", "--cascade=foreground", "--timeout=60s")

        kubectl.apply(staged())
        kubectl("wait", "--for=jsonpath={.status.state.phase}=Completed", "vcjob/s", "--timeout=60s")

        kubectl.apply({**group, "metadata": {"name": "d-v0"}})
        kubectl.apply(job("d", 2, "true"))
        until(lambda: "NameTaken" in kubectl("get", "events"), "it is said that somebody else has the group's name")
    used = {call for call, _, _ in calls(plane)}
    assert {Call(right.group, right.resource, right.verb) for right in GANG_RIGHTS["native"]} - used == set()
    assert not refused(plane)


def staged() -> Object:
    """Return a Volcano Job of two stages; in the second a pod fails when the other has ended, and is made again."""
    again = "test -e $TMPDIR/again || { touch $TMPDIR/again; sleep 2; exit 3; }"
    scripts = {"first": "sleep 4", "second": f"case $(hostname) in *-0) exit 0;; esac; {again}"}
    tasks = [
        {
            "name": name,
            "replicas": 2,
            "policies": [{"event": "PodFailed", "action": "RestartPod"}],
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", script]}],
                }
            },
        }
        for name, script in scripts.items()
    ]
    tasks[1]["dependsOn"] = {"name": ["first"]}
    spec = {"minAvailable": 4, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "s"}, "spec": spec}
