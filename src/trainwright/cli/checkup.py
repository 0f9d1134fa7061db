"""What `tw doctor` looks at: each check is one function that returns lines with what was found and what would help.

Everything is found out by doing it: a pod is made, a group is made, the API is asked. What nobody needs unless a job
asks for it (a framework, a GPU, a cluster) is never a failure.
"""

import asyncio
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from trainwright import __version__
from trainwright.api.faces import FACES, Face
from trainwright.cli import homes, runs
from trainwright.cli.homes import Home, Where
from trainwright.cli.words import counted
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import ClusterError, NotFound, TrainwrightError
from trainwright.core.resources import Resource
from trainwright.node import machine
from trainwright.node.devices import GPU
from trainwright.node.isolation import try_net
from trainwright.node.memory import group_parent
from trainwright.placement.amounts import amounts, show

State = Literal["ok", "warn", "fail"]
_GB = 1 << 30
_LITTLE, _TOO_LITTLE = 2 * _GB, _GB // 8
_PATIENCE = 10.0
_MODULES = ("torch", "tensorflow", "ray", "paddle", "mxnet")
_PROBE = """
import importlib.metadata as facts, sys
for name in sys.argv[1:]:
    for package in facts.packages_distributions().get(name, [])[:1]:
        print(name, facts.version(package))
"""
_REVIEW = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True)
class Call:
    """Something a user may be allowed to do."""

    verb: str
    plural: str
    subresource: str = ""
    group: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.plural}/{self.subresource}".rstrip("/")


_CALLS = (Call("list", "pods"), Call("get", "pods", "log"), Call("create", "pods", "exec"), Call("list", "events"))


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    state: State
    what: str
    found: str
    remedy: str = ""


def of_machine() -> Iterator[Finding]:
    """Look at this machine: what runs here, and how well apart."""
    yield Finding("ok", "trainwright", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    offered = machine.offered()
    have = amounts(offered)
    yield Finding("ok", "machine", f"{show('cpu', have['cpu'])} CPU, {show('memory', have['memory'])} of memory")
    yield _isolation()
    yield _groups()
    yield _gpus(int(offered[GPU]))
    yield from _frameworks()
    yield _mpi()
    yield _disk(runs.state())


def _isolation() -> Finding:
    tried = try_net()
    if not tried.works:
        return Finding(
            "warn", "isolation", f"net does not work: {tried.reason}", "jobs run with --isolation ports, on 127.0.0.1"
        )
    if tried.limits:
        return Finding("warn", "isolation", f"net works, but {'; '.join(tried.limits)}")
    return Finding("ok", "isolation", "net: each pod has its own address, host name, files and processes")


def _groups() -> Finding:
    if (folder := group_parent()) is not None:
        return Finding("ok", "cgroups", f"memory limits are the kernel's, below {folder}")
    return Finding(
        "warn",
        "cgroups",
        "no control group can be made: memory limits are looked at twice a second",
        "run as root, or in a session with delegation: systemd-run --user --scope -p Delegate=yes tw serve",
    )


def _gpus(number: int) -> Finding:
    tool = shutil.which("nvidia-smi")
    if number:
        return Finding("ok", "GPUs", f"{number} in /dev" + ("" if tool else ", but no nvidia-smi on the PATH"))
    if tool:
        return Finding("warn", "GPUs", "nvidia-smi is there, but no GPU in /dev", "start the container with --gpus all")
    return Finding("ok", "GPUs", "none; jobs that ask for nvidia.com/gpu wait here (tw run --gpu N pretends)")


def _frameworks() -> Iterator[Finding]:
    """Look which frameworks the Python of jobs has: the first one on the PATH."""
    python = shutil.which("python3") or shutil.which("python")
    if python is None:
        yield Finding("warn", "python", "there is none on the PATH, and most jobs need one", "put one on the PATH")
        return
    found = _versions(python)
    yield Finding("ok", "python", f"jobs find {python}")
    yield from (Finding("ok", name, version) for name, version in found.items())
    if missing := [name for name in _MODULES if name not in found]:
        said = f"{python} has no {' or '.join(missing)}"
        yield Finding(
            "warn", "frameworks", said, "if your jobs use one of them, put the Python that has it on the PATH"
        )


def _versions(python: str) -> dict[str, str]:
    """Return what a Python has of the frameworks, without importing any: that takes seconds."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *_MODULES], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def _mpi() -> Finding:
    if found := shutil.which("mpirun"):
        return Finding("ok", "mpirun", found)
    return Finding("warn", "mpirun", "not on the PATH", "if you run MPIJobs, install Open MPI or MPICH")


def _disk(folder: Path) -> Finding:
    """Look whether runs can be kept where they are kept."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        return Finding("fail", "disk", f"{there} cannot be written", "set XDG_STATE_HOME to a folder that can be")
    state: State = "fail" if free < _TOO_LITTLE else "warn" if free < _LITTLE else "ok"
    found = f"{show('memory', free)} free for runs in {folder}"
    if state == "ok":
        return Finding(state, "disk", found)
    remedy = f"make room, keep fewer runs ({runs.KEEP_VARIABLE}=10), or set XDG_STATE_HOME to another disk"
    return Finding(state, "disk", found, remedy)


async def of_homes(where: Where) -> list[Finding]:
    """Look at where jobs may be: a server on this machine, and the cluster that is meant."""
    server = [] if where.names_a_cluster else [await _server(where)]
    return [*server, *await _cluster(where)]


async def _server(where: Where) -> Finding:
    if homes.server() is None:
        return Finding("ok", "tw serve", "not running; tw serve starts one")
    try:
        async with asyncio.timeout(_PATIENCE), homes.opened(where) as home:
            jobs = counted(len(await homes.listing(home, going=True)), "unfinished job")
            return Finding("ok", "tw serve", f"answers, {jobs} in {home.place}")
    except (TrainwrightError, OSError, TimeoutError) as error:
        return Finding("fail", "tw serve", f"runs, but does not answer: {error}", "stop it, and start it again")


async def _cluster(where: Where) -> list[Finding]:
    """Ask the cluster that is named, or that of ~/.kube/config; never the server on this machine."""
    default = Path.home() / ".kube" / "config"
    if not where.names_a_cluster and not default.is_file():
        return [Finding("ok", "cluster", "none is named; --context, --kubeconfig or ~/.kube/config would name one")]
    named = where if where.names_a_cluster else replace(where, kubeconfig=str(default))
    try:
        async with asyncio.timeout(_PATIENCE), homes.opened(named) as home:
            assert isinstance(home.cluster, KubernetesCluster), "a home that was named is a cluster"
            return await _asked(home, home.cluster)
    except (TrainwrightError, OSError, TimeoutError) as error:
        said = str(error) or f"no answer within {_PATIENCE:g} s"
        return [Finding("fail", "cluster", said, "see that it runs, and that the kubeconfig is right: kubectl version")]


async def _asked(home: Home, cluster: KubernetesCluster) -> list[Finding]:
    version = msgspec.json.decode((await cluster.rest.answer("GET", "/version")).body).get(
        "gitVersion", "of no version"
    )
    found = [Finding("ok", "cluster", f"{home.name} answers, Kubernetes {version}")]
    found += [await _kind(home, cluster, face) for face in FACES]
    rows = [Call("create", face.resource.plural, group=face.resource.group) for face in FACES]
    refused = [call for call in (*rows, *_CALLS) if not await _is_allowed(home, cluster, call)]
    place = f"in namespace {home.namespace!r}" if home.namespace else "in every namespace"
    if refused:
        said = f"you may not {' or '.join(map(str, refused))} {place}"
        return [*found, Finding("warn", "rights", said, "ask whoever looks after the cluster for a Role")]
    return [*found, Finding("ok", "rights", f"you may make jobs, see pods, logs and events, and execute, {place}")]


async def _kind(home: Home, cluster: KubernetesCluster, face: Face) -> Finding:
    try:
        known = len((await cluster.list(face.resource, home.namespace)).items)
    except NotFound:
        return Finding("warn", face.name, "the cluster does not know this kind", "tw install | kubectl apply -f -")
    except ClusterError as error:
        return Finding("warn", face.name, str(error), "ask whoever looks after the cluster for a Role")
    return Finding("ok", face.name, f"known, {counted(known, 'job')}")


async def _is_allowed(home: Home, cluster: KubernetesCluster, call: Call) -> bool:
    """Ask the cluster whether the user may do something."""
    asked = {
        "verb": call.verb,
        "group": call.group,
        "resource": call.plural,
        "subresource": call.subresource,
        "namespace": home.namespace,
    }
    review = {
        "apiVersion": _REVIEW.api_version,
        "kind": _REVIEW.kind,
        "spec": {"resourceAttributes": {name: value for name, value in asked.items() if value}},
    }
    answer = await cluster.create(_REVIEW, review)
    return bool((answer.get("status") or {}).get("allowed"))
