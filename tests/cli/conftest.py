"""`tw` in this process: the exit code, and what was said on which stream."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainwright import cli


@dataclass(frozen=True)
class Said:
    """How a command ended, and its words."""

    code: int
    out: str
    err: str


Tw = Callable[..., Said]


@pytest.fixture
def tw(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    """Return what calls `tw` with some words; runs are kept in the test's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["tw", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        assert isinstance(left.value.code, int)
        return Said(left.value.code, out, err)

    return call


def manifest(
    command: str = "echo hello", *, name: str = "mnist", workers: int = 0, policy: str = "Never", **spec: object
) -> str:
    """Return a PyTorchJob whose ranks all run a line of shell."""
    import yaml

    container = {"name": "pytorch", "image": "none", "command": ["sh", "-c", command], **spec}
    role = {"restartPolicy": policy, "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {"replicas": 1, **role}}
    if workers:
        roles["Worker"] = {"replicas": workers, **role}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    return yaml.safe_dump({**job, "spec": {"pytorchReplicaSpecs": roles}})
