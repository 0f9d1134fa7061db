"""Every PyTorchJob example runs exactly as its own first lines say, and so does the demo."""

import re
import time
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.e2e.running import Start

pytestmark = pytest.mark.e2e

MANIFESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "examples" / "pytorch").glob("*.yaml"))
WITHOUT_TORCH = re.compile(r"^light-")


def param(path: Path) -> object:
    marks = () if WITHOUT_TORCH.match(path.name) else (pytest.mark.torch,)
    return pytest.param(path, id=str(path), marks=marks)


@pytest.mark.parametrize("path", [param(path) for path in MANIFESTS])
def test_an_example(path: Path, start: Start, request: pytest.FixtureRequest) -> None:
    if not WITHOUT_TORCH.match(path.name):
        request.getfixturevalue("torch_environment")
    said = re.search(rf"^#.*tw (run {re.escape(str(path))})", (ROOT / path).read_text(), re.MULTILINE)
    assert said, f"{path} does not say how to run it"
    run = start(*said[1].split())

    assert run.wait(100) == 0, run.tail()
    assert any("| done steps " in line for line in run.out), run.tail()


def check_account(lines: list[str]) -> None:
    """The demo tells of both jobs at its end: ranks, restarts, losses before and after, how long it was disturbed."""
    account = "\n".join(lines[-8:])
    for fact in (r"static +4 ranks", r"elastic +2 to 3 ranks", r"restart", r"disturbed for [\d.]+ s"):
        assert re.search(fact, account), account
    losses = re.findall(r"loss ([\d.]+) before, ([\d.]+) after", account)
    assert len(losses) == 2, account
    assert all(float(after) < float(before) for before, after in losses)


def test_the_light_demo(start: Start) -> None:
    began = time.monotonic()
    run = start("demo", "--light")

    assert run.wait(60) == 0, run.tail()
    check_account(run.out)
    assert time.monotonic() - began < 30


@pytest.mark.torch
@pytest.mark.usefixtures("torch_python")
@pytest.mark.timeout(240)
def test_the_demo(start: Start) -> None:
    run = start("demo")

    assert run.wait(200) == 0, run.tail()
    check_account(run.out)
