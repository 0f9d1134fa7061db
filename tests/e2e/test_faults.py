"""What goes wrong around a whole job: it is said or survived, and no process is left."""

import re
import signal
import socket
import time
from pathlib import Path

import pytest
import yaml
from tests.e2e import processes
from tests.e2e.running import Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.fault]

ISOLATIONS = pytest.mark.parametrize("isolation", ["net", "ports"])
LIGHT = "examples/pytorch/light-static.yaml"
COMMAND = "spec.pytorchReplicaSpecs.{}.template.spec.containers.0.command"
DAEMON = """
import os, time
if os.fork():
    time.sleep(0.2)
    raise SystemExit(int(os.environ.get("CODE", "0")))
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 3)
time.sleep(600)
"""
READY = "print('ready', flush=True)"
PATIENT = f"import time; {READY}; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {PATIENT}"


def job(folder: Path, code: str, *, workers: int = 1, name: str = "fault", **spec: object) -> str:
    """Write a job whose ranks all run a piece of Python, and return the file."""
    container = {"name": "pytorch", "image": "none", "command": ["python3", "-c", code]}
    template = {"spec": {"containers": [container], **spec}}
    role = {"restartPolicy": "Never", "template": template}
    roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": workers}}
    whole = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**whole, "spec": {"pytorchReplicaSpecs": roles}}))
    return str(file)


def both_ready(run: Running) -> None:
    run.until(r"master-0\s*\| ready")
    run.until(r"worker-0\s*\| ready")


@ISOLATIONS
def test_a_rank_that_daemonises_leaves_nothing(start: Start, tmp_path: Path, isolation: str) -> None:
    run = start("run", job(tmp_path, DAEMON), "--isolation", isolation)

    assert run.wait() == 0, run.tail()
    assert not processes.left(run.mark)


@ISOLATIONS
def test_a_rank_that_ignores_sigterm_is_killed_after_its_grace_period(
    start: Start, tmp_path: Path, isolation: str
) -> None:
    file = job(tmp_path, STUBBORN, terminationGracePeriodSeconds=2)
    run = start("run", file, "--isolation", isolation)
    both_ready(run)
    asked = time.monotonic()
    run.interrupt()

    assert run.wait(20) == 130, run.tail()
    assert 1.5 < time.monotonic() - asked < 10
    assert not processes.left(run.mark)


@ISOLATIONS
def test_a_second_ctrl_c_kills_at_once(start: Start, tmp_path: Path, isolation: str) -> None:
    run = start("run", job(tmp_path, STUBBORN), "--isolation", isolation)  # its grace period is 30 s
    both_ready(run)
    run.interrupt()
    run.until(r"(?i)again|stopping|cancel|interrupt", after=len(run.lines) - 1)
    asked = time.monotonic()
    run.interrupt()

    assert run.wait(20) == 130, run.tail()
    assert time.monotonic() - asked < 5
    assert not processes.left(run.mark)


@ISOLATIONS
def test_ctrl_c_ends_ranks_that_listen_at_once(start: Start, tmp_path: Path, isolation: str) -> None:
    run = start("run", job(tmp_path, PATIENT), "--isolation", isolation)
    both_ready(run)
    asked = time.monotonic()
    run.interrupt()

    assert run.wait(20) == 130, run.tail()
    assert time.monotonic() - asked < 5
    assert not processes.left(run.mark)


@ISOLATIONS
def test_sigterm_cancels(start: Start, tmp_path: Path, isolation: str) -> None:
    run = start("run", job(tmp_path, PATIENT), "--isolation", isolation)
    both_ready(run)
    run.signal(signal.SIGTERM)

    assert run.wait(20) == 143, run.tail()
    assert not processes.left(run.mark)


@ISOLATIONS
def test_kill_9_of_tw_run_leaves_nothing(start: Start, tmp_path: Path, isolation: str) -> None:
    daemon = DAEMON.replace("time.sleep(0.2)", "time.sleep(600)").replace("os.closerange", READY + "; os.closerange")
    run = start("run", job(tmp_path, daemon, workers=3), "--isolation", isolation)
    both_ready(run)
    assert len(processes.marked(run.mark, HOSTNAME="fault-worker-0")) >= 2, "the rank and its daemon can be seen"
    run.signal(signal.SIGKILL)

    assert run.wait() == -signal.SIGKILL
    assert not processes.left(run.mark, 10)


def test_a_port_in_use_on_this_machine_is_no_matter(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = f"[{{name: pytorchjob-port, containerPort: {port}}}]"
        path = "spec.pytorchReplicaSpecs.{}.template.spec.containers.0.ports={}"
        sets = [word for role in ("Master", "Worker") for word in ("--set", path.format(role, ports))]
        for isolation in ("net", "ports"):
            run = start("run", LIGHT, "--isolation", isolation, *sets)
            assert run.wait() == 0, run.tail()


def test_a_script_that_is_not_there_is_said_with_its_rank(start: Start) -> None:
    sets = [w for r in ("Master", "Worker") for w in ("--set", f"{COMMAND.format(r)}=[python3, no/such/script.py]")]
    run = start("run", LIGHT, *sets)

    assert run.wait() == 2, run.tail()
    assert "no/such/script.py" in "\n".join(run.err)


def test_a_command_that_is_not_there_is_said(start: Start) -> None:
    sets = [w for r in ("Master", "Worker") for w in ("--set", f"{COMMAND.format(r)}=[no-such-program]")]
    run = start("run", LIGHT, *sets)

    assert run.wait() not in (0, None), run.tail()
    said = "\n".join(run.err)
    assert "no-such-program" in said
    assert "Traceback" not in said


def test_a_deadline_ends_the_run_with_124(start: Start, tmp_path: Path) -> None:
    run = start("run", job(tmp_path, "import time; time.sleep(600)"), "--timeout", "2s")

    assert run.wait(30) == 124, run.tail()
    assert re.search(r"2 ?s", "\n".join(run.err))
    assert not processes.left(run.mark)
