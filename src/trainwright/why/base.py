"""Facts, Output, Verdict: what a judgement is made from, and what it says.

`Facts` is everything that was seen of a job at one moment. Nothing in it is needed: what a home cannot tell (the time
of the last line, nodes a user may not list) is left out, and situations that would need it are then not found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from trainwright.api.common import Job, Role
from trainwright.api.faces import Standing
from trainwright.core.objects import Object, at, moment
from trainwright.core.words import span
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Kind, Pod, look
from trainwright.reconcile.record import Record

HomeKind = Literal["serve", "run", "kept", "cluster"]


@dataclass(frozen=True)
class Verdict:
    """Why a job is as it is: one sentence, what it rests on, and what to type next."""

    sentence: str
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    situation: str = ""
    """Which row of the table has spoken."""


@dataclass(frozen=True)
class Output:
    """What a pod has printed last, and when, where that is known."""

    lines: tuple[str, ...] = ()
    at: datetime | None = None
    before: tuple[str, ...] = ()
    """The last lines of the run before, of a container that was started again."""


@dataclass(frozen=True)
class Facts:
    """What was seen of a job, and around it."""

    kind: Kind
    object: Object
    now: datetime
    """When it was seen; times are told in its zone."""
    pods: tuple[Object, ...] = ()
    """The job's pods that are there."""
    past: tuple[Object, ...] = ()
    """Those that are gone, where they are known."""
    events: tuple[Object, ...] = ()
    """What was told of the job and its pods, oldest first."""
    nodes: tuple[Object, ...] = ()
    others: tuple[Object, ...] = ()
    """Pods that are not the job's: who holds what."""
    jobs: tuple[Object, ...] = ()
    """The other jobs: until when they may run."""
    claims: tuple[Object, ...] = ()
    """The volume claims of the job's namespace."""
    output: Mapping[str, Output] = field(default_factory=dict)
    """By the uid of a pod."""
    home: HomeKind = "cluster"
    flags: str = ""
    """What a user has to add to a command to reach this job."""

    @property
    def name(self) -> str:
        """Return the job's name."""
        return str(self.object["metadata"]["name"])

    @cached_property
    def job(self) -> Job:
        """Return the job, read."""
        return self.kind.read(self.object)

    @property
    def status(self) -> Object:
        """Return its status; an empty one if it has none."""
        return self.object.get("status") or {}

    @cached_property
    def standing(self) -> Standing:
        """Return where it stands."""
        return self.kind.face.standing(self.status)

    @cached_property
    def record(self) -> Record:
        """Return what is remembered of it."""
        return records.read(self.status)

    @cached_property
    def ranks(self) -> tuple[Pod, ...]:
        """Return its pods that count, in the order of ranks: not those of an earlier version, or settled already."""
        record = self.record
        found = (pod for pod in self._looked(self.pods) if pod.uid not in record.retired)
        return tuple(pod for pod in found if not record.is_past(pod.version, ended=pod.ended))

    @cached_property
    def leaving(self) -> tuple[Pod, ...]:
        """Return its pods that are told to go and have not gone."""
        return tuple(pod for pod in self._looked(self.pods) if pod.terminating)

    def _looked(self, pods: Iterable[Object]) -> list[Pod]:
        order = {role.name: place for place, role in enumerate(self.job.roles)}
        placed = ((obj, self.kind.place(self.job, obj)) for obj in pods)
        found = [look(obj, place, self.kind.container) for obj, place in placed if place is not None]
        return sorted(found, key=lambda pod: (order.get(pod.role, len(order)), pod.index))

    @property
    def running(self) -> tuple[Pod, ...]:
        """Return the ranks that run."""
        return tuple(pod for pod in self.ranks if pod.phase == "Running" and not pod.terminating)

    def of_role(self, role: Role) -> list[Pod]:
        """Return the ranks of a role that are there and stay."""
        return [pod for pod in self.ranks if pod.role == role.name and not pod.terminating]

    def label(self, pod: str) -> str:
        """Return a pod's short name: without the job's in front."""
        return pod.removeprefix(f"{self.name}-")

    def told(self, *reasons: str, pod: str | None = None) -> list[Object]:
        """Return the events with one of these reasons: of the job, or of one of its pods."""
        about = self.name if pod is None else pod
        return [
            event
            for event in self.events
            if event.get("reason") in reasons and at(event, ("involvedObject", "name")) == about
        ]

    def clock(self, when: datetime | str | None) -> str:
        """Return the time of day, in the reader's zone; nothing if it is not known."""
        known = moment(when) if isinstance(when, str) else when
        return known.astimezone(self.now.tzinfo).strftime("%H:%M:%S") if known else ""

    def since(self, when: datetime | str | None) -> str:
        """Return how long ago something was: "3m5s"; nothing if that is not known."""
        known = moment(when) if isinstance(when, str) else when
        return span(max((self.now - known).total_seconds(), 0.0)) if known else ""

    def command(self, words: str, rank: str = "") -> str:
        """Return a command about this job, or one of its ranks, as a user has to type it."""
        return f"tw {words} {self.name}{f'/{rank}' if rank else ''}{self.flags}"


Judge = Callable[[Facts], Verdict | None]
"""One row of the table: the situation's verdict, or None if this is not it."""


def container_states(pod: Pod) -> Iterator[tuple[Object, Object]]:
    """Yield the status of every container of a pod, init steps first, with its present state."""
    status = pod.object.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        yield each, each.get("state") or {}


def waiting_states(facts: Facts) -> Iterator[tuple[Pod, Object, str, str]]:
    """Yield the containers that wait in pods that stay: pod, container, reason and message."""
    for pod in facts.ranks:
        for each, state in container_states(pod):
            if (waiting := state.get("waiting")) is not None and not pod.terminating:
                yield pod, each, str(waiting.get("reason") or ""), str(waiting.get("message") or "")


def message_of(event: Object) -> str:
    """Return what an event says, on one line."""
    return " ".join(str(event.get("message") or "").split())


def told_at(event: Object) -> datetime | None:
    """Return when an event was last told; None if it does not say."""
    return moment(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"))


def quoted(lines: Iterable[str]) -> tuple[str, ...]:
    """Return printed lines as evidence."""
    return tuple(f"| {line}" for line in lines)
