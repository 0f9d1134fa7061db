"""What every kind becomes once it is read: Job, Role, RunPolicy, Policy, Elastic.

A `Job` is a value: read, defaulted, checked, frozen. Templates stay plain pod templates, because pods are built from
them; everything a decision looks at has a field of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwright.core.objects import Object
from trainwright.core.resources import Resource

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]
CleanPods = Literal["None", "Running", "All"]


@dataclass(frozen=True)
class Policy:
    """What shall happen when something has happened to a pod: events or an exit code, and the action they call for."""

    action: str
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    delay_seconds: float | None = None
    """How long the action waits for the matter to settle; None: it is taken at once."""


@dataclass(frozen=True)
class After:
    """The roles that must be up before a role may start."""

    roles: tuple[str, ...]
    any: bool = False
    """One of them is enough."""


@dataclass(frozen=True)
class Role:
    """Replicas that are made from one template: Master, Worker, a Volcano task."""

    name: str
    replicas: int
    template: Object
    restart_policy: RestartPolicy = "OnFailure"
    minimum: int | None = None
    """How many of them the job needs; None: all."""
    after: After | None = None
    policies: tuple[Policy, ...] = ()
    """Tried before those of the job."""
    max_retry: int | None = None
    """How many container restarts, all its pods together, are a failure of the role; None: no number is."""
    partition_size: int | None = None
    """How many neighbours form a group that is restarted together; None: there are no groups."""

    @property
    def needed(self) -> int:
        """Return how many replicas the job needs of this role."""
        return self.replicas if self.minimum is None else self.minimum

    @property
    def label(self) -> str:
        """Return the role as names and labels spell it."""
        return self.name.lower()


@dataclass(frozen=True)
class RunPolicy:
    """How long a job may live, how often it may fail, and what is left of it."""

    clean_pods: CleanPods = "None"
    ttl_seconds: int | None = None
    deadline_seconds: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    gang_min: int | None = None
    """How many pods must fit before any starts; None: all, or the elastic minimum."""
    min_success: int | None = None
    """How many pods that succeed make the job a success, whatever the others do."""
    max_retry: int | None = None
    """How many runs there may be in all; None: no limit."""
    policies: tuple[Policy, ...] = ()
    """What shall happen when something happens to a pod of any role."""
    external: bool = False
    """Somebody else manages this job: it is left alone completely."""


@dataclass(frozen=True)
class Elastic:
    """The range in which one role may be resized while the job runs."""

    role: str
    minimum: int
    maximum: int
    hub: int | None = None
    """The replica that hosts the rendezvous: when it is lost, all of the role start again together."""
    metrics: tuple[Object, ...] = ()
    """What a horizontal pod autoscaler shall look at; none: no such object is made."""


@dataclass(frozen=True)
class Request:
    """A framework the job asks for, with the values of its options."""

    framework: str
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    """Options as a user writes them: "--port=2222"."""


@dataclass(frozen=True)
class Job:
    """One job of any kind, ready for decisions."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    roles: tuple[Role, ...]
    run_policy: RunPolicy
    requests: tuple[Request, ...]
    elastic: Elastic | None
    object: Object
    """The job as stored: metadata for children and the status of the last round."""
    domain: str = ""
    """What stands behind a pod's name in the addresses its peers are given; nothing where the short name resolves."""

    def role(self, name: str) -> Role | None:
        """Return the role of that name, or None."""
        return next((role for role in self.roles if role.name == name), None)

    def count(self, name: str) -> int:
        """Return how many replicas a role has; none if there is no such role."""
        role = self.role(name)
        return role.replicas if role else 0

    @property
    def total(self) -> int:
        """Return how many replicas there are in all roles together."""
        return sum(role.replicas for role in self.roles)
