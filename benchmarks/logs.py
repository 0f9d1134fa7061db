"""How fast `tw logs` is: eight ranks that print a million lines together, read afterwards and while they print.

Run with `.venv/bin/python benchmarks/logs.py`; a server of its own is started in a temporary folder. The bar is a
million lines in a minute, with no line lost, cut or doubled, in little memory.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

RANKS, LINES = 8, 125_000
TW = str(Path(sys.executable).with_name("tw"))
PRINTER = f"""
import glob, os, sys, time
rank, job = os.environ["RANK"], os.environ["HOSTNAME"].split("-")[0]
open(f"up-{{job}}-{{rank}}", "w").close()
while len(glob.glob(f"up-{{job}}-*")) < {RANKS}:  # a master that ends at once is never found by its workers
    time.sleep(0.02)
for start in range(0, {LINES}, 500):
    sys.stdout.write("".join(f"rank {{rank}} line {{n}} {{'x' * (n % 60)}} end\\n" for n in range(start, start + 500)))
"""


def manifest(name: str) -> dict[str, object]:
    """Return a job whose ranks print as fast as they can."""
    container = {"name": "pytorch", "image": "none", "command": [sys.executable, "-c", PRINTER]}
    role = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {**role, "replicas": 1}, "Worker": {**role, "replicas": RANKS - 1}}
    head = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    return {**head, "spec": {"pytorchReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "None"}}}


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Run a server; yield the environment in which it is found."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "HOME": str(folder)}
    environment.pop("KUBECONFIG", None)
    words = [TW, "serve", "--port", "0", "--cpu", "64"]
    server = subprocess.Popen(words, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (folder / "trainwright" / "serve" / "kubeconfig").exists():
            time.sleep(0.05)
        yield environment
    finally:
        server.terminate()
        server.wait()


def submit(name: str, environment: dict[str, str]) -> None:
    """Submit a job and return when its pods are made."""
    text = yaml.safe_dump(manifest(name))
    subprocess.run([TW, "apply", "-f", "-"], env=environment, input=text, text=True, check=True, capture_output=True)


def read(what: str, words: list[str], environment: dict[str, str]) -> None:
    """Run `tw logs`, check every line, and print how long it took."""
    began, following, wrong = time.perf_counter(), Counter[str](), 0
    with subprocess.Popen([TW, "logs", *words], env=environment, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout
        for line in reading.stdout:
            _, _, said = line.partition("| ")
            if not said.startswith("rank "):
                continue  # a worker that waits for its master's name says so
            rank = said[5:6]
            number = following[rank]
            following[rank] += 1
            wrong += said != f"rank {rank} line {number} {'x' * (number % 60)} end\n"
    took = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    complete = following == {str(rank): LINES for rank in range(RANKS)}
    total = following.total()
    verdict = "all there" if complete and not wrong else f"WRONG: {wrong} lines, {dict(following)}"
    rate = total / took * 60 / 1e6
    print(f"{what:44} {took:6.1f} s {rate:6.2f} million lines/min, at most {used.ru_maxrss / 1024:.0f} MB, {verdict}")


def main() -> None:
    """Print one line for each way of reading."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as environment:
        by_api = ["--kubeconfig", f"{folder}/trainwright/serve/kubeconfig"]
        submit("first", environment)
        read("while they print, from files (-f)", ["first", "-f"], environment)
        read("afterwards, from files", ["first"], environment)
        read("afterwards, through the API", ["first", *by_api], environment)
        submit("second", environment)
        read("while they print, through the API (-f)", ["second", "-f", *by_api], environment)


if __name__ == "__main__":
    main()
