"""The policy `edl-compat`: what the released EDL autoscaler does, kept to compare with.

It looks at sums: what all nodes offer, and what all pods ask for, also those that wait or are stopping. Scores are
those at the start of the round, and in every pass each job gets or loses one unit, whoever is least fulfilled. Known
to be wrong and kept: a node that was found to have room has more of it afterwards, not less, so that one node with room
for one unit lets all of them grow.

Two things differ, so that it always ends within the range of each job: devices may be used to the last also when
jobs shrink (they may when jobs grow), and a pass that leads back to where it began is the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from trainwright.autoscaler.base import NOWHERE, Change, Cluster, ElasticJob, Plan
from trainwright.autoscaler.fulfilment import order
from trainwright.placement import Amounts

MEGA: Final = 10**6
MOST_PASSES: Final = 10_000


def edl_compat(cluster: Cluster, jobs: Sequence[ElasticJob]) -> Plan:
    """Resize jobs as the released algorithm does."""
    everybody = any(_pends(job) for job in jobs)
    candidates = order([job for job in jobs if not job.resizing and (everybody or _stable(job))])
    sums = _Sums(cluster, jobs)
    sizes = {job.key: job.size for job in candidates}
    for _ in range(_most_passes(candidates)):
        before = dict(sizes)
        for job in candidates:
            sizes[job.key] += sums.grow(job, sizes[job.key])
        for job in reversed(candidates):
            sizes[job.key] += sums.shrink(job, sizes[job.key])
        if sizes == before:
            break
    changes = (_change(job, max(job.minimum, min(sizes[job.key], job.maximum))) for job in candidates)
    return Plan(tuple(change for change in changes if change))


def _stable(job: ElasticJob) -> bool:
    """Say whether all units run; others are looked at only when a job waits as a whole."""
    return _units(job) == job.running


def _units(job: ElasticJob) -> int:
    return len(job.places) + job.leaving + job.ended


def _pends(job: ElasticJob) -> bool:
    return _units(job) == len(job.places) and not job.running


def _most_passes(jobs: Sequence[ElasticJob]) -> int:
    """Return how many passes can each bring a job nearer to an end of its range."""
    passes = (abs(job.maximum - job.size) + abs(job.size - job.minimum) for job in jobs)
    return min(1 + max(passes, default=0), MOST_PASSES)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What a unit counts: thousandths of a cpu, millions of bytes, devices."""

    cpu: int
    memory: int
    devices: int


def _unit(requests: Amounts, limits: Amounts) -> _Unit:
    devices = {**requests, **limits}
    return _Unit(
        requests.get("cpu", 0),
        -(-requests.get("memory", 0) // MEGA),
        sum(amount for name, amount in devices.items() if "/" in name),
    )


class _Sums:
    """What there is, what is asked for, and what is idle on each node."""

    def __init__(self, cluster: Cluster, jobs: Sequence[ElasticJob]) -> None:
        offered = [_unit(node.offers, {}) for node in cluster.nodes]
        load = Fraction(str(cluster.max_load))
        self._cpu = int(sum(each.cpu for each in offered) * load)
        self._memory = sum(each.memory for each in offered)
        self._devices = sum(each.devices for each in offered)
        self._idle: list[list[int]] = []
        self._asked_cpu = self._asked_memory = self._asked_devices = 0
        self._units: dict[str, _Unit] = {}
        for node, offers in zip(cluster.nodes, offered, strict=True):
            held = [_unit(node.used, {}), _unit(node.leaving, {})]
            self._idle.append([offers.cpu - sum(h.cpu for h in held), offers.memory - sum(h.memory for h in held)])
            for each in held:
                self._ask(each)
        for waiting in cluster.waiting:
            self._ask(_unit(waiting, {}))
        for job in jobs:
            self._units[job.key] = _unit(job.unit.requests, job.unit.limits)
            self._ask(self._units[job.key], list(job.places).count(NOWHERE))
            for role in job.fixed:
                self._ask(_unit(role.ask.requests, role.ask.limits), role.count - role.bound)

    def grow(self, job: ElasticJob, size: int) -> int:
        """Return by how many units a job grows in this pass."""
        unit = self._units[job.key]
        if size >= job.maximum:
            self._ask(unit, job.maximum - size)
            return job.maximum - size
        if self._memory - self._asked_memory <= unit.memory:  # an exact fit is refused
            return 0
        node = next((each for each in self._idle if each[0] >= unit.cpu and each[1] >= unit.memory), None)
        enough_cpu = self._cpu - self._asked_cpu >= unit.cpu
        enough_devices = not unit.devices or self._devices - self._asked_devices >= unit.devices
        if not (node and enough_cpu and enough_devices):
            return 0
        node[0] += unit.cpu  # the released sign
        node[1] += unit.memory
        self._ask(unit)
        return 1

    def shrink(self, job: ElasticJob, size: int) -> int:
        """Return by how many units a job shrinks in this pass, as a number below nothing."""
        overloaded = self._asked_devices > self._devices or self._asked_cpu > self._cpu
        if size <= job.maximum and not (overloaded and size > job.minimum):
            return 0
        self._ask(self._units[job.key], -1)
        return -1

    def _ask(self, unit: _Unit, times: int = 1) -> None:
        self._asked_cpu += unit.cpu * times
        self._asked_memory += unit.memory * times
        self._asked_devices += unit.devices * times


def _change(job: ElasticJob, after: int) -> Change | None:
    if after == job.size:
        return None
    verb, why = ("grows", "the sum of all nodes has room") if after > job.size else ("shrinks", "the sum is overloaded")
    return Change(job.key, job.size, after, f"{verb} from {job.size} to {after}: {why}")
