"""What the autoscaler is told about the simulated cluster, in the values it is told about a real one.

Values of nodes and jobs that have not changed are handed over again as they are: a round costs what has changed.
"""

from collections.abc import Callable, Sequence

from trainwright.autoscaler import NOWHERE, Ask, Cluster, ElasticJob, Fixed, Node
from trainwright.simulate import jobs as simulated
from trainwright.simulate import world as places


class View:
    """The simulated world as a planner sees it."""

    def __init__(
        self,
        world: places.World,
        jobs: Sequence[simulated.Job],
        loads: Sequence[simulated.Load],
        max_load: float,
    ) -> None:
        self._world, self._loads, self._max_load = world, loads, max_load
        self._jobs = {job.name: job for job in jobs}
        self._nodes: dict[int, Node] = {}
        self._seen: dict[str, ElasticJob] = {}
        self._offers: dict[places.Vector, dict[str, int]] = {}

    def job(self, key: str) -> simulated.Job:
        """Return the job of a key."""
        return self._jobs[key]

    def touch(self, job: simulated.Job) -> None:
        """Look at a job again: something about it has changed."""
        self._seen.pop(job.name, None)
        if job.finished is not None:
            self._jobs.pop(job.name, None)

    def look(self, rests: Callable[[simulated.Job], bool]) -> tuple[Cluster, list[ElasticJob]]:
        """Return the cluster and the jobs in it as they are now."""
        for index in sorted(self._world.changed_nodes):
            self._renew(self._world.nodes[index])
        self._world.changed_nodes.clear()
        waiting = [self._named(pod.needs) for load in self._loads for pod in load.waiting.values()]
        cluster = Cluster(list(self._nodes.values()), waiting, self._max_load)
        for name, job in self._jobs.items():
            if job.arrived and name not in self._seen:
                self._seen[name] = self._elastic_job(job, resting=rests(job))
        return cluster, [self._seen[name] for name, job in self._jobs.items() if job.arrived]

    def _renew(self, node: places.Node) -> None:
        if not node.up:
            self._nodes.pop(node.index, None)
            return
        used, leaving = self._world.named(node.used), self._world.named(node.leaving)
        self._nodes[node.index] = Node(node.name, self._named(node.offers), used, leaving)

    def _named(self, vector: places.Vector) -> dict[str, int]:
        if vector not in self._offers:
            self._offers[vector] = self._world.named(vector)
        return self._offers[vector]

    def _elastic_job(self, job: simulated.Job, *, resting: bool) -> ElasticJob:
        elastic = job.group.elastic
        return ElasticJob(
            key=job.name,
            unit=Ask(self._named(job.needs)),
            minimum=elastic.min,
            maximum=elastic.max,
            size=job.size,
            places=tuple(unit.node.name if unit.node else NOWHERE for unit in job.units),
            running=int(job.running.value),
            leaving=job.leaving,
            fixed=tuple(
                Fixed(Ask(self._named(role.needs)), role.replicas, sum(pod.node is not None for pod in role.pods))
                for role in job.fixed
            ),
            created=job.arrives,
            resting=resting,
        )
