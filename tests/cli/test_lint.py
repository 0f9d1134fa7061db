"""`tw lint`: one line for each problem, and the exit codes scripts rely on."""

import json

import pytest
from click.testing import CliRunner
from tests.api.mutations import broken
from tests.conftest import ROOT

from trainwright.cli.lint import command

GOOD = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: mnist
spec:
  pytorchReplicaSpecs:
    Master:
      template: &template
        spec:
          containers:
          - name: pytorch
            image: torch
            command: [python, train.py]
    Worker:
      replicas: 2
      template: *template
"""
BAD = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: a-name-that-is-much-too-long-once-the-pods-have-their-own
spec:
  runPolicy:
    cleanPodPolcy: All
  runPolicy:
    backoffLimit: "3"
  pytorchReplicaSpecs:
    Worker:
      restartPolicy: Always
      template:
        spec:
          containers:
          - name: pytorch
            image: torch
            resources: {limits: {memory: 4GB}}
---
kind:
\t- x
"""


def lint(*arguments, text=None):
    result = CliRunner().invoke(command, arguments, input=text)
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, content):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


def test_a_good_manifest_is_quiet(write):
    result = lint(write("job.yaml", GOOD))

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no problems in 1 file\n")


def test_every_problem_has_its_file_line_and_path(write):
    result = lint(write("job.yaml", BAD))

    worker = "spec.pytorchReplicaSpecs.Worker"
    assert result.stdout.splitlines() == [
        (
            "job.yaml:8: metadata.name: pod 'a-name-that-is-much-too-long-once-the-pods-have-their-own-worker-0' "
            "would be 66 characters long, but a host name has at most 63; shorten the name to 54"
        ),
        "job.yaml:12: spec.runPolicy: the key 'runPolicy' stands here a second time; the first is on line 10",
        "job.yaml:13: spec.runPolicy.backoffLimit: expected a whole number, found '3'; write 3 without quotes",
        (
            f"job.yaml:16: {worker}.restartPolicy: warning: a container that ends well is started again, so the job "
            "never succeeds; use OnFailure"
        ),
        (
            f"job.yaml:22: {worker}.template.spec.containers[0].resources.limits.memory: '4GB' is not a quantity; "
            "write a number with an optional suffix, such as 500m, 2 or 4Gi"
        ),
        "job.yaml:25: the line is indented with a tab; use spaces",
    ]
    assert result.stderr == "5 problems and 1 warning in 1 file\n"
    assert result.exit_code == 126


def test_rows_for_programs(write):
    result = lint("-o", "json", write("job.yaml", GOOD.replace("replicas: 2", "replicas: 0")))

    assert json.loads(result.stdout) == [
        {
            "file": "job.yaml",
            "line": 15,
            "path": "spec.pytorchReplicaSpecs.Worker.replicas",
            "problem": "must be at least 1, found 0",
            "severity": "error",
        }
    ]
    assert result.stderr == ""
    assert result.exit_code == 126
    assert json.loads(lint("-o", "json", write("job.yaml", GOOD)).stdout) == []


def test_warnings_do_not_fail(write):
    result = lint(write("job.yaml", GOOD.replace("replicas: 2", "restartPolicy: Always")))

    assert (result.exit_code, result.stderr) == (0, "1 warning in 1 file\n")


def test_lenient_only_warns_of_unknown_fields(write):
    write("job.yaml", GOOD.replace("replicas: 2", "replica: 2"))

    assert lint("job.yaml").exit_code == 126
    assert lint("--lenient", "job.yaml").exit_code == 0
    assert "Worker.replica: warning: unknown field 'replica'" in lint("--lenient", "job.yaml").stdout


def test_standard_input(write):
    result = lint("-", text=GOOD.replace("name: mnist", "name: 5"))

    assert result.stdout == '<stdin>:4: metadata.name: expected text, found 5; put it in quotes: "5"\n'


def test_several_files_are_told_in_their_order(write):
    result = lint(write("b.yaml", "x"), write("a.yaml", ""), write("c.yaml", GOOD))

    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["b.yaml", "a.yaml"]
    assert result.stderr == "2 problems in 3 files\n"


def test_two_objects_of_the_same_name(write):
    result = lint(write("job.yaml", f"{GOOD}---\n{GOOD}"))

    assert result.stdout == (
        "job.yaml:21: metadata.name: PyTorchJob mnist stands in this file a second time; the first begins on line 1; "
        "give it another name\n"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(GOOD.encode("utf-16"), "", id="UTF-16 with a mark is read"),
        pytest.param(b"\xef\xbb\xbf" + GOOD.encode(), "", id="so is UTF-8 with a mark"),
        pytest.param(
            b"a: 1\nb: \xff\n", "job.yaml:2: this is not text; save the file as UTF-8\n", id="other bytes are refused"
        ),
        pytest.param(
            b"\xff\xfea", "job.yaml:1: this is not text; save the file as UTF-8\n", id="half a character is refused"
        ),
    ],
)
def test_encodings(write, content, expected):
    result = lint(write("job.yaml", content))

    assert result.stdout == expected
    assert result.exit_code == (126 if expected else 0)


def test_a_file_that_is_not_there(write, tmp_path):
    (tmp_path / "folder").mkdir()

    result = lint("missing.yaml", "folder", write("job.yaml", GOOD))

    assert result.stdout == ("missing.yaml: there is no such file\nfolder: this is a folder; name the files in it\n")
    assert result.exit_code == 127


def test_no_text_brings_it_down(write):
    for seed in range(200):
        result = lint(write("job.yaml", broken(seed)))

        assert result.exit_code in (0, 126)
        assert all(line.startswith("job.yaml:") for line in result.stdout.splitlines())


def test_help_has_examples():
    assert "tw lint job.yaml" in lint("--help").stdout


def test_no_file_is_a_mistake_in_the_call():
    assert lint().exit_code == 2


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_our_own_examples_have_no_problems(path):
    assert lint(str(path)).stdout == ""
