"""Real runs: a marked environment, `tw` in a process of its own, the home in this process, torch where it is."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Framework
from tests.e2e import processes
from tests.e2e.running import Activate, AsPlainUser, Running, Start, tw
from tests.plain_user import plain_user_command

REPEAT = 5 if os.environ.get("TRAINWRIGHT_SOAK") else 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run everything several times in a soak: what goes wrong only sometimes is found there."""
    if REPEAT > 1:
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", range(REPEAT))


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
def activate(environment: dict[str, str], framework: Framework) -> Activate:
    """Return what puts frameworks first on the PATH, as if each one's environment were activated."""

    def activated(*names: str) -> list[Path]:
        found = [framework(name) for name in names]
        environment["PATH"] = os.pathsep.join([*(str(python.parent) for python in found), environment["PATH"]])
        return found

    return activated


@pytest.fixture
def torch_environment(environment: dict[str, str], activate: Activate) -> dict[str, str]:
    """Return the same, with the Python that has torch first on the PATH."""
    activate("torch")
    return environment


@pytest.fixture
def start(environment: dict[str, str], root: Path) -> Iterator[Start]:
    """Return what starts `tw` with some words, in the repository's root; it is ended with the test."""
    runs: list[Running] = []

    def started(*words: str, wrap: Callable[[list[str]], list[str]] = list, cwd: Path = root) -> Running:
        runs.append(Running(wrap(tw(*words)), environment, cwd))
        return runs[-1]

    yield started
    for run in runs:
        run.stop()


@pytest.fixture
def as_plain_user(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> AsPlainUser:
    """Return what makes a command one of a user without privileges, who can also reach some further files."""
    home = tmp_path_factory.mktemp("plain")
    environment["CHECKPOINTS"] = str(home / "checkpoints")

    def wrapper(*reach: Path) -> Callable[[list[str]], list[str]]:
        return lambda words: plain_user_command(words, home=home, reach=reach)

    return wrapper
