"""The commands that run nothing: their output, their exit codes, and how bad input is answered."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import manifest

from trainwright import __version__
from trainwright.cli import COMMANDS


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(manifest(workers=2))
    return str(path)


def test_help_answers_at_once_and_names_every_command():
    """Processor time is measured: what the answer takes on a machine that has nothing else to do."""
    words = [str(Path(sys.executable).with_name("tw")), "--help"]
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(times) < 0.25, f"{min(times):.3f} s"
    for name, row in COMMANDS.items():
        assert name in said
        assert row.summary in said


def test_help_imports_nothing_of_ours_but_the_table():
    code = "import sys, trainwright.cli; print(*sorted(m for m in sys.modules if m.startswith(('trainwright', 'rich', 'asyncio', 'yaml', 'msgspec'))))"  # noqa: E501
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["trainwright", "trainwright.cli", "trainwright.cli.exits"]


def test_what_only_looks_loads_no_kind():
    """`tw ps` and the completion of names answer at once because they know the faces of kinds and nothing else."""
    code = "import sys, trainwright.cli.ps, trainwright.cli.completion, trainwright.cli.homes, trainwright.cluster.kubernetes; print(*sys.modules)"  # noqa: E501
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = (
        "trainwright.kinds",
        "trainwright.reconcile",
        "trainwright.desired",
        "trainwright.operator",
        "yaml",
        "rich",
    )

    assert not [name for name in said.split() if name.startswith(heavy)]


def test_version(tw):
    assert tw("--version").out == f"trainwright {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(tw, name):
    said = tw(name, "--help")

    assert said.code == 0
    assert said.out.startswith(f"Usage: tw {name}")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        pytest.param(["rnder"], 2, "no such command: 'rnder'; did you mean 'render'?", id="a misspelt command"),
        pytest.param(["run"], 2, "Missing argument 'FILE'", id="no file"),
        pytest.param(["run", "x.yaml", "--timeout", "soon"], 2, "write for example 30s", id="no duration"),
        pytest.param(["run", "x.yaml", "--set", "a"], 2, "write path=value", id="no value"),
        pytest.param(["run", "none.yaml"], 127, "none.yaml: there is no such file", id="no such file"),
        pytest.param(["render", "none.yaml"], 127, "none.yaml: there is no such file", id="no such file to render"),
        pytest.param(["status", "mnist"], 127, "run a job with: tw run FILE", id="no runs"),
        pytest.param(["logs", "a/b/c"], 2, "names no job", id="no address"),
        pytest.param(["completion", "tcsh"], 2, "'tcsh' is not one of", id="another shell"),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(tw, words, code, sentence):
    said = tw(*words)

    assert (said.code, said.out) == (code, "")
    assert sentence in said.err


@pytest.mark.parametrize("command", ["run", "render", "explain"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "the file is empty", id="an empty file"),
        pytest.param("kind: [", "job.yaml:1", id="broken YAML"),
        pytest.param(f"{manifest()}---\nkind: PyTorchJob\n", "apiVersion", id="one bad document of two"),
        pytest.param("apiVersion: kubeflow.org/v1\nkind: Nonsense\n", "no kind", id="an unknown kind"),
        pytest.param(
            manifest().replace("restartPolicy", "restartPolice"), "did you mean 'restartPolicy'?", id="a field"
        ),
    ],
)
def test_a_manifest_that_is_wrong_is_rejected_before_anything_is_done(tw, tmp_path, command, text, sentence):
    (tmp_path / "job.yaml").write_text(text)

    said = tw(command, str(tmp_path / "job.yaml"))

    assert (said.code, said.out) == (126, "")
    assert sentence in said.err
    assert not (tmp_path / "state").exists()


def test_render_prints_every_object_in_creation_order(tw, file):
    objects = list(yaml.safe_load_all(tw("render", file).out))

    kinds = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in objects]
    assert kinds[-3:] == ["Pod/mnist-master-0", "Pod/mnist-worker-0", "Pod/mnist-worker-1"]
    assert kinds.index("Service/mnist-master-0") < kinds.index("Pod/mnist-master-0")
    assert [obj["kind"] for obj in json.loads(tw("render", file, "-o", "json").out)["items"]] == [
        obj["kind"] for obj in objects
    ]


def test_render_job_prints_what_would_be_stored(tw, file):
    said = tw("render", file, "--job", "-n", "team", "--set", "spec.pytorchReplicaSpecs.Worker.replicas=5")

    job = yaml.safe_load(said.out)
    assert job["metadata"]["namespace"] == "team"
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 5
    assert job["spec"]["nprocPerNode"] == "auto"


def test_explain_groups_by_pod_and_narrows_to_a_role(tw, file):
    said = tw("explain", file, "--role", "worker").out

    assert [line for line in said.splitlines() if line and line[0] != " "] == ["mnist-worker-0", "mnist-worker-1"]
    assert "env[RANK]" in said
    rows = json.loads(tw("explain", file, "-o", "json").out)
    assert set(rows[0]) == {"pod", "path", "value", "source", "reason"}
    assert {row["pod"] for row in rows} == {"mnist-master-0", "mnist-worker-0", "mnist-worker-1"}


def test_explain_of_a_role_that_is_not_there(tw, file):
    said = tw("explain", file, "--role", "Wroker")

    assert said.code == 127
    assert "no role" in said.err or "did you mean 'Worker'?" in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(tw, shell):
    said = tw("completion", shell)

    assert said.code == 0
    assert "_TW_COMPLETE" in said.out


def test_a_reader_that_goes_away_is_no_error():
    tw_path = Path(sys.executable).with_name("tw")
    said = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {tw_path} render examples/pytorch/static.yaml | true; echo ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in said.stderr
