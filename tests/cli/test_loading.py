"""A manifest on its way in: where objects land, what --set changes, and what is said about bad ones."""

import pytest

from trainwright.cli.loading import load
from trainwright.cli.settings import read
from trainwright.core.errors import BadRequest, ManifestError, NotFound

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: pytorch, image: x, command: [echo]}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: data, namespace: team}
data: {a: b}
"""


def write(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return str(path)


def test_jobs_and_what_stands_beside_them_are_told_apart(tmp_path):
    loaded = load(write(tmp_path, f"{CONFIG}---{JOB}"))

    assert [obj["metadata"]["name"] for obj in loaded.jobs] == ["mnist"]
    assert [obj["kind"] for obj in loaded.support] == ["ConfigMap"]


def test_an_object_keeps_its_namespace_and_others_get_the_one_asked_for(tmp_path):
    places = lambda file, ns: [obj["metadata"]["namespace"] for obj in load(file, namespace=ns).jobs]  # noqa: E731

    assert places(write(tmp_path, JOB), None) == ["default"]
    assert places(write(tmp_path, JOB), "team") == ["team"]


def test_two_namespaces_that_differ_are_a_mistake(tmp_path):
    with pytest.raises(ManifestError, match="'team', but -n says 'other'"):
        load(write(tmp_path, f"{JOB}---{CONFIG}"), namespace="other")


def test_a_setting_changes_the_jobs_and_nothing_else(tmp_path):
    file = write(tmp_path, f"{CONFIG}---{JOB}")
    loaded = load(file, [read("spec.pytorchReplicaSpecs.Worker.replicas=3")])

    assert loaded.jobs[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    with pytest.raises(BadRequest, match=r"--set spec\.pytorchReplicaSpecs\.Wroker"):
        load(file, [read("spec.pytorchReplicaSpecs.Wroker.replicas=3")])


def test_a_value_that_was_set_wrong_is_rejected_like_a_written_one(tmp_path):
    with pytest.raises(ManifestError, match=r"Worker\.replicas"):
        load(write(tmp_path, JOB), [read("spec.pytorchReplicaSpecs.Worker.replicas=many")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "the file is empty", id="an empty file"),
        pytest.param("a: [", "job.yaml:1", id="broken YAML says the line"),
        pytest.param(f"{JOB}---\na: [\n", "job.yaml:1", id="one bad document stops all"),
        pytest.param(JOB.replace("PyTorchJob", "PyTorchJb"), "did you mean 'PyTorchJob'?", id="an unknown kind"),
        pytest.param(CONFIG, "there is no job in this file", id="no job at all"),
        pytest.param(f"{JOB}---{JOB}", "a second time", id="the same job twice"),
        pytest.param(JOB.replace("replicas:", "replica:"), "did you mean 'replicas'?", id="a misspelt field"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, words):
    with pytest.raises(ManifestError) as error:
        load(write(tmp_path, text))

    assert words in str(error.value)
    assert "job.yaml" in str(error.value)


def test_a_file_that_is_not_there_or_no_file(tmp_path):
    with pytest.raises(NotFound, match=r"none\.yaml: there is no such file"):
        load(str(tmp_path / "none.yaml"))
    with pytest.raises(ManifestError, match="a folder"):
        load(str(tmp_path))


def test_lenient_turns_unknown_fields_into_warnings(tmp_path):
    file = write(tmp_path, JOB.replace("spec:\n  py", "spec:\n  speling: 1\n  py"))
    with pytest.raises(ManifestError):
        load(file)

    assert "speling" in load(file, lenient=True).warnings[0]
