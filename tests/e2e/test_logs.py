"""No line of any rank is lost or cut, and memory stays flat, however fast the ranks print."""

import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest
import yaml
from tests.e2e import processes
from tests.e2e.running import tw

pytestmark = pytest.mark.e2e

RANKS, LINES = 8, 125_000
MB = 1 << 20
PRINTER = """
import os, sys
rank, count = os.environ["RANK"], int(os.environ["LINES"])
for start in range(0, count, 500):
    sys.stdout.write("".join(f"rank {rank} line {n} {'x' * (n % 60)} end\\n" for n in range(start, start + 500)))
"""


def manifest(lines: int) -> dict[str, object]:
    env = [{"name": "LINES", "value": str(lines)}]
    container = {"name": "pytorch", "image": "none", "command": ["python3", "-c", PRINTER], "env": env}
    role = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": RANKS - 1}}
    meta = {"name": "printers"}
    spec = {"pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}


@pytest.mark.timeout(300)
def test_eight_ranks_print_a_million_lines_and_exit_at_once(
    environment: dict[str, str], root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "printers.yaml"
    file.write_text(yaml.safe_dump(manifest(LINES)))
    run = subprocess.Popen(
        tw("run", str(file)), cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout
    assert run.stderr
    said: list[str] = []
    listener = threading.Thread(target=lambda: said.extend(run.stderr or ()))
    listener.start()
    memory: list[int] = []
    following: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        for number, line in enumerate(run.stdout):
            if number % 10_000 == 0:
                memory.append(processes.resident(run.pid))
            who, _, words = line.partition("| ")
            if "/init-" in who:  # a worker that had to wait for its master's name says so
                continue
            rank = words[5:6]
            n = following[rank]
            if words != f"rank {rank} line {n} {'x' * (n % 60)} end\n" and len(wrong) < 10:
                wrong.append(line)
            following[rank] += 1
        code = run.wait(30)
    finally:
        run.kill()
        run.wait()
        listener.join()
        run.stdout.close()
        run.stderr.close()

    assert code == 0, "".join(said[-20:])
    assert not wrong
    assert following == {str(rank): LINES for rank in range(RANKS)}
    early, late = max(memory[: len(memory) // 4]), max(memory)
    assert late - early < 24 * MB, f"memory grew from {early // MB} to {late // MB} MiB"
    kept = [
        path for path in (tmp_path / "state").rglob("*") if path.is_file() and b"line 0 " in path.read_bytes()[:200]
    ]
    assert len(kept) == RANKS, f"the kept logs are {kept}"
