"""Jobs and other load of the simulated cluster: which pods each has, how far it has come, what it saw.

Pods are kept as a controller keeps them: every one that is wanted exists, and one that is lost is made again.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from trainwright.simulate.meters import Signal
from trainwright.simulate.scenario import Background, Jobs, Work
from trainwright.simulate.world import Pod, Vector


@dataclass(slots=True, eq=False)
class Fixed:
    """One role of a job whose pods are always there."""

    needs: Vector
    start: float
    replicas: int
    pods: list[Pod] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """One job: its pods, and what happened to it."""

    name: str
    group: Jobs
    arrives: float
    needs: Vector
    size: int
    fixed: list[Fixed]
    steps: float | None = None
    """What is left to do; None for a job that never ends."""
    fixed_running: int = 0
    units: list[Pod] = field(default_factory=list)
    leaving: int = 0
    arrived: bool = False
    first_running: float | None = None
    ready: float | None = None
    """When it first had all fixed pods and its minimum running."""
    finished: float | None = None
    resized: float | None = None
    resizes: int = 0
    paused_until: float = 0.0
    running: Signal = field(default_factory=Signal)
    """How many units run and stay."""
    up: Signal = field(default_factory=Signal)
    """1 while all fixed pods and the minimum run."""
    rate: float = 0.0
    """Steps per second, since `since`."""
    since: float = 0.0
    due: int = 0
    """Which forecast of the end is the last one."""

    def is_up(self) -> bool:
        """Say whether all fixed pods and the minimum of units run."""
        if not self.arrived or self.finished is not None or self.running.value < self.group.elastic.min:
            return False
        return self.fixed_running == sum(role.replicas for role in self.fixed)

    def pods(self) -> list[Pod]:
        """Return every pod that is wanted."""
        return [pod for role in self.fixed for pod in role.pods] + self.units

    def settle(self, now: float) -> None:
        """Count the steps done until now."""
        if self.steps is not None:
            self.steps = max(0.0, self.steps - self.rate * (now - self.since))
        self.since = now

    def speed(self) -> float:
        """Return the steps per second it does with what runs."""
        work = self.group.work
        if work is None or not self.is_up():
            return 0.0
        return speed(work, int(self.running.value)) / work.step_seconds


def speed(work: Work, replicas: int) -> float:
    """Return how many times as fast as one pod so many are: straight lines between the given points."""
    points = [(0, 0.0)] + [(point.replicas, point.speed) for point in work.speed or ()]
    if len(points) == 1:
        return float(replicas)
    place = bisect_left(points, replicas, key=_replicas)
    if place == len(points):
        return points[-1][1]
    (low, slow), (high, fast) = points[max(place - 1, 0)], points[place]
    return fast if high == low else slow + (fast - slow) * (replicas - low) / (high - low)


def _replicas(point: tuple[int, float]) -> int:
    return point[0]


@dataclass(slots=True, eq=False)
class Load:
    """Other load: so many pods are wanted, so many run."""

    spec: Background
    needs: Vector
    wanted: Signal = field(default_factory=Signal)
    running: Signal = field(default_factory=Signal)
    pods: list[Pod] = field(default_factory=list)
    waiting: dict[int, Pod] = field(default_factory=dict)
    """Those that have no place, by their order."""
