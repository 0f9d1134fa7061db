"""`tw node` as the tests run it: a process of its own, with its own account's rights, that leaves nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e import processes
from tests.kube.running import SECONDS, Kubectl, until
from tools.kube import ROOT, ControlPlane, binaries, node_environment

from trainwright.cli.training import Step, steps

ACCOUNT = "system:serviceaccount:kube-system:trainwright-node"


class RunningNode:
    """A `tw node`."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", folder: Path, mark: str) -> None:
        self.name = name
        self.process = process
        self.folder = folder
        self._mark = mark

    def words(self) -> str:
        """Return what it has said."""
        return (self.folder / f"{self.name}.log").read_text()

    def until_ready(self) -> None:
        """Wait until it has registered."""
        ready = f"node {self.name} is ready"
        until(lambda: self.process.poll() is not None or ready in self.words(), ready)
        assert self.process.poll() is None, self.words()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code. No process of a pod may be left then."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the node did not end:\n{self.words()}") from None
        until(lambda: not processes.left(self._mark), "no process of a pod is left")
        return code


class Nodes:
    """Starts nodes on a control plane; what they keep is below one folder."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, folder: Path) -> None:
        self._plane = plane
        self._kubeconfig = kubeconfig
        self.folder = folder

    @contextlib.contextmanager
    def running(self, name: str, *flags: str) -> Iterator[RunningNode]:
        """Run a node, for the first time or again; it is stopped at the end."""
        mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "trainwright", "node", "--name", name, f"--kubeconfig={self._kubeconfig}"]
        given = ["--heartbeat=2s", f"--client-ca={self._plane.node_client}", f"--root={self.folder / name}"]
        ours = {"CHECKPOINTS": str(self.folder / "checkpoints"), "TMPDIR": str(self.folder), processes.MARK: mark}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *given, "--cpu=8", "--memory=8Gi", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=node_environment() | ours,
            )
        node = RunningNode(name, process, self.folder, mark)
        try:
            node.until_ready()
            yield node
        finally:
            node.stop()

    def steps(self, namespace: str) -> list[Step]:
        """Return the steps that the ranks of a namespace have told on all nodes, in the order of their time."""
        logs = self.folder.glob(f"*/logs/{namespace}/*/pytorch/*.log")
        texts = [path.read_bytes().rpartition(b"\n")[0].decode(errors="replace") for path in logs]
        return steps(line for text in texts for line in text.split("\n"))


def node_account(plane: ControlPlane, admin: Kubectl) -> Path:
    """Apply the rights `tw node` asks for, and return a kubeconfig for an account that has them."""
    printed = subprocess.run([sys.executable, "-m", "trainwright", "node", "--rights"], check=True, capture_output=True)
    admin("apply", "-f", "-", stdin=printed.stdout.decode())
    token = admin("create", "token", "trainwright-node", "--namespace=kube-system", "--duration=8h").strip()
    path = plane.folder / "node.kubeconfig"
    path.write_text(plane.config(token))
    return path


def started(kubectl: Kubectl, *words: str, **options: Any) -> "subprocess.Popen[str]":
    """Start a kubectl that goes on beside the test."""
    command = [str(binaries() / "kubectl"), f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={kubectl.namespace}"]
    home = {**os.environ, "HOME": str(kubectl.kubeconfig.parent)}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*command, *words], text=True, env=home, **{**pipes, **options})


def pod(name: str, script: str, *, node: str, **spec: Any) -> dict[str, Any]:
    """Return a pod of a node that runs a shell script once, unless told otherwise."""
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script], **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            **spec,
        },
    }


def container_state(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """Return the state of a pod's only container."""
    found: dict[str, Any] = json.loads(kubectl("get", f"pod/{name}", "-o", "jsonpath={.status.containerStatuses[0]}"))
    return found
