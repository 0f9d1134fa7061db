"""MPIJob: which form is read, how units become workers, what is refused in which words, and the Job that comes out."""

from typing import Any

import pytest
from tests.api.examples import sentences

from trainwright.api import manifest
from trainwright.api.mpi_job import (
    NodeSize,
    Sizing,
    check,
    default,
    read,
    sizing_of,
    spec_of,
)
from trainwright.core.errors import Problem
from trainwright.core.objects import Object

TEMPLATE = {"spec": {"containers": [{"name": "train", "image": "i", "command": ["mpirun", "train"]}]}}


def old(**spec: Any) -> Object:
    """Return a v1alpha1 job."""
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "MPIJob",
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"template": TEMPLATE, **spec},
    }


def modern(workers: int | None = 2, roles: Object | None = None, **spec: Any) -> Object:
    """Return a v2beta1 job."""
    there: Object = {"Launcher": {"template": TEMPLATE}}
    if workers is not None:
        there["Worker"] = {"replicas": workers, "template": TEMPLATE}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"mpiReplicaSpecs": roles or there, **spec},
    }


def limited(resource: str, amount: Any) -> Object:
    container = {"name": "train", "image": "i", "resources": {"limits": {resource: amount}}}
    return {"spec": {"containers": [container]}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(old(gpus=128), id="gpus"),
        pytest.param(old(processingUnits=4, processingResourceType="cpu"), id="units"),
        pytest.param(old(replicas=3, slotsPerWorker=2), id="replicas"),
        pytest.param(modern(), id="roles"),
        pytest.param(modern(None), id="a launcher alone"),
    ],
)
def test_a_good_job_has_no_problems(job):
    assert check(job) == []
    assert check(default(job)) == []
    assert check(default(job), old=default(job)) == []


DOCUMENT = """
apiVersion: kubeflow.org/v1alpha1
kind: MPIJob
metadata:
  name: tensorflow-benchmarks
spec:
  {size}
  template:
    spec:
      containers:
      - name: tensorflow-benchmarks
        image: rongou/tensorflow_benchmarks:latest
        command: ["mpirun"]
        args: ["-bind-to", "none", "-map-by", "slot", "python", "scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"]
        resources:
          limits:
            nvidia.com/gpu: 8
"""


@pytest.mark.parametrize("size", ["gpus: 128", "replicas: 16"])
def test_the_examples_of_the_design_document_are_sixteen_workers_of_eight(size):
    (document,) = manifest.parse(DOCUMENT.format(size=size))

    assert document.object is not None
    assert check(document.object) == []
    job = read(document.object)
    assert (job.count("Worker"), job.requests[0].options["slots"]) == (16, 8)


@pytest.mark.parametrize(
    ("spec", "home", "workers", "units", "slots"),
    [
        pytest.param({"gpus": 64}, NodeSize(), 8, 8, 8, id="F2: 64 GPUs of 8 per node are 8 workers"),
        pytest.param({"gpus": 16}, NodeSize(), 2, 8, 8, id="F5: 16 GPUs are 2 workers"),
        pytest.param({"gpus": 4}, NodeSize(), 1, 4, 4, id="fewer than a node has are one worker with just these"),
        pytest.param({"gpus": 3, "gpusPerNode": 1}, NodeSize(), 3, 1, 1, id="the job's own number per node counts"),
        pytest.param({"gpus": 12}, NodeSize(gpus=4), 3, 4, 4, id="the home's number per node counts"),
        pytest.param({"processingUnits": 6}, NodeSize(units=2), 3, 2, 2, id="units of the home's type"),
        pytest.param({"processingUnits": 8, "processingUnitsPerNode": 4}, NodeSize(), 2, 4, 4, id="units per node"),
        pytest.param(
            {"replicas": 4, "processingResourceType": "cpu", "template": limited("cpu", "4")},
            NodeSize(),
            4,
            4,
            4,
            id="F7: replicas take their units from the first container's limits",
        ),
        pytest.param({"replicas": 3}, NodeSize(), 3, 0, 1, id="replicas without units have one slot"),
        pytest.param({"replicas": 3, "slotsPerWorker": 5}, NodeSize(), 3, 0, 5, id="slots as asked"),
        pytest.param({"gpus": 128, "runLauncherAsWorker": True}, NodeSize(), 15, 8, 8, id="the launcher works too"),
        pytest.param({"gpus": 8, "runLauncherAsWorker": True}, NodeSize(), 0, 8, 8, id="the launcher works alone"),
        pytest.param(
            {"replicas": 4, "runLauncherAsWorker": True}, NodeSize(), 3, 0, 1, id="replicas with the launcher"
        ),
    ],
)
def test_sizes(spec, home, workers, units, slots):
    job = read(old(**spec), home)
    sizing = sizing_of(job, home)

    assert isinstance(sizing, Sizing)
    assert (job.count("Worker"), sizing.units, job.requests[0].options["slots"]) == (workers, units, slots)


@pytest.mark.parametrize(
    ("spec", "home", "said"),
    [
        pytest.param(
            {"gpus": 20},
            NodeSize(),
            "spec.gpus: 20 is not a multiple of gpusPerNode (8); write 16 or 24, or a gpusPerNode that divides it",
            id="by the home's number",
        ),
        pytest.param(
            {"processingUnits": 7, "processingUnitsPerNode": 3},
            NodeSize(),
            (
                "spec.processingUnits: 7 is not a multiple of processingUnitsPerNode (3); "
                "write 6 or 9, or a processingUnitsPerNode that divides it"
            ),
            id="by the job's own",
        ),
    ],
)
def test_a_number_that_does_not_divide_is_refused_with_those_that_would(spec, home, said):
    found = sizing_of(read(old(**spec), home), home)

    assert isinstance(found, Problem)
    assert str(found) == said


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param(
            old(),
            [
                (
                    "spec: says nothing about how large the job is; write one of gpus, processingUnits, replicas "
                    "(v1alpha1) or mpiReplicaSpecs (v2beta1)"
                )
            ],
            id="no form",
        ),
        pytest.param(
            old(gpus=8, replicas=2),
            [
                (
                    "spec: has gpus and replicas, which exclude each other; write one of gpus, processingUnits, "
                    "replicas (v1alpha1) or mpiReplicaSpecs (v2beta1)"
                )
            ],
            id="two forms",
        ),
        pytest.param(
            {**old(), "spec": {"replicas": 2}},
            ["spec.template: missing; launcher and workers are made from it"],
            id="no template",
        ),
        pytest.param(
            old(gpus=7, gpusPerNode=2),
            ["spec.gpus: 7 is not a multiple of gpusPerNode (2); write 6 or 8, or a gpusPerNode that divides it"],
            id="a number that does not divide",
        ),
        pytest.param(
            old(replicas=2, gpusPerNode=4),
            ["spec.gpusPerNode: only means something beside gpus; leave it out"],
            id="a number per node without a total",
        ),
        pytest.param(
            old(replicas=2, processingResourceType="cpu", template=limited("cpu", "500m")),
            [
                (
                    "warning: spec.template.spec.containers[0].resources.limits[cpu]: '500m' is no whole "
                    "number of units; write one, or slotsPerWorker"
                )
            ],
            id="a part of a unit",
        ),
        pytest.param(
            old(replicas=2, mpiImplementation="MPICH"),
            ["spec.mpiImplementation: belongs to mpiReplicaSpecs, not to replicas; leave it out"],
            id="a field of the other version",
        ),
        pytest.param(
            modern(backoffLimit=2),
            ["spec.backoffLimit: is spec.runPolicy.backoffLimit beside mpiReplicaSpecs; write it there"],
            id="a limit in the old place",
        ),
        pytest.param(
            modern(roles={"Worker": {"replicas": 1, "template": TEMPLATE}}),
            ["spec.mpiReplicaSpecs.Launcher: missing; it starts the ranks"],
            id="no launcher",
        ),
        pytest.param(
            modern(roles={"Launcher": {"template": TEMPLATE}, "Wroker": {"template": TEMPLATE}}),
            [
                (
                    "spec.mpiReplicaSpecs.Wroker: there is no role 'Wroker'; did you mean 'Worker'? "
                    "(there are: Launcher, Worker)"
                )
            ],
            id="a misspelt role",
        ),
        pytest.param(
            modern(roles={"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}),
            [
                (
                    "spec.mpiReplicaSpecs.Worker.replicas: must be at least 1, found 0; "
                    "leave Worker out for a launcher alone"
                )
            ],
            id="F17: workers without a number",
        ),
        pytest.param(
            modern(roles={"Launcher": {"replicas": 2, "template": TEMPLATE}}),
            ["spec.mpiReplicaSpecs.Launcher.replicas: there is exactly one Launcher, found 2; write 1"],
            id="two launchers",
        ),
        pytest.param(
            modern(roles={"Launcher": {"restartPolicy": "Always", "template": TEMPLATE}}),
            ["spec.mpiReplicaSpecs.Launcher.restartPolicy: must be Never or OnFailure, found Always"],
            id="a launcher that never ends",
        ),
        pytest.param(
            modern(mpiImplementation="OpenMP"),
            [("spec.mpiImplementation: must be one of OpenMPI, Intel, MPICH; found 'OpenMP'; did you mean 'OpenMPI'?")],
            id="an MPI nobody knows",
        ),
    ],
)
def test_what_is_refused(job, expected):
    assert sentences(check(job)) == expected


@pytest.mark.parametrize(
    ("annotations", "spec", "said"),
    [
        ({"trainwright.dev/transport": "exec"}, modern()["spec"], []),
        (
            {"trainwright.dev/transport": "rsh"},
            modern()["spec"],
            ["metadata.annotations[trainwright.dev/transport]: must be exec or ssh, found 'rsh'"],
        ),
        (
            {"trainwright.dev/transport": "ssh"},
            old(replicas=1)["spec"],
            [
                (
                    "metadata.annotations[trainwright.dev/transport]: ssh goes with mpiReplicaSpecs; "
                    "a v1alpha1 job is started by exec"
                )
            ],
        ),
    ],
    ids=["exec for v2beta1", "no such transport", "ssh for v1alpha1"],
)
def test_transport(annotations, spec, said):
    job = modern()
    job = {**job, "metadata": {**job["metadata"], "annotations": annotations}, "spec": spec}

    assert sentences(check(job)) == said


def test_both_versions_are_stored_as_one():
    assert default(old(gpus=8))["apiVersion"] == default(modern())["apiVersion"] == "kubeflow.org/v2beta1"


def test_what_v1alpha1_fills_in():
    assert default(old(gpus=8))["spec"] == {"backoffLimit": 6, "template": TEMPLATE, "gpus": 8}


def test_what_v2beta1_fills_in():
    spec = spec_of(read(modern()))

    assert (spec.slots_per_worker, spec.ssh_auth_mount_path, spec.mpi_implementation) == (1, "/root/.ssh", "OpenMPI")
    assert spec.run_policy is not None
    assert (spec.launcher_creation_policy, spec.run_policy.clean_pod_policy) == ("AtStartup", "None")
    assert [(role.name, role.replicas, role.restart_policy) for role in read(modern()).roles] == [
        ("Launcher", 1, "OnFailure"),
        ("Worker", 2, "Never"),
    ]


def test_a_job_keeps_its_form():
    assert sentences(check(old(replicas=2), old=old(gpus=8))) == [
        "spec: a job that says gpus cannot say replicas instead; delete it and create it again"
    ]
