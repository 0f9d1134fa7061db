"""A static PyTorchJob really trains: one master, three workers, one gradient."""

import json
import re
from pathlib import Path

import pytest
from tests.e2e.running import AsPlainUser, Running, Start

pytestmark = pytest.mark.e2e

TORCH, LIGHT = "examples/pytorch/static.yaml", "examples/pytorch/light-static.yaml"
RANKS = {0: "master-0", 1: "worker-0", 2: "worker-1", 3: "worker-2"}
LINE = re.compile(r"^(?P<pod>\S+)\s*\| step (?P<step>\d+) rank (?P<rank>\d+) loss (?P<loss>\S+) world (?P<world>\d+)$")


def check_training(run: Running, steps: int = 20) -> None:
    """Every rank has printed every step, from its own pod, all with the same losses, and these fall."""
    found = [match.groupdict() for line in run.out if (match := LINE.match(line))]
    seen = {(int(each["rank"]), int(each["step"])): each for each in found}
    assert len(found) == len(seen) == 4 * steps, run.tail()
    assert all(each["pod"] == RANKS[rank] for (rank, _), each in seen.items())
    assert {each["world"] for each in found} == {"4"}
    for step in range(1, steps + 1):
        assert len({seen[rank, step]["loss"] for rank in RANKS}) == 1, f"ranks disagree at step {step}"
    assert float(seen[0, steps]["loss"]) < float(seen[0, 1]["loss"])
    assert any(f"done steps {steps} " in line and "4 ranks agree" in line for line in run.out), run.tail()


@pytest.mark.torch
@pytest.mark.usefixtures("torch_environment")
@pytest.mark.parametrize("isolation", ["auto", "ports"])
def test_torch(start: Start, isolation: str) -> None:
    run = start("run", TORCH, "--isolation", isolation)

    assert run.wait(100) == 0, run.tail()
    check_training(run)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_environment")
def test_torch_as_a_plain_user(start: Start, as_plain_user: AsPlainUser, torch_python: Path) -> None:
    run = start("run", TORCH, "--isolation", "net", wrap=as_plain_user(torch_python))

    assert run.wait(100) == 0, run.tail()
    check_training(run)


@pytest.mark.parametrize("isolation", ["net", "ports"])
def test_light_as_a_plain_user(start: Start, as_plain_user: AsPlainUser, isolation: str) -> None:
    run = start("run", LIGHT, "--isolation", isolation, wrap=as_plain_user())

    assert run.wait() == 0, run.tail()
    check_training(run)


@pytest.mark.parametrize("isolation", ["auto", "ports"])
def test_light(start: Start, isolation: str) -> None:
    run = start("run", LIGHT, "--isolation", isolation)

    assert run.wait() == 0, run.tail()
    check_training(run)


def test_the_final_object_as_json(start: Start) -> None:
    run = start("run", LIGHT, "-o", "json")

    assert run.wait() == 0, run.tail()
    job = json.loads("\n".join(run.out))
    assert job["kind"] == "PyTorchJob"
    assert [each["type"] for each in job["status"]["conditions"] if each["status"] == "True"][-1] == "Succeeded"
    assert any("done steps 20" in line for line in run.err)


def test_a_lost_rank_ends_the_job_with_its_own_code(start: Start, tmp_path: Path) -> None:
    command = "spec.pytorchReplicaSpecs.Worker.template.spec.containers.0.command"
    run = start("run", LIGHT, "--set", f"{command}=[sh, -c, 'echo a last word; exit 7']")

    assert run.wait() == 7, run.tail()
    said = "\n".join(run.err)
    assert re.search(r"worker-\d", said)
    assert "a last word" in said
