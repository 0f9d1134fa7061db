"""What `tw doctor` finds here, where nothing is set up and where something is wrong."""

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Tw

STATES = {"ok", "warn", "fail"}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing of whoever runs the tests be found."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_a_machine_without_server_and_cluster_is_well(tw: Tw):
    said = tw("doctor", "-o", "json")
    found = {row["what"]: row for row in json.loads(said.out)}

    assert said.code == 0
    assert {row["state"] for row in found.values()} <= STATES
    assert found["tw serve"]["found"] == "not running; tw serve starts one"
    assert found["cluster"]["found"].startswith("none is named")
    assert {"trainwright", "machine", "isolation", "cgroups", "GPUs", "mpirun", "disk"} <= found.keys()
    assert all(row["remedy"] for row in found.values() if row["state"] == "fail")


def test_a_cluster_that_does_not_answer_is_a_failure(tw: Tw, tmp_path: Path):
    config = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))

    said = tw("doctor", "--kubeconfig", str(tmp_path / "config"))

    assert said.code == 1
    assert "\nfail  cluster" in said.out
    assert "kubectl version" in said.out


def test_runs_that_cannot_be_kept_are_a_failure(tw: Tw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")

    said = tw("doctor")

    assert said.code == 1
    assert "fail  disk" in said.out
    assert "set XDG_STATE_HOME" in said.out


def test_a_python_with_a_framework_is_asked_for_its_version(tw: Tw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho torch 2.5.0\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    found = {row["what"]: row for row in json.loads(tw("doctor", "-o", "json").out)}

    assert found["torch"]["found"] == "2.5.0"
    assert found["frameworks"]["found"] == f"{python} has no tensorflow or ray or paddle or mxnet"
