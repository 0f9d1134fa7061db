"""Failures: which are final, which pods are made again, and what counts against the limit. Each exactly once.

`judge` compares the pods with the record and returns the record as it is after this look. A failure is final under
restart policy Never, and under ExitCode when the code is below 128; any other failed pod is retired: counted, deleted,
made again. A pod that was seen to run and is gone, or that somebody else deletes, is made again and counted too.

The hub of an elastic job, the replica that hosts the rendezvous, is special: when it is lost all others die of it
within seconds. Then the whole job starts again in the next version, the hub's loss counts once, and what the others
suffered does not count. Because a survivor's failure may be seen before the hub's, failures of the others are
judged only a settle time after they happened.

A replica whose pods fail again and again is made again later and later (`rested`), as a kubelet does with containers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trainwright.api.common import Job, Role
from trainwright.core.names import CANCEL_ANNOTATION
from trainwright.core.objects import at, moment
from trainwright.desired import Desired
from trainwright.reconcile.kind import Place, Pod
from trainwright.reconcile.record import Fall, Record, RoleRecord

SETTLE = timedelta(seconds=5)
AT_ONCE = 3
"""So many failures in a row are followed by a new pod at once."""
REST, LONGEST_REST = timedelta(seconds=10), timedelta(minutes=5)
"""How long a replica rests after the next one, and at most: each time twice as long."""
STEADY = timedelta(minutes=10)
"""A pod that has lasted so long has not failed in a row with the one before."""
RETRYABLE = 128
"""Exit codes from here on are signals and the like: worth another try under restart policy ExitCode."""


@dataclass(frozen=True)
class Judgement:
    """What a look at the pods has shown."""

    record: Record
    final: Pod | None = None
    """The first failure after which the job cannot go on."""
    replaced: tuple[Pod, ...] = ()
    """Failed pods that are made again, new in this round."""
    hub_lost: bool = False
    look_again: datetime | None = None


def judge(job: Job, record: Record, pods: tuple[Pod, ...], now: datetime) -> Judgement:
    """Count what is new among the pods, and say which failures are final and which pods are made again."""
    record = removed_on_purpose(job, _inherited(job, record, pods) if record.inherited else record, pods)
    current = {
        (pod.role, pod.index): pod for pod in pods if pod.version == record.version and pod.uid not in record.retired
    }
    hub = hub_of(job)
    if hub is not None and (losses := _hub_losses(job, hub, record, current.get(hub))):
        return Judgement(_without_hub(record, hub, current.get(hub), losses, now), hub_lost=True)
    looks = [_RoleLook.begin(role, record.role(role.name), hub) for role in job.roles]
    for look in looks:
        for index in range(look.role.replicas):
            look.replica(index, current.get((look.role.name, index)), now)
    return Judgement(
        replace(
            record,
            roles={**record.roles, **{look.role.name: look.record() for look in looks}},
            retired=record.retired.union(*(look.retired for look in looks)),
        ),
        final=next((pod for look in looks for pod in look.final), None),
        replaced=tuple(pod for look in looks for pod in look.replaced),
        look_again=min((look.look_again for look in looks if look.look_again), default=None),
    )


def hub_of(job: Job) -> Place | None:
    """Return the replica that hosts the rendezvous, if losing it restarts the whole job."""
    if job.elastic is None or job.elastic.hub is None:
        return None
    role = job.role(job.elastic.role)
    if role is None or role.restart_policy == "Never" or job.elastic.hub >= role.replicas:
        return None
    return role.name, job.elastic.hub


def rested(job: Job, desired: Desired, judged: Judgement, now: datetime) -> tuple[Desired, datetime | None]:
    """Leave out the pods that are not to be made yet because those before them failed; return when to look again.

    Without its hub nobody can work, so all wait for it.
    """
    waits = resting(judged.record, now)
    if not waits:
        return desired, judged.look_again
    everyone = hub_of(job) in waits
    pods = tuple(pod for pod in desired.pods if not everyone and (pod.role, pod.index) not in waits)
    return replace(desired, pods=pods), min((*waits.values(), *([judged.look_again] if judged.look_again else ())))


def resting(record: Record, now: datetime) -> dict[Place, datetime]:
    """Return the replicas that are not made again yet, and when they are."""
    return {
        (name, index): until
        for name, role in record.roles.items()
        for index, fall in role.falls.items()
        if (until := fall.at + _rest(fall.times)) > now
    }


def longest_rest(record: Record, pods: Iterable[Pod]) -> timedelta:
    """Return how long the one of some failed pods that rests longest is waited for."""
    falls = (record.role(pod.role).falls.get(pod.index) for pod in pods)
    return max((_rest(fall.times) for fall in falls if fall), default=timedelta())


def _rest(times: int) -> timedelta:
    """Return how long a replica rests after so many failures in a row."""
    if times <= AT_ONCE:
        return timedelta()
    return min(REST * (1 << min(times - AT_ONCE - 1, 16)), LONGEST_REST)


def _fallen(before: Fall | None, pod: Pod, now: datetime) -> Fall:
    """Return how often a replica has failed in a row, now that this pod has."""
    began = moment(pod.object["metadata"].get("creationTimestamp"))
    lasted = began is not None and now - began >= STEADY
    return Fall(1 if before is None or lasted else before.times + 1, now)


def is_final(role: Role, pod: Pod) -> bool:
    """Say whether a failed pod ends the job: a pod without a known exit code (evicted, say) is worth another try."""
    if role.restart_policy == "Never":
        return True
    return role.restart_policy == "ExitCode" and pod.code is not None and pod.code < RETRYABLE


def limit_reached(job: Job, record: Record) -> bool:
    """Say whether the job has restarted as often as it may; a limit of 0 allows none, as does 1."""
    limit = job.run_policy.backoff_limit
    if limit is None:
        return False
    counted = sum(record.role(role.name).restarts for role in job.roles if role.restart_policy != "Never")
    return counted >= max(limit, 1)


def cancelled(job: Job) -> str:
    """Return in a sentence that somebody wants the job to end, and who; nothing if nobody does."""
    who = at(job.object, ("metadata", "annotations", CANCEL_ANNOTATION))
    return f"{job.resource.kind} {job.name} was cancelled by {who}." if who else ""


def new_restarts(pod: Pod, counted: int) -> int:
    """Return the restarts that are not counted yet; never less than none, for an evicted pod forgets those it had."""
    return max(pod.restarts - counted, 0)


def removed_on_purpose(job: Job, record: Record, pods: tuple[Pod, ...]) -> Record:
    """Forget indices beyond the wanted number and retire their pods; drop retired pods that are gone."""
    surplus = {pod.uid for pod in pods if pod.index >= job.count(pod.role)}
    there = {pod.uid for pod in pods}
    roles = {}
    for name, role in record.roles.items():
        count = job.count(name)
        roles[name] = replace(
            role,
            seen={index: uid for index, uid in role.seen.items() if index < count},
            counted={index: times for index, times in role.counted.items() if index < count},
            done=frozenset(index for index in role.done if index < count),
            falls={index: fall for index, fall in role.falls.items() if index < count},
            failed={index: uid for index, uid in role.failed.items() if index < count},
        )
    return replace(record, roles=roles, retired=(record.retired & there) | surplus)


def _inherited(job: Job, record: Record, pods: tuple[Pod, ...]) -> Record:
    """Return the record of a job that somebody else has begun: what its pods have been through is not counted."""
    running = [pod for pod in pods if pod.started and not pod.ended and not pod.terminating]
    roles = {
        role.name: RoleRecord(
            seen={pod.index: pod.uid for pod in running if pod.role == role.name},
            counted={pod.index: pod.restarts for pod in running if pod.role == role.name},
        )
        for role in job.roles
    }
    return replace(record, inherited=False, roles={**record.roles, **roles})


def _without_hub(record: Record, hub: Place, pod: Pod | None, losses: int, now: datetime) -> Record:
    """Return the record of a job that starts again because it has lost its hub so often; a hub that failed may rest."""
    role, index = hub
    after, before = record.next_version(), record.role(role)
    falls = {**before.falls, index: _fallen(before.falls.get(index), pod, now)} if pod else before.falls
    kept = RoleRecord(before.restarts + losses, falls=falls)
    return replace(after, roles={**after.roles, role: kept})


def _hub_losses(job: Job, hub: Place, record: Record, pod: Pod | None) -> int:
    """Return how many failures of the hub are new; 0 while it lives on, was never up, or has done its work."""
    kept, index = record.role(hub[0]), hub[1]
    known = kept.seen.get(index)
    if pod is None or (known is not None and pod.uid != known):
        return int(known is not None and index not in kept.done)
    role = job.role(hub[0])
    is_over = role is not None and pod.phase == "Failed" and not pod.terminating and is_final(role, pod)
    if pod.phase == "Succeeded" or is_over:
        return 0
    restarts = new_restarts(pod, kept.counted.get(index, 0)) if known else pod.main_restarts
    if pod.phase == "Pending":  # only its init containers have run: nobody was connected yet
        restarts = 0
    ended = pod.phase == "Failed" or pod.down or (pod.terminating and (known is not None or pod.started))
    return restarts + int(ended)


@dataclass
class _RoleLook:
    """Goes over the replicas of a role and adds up what is new."""

    role: Role
    hub: Place | None
    restarts: int
    seen: dict[int, str]
    counted: dict[int, int]
    done: set[int]
    falls: dict[int, Fall]
    retired: set[str] = field(default_factory=set)
    final: list[Pod] = field(default_factory=list)
    replaced: list[Pod] = field(default_factory=list)
    look_again: datetime | None = None

    @classmethod
    def begin(cls, role: Role, kept: RoleRecord, hub: Place | None) -> "_RoleLook":
        return cls(role, hub, kept.restarts, dict(kept.seen), dict(kept.counted), set(kept.done), dict(kept.falls))

    def replica(self, index: int, pod: Pod | None, now: datetime) -> None:
        if index in self.done:
            return
        known = self.seen.get(index)
        if known is not None and (pod is None or pod.uid != known):
            self._forget(index, restarts=1)  # gone though nobody here removed it
            known = None
        if pod is None:
            return
        fresh = new_restarts(pod, self.counted.get(index, 0))
        if pod.phase == "Succeeded":
            self._forget(index, restarts=fresh)
            self.done.add(index)
            self.falls.pop(index, None)
        elif pod.terminating:
            self._retire(pod, restarts=fresh + int(known is not None or pod.started))
        elif (pod.phase == "Failed" or fresh) and (settled := self._settles_at(pod, now)):
            self.look_again = min(settled, self.look_again or settled)
        elif pod.phase == "Failed" and is_final(self.role, pod):
            self.final.append(pod)
        elif pod.phase == "Failed":
            self.replaced.append(pod)
            self.falls[index] = _fallen(self.falls.get(index), pod, now)
            self._retire(pod, restarts=fresh + 1)
        elif pod.started:
            self.restarts += fresh
            self.seen[index], self.counted[index] = pod.uid, pod.restarts

    def record(self) -> RoleRecord:
        return RoleRecord(self.restarts, self.seen, self.counted, frozenset(self.done), self.falls)

    def _settles_at(self, pod: Pod, now: datetime) -> datetime | None:
        """Return when a failure may be judged; None for now, also when the node's clock makes no sense."""
        if self.hub is None or self.hub == (self.role.name, pod.index):
            return None
        if pod.failed_at is None or pod.failed_at > now + SETTLE:
            return None
        settled = pod.failed_at + SETTLE
        return settled if settled > now else None

    def _retire(self, pod: Pod, restarts: int) -> None:
        self._forget(pod.index, restarts)
        self.retired.add(pod.uid)

    def _forget(self, index: int, restarts: int) -> None:
        """Let go of a pod that has ended, and count what its end adds."""
        self.restarts += restarts
        self.seen.pop(index, None)
        self.counted.pop(index, None)
