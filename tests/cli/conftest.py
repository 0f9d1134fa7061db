"""`tw` in this process: the exit code, and what was said on which stream."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.e2e import processes
from tests.e2e.running import Running

from trainwright import cli

TW = str(Path(sys.executable).with_name("tw"))


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
    container = {"name": "pytorch", "image": "none", "command": ["sh", "-c", command], **spec}
    role = {"restartPolicy": policy, "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {"replicas": 1, **role}}
    if workers:
        roles["Worker"] = {"replicas": workers, **role}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    return yaml.safe_dump({**job, "spec": {"pytorchReplicaSpecs": roles}})


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return an environment with a mark and a state folder of its own; afterwards no process may be left of it."""
    mark = uuid.uuid4().hex
    places = {"XDG_STATE_HOME": str(tmp_path / "state"), processes.MARK: mark, "COLUMNS": "120"}
    yield {**os.environ, **places}
    rest = processes.left(mark)
    for process in rest:
        processes.kill(process.pid)
    assert not rest, f"left running: {[(process.pid, process.name) for process in rest]}"


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Tw:
    """Return what runs `tw` in a process of its own, to its end."""

    def ran(*words: str, text: str = "", prefix: tuple[str, ...] = (), **variables: str) -> Said:
        ended = subprocess.run(
            [*prefix, TW, *words],
            input=text,
            env={**environment, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Said(ended.returncode, ended.stdout, ended.stderr)

    return ran


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return what starts `tw` and lets one watch it; it is ended with the test."""
    running: list[Running] = []

    def started(*words: str, **variables: str) -> Running:
        running.append(Running([TW, *words], {**environment, **variables}, tmp_path))
        return running[-1]

    yield started
    for each in running:
        each.stop()


def together(ranks: int) -> str:
    """Return shell that waits until so many ranks are up: a master that ends at once is never found by its workers."""
    return f"touch up-$RANK; while [ $(ls up-* | wc -l) -lt {ranks} ]; do sleep 0.02; done; "
