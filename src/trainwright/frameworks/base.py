"""Replica, Net, Wiring, Framework: how a framework says what one replica needs to find its peers.

Options are dataclasses. A user writes them as flags named like their fields, dashes for underscores; `port_flag` and
`flag` are for fields of which there is more to say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.errors import Severity
from trainwright.core.objects import Object
from trainwright.core.resources import Resource


@dataclass(frozen=True)
class Replica:
    """One pod of a job: the role as the manifest spells it, and its index."""

    role: str
    index: int
    told: Mapping[str, "Entry"] = field(default_factory=dict, compare=False)
    """The variables it gets from the frameworks that were asked before this one."""


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
        return Endpoint(host(job, role, index), port)


def host(job: Job, role: str, index: int) -> str:
    """Return the name under which peers reach a replica; a host name or subdomain of the template's own counts."""
    if not job.domain:
        return names.pod(job.name, role, index)
    spec = _spec(job, role)
    return f"{spec.get('hostname') or names.pod(job.name, role, index)}.{spec.get('subdomain') or job.domain}"


def hosts(job: Job, role: str) -> tuple[str, ...]:
    """Return the names of all replicas of a role; one alone if its template gives all of them the same host name."""
    replicas = job.count(role)
    if not job.domain or not replicas or _spec(job, role).get("hostname"):
        return tuple(host(job, role, index) for index in range(min(replicas, 1) if job.domain else replicas))
    domain = _spec(job, role).get("subdomain") or job.domain
    return tuple(f"{names.pod(job.name, role, index)}.{domain}" for index in range(replicas))


def _spec(job: Job, role: str) -> Object:
    found = job.role(role)
    return (found.template.get("spec") or {}) if found else {}


@dataclass(frozen=True)
class Entry:
    """One value that is added, with the reason a user would want to read."""

    value: str
    why: str
    source: Object | None = None
    """Where a variable's value is read instead, as `valueFrom` has it; then `value` only tells a reader what it is."""


@dataclass(frozen=True)
class WaitFor:
    """A step before the containers start: wait, with a bound, until peers' names resolve, or until they answer."""

    name: str
    """The init container's name."""
    hosts: tuple[str, ...]
    seconds: int
    why: str
    port: int | None = None
    """The TCP port on which each must answer; None: it is enough that their names resolve."""
    image: str = ""
    """The image the user asked for; nothing: that of the home."""


@dataclass(frozen=True)
class Mount:
    """A volume and where it appears in the containers."""

    volume: Object
    """As a pod's spec lists it, with its name."""
    path: str
    why: str
    sub_path: str = ""


@dataclass(frozen=True)
class Wiring:
    """What one replica gets: a framework returns what to add and never edits a pod."""

    env: Mapping[str, Entry] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    """Opened on the role's main container, unless it has a port of that name."""
    wait_for: tuple[WaitFor, ...] = ()
    mounts: tuple[Mount, ...] = ()
    commands: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Per container's name the command that replaces the user's, and why."""
    annotations: Mapping[str, Entry] = field(default_factory=dict)
    """On the pod, unless the user has set them."""
    hostname: bool = False
    """The pod gets a host name and a subdomain, so that peers can resolve it."""
    init_steps_too: bool = False
    """Init containers of the user get the variables, mounts and ports as well."""
    all_containers: bool = False
    """Ports are opened on every container that does not have the number yet, and not on the main one alone."""


def bare(resource: Resource, name: str, content: Object) -> Object:
    """Return an object for the whole job as a framework names it; the builder of the job's objects adds the owner."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **content}


def flag(default: Any, name: str = "") -> Any:
    """Return an option that is written under another name than its field's; none: it is not the user's to write."""
    return field(default=default, metadata={"flag": name})


def port_flag(default: int, name: str | None = None, *, forgiving: bool = False) -> Any:
    """Return an option that is a port; a forgiving one is the default again where the number cannot be one."""
    named = {} if name is None else {"flag": name}
    return field(default=default, metadata={**named, "port": True, "forgiving": forgiving})


@dataclass(frozen=True)
class Framework:
    """A row of the table of frameworks: its name, its options and how it wires one replica."""

    name: str
    options: type[Any]
    wire: Callable[[Job, Replica, Any, Net], Wiring]
    """The job, one replica of it, the options (or what `prepare` made of them) and the net to what it gets."""
    summary: str = ""
    needs: tuple[str, ...] = ()
    """Frameworks it builds on: admission adds them to a job that only asks for this one."""
    roles: tuple[str, ...] = ()
    """Its options that name roles of the job; who names one that no job has is warned."""
    objects: Callable[[Job, Any, Net], tuple[Create, ...]] = lambda job, options, net: ()  # noqa: ARG005 - most have none
    """What the job gets as a whole: Services, ConfigMaps, Secrets."""
    prepare: Callable[[Job, Any, Net], Any] = lambda job, options, net: options  # noqa: ARG005 - most have nothing to
    """What `wire` gets for the options: they, or what can be worked out from them once for all replicas."""
    lead: Callable[[Job, Any], str] = lambda job, options: ""  # noqa: ARG005 - most have none
    """The role whose end is the end of the job; nothing if there is none."""
    elastic: Callable[[Job, Any], str] = lambda job, options: ""  # noqa: ARG005 - most have none
    """The role whose replicas may come and go while the job runs; nothing if there is none."""
    nameless: tuple[Severity, str] | None = None
    """What it needs that pods without names of their own lack, and whether the job is of no use then."""
