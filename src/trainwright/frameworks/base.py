"""Replica, Net, Wiring, Framework: how a framework says what one replica needs to find its peers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trainwright.api.common import Job
from trainwright.core import names


@dataclass(frozen=True)
class Replica:
    """One pod of a job: the role as the manifest spells it, and its index."""

    role: str
    index: int


@dataclass(frozen=True)
class Endpoint:
    """Where a peer listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Net(Protocol):
    """Where replicas reach each other. The home decides; frameworks never format an address themselves."""

    @property
    def names(self) -> bool:
        """Say whether pods have host names of their own (false: all share 127.0.0.1, on distinct ports)."""

    def endpoint(self, job: Job, role: str, index: int, port: int) -> Endpoint:
        """Return where that replica is reached on what its pod calls `port`."""


@dataclass(frozen=True)
class HostNames:
    """The net of every home where pods have names: a replica is reached at its pod's own name."""

    names: bool = True

    def endpoint(self, job: Job, role: str, index: int, port: int) -> Endpoint:
        """Return the pod's name and the port as it stands."""
        return Endpoint(names.pod(job.name, role, index), port)


@dataclass(frozen=True)
class Entry:
    """One value that is added, with the reason a user would want to read."""

    value: str
    why: str


@dataclass(frozen=True)
class WaitFor:
    """A step before the containers start: wait, with a bound, until a peer's name resolves."""

    name: str
    """The init container's name."""
    host: str
    seconds: int
    why: str


@dataclass(frozen=True)
class Wiring:
    """What one replica gets: a framework returns what to add and never edits a pod."""

    env: Mapping[str, Entry] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    """Opened on the role's main container, unless it has a port of that name."""
    wait_for: tuple[WaitFor, ...] = ()


@dataclass(frozen=True)
class Framework:
    """A row of the table of frameworks: its name, its options and how it wires one replica."""

    name: str
    options: type[Any]
    wire: Callable[[Job, Replica, Any, Net], Wiring]
    summary: str = ""
    needs: tuple[str, ...] = ()
    """Frameworks it builds on: wired first, with the options of the same names where the job does not ask for them."""
