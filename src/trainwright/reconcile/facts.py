"""What has happened to a job that lives by policies, told from its pods and its record: each event exactly once.

Nobody hands us events: they are differences between what the record remembers and what is there. A pod that was seen,
had not ended and is gone was evicted; one that has failed and is not yet in the record has just failed. What is found
goes into the record with the same look, so a crash neither loses nor doubles it. Pods of earlier versions, retired
ones (restarted by us) and those beyond the wanted number tell nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trainwright.api.common import Job, Policy, Role
from trainwright.core import names
from trainwright.core.resources import POD_GROUP
from trainwright.reconcile.kind import Pod, Sight
from trainwright.reconcile.policies import removed_on_purpose
from trainwright.reconcile.record import Record, RoleRecord, Timer
from trainwright.reconcile.transitions import EVENTS, Event

_ANY = "*"


@dataclass(frozen=True)
class Fact:
    """One thing that has happened: to a pod, to a role, or to the whole job."""

    event: Event
    role: str = ""
    index: int | None = None
    uid: str = ""
    code: int | None = None


@dataclass(frozen=True)
class Found:
    """What a look has shown."""

    record: Record
    facts: tuple[Fact, ...] = ()
    """In the order in which their policies are asked."""
    waiting: tuple[Fact, ...] = ()
    """Pods that do not run yet: no news, but policies with a delay look at them."""


def find(job: Job, record: Record, sight: Sight) -> Found:
    """Tell what is new among the pods, and remember it."""
    record = removed_on_purpose(job, record, sight.pods)
    current = {
        (pod.role, pod.index): pod
        for pod in sight.pods
        if not record.is_past(pod.version, ended=pod.ended) and pod.uid not in record.retired
    }
    there = {pod.uid for pod in sight.pods if not pod.terminating}
    looks = [_RoleLook.begin(role, record.role(role.name), record.version) for role in job.roles]
    for look in looks:
        for index in range(look.role.replicas):
            look.replica(index, current.get((look.role.name, index)), there)
        look.whole(pod for (role, _), pod in current.items() if role == look.role.name)
    unknown = _is_unknown(sight)
    facts = [fact for look in looks for fact in look.facts]
    if unknown and not record.unknown:
        facts.append(Fact("Unknown"))
    order = list(EVENTS)
    return Found(
        replace(
            record,
            roles={**record.roles, **{look.role.name: look.record() for look in looks}},
            unknown=unknown,
        ),
        tuple(sorted(facts, key=lambda fact: order.index(fact.event))),
        tuple(fact for look in looks for fact in look.waiting),
    )


def policy_for(job: Job, fact: Fact) -> Policy | None:
    """Return the first policy that speaks of a fact: those of its role are asked before those of the job."""
    role = job.role(fact.role)
    listed = (*(role.policies if role else ()), *job.run_policy.policies)
    return next((policy for policy in listed if _speaks_of(policy, fact)), None)


def running_timers(job: Job, record: Record, found: Found, pods: Iterable[Pod], now: datetime) -> tuple[Timer, ...]:
    """Return the timers that run after a look: those that still matter, and one for each new fact a delay waits for.

    A pod that runs again, or at last, ends the wait that its failure, its eviction or its waiting began. Of two timers
    for the same replica and action the older one stays.
    """
    up = {(pod.role, pod.index) for pod in pods if pod.phase == "Running" and pod.version == record.version}
    idle = {fact.uid for fact in found.waiting}
    wanted = {(role.name, index) for role in job.roles for index in (None, *range(role.replicas))} | {("", None)}
    kept = {
        timer.key: timer
        for timer in record.timers
        if (timer.role, timer.index) in wanted and not _is_settled(timer, up, idle)
    }
    for fact in (*found.facts, *found.waiting):
        policy = policy_for(job, fact)
        if policy is not None and policy.delay_seconds is not None:
            timer = Timer(_due(now, policy.delay_seconds), policy.action, fact.event, fact.role, fact.index, fact.uid)
            kept.setdefault(timer.key, timer)
    return tuple(kept.values())


def _due(now: datetime, seconds: float) -> datetime:
    """Return when a delay is over; in whole seconds, as the record writes it, and never too early."""
    return (now + timedelta(seconds=seconds, microseconds=999_999)).replace(microsecond=0)


def _is_settled(timer: Timer, up: set[tuple[str, int]], idle: set[str]) -> bool:
    if timer.event == "PodPending":
        return timer.uid not in idle
    if timer.event in ("PodFailed", "PodEvicted"):
        return timer.index is not None and (timer.role, timer.index) in up
    return False


def _speaks_of(policy: Policy, fact: Fact) -> bool:
    if policy.exit_code is not None:
        return fact.code == policy.exit_code
    if fact.event == "PodPending" and policy.delay_seconds is None:
        return False
    return fact.event in policy.events or _ANY in policy.events


def _is_unknown(sight: Sight) -> bool:
    groups = (obj for name, obj in sight.support.items() if name.kind == POD_GROUP.kind)
    return any((group.get("status") or {}).get("phase") == "Unknown" for group in groups)


@dataclass
class _RoleLook:
    """Goes over the replicas of a role and notes what is new."""

    role: Role
    version: int
    seen: dict[int, str]
    done: set[int]
    failed: dict[int, str]
    completed: bool
    troubled: int
    facts: list[Fact] = field(default_factory=list)
    waiting: list[Fact] = field(default_factory=list)

    @classmethod
    def begin(cls, role: Role, kept: RoleRecord, version: int) -> "_RoleLook":
        return cls(role, version, dict(kept.seen), set(kept.done), dict(kept.failed), kept.completed, kept.troubled)

    def replica(self, index: int, pod: Pod | None, there: set[str]) -> None:
        if index in self.done or self.failed.get(index) in there:
            return
        self.failed.pop(index, None)  # somebody took the failed pod away: it is made again
        if index in self.seen and (pod is None or pod.uid != self.seen[index]):
            self.facts.append(self._fact("PodEvicted", index))
            del self.seen[index]
        if pod is None:
            return
        if pod.phase == "Succeeded":
            self.done.add(index)
            self.seen.pop(index, None)
        elif pod.phase == "Failed" and not pod.terminating:
            if pod.version == self.version:  # else it failed while the job was being stopped
                self.facts.append(self._fact("PodFailed", index, pod))
            self.failed[index] = pod.uid
            self.seen.pop(index, None)
        else:  # also one that is being deleted: when it is gone it was evicted, whatever its last words were
            self.seen[index] = pod.uid
            if pod.phase == "Pending" and not pod.terminating:
                self.waiting.append(self._fact("PodPending", index, pod))

    def whole(self, pods: Iterable[Pod]) -> None:
        """Look at the role as a whole, once every replica was looked at."""
        is_over = 0 < self.role.replicas <= len(self.done)
        if is_over and not self.completed:
            self.facts.append(Fact("TaskCompleted", self.role.name))
        self.completed = is_over
        active = [pod for pod in pods if pod.phase in ("Running", "Pending") and not pod.terminating]
        restarts = sum(pod.restarts for pod in active)
        limit = self.role.max_retry
        if limit is None or restarts < max(limit, 1):
            self.troubled = 0
        elif restarts > self.troubled:
            worst = max(active, key=lambda pod: pod.restarts)
            self.facts.append(self._fact("TaskFailed", worst.index, worst))
            self.troubled = restarts

    def record(self) -> RoleRecord:
        return RoleRecord(
            seen=self.seen,
            done=frozenset(self.done),
            failed=self.failed,
            completed=self.completed,
            troubled=self.troubled,
        )

    def _fact(self, event: Event, index: int, pod: Pod | None = None) -> Fact:
        code = pod.code if pod is not None and event == "PodFailed" else None
        return Fact(event, self.role.name, index, pod.uid if pod is not None else "", code)


def targets(job: Job, action: str, role_name: str, index: int | None) -> Iterator[tuple[str, int]]:
    """Yield the replicas a targeted action is about: a pod, its partition, or its whole role.

    What happened to a role as a whole has no pod: then every action is about the whole role.
    """
    role = job.role(role_name)
    if role is None:
        return
    if index is None or action == "RestartTask":
        yield from ((role.name, each) for each in range(role.replicas))
        return
    size = role.partition_size if action == "RestartPartition" else None
    first, length = (index, 1) if size is None else (index // size * size, size)
    yield from ((role.name, each) for each in range(first, min(first + length, role.replicas)))


def who(job: Job, role: str, index: int | None) -> str:
    """Return of whom a fact tells, in words."""
    if not role:
        return f"job {job.name}"
    return f"task {role}" if index is None else names.pod(job.name, role, index)
