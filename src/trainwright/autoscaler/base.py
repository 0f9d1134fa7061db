"""The values of the autoscaler: what it is told about nodes and jobs, and what it answers.

Nothing here reads an object or decides. Sums over pods (what a node's pods hold, how many units run) are made by
whoever keeps the pods, once per change of a pod, so that a round in which nothing changes costs little.

A job's elastic pods are called units: all alike, numbered from 0, and the highest number leaves first. That is why a
size says everything: who shrinks from 4 to 2 loses units 3 and 2, and `ElasticJob.places` says on which nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trainwright.placement import Amounts

NOWHERE = ""
"""The place of a unit that has no node yet."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod asks for: what fits a node counts requests, how far jobs grow counts limits."""

    requests: Amounts
    limits: Amounts = field(default_factory=dict)
    """A resource without a limit counts with its request."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node that takes pods; those that do not (cordoned, not ready) are left out by the caller."""

    name: str
    offers: Amounts
    used: Amounts = field(default_factory=dict)
    """Requests of all pods bound to it that stay: units, fixed pods of jobs and pods that are not ours."""
    leaving: Amounts = field(default_factory=dict)
    """Requests of pods bound to it that are stopping; they hold their room until they are gone."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, and the pods of others that found no room on them."""

    nodes: Sequence[Node]
    waiting: Sequence[Amounts] = ()
    """Requests of each pod that is not ours and has no node; elastic jobs always yield to them."""
    max_load: float = 1.0
    """How much of what the nodes offer may be used before growth ends; above it jobs shrink."""
    in_turn: bool = False
    """Whether pods are placed in the order of a queue, so that nobody grows into what a minimum waits for."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Pods of a job that are not scaled, such as its master or its parameter servers."""

    ask: Ask
    count: int
    bound: int = 0
    """How many of them have a node; the others are missing, whether created or not."""


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """One training job: what it has, what it may have. Jobs that are not scaled are given too: they need room."""

    key: str
    """Namespace and name, as in "research/mnist"."""
    unit: Ask
    minimum: int
    maximum: int
    size: int
    """How many units are wanted now: the number at the kind's size path."""
    places: Sequence[str] = ()
    """The node of each unit that exists and stays, by index; NOWHERE for one that waits. May be shorter than size."""
    running: int = 0
    """How many of those run."""
    leaving: int = 0
    """How many units are stopping."""
    ended: int = 0
    """How many units have ended, well or not, and are still listed."""
    fixed: Sequence[Fixed] = ()
    kind: str = ""
    created: float = 0.0
    """When it was made, in seconds of any clock: who came first is served first."""
    priority: int = 0
    """The higher goes before those who came first."""
    steady: str = ""
    """Why its size is left alone ("opted out by annotation …"); empty if it may be scaled."""
    resizing: bool = False
    """Its last change of size is not carried out yet (pods to create or to stop): it is left alone until then."""
    resting: bool = False
    """It was resized a moment ago: it may shrink, but it does not grow yet."""

    @property
    def elastic(self) -> bool:
        """Say whether it may be scaled."""
        return self.minimum < self.maximum and not self.steady


@dataclass(frozen=True, slots=True)
class Change:
    """A new size for one job."""

    job: str
    before: int
    after: int
    reason: str
    """A sentence for a person: "shrinks from 4 to 2: job b's minimum of 3 is not met"."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one round decides."""

    changes: Sequence[Change] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Jobs whose minimum is not met, and why, in words."""

    def sizes(self) -> dict[str, int]:
        """Return the new size of every job that gets one."""
        return {change.job: change.after for change in self.changes}


Policy = Callable[[Cluster, Sequence[ElasticJob]], Plan]
"""Who grows, who shrinks, who waits; rows of `plan.POLICIES`."""

DEFAULT_POLICY = "fulfilment"
