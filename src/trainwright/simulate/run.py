"""One run of a scenario under one policy: the world changes, the shipped planner decides, the model scheduler places.

The planner is asked only after something has changed, at most once per round of its policy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from trainwright.autoscaler import Change, plan
from trainwright.simulate.clock import Clock, Ticker, Turn
from trainwright.simulate.jobs import Fixed, Job, Load
from trainwright.simulate.meters import Signal
from trainwright.simulate.scenario import Jobs, Outage, Scenario, Work
from trainwright.simulate.scheduler import Scheduler
from trainwright.simulate.view import View
from trainwright.simulate.world import Node, Pod, World, gained


@dataclass(frozen=True)
class Conduct:
    """How the answers of a policy are carried out."""

    every: float = 1.0
    """Seconds between two looks at the cluster, if there is something new."""
    indexed: bool = True
    """The highest index leaves first; otherwise as the batch Job controller: waiting pods first, then the newest."""


CONDUCT = {"edl-compat": Conduct(every=5.0, indexed=False), "static": Conduct(indexed=False)}
"""Policies that are carried out in another way than ours are."""


@dataclass(frozen=True)
class Resize:
    """One change of size that was carried out."""

    at: float
    change: Change


class Run:
    """A scenario being lived through."""

    def __init__(self, scenario: Scenario, policy: str, seed: int) -> None:
        self.scenario, self.policy = scenario, policy
        self.conduct = CONDUCT.get(policy, Conduct())
        self.clock = Clock()
        self.world = World(sorted({name for group in scenario.nodes for name in group.offers}))
        self.rounds = 0
        self.resizes: list[Resize] = []
        draw = Random(f"{seed} world")  # noqa: S311 - chance that can be repeated is what is wanted
        self._build_nodes(draw)
        self.jobs = [job for group in scenario.jobs for job in self._make_jobs(group, draw)]
        self.loads = [Load(load, self.world.vector(load.requests)) for load in scenario.background]
        self.utilisation = Signal(self._share())
        self._view = View(self.world, self.jobs, self.loads, scenario.max_load)
        settings = scenario.scheduler
        self._ties = Random(f"{seed} ties")  # noqa: S311 - so is this
        shuffled = settings.order == "random"
        self._scheduler = Scheduler(self.world, self._ties, settings.levels, shuffled=shuffled)
        self._passes = Ticker(self.clock, settings.every, self._place, Turn.SCHEDULER)
        self._looks = Ticker(self.clock, self.conduct.every, self._round, Turn.AUTOSCALER)

    def live(self) -> None:
        """Let everything happen until the end of the scenario."""
        for job in self.jobs:
            self.clock.at(job.arrives, partial(self._arrive, job))
        for load in self.loads:
            for level in sorted(load.spec.levels, key=lambda level: level.at):
                self.clock.at(level.at, partial(self._want, load, level.replicas))
        for outage in self.scenario.outages:
            self._plan_outage(outage)
        self.clock.run(self.scenario.until)

    # The cluster

    def _build_nodes(self, draw: Random) -> None:
        system = self.scenario.system
        per_node, lump = self.world.vector(system.per_node), self.world.vector(system.lump)
        for group in self.scenario.nodes:
            for index in range(group.count):
                offers = self.world.vector(group.offers)
                self.world.add_node(f"{group.name}-{index}", offers, tuple(map(min, offers, per_node)))
        roomy = [node for node in self.world.nodes if node.holds(lump)]
        for _ in range(system.lumps):
            if not roomy:
                break
            node = draw.choice(roomy)
            self.world.add_system(node, lump)
            if not node.holds(lump):
                roomy.remove(node)

    def _plan_outage(self, outage: Outage) -> None:
        names = {f"{outage.nodes}-{index}" for index in range(outage.count)}
        for node in self.world.nodes:
            if node.name in names:
                self.clock.at(outage.at, partial(self._lose, node))
                if outage.back is not None:
                    self.clock.at(outage.back, partial(self._restore, node))

    def _lose(self, node: Node) -> None:
        if not node.up:
            return
        self.world.lose(node)
        self._room_changed(node)

    def _restore(self, node: Node) -> None:
        if node.up:
            return
        self.world.restore(node)
        self._room_changed(node)

    def _room_changed(self, node: Node) -> None:
        self._scheduler.touch(node)
        self._passes.wake()
        self._look()
        self.utilisation.set(self.clock.now, self._share())

    def _share(self) -> float:
        place = self.world.resources.index(self.scenario.measure.resource)
        offered = self.world.offered[place]
        return self.world.running[place] / offered if offered else 0.0

    # Jobs

    def _make_jobs(self, group: Jobs, draw: Random) -> list[Job]:
        arrives, count = group.arrives, group.count
        times = [arrives.at + arrives.every * index for index in range(count)]
        if arrives.within is not None:
            times = sorted(arrives.at + draw.uniform(0, arrives.within) for _ in range(count))
        size = group.elastic.size(scaled=self.policy != "static")
        return [
            Job(
                name=f"{group.name}-{index}",
                group=group,
                arrives=time,
                needs=self.world.vector(group.elastic.requests),
                size=size,
                fixed=[Fixed(self.world.vector(role.requests), role.start, role.replicas) for role in group.roles],
                steps=_steps(group.work, draw),
            )
            for index, time in enumerate(times)
        ]

    def _arrive(self, job: Job) -> None:
        job.arrived, job.since = True, self.clock.now
        job.running = Signal(0.0, self.clock.now)
        for role in job.fixed:
            role.pods = [self._fixed_pod(job, role) for _ in range(role.replicas)]
        self._fill(job)
        self._view.touch(job)
        self._look()

    def _fixed_pod(self, job: Job, role: Fixed) -> Pod:
        return self._create(role.needs, role.start, 0.0, partial(self._fixed_changed, job, role))

    def _fixed_changed(self, job: Job, role: Fixed, pod: Pod) -> None:
        if pod.lost:
            role.pods[role.pods.index(pod)] = self._fixed_pod(job, role)
        job.fixed_running += gained(pod)
        self._job_changed(job, pod)

    def _fill(self, job: Job) -> None:
        """Create the units that are missing."""
        while len(job.units) < job.size:
            job.units.append(self._unit(job))

    def _unit(self, job: Job) -> Pod:
        elastic = job.group.elastic
        return self._create(job.needs, elastic.start, elastic.grace, partial(self._unit_changed, job))

    def _unit_changed(self, job: Job, pod: Pod) -> None:
        if pod.lost:
            job.units[job.units.index(pod)] = self._unit(job)
        if pod.leaving:
            job.leaving += -1 if pod.gone else 1
        if job.finished is None:
            job.running.set(self.clock.now, job.running.value + gained(pod))
        self._job_changed(job, pod)

    def _job_changed(self, job: Job, pod: Pod) -> None:
        """Note what a change of one of its pods means for a job."""
        now = self.clock.now
        if job.finished is None:
            job.settle(now)
            if job.first_running is None and job.running.value:
                job.first_running = now
            job.up.set(now, float(job.is_up()))
            if job.ready is None and job.up.value:
                job.ready = now
            self._forecast(job)
        self._view.touch(job)
        self._pod_changed(pod)

    def _forecast(self, job: Job) -> None:
        """Have the job end when its steps will be done, unless its speed changes before."""
        if job.steps is None:
            return
        now = self.clock.now
        job.rate = job.speed() if now >= job.paused_until else 0.0
        job.due += 1
        if now < job.paused_until:
            self.clock.at(job.paused_until, partial(self._resume, job, job.due))
        elif job.rate > 0:
            self.clock.at(now + job.steps / job.rate, partial(self._finish, job, job.due))

    def _resume(self, job: Job, due: int) -> None:
        if job.due == due and job.finished is None:
            job.settle(self.clock.now)
            self._forecast(job)

    def _finish(self, job: Job, due: int) -> None:
        if job.due != due or job.finished is not None:
            return
        now = self.clock.now
        job.settle(now)
        job.finished = now
        job.running.set(now, 0.0)
        job.up.set(now, 0.0)
        for pod in job.pods():
            self.world.remove(pod)
        self._look()

    def _resize(self, job: Job, size: int) -> None:
        job.size, job.resized = size, self.clock.now
        job.resizes += 1
        if job.group.work:
            job.settle(self.clock.now)
            job.paused_until = self.clock.now + job.group.work.pause
        if not self.conduct.indexed:
            job.units.sort(key=lambda unit: (unit.node is None, unit.order))
        while len(job.units) > size:
            self._stop(job.units.pop())
        self._fill(job)
        self._forecast(job)
        self._view.touch(job)
        if self.scenario.rest:
            self.clock.at(self.clock.now + self.scenario.rest, partial(self._rested, job))

    def _rested(self, job: Job) -> None:
        self._view.touch(job)
        self._look()

    # Other load

    def _want(self, load: Load, replicas: int) -> None:
        load.wanted.set(self.clock.now, replicas)
        self._ties.shuffle(load.pods)  # of pods created together, anyone may be chosen
        load.pods.sort(key=lambda pod: (pod.node is None, not pod.running, pod.created))
        while len(load.pods) > replicas:
            self._stop(load.pods.pop())
        while len(load.pods) < replicas:
            load.pods.append(self._load_pod(load))
        self._look()

    def _load_pod(self, load: Load) -> Pod:
        pod = self._create(load.needs, load.spec.start, load.spec.grace, partial(self._load_changed, load))
        load.waiting[pod.order] = pod
        return pod

    def _load_changed(self, load: Load, pod: Pod) -> None:
        if pod.lost:
            load.pods[load.pods.index(pod)] = self._load_pod(load)
        if pod.node is not None or pod.gone:
            load.waiting.pop(pod.order, None)
        load.running.set(self.clock.now, load.running.value + gained(pod))
        self._pod_changed(pod)

    # Pods

    def _create(self, needs: tuple[int, ...], start: float, grace: float, changed: Callable[[Pod], None]) -> Pod:
        pod = self.world.create(needs, start, grace, self.clock.now, changed)
        self._scheduler.add(pod)
        self._passes.wake()
        return pod

    def _stop(self, pod: Pod) -> None:
        if self.world.leave(pod):
            self.clock.at(self.clock.now + pod.grace, partial(self.world.remove, pod))

    def _pod_changed(self, pod: Pod) -> None:
        if pod.gone and pod.node is not None:
            self._scheduler.touch(pod.node)
            self._passes.wake()
        self.utilisation.set(self.clock.now, self._share())
        self._look()

    def _place(self) -> None:
        """Let the scheduler bind what fits; the pods run when they have started."""
        for pod, _ in self._scheduler.place():
            self.clock.at(self.clock.now + pod.start, partial(self.world.start, pod))

    # The autoscaler

    def _look(self) -> None:
        if self.policy != "static":
            self._looks.wake()

    def _round(self) -> None:
        """Ask the planner, and carry out what it says."""
        self.rounds += 1
        now = self.clock.now
        cluster, jobs = self._view.look(lambda job: job.resized is not None and now < job.resized + self.scenario.rest)
        for change in plan(cluster, jobs, self.policy).changes:
            self.resizes.append(Resize(now, change))
            self._resize(self._view.job(change.job), change.after)


def _steps(work: Work | None, draw: Random) -> float | None:
    """Return what one job of a group has to do."""
    return None if work is None else float(work.steps * work.spread ** draw.uniform(-1, 1))
