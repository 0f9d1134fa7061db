"""TrainingJobs really train: Paddle 3 in collective mode, Paddle 2.6 with a parameter server; and one loses a trainer.

The sample of the design document runs too, with nothing replaced but image, workspace and entrypoint.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.conftest import ROOT, Framework
from tests.e2e import processes
from tests.e2e.running import Running, Start

pytestmark = pytest.mark.e2e

LINE = re.compile(r"^trainer-(?P<pod>\d+)\s*\| rank (?P<rank>\d+) step (?P<step>\d+) loss (?P<loss>\S+)$")
DOCUMENT = ROOT / "tests" / "golden" / "training_job" / "document_sample" / "manifest.yaml"
With = Callable[[str], None]


@pytest.fixture
def with_paddle(environment: dict[str, str], framework: Framework) -> With:
    """Return what puts the Python of an environment first on the PATH."""

    def put(name: str) -> None:
        environment["PATH"] = f"{framework(name).parent}{os.pathsep}{environment['PATH']}"

    return put


def losses(run: Running) -> dict[int, list[float]]:
    """Return what each rank has printed, step by step, from its own pod."""
    found: dict[int, list[float]] = {}
    for match in filter(None, map(LINE.match, run.out)):
        assert match["pod"] == match["rank"]
        found.setdefault(int(match["rank"]), []).append(float(match["loss"]))
    return found


def falls(values: list[float]) -> bool:
    return sum(values[-5:]) < sum(values[:5])


@pytest.mark.parametrize("isolation", ["auto", "ports"])
def test_collective(start: Start, with_paddle: With, isolation: str) -> None:
    with_paddle("paddle")
    run = start("run", "examples/paddle/collective.yaml", "--isolation", isolation)

    assert run.wait(100) == 0, run.tail()
    told = losses(run)
    assert len(told[0]) == 20
    assert told[0] == told[1], "the mean loss is one number for both"
    assert falls(told[0])


def test_collective_started_by_paddles_own_launcher(start: Start, with_paddle: With, tmp_path: Path) -> None:
    with_paddle("paddle")
    launch = f"python -m paddle.distributed.launch --log_dir {tmp_path}/$PADDLE_TRAINER_ID train_collective.py"
    run = start("run", "examples/paddle/collective.yaml", "--set", f"spec.trainer.entrypoint={launch}")

    assert run.wait(100) == 0, run.tail()
    told = losses(run)
    assert len(told[0]) == 20
    assert told[0] == told[1]


@pytest.mark.parametrize("isolation", ["auto", "ports"])
def test_a_parameter_server(start: Start, with_paddle: With, isolation: str) -> None:
    with_paddle("paddle-ps")
    run = start("run", "examples/paddle/parameter-server.yaml", "--isolation", isolation)

    assert run.wait(100) == 0, run.tail()
    told = losses(run)
    assert sorted(told) == [0, 1]
    assert all(len(values) == 40 and falls(values) for values in told.values())
    began = [line for line in run.err if line.endswith(("pserver-0 running", "trainer-0 starting"))]
    assert began == ["pserver-0 running", "trainer-0 starting"]


def test_a_trainer_that_is_killed_is_replaced_and_the_job_succeeds(start: Start, with_paddle: With) -> None:
    with_paddle("paddle")
    run = start("run", "examples/paddle/fault-tolerant.yaml", "--no-autoscale")
    run.until(r"rank 1 step 20 ")

    processes.kill(processes.rank(run.mark, "fault-tolerant-trainer-1").pid)

    assert run.wait(100) == 0, run.tail()
    resumed = run.until(r"rank 1 goes on after step (\d+)")
    assert int(resumed[1]) >= 20
    told = losses(run)
    assert len(told[0]) == 100, "who was not killed is not disturbed"
    assert all(map(falls, told.values()))
    assert any(re.search(r"trainer-1 failed: .*SIGKILL", line) for line in run.err)


def test_a_trainer_that_is_killed_ends_a_plain_job_with_its_code(start: Start, with_paddle: With) -> None:
    with_paddle("paddle")
    run = start("run", "examples/paddle/fault-tolerant.yaml", "--set", "spec.fault_tolerant=false")
    run.until(r"rank 1 step 5 ")

    processes.kill(processes.rank(run.mark, "fault-tolerant-trainer-1").pid)

    assert run.wait(60) == 137, run.tail()


SERVE_OR_TRAIN = """
import os, socket, time

servers = [place.rsplit(":", 1) for place in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
if os.environ["TRAINING_ROLE"] == "PSERVER":
    with socket.create_server((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"]))) as server:
        while True:
            server.accept()[0].close()

for host, port in servers:
    while True:
        try:
            socket.create_connection((host, int(port)), 5).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print("reached", len(servers), "passes", os.environ["PADDLE_INIT_NUM_PASSES"], "in", os.getcwd(), flush=True)
"""


def test_the_sample_of_the_design_document(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SERVE_OR_TRAIN)
    sample = yaml.safe_load(DOCUMENT.read_text())
    sample["spec"]["image"] = "python:3.11"
    sample["spec"]["trainer"] |= {"workspace": str(tmp_path), "entrypoint": "python3 train.py"}
    manifest = tmp_path / "sample.json"
    manifest.write_text(json.dumps(sample))
    run = start("run", str(manifest), "-o", "json")

    assert run.wait() == 0, run.tail()
    job = json.loads("\n".join(run.out))
    assert (job["status"]["phase"], job["status"]["reason"]) == ("succeeded", "all trainer have succeeded!")
    assert "2 trainers are started and never 6" in job["status"]["scale_status"]["reason"]
    assert sum(f"| reached 2 passes 10 in {tmp_path}" in line for line in run.err) == 2
