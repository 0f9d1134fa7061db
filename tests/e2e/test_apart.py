"""Jobs with the same name and the same port in two namespaces, at once: nobody hears the other's ranks."""

import re
from pathlib import Path

import pytest
import yaml
from tests.e2e.running import Running, Start

pytestmark = pytest.mark.e2e

LIGHT = """
import os, socket, time
mine, port, world = os.environ["TEAM"], int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])
heard = [mine]
if os.environ["RANK"] == "0":
    server = socket.create_server(("" if os.environ["MASTER_ADDR"] != "127.0.0.1" else "127.0.0.1", port))
    friends = [server.accept()[0] for _ in range(world - 1)]
    heard += [friend.makefile().readline().strip() for friend in friends]
    for friend in friends:
        friend.sendall(mine.encode() + b"\\n")
else:
    deadline = time.monotonic() + 30
    while True:
        try:
            hub = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    hub.sendall(mine.encode() + b"\\n")
    heard.append(hub.makefile().readline().strip())
print("heard", *heard, flush=True)
time.sleep(1)
"""
TORCH = """
import os
import torch.distributed as dist
dist.init_process_group("gloo")
heard = [None] * dist.get_world_size()
dist.all_gather_object(heard, os.environ["TEAM"])
print("heard", *heard, flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def documents(code: str, workers: int) -> str:
    """Return two jobs that differ in nothing but their namespace and what their ranks say."""
    jobs = []
    for team in ("red", "blue"):
        env = [{"name": "TEAM", "value": team}]
        ports = [{"name": "pytorchjob-port", "containerPort": 23456}]
        container = {"name": "pytorch", "image": "none", "command": ["python3", "-c", code], "env": env, "ports": ports}
        role = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
        roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": workers}}
        meta = {"name": "same", "namespace": team}
        spec = {"pytorchReplicaSpecs": roles}
        jobs.append({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec})
    return yaml.safe_dump_all(jobs)


def check_nobody_else_was_heard(runs: list[Running], ranks: int) -> None:
    heard = [set(match[1].split()) for run in runs for line in run.out if (match := re.search(r"\| heard (.*)", line))]
    assert all(len(teams) == 1 for teams in heard), heard
    assert sorted(team for teams in heard for team in teams) == ["blue"] * ranks + ["red"] * ranks


@pytest.mark.parametrize("isolation", ["net", "ports"])
def test_two_jobs_in_one_run(start: Start, tmp_path: Path, isolation: str) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(documents(LIGHT, 3))
    run = start("run", str(file), "--isolation", isolation)

    assert run.wait() == 0, run.tail()
    check_nobody_else_was_heard([run], 4)


@pytest.mark.parametrize("isolation", ["net", "ports"])
def test_two_runs_at_once(start: Start, tmp_path: Path, isolation: str) -> None:
    runs = []
    for name, document in zip(("red", "blue"), documents(LIGHT, 3).split("---\n"), strict=True):
        file = tmp_path / f"{name}.yaml"
        file.write_text(document)
        runs.append(start("run", str(file), "--isolation", isolation))

    for run in runs:
        assert run.wait() == 0, run.tail()
    check_nobody_else_was_heard(runs, 4)


@pytest.mark.torch
@pytest.mark.usefixtures("torch_environment")
@pytest.mark.parametrize("isolation", ["net", "ports"])
def test_two_torch_jobs_in_one_run(start: Start, tmp_path: Path, isolation: str) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(documents(TORCH, 1))
    run = start("run", str(file), "--isolation", isolation)

    assert run.wait(100) == 0, run.tail()
    check_nobody_else_was_heard([run], 2)
