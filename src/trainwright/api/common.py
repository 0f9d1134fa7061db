"""What every kind becomes once it is read: Job, Role, RunPolicy, Elastic.

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
class Role:
    """Replicas that are made from one template: Master, Worker, a Volcano task."""

    name: str
    replicas: int
    template: Object
    restart_policy: RestartPolicy = "OnFailure"

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
