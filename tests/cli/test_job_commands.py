"""What the commands over jobs decide before they ask anybody: goals, copies of jobs, the objects of files."""

import pytest

from trainwright.api.faces import PYTORCH_JOB, VOLCANO_JOB
from trainwright.cli import loading
from trainwright.cli.applying import to_create
from trainwright.cli.retry import manifest
from trainwright.cli.settings import read
from trainwright.cli.wait import goal
from trainwright.core.errors import ManifestError, NotFound
from trainwright.core.objects import Object

RUNNING = {"type": "Running", "status": "True"}


@pytest.mark.parametrize(
    ("text", "face", "status", "holds"),
    [
        pytest.param("phase=Running", PYTORCH_JOB, {"conditions": [RUNNING]}, True, id="a phase"),
        pytest.param("phase=running", PYTORCH_JOB, {"conditions": [RUNNING]}, True, id="in small letters"),
        pytest.param("phase=Failed,Running", PYTORCH_JOB, {"conditions": [RUNNING]}, True, id="one of several phases"),
        pytest.param("phase=Failed", PYTORCH_JOB, {"conditions": [RUNNING]}, False, id="another phase"),
        pytest.param("condition=Running", PYTORCH_JOB, {"conditions": [RUNNING]}, True, id="a condition"),
        pytest.param("condition=Running=False", PYTORCH_JOB, {"conditions": [RUNNING]}, False, id="one that is not so"),
        pytest.param("condition=Failed", PYTORCH_JOB, {}, False, id="one that is not there"),
        pytest.param(
            "condition=Running",
            VOLCANO_JOB,
            {"conditions": [{"status": "Running"}]},
            True,
            id="a phase a Job went through",
        ),
        pytest.param("jsonpath={.status.active}=2/2", PYTORCH_JOB, {"active": "2/2"}, True, id="a value at a path"),
        pytest.param("jsonpath={.status.active}=2/2", PYTORCH_JOB, {"active": "1/2"}, False, id="another value"),
        pytest.param("jsonpath={.status.active}", PYTORCH_JOB, {"active": "1/2"}, True, id="any value"),
        pytest.param(
            'jsonpath={.status.conditions[?(@.type=="Running")].status}=True',
            PYTORCH_JOB,
            {"conditions": [RUNNING]},
            True,
            id="a value at a path with a test in it",
        ),
    ],
)
def test_goals(text, face, status, holds):
    assert goal(text).holds(face, {"status": status}) is holds


@pytest.mark.parametrize("text", ["", "phase", "phase=", "ready=true", "deleted"])
def test_what_cannot_be_waited_for(text):
    with pytest.raises(ValueError, match="cannot be waited for; write phase=PHASE"):
        goal(text)


def job(**annotations: str) -> Object:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "mnist",
            "namespace": "ns",
            "uid": "u",
            "labels": {"team": "a"},
            "annotations": {f"trainwright.dev/{name.replace('_', '-')}": text for name, text in annotations.items()},
        },
        "spec": {"size": 4},
        "status": {"active": "0/1"},
    }


@pytest.mark.parametrize(
    ("old", "annotations"),
    [
        pytest.param(job(), {"trainwright.dev/retry-of": "mnist"}, id="it says whom it runs once more"),
        pytest.param(job(retry_of="first"), {"trainwright.dev/retry-of": "first"}, id="always the first of them"),
        pytest.param(
            job(cancel="ann", scaled="{}", record="{}", lenient="true"),
            {"trainwright.dev/lenient": "true", "trainwright.dev/retry-of": "mnist"},
            id="what belongs to the old run is left behind",
        ),
    ],
)
def test_a_job_is_run_once_more(old, annotations):
    assert manifest(old) == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"namespace": "ns", "labels": {"team": "a"}, "annotations": annotations},
        "spec": {"size": 4},
    }


def test_what_was_applied_is_run_once_more_not_what_others_have_made_of_it():
    applied = to_create({**job(), "spec": {"size": 2}})
    old = {**applied, "spec": {"size": 4, "filled": "in"}, "status": {}}

    assert manifest(old)["spec"] == {"size": 2}


CONFIG = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}\n"


def test_files_folders_and_documents_are_applied_in_order(tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "b.yaml").write_text(CONFIG % "b1" + "---\n" + CONFIG % "b2")
    (tmp_path / "jobs" / "a.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}')
    (tmp_path / "jobs" / "notes.txt").write_text("not for us")
    (tmp_path / "z.yaml").write_text(CONFIG % "z")

    found, warnings = loading.objects([str(tmp_path / "z.yaml"), str(tmp_path / "jobs")], namespace="ns")

    assert [(obj["metadata"]["name"], obj["metadata"]["namespace"]) for _, obj in found] == [
        ("z", "ns"),
        ("a", "ns"),
        ("b1", "ns"),
        ("b2", "ns"),
    ]
    assert warnings == []


def test_a_job_of_an_older_version_is_stored_as_the_newer_one(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "{apiVersion: kubeflow.org/v1alpha1, kind: MPIJob, metadata: {name: m}, spec: {replicas: 1, template: {spec: "
        "{containers: [{name: c, image: i, command: [mpirun]}]}}}}"
    )

    ((resource, obj),), _ = loading.objects([str(file)], [read("spec.replicas=2")])

    assert (resource.plural, obj["apiVersion"], obj["spec"]["replicas"]) == ("mpijobs", "kubeflow.org/v2beta1", 2)
    assert "namespace" not in obj["metadata"]


def test_everything_that_is_wrong_with_any_file_is_said_together(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  nam: x\n")

    with pytest.raises(ManifestError) as refused:
        loading.objects([str(tmp_path)])

    said = str(refused.value)
    assert f"{tmp_path}/a.yaml:4: metadata.nam: unknown field 'nam'" in said
    assert f"{tmp_path}/b.yaml:4: metadata.nam: unknown field 'nam'" in said


def test_a_folder_without_manifests_is_a_mistake(tmp_path):
    with pytest.raises(NotFound, match=r"there are no manifests in this folder \(\*\.yaml"):
        loading.objects([str(tmp_path)])
