"""Real runs: a marked environment, `tw` in a process of its own, the home in this process, torch where it is."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import processes
from tests.e2e.running import Running, Start, tw

REPEAT = 5 if os.environ.get("TRAINWRIGHT_SOAK") else 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run everything several times in a soak: what goes wrong only sometimes is found there."""
    if REPEAT > 1:
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", range(REPEAT))


@pytest.fixture(scope="session")
def torch_python(root: Path) -> Path:
    """Return the Python that has torch. Without it CI fails; elsewhere the test is skipped, and says so."""
    asked = [sys.executable, str(root / "tools" / "frameworks.py"), "--path", "torch"]
    python = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    if not (python.parent.parent / ".ready").exists():
        words = f"torch is not installed at {python}; `make frameworks` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(f"NOTHING WAS TESTED HERE: {words}")
    return python


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the caller's environment with a mark; afterwards no process with that mark may be left."""
    mark = uuid.uuid4().hex
    places = {"XDG_STATE_HOME": str(tmp_path / "state"), "CHECKPOINTS": str(tmp_path / "checkpoints")}
    yield {**os.environ, **places, processes.MARK: mark, "COLUMNS": "120"}
    rest = processes.left(mark)
    for process in rest:
        processes.kill(process.pid)
    assert not rest, f"left running: {[(process.pid, process.name) for process in rest]}"


@pytest.fixture
def torch_environment(environment: dict[str, str], torch_python: Path) -> dict[str, str]:
    """Return the same, with the Python that has torch first on the PATH: as if its environment were activated."""
    environment["PATH"] = f"{torch_python.parent}{os.pathsep}{environment['PATH']}"
    return environment


@pytest.fixture
def start(environment: dict[str, str], root: Path) -> Iterator[Start]:
    """Return what starts `tw` with some words, in the repository's root; it is ended with the test."""
    runs: list[Running] = []

    def started(*words: str, prefix: tuple[str, ...] = (), cwd: Path = root) -> Running:
        runs.append(Running([*prefix, *tw(*words)], environment, cwd))
        return runs[-1]

    yield started
    for run in runs:
        run.stop()
