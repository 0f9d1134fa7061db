"""A cluster that carries plans out at once: who shrinks is gone, who grows starts where there is room."""

from dataclasses import dataclass, field, replace

from trainwright.autoscaler import NOWHERE, Ask, Cluster, ElasticJob, Fixed, Node, Plan
from trainwright.placement import Amounts, Claim, Shortfall, minus, place, plus
from trainwright.placement.fit import fits


@dataclass
class World:
    """Nodes with what pods of others hold on them, jobs, and pods of others that wait."""

    offers: dict[str, dict[str, int]]
    jobs: dict[str, ElasticJob]
    foreign: dict[str, dict[str, int]] = field(default_factory=dict)
    waiting: list[dict[str, int]] = field(default_factory=list)
    fixed: dict[str, list[str]] = field(default_factory=dict)
    """Where the fixed pods of each job are."""

    def look(self) -> tuple[Cluster, list[ElasticJob]]:
        free = self.free()
        nodes = [Node(name, offers, minus(offers, free[name])) for name, offers in self.offers.items()]
        return Cluster(nodes, self.waiting), list(self.jobs.values())

    def free(self) -> dict[str, dict[str, int]]:
        free = {name: minus(offers, self.foreign.get(name, {})) for name, offers in self.offers.items()}
        for job in self.jobs.values():
            for node in job.places:
                if node != NOWHERE:
                    free[node] = minus(free[node], job.unit.requests)
            for node in self.fixed.get(job.key, ()):
                free[node] = minus(free[node], job.fixed[0].ask.requests)
        return free

    def carry_out(self, plan: Plan) -> None:
        """Give jobs their new sizes: those who grow find a node before anybody who is told to stop has left."""
        for change in plan.changes:
            self.jobs[change.job] = replace(self.jobs[change.job], size=change.after)
        self._schedule()
        for key, job in self.jobs.items():
            self.jobs[key] = replace(job, places=tuple(job.places)[: job.size])
        self._schedule()

    def _schedule(self) -> None:
        self.waiting = [each for each in self.waiting if not self._start_foreign(each)]
        for job in sorted(self.jobs.values(), key=lambda each: (each.created, each.key)):
            self._start(job)

    def _start_foreign(self, requests: dict[str, int]) -> bool:
        node = self._node(requests)
        if node:
            self.foreign[node] = plus(self.foreign.get(node, {}), requests)
        return bool(node)

    def _start(self, job: ElasticJob) -> None:
        """Start what a job lacks: to its minimum as the scheduler starts a gang, then one by one."""
        units = [place for place in job.places if place != NOWHERE]
        missing = max(0, (job.minimum if job.elastic else job.size) - len(units))
        claims = [Claim(f"unit {number}", job.unit.requests) for number in range(missing)]
        if not self.fixed.get(job.key):
            claims += [
                Claim(f"fixed {number}", role.ask.requests) for role in job.fixed for number in range(role.count)
            ]
        found = place(self.free(), self.offers, claims)
        if isinstance(found, Shortfall):
            return
        units += [node for name, node in found.items() if name.startswith("unit")]
        self.fixed.setdefault(job.key, []).extend(node for name, node in found.items() if name.startswith("fixed"))
        bound = tuple(replace(role, bound=role.count) for role in job.fixed)
        job = self.jobs[job.key] = replace(job, places=tuple(units), running=len(units), fixed=bound)
        while len(units) < job.size and (node := self._node(job.unit.requests)):
            units.append(node)
            self.jobs[job.key] = replace(job, places=tuple(units))
        filled = (*units, *[NOWHERE] * (job.size - len(units)))
        self.jobs[job.key] = replace(job, places=filled, running=min(len(units), job.size))

    def _node(self, requests: Amounts) -> str:
        """Return the fullest node that holds a pod."""
        holding = [(room.get("cpu", 0), name) for name, room in self.free().items() if fits(requests, room)]
        return min(holding)[1] if holding else ""


def job(key, cpu, low, high, size=None, on=(), **more) -> ElasticJob:
    """Return a job whose units need so much cpu; they are on the nodes given, the last of which holds all the rest."""
    size = low if size is None else size
    requests = {"cpu": cpu, **more.pop("needs", {})}
    places = tuple(on[min(index, len(on) - 1)] for index in range(size)) if on else ()
    fixed = tuple(Fixed(Ask(ask), count) for ask, count in more.pop("gang", ()))
    limits = more.pop("limits", {})
    return ElasticJob(key, Ask(requests, limits), low, high, size, places, len(places), fixed=fixed, **more)
