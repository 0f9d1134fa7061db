"""A `tw serve` as a user runs it, and words to submit jobs to it and wait for what becomes of them."""

import asyncio
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from tests.e2e.running import Running, Start

from trainwright.api.faces import FACES
from trainwright.cluster.kubernetes import Access, KubernetesCluster, Server
from trainwright.core.objects import Object
from trainwright.core.resources import POD

FACE = next(face for face in FACES if face.name == "PyTorchJob")
JOBS = FACE.resource


def job(name: str, script: str, *, workers: int = 0, policy: str = "Never", **spec: object) -> Object:
    """Return a job of one master, and perhaps workers, which all run a shell script."""
    container = {"name": "pytorch", "image": "none", "command": ["sh", "-c", script]}
    role = {"restartPolicy": policy, "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {"replicas": 1, **role}}
    if workers:
        roles["Worker"] = {"replicas": workers, **role}
    meta = {"name": name, "namespace": "default"}
    return {**HEAD, "metadata": meta, "spec": {"pytorchReplicaSpecs": roles, **spec}}


HEAD = {"apiVersion": JOBS.api_version, "kind": JOBS.kind}


class Served:
    """A server in a process of its own, which can be killed and started again where it was."""

    def __init__(self, start: Start, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process: Running
        self._start = start
        self._options = ("--state", str(folder), "--port", "0", "--cpu", "64", "--memory", "64Gi", *options)

    def start(self) -> "Served":
        """Start it and return when it answers."""
        self.process = self._start("serve", *self._options)
        self.process.until(r"^serving ")
        return self

    def kill(self) -> None:
        """Kill it, and nothing but it, at once."""
        self.process.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stop it as systemd would; return its exit code."""
        self.process.signal(signal.SIGTERM)
        return self.process.wait()

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def client(self) -> KubernetesCluster:
        """Return a client of its socket."""
        return client(self.folder / "api.sock")


def client(socket: Path) -> KubernetesCluster:
    """Return a client of a server's socket."""
    return KubernetesCluster(Access(Server(f"unix://{quote(str(socket))}"), namespace="default"))


async def finished(cluster: KubernetesCluster, names: Iterable[str], seconds: float = 60) -> dict[str, str]:
    """Wait until all these jobs have ended and return how."""
    wanted, outcomes = set(names), dict[str, str]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        jobs = (await cluster.list(JOBS, "default")).items
        outcomes = {each["metadata"]["name"]: FACE.standing(each.get("status") or {}).outcome for each in jobs}
        if wanted <= outcomes.keys() and all(outcomes[name] for name in wanted):
            return {name: outcomes[name] for name in wanted}
        await asyncio.sleep(0.1)
    missing = sorted(wanted - outcomes.keys())
    running = sorted(name for name in wanted & outcomes.keys() if not outcomes[name])
    raise AssertionError(f"not all have ended: {running} still run, and {missing} are not there")


async def said(folder: Path, name: str, text: str, seconds: float = 60) -> None:
    """Wait until a pod has printed something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(text in log for log in await asyncio.to_thread(_logs, folder, name)):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} has not said {text!r}")


def _logs(folder: Path, name: str) -> list[str]:
    return [log.read_text() for log in folder.glob(f"logs/default/{name}_*/*/*.log")]


async def pods(cluster: KubernetesCluster) -> dict[str, Object]:
    """Return the pods there are, by name."""
    return {each["metadata"]["name"]: each for each in (await cluster.list(POD, "default")).items}


def lines(file: Path) -> list[str]:
    """Return the lines of a file that jobs append to; none if none has."""
    return file.read_text().split() if file.exists() else []
