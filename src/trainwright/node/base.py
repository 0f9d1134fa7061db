"""What the kubelet asks of an isolation: a sandbox per pod, processes in it, sockets into it.

Two implementations: `net` (namespaces, an address per pod) and `ports` (plain processes on 127.0.0.1). The kubelet
knows only these protocols.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

IsolationName = Literal["net", "ports"]


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host, seen at another path inside."""

    source: Path
    target: str
    read_only: bool = False
    optional: bool = False
    """Left out, instead of refused, where it cannot be made."""


@dataclass(frozen=True)
class SandboxSpec:
    """What all processes of one pod share."""

    uid: str
    hostname: str
    mounts: tuple[Mount, ...] = ()
    """Seen by every process of the pod: /etc/hosts and the like."""


@dataclass(frozen=True)
class User:
    """Whom processes belong to, where that is not whoever runs the node."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"
    shell: str = "/bin/sh"


@dataclass(frozen=True)
class ProcessSpec:
    """One process to start: the main process of a container, or an exec."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    mounts: tuple[Mount, ...] = ()
    """Seen by this process and its children only: the container's volumes."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    """File descriptors of the caller's, who may close them once the process has started; None: /dev/null."""
    terminal: bool = False
    """Its standard input is a terminal, and shall be the one it obeys: Ctrl-C there interrupts it."""
    leave_children: bool = False
    """What it leaves running when it ends of itself lives on until the pod closes, as after an exec on a cluster."""
    note: int | None = None
    """A descriptor of the caller's in which is noted how it ended, even if the caller is no more."""
    user: User | None = None
    """Whose process it is; None: the caller's own."""


@dataclass(frozen=True)
class Exit:
    """How a process ended."""

    code: int = 0
    signal: int = 0
    """The signal that ended it, 0 if none; `code` is then 128 + signal."""


class SpawnError(Exception):
    """A process that could not be started, in words: no such command, no permission, no such folder."""


class Process(Protocol):
    """A running process and its descendants."""

    @property
    def pid(self) -> int:
        """Return its process id as the host sees it."""

    def signal(self, number: int) -> None:
        """Send a signal to the process; does nothing once it has ended."""

    async def wait(self) -> Exit:
        """Return how it ended."""

    async def kill(self) -> None:
        """SIGKILL it and every descendant, also those that left its session; returns when they are gone."""


Launch = Callable[[ProcessSpec], Awaitable[Process]]
"""Starts a process somewhere; SpawnError says in words why it could not."""


class Sandbox(Protocol):
    """A pod's own place: network address, host name, process tree."""

    @property
    def address(self) -> str:
        """Return the pod's IP address."""

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process inside; SpawnError says in words why it could not."""

    def pids(self) -> list[int]:
        """Return the host's process ids of everything that runs inside, for accounting."""

    async def connect(self, port: int, host: str = "") -> socket.socket:
        """Return a non-blocking TCP socket connected to a port inside the pod; OSError if nobody listens."""

    async def door(self, address: str) -> socket.socket:
        """Return a listening unix socket that only processes of this pod can reach; OSError where there is no such."""

    async def close(self) -> None:
        """SIGKILL everything inside and free the address; returns when nothing is left."""


@dataclass(frozen=True)
class Trial:
    """What was found out about an isolation on this machine."""

    works: bool
    reason: str = ""
    limits: tuple[str, ...] = field(default=())
    """What works less well than it should, in words ("no pid namespace: …")."""


class Isolation(Protocol):
    """A way to keep pods apart. An async context manager: leaving it ends every sandbox."""

    name: IsolationName

    async def __aenter__(self) -> "Isolation":
        """Make what all pods share."""

    async def __aexit__(self, *error: object) -> None:
        """End every sandbox and everything that was made."""

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """Make the place for one pod."""

    def hold(self, descriptor: int) -> None:
        """Have a descriptor kept open until nothing of any pod is left, even if this process is killed.

        To be called before anything is made.
        """

    async def listen(self, port: int) -> tuple[socket.socket, str]:
        """Return a listening socket that all pods can reach, and the address they reach it at."""
