"""The middle of `tw run`: submit the jobs, tell what happens to them, wait, and end them in good order.

Time is the event loop's own, which no clock that jumps can reach. A first signal asks everything to end and waits as
long as the pods' own grace says; a second one ends the waiting, and leaving the home then kills what is left.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from trainwright.cli import exits, jobs, ranks
from trainwright.cli.board import JobLine, frame, rank_change
from trainwright.cli.capacity import hopeless
from trainwright.cli.ranks import Rank
from trainwright.cli.screen import Screen
from trainwright.cli.view import JobKey, View, key_of
from trainwright.cli.words import counted, listed, span
from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.beside import beside
from trainwright.cluster.informer import Informer
from trainwright.core.errors import Conflict, NotFound
from trainwright.core.objects import Object, at
from trainwright.core.resources import NODE, POD, Resource

LINGER_SECONDS = {"Succeeded": 5.0, "Failed": 2.0}
"""So long pods may go on by themselves after their job has ended so (cleanPodPolicy None leaves them running)."""
MARGIN_SECONDS = 5.0
"""So much longer than their grace we wait for pods that were asked to end."""
TICK_SECONDS = 0.5
GATHER_SECONDS = 0.02
"""So long changes gather before all of them are looked at: many pods change at once."""


@dataclass(frozen=True)
class Stop:
    """Why we stop before the jobs have ended, and the exit code for it."""

    code: int
    words: str
    style: str = ""


class Session:
    """One run of some jobs on one cluster."""

    def __init__(self, screen: Screen, view: View) -> None:
        self._screen, self._view = screen, view
        self._cluster: Cluster
        self._resources: dict[JobKey, Resource] = {}
        self._changed = asyncio.Event()
        self._kill = asyncio.Event()
        self._nodes: list[Object] = []
        self._told_ranks: dict[tuple[str, str], Rank] = {}
        self._told_jobs: dict[JobKey, str] = {}
        self._told_waits: set[str] = set()
        self.on_pod: Callable[[Object], None] = lambda pod: None  # noqa: ARG005
        self.stopped: Stop | None = None
        self.took: dict[JobKey, float] = {}
        """How long each job that has ended took, in seconds."""
        self._began: dict[JobKey, float] = {}

    def stop(self, stop: Stop) -> None:
        """Stop in good order; only the first reason counts."""
        if self.stopped is None:
            self.stopped = stop
            if stop.words:
                self._screen.say(stop.words, style=stop.style)
            else:  # nobody reads any more
                self._screen.hush()
        self._changed.set()

    def kill(self) -> None:
        """Wait for nothing any more."""
        self._kill.set()
        self._changed.set()

    @asynccontextmanager
    async def on(self, cluster: Cluster, resources: Iterable[Resource]) -> AsyncIterator[None]:
        """See every change of jobs of these kinds, of pods and of nodes, from before the first job is there."""
        self._cluster = cluster
        rows = {POD: self._pod_changed, NODE: self._node_changed, **dict.fromkeys(resources, self._job_changed)}
        informers = [_informer(cluster, resource, callback) for resource, callback in rows.items()]
        async with beside(*(informer.run() for informer in informers)):
            for informer in informers:
                await informer.synced.wait()
            yield

    def add(self, job: JobKey, resource: Resource) -> None:
        """Wait for this job, too."""
        self._resources[job] = resource
        self._began[job] = asyncio.get_running_loop().time()

    async def until_over(self) -> None:
        """Return when every job has ended, or something asks to stop."""
        while not self.stopped and not self._all_finished():
            await self._next_change(TICK_SECONDS if self._screen.live else 3600)
            self._look_for_hopeless()
            self._tell()

    async def wind_down(self) -> None:
        """End what still runs: pods of finished jobs after a moment of their own, everything at once after a stop."""
        if self.stopped:
            await self._cancel()
        elif self._view.active():
            await self._let_end()
        self._tell()
        self._screen.show(None)

    # Ending

    async def _let_end(self) -> None:
        seconds = max(LINGER_SECONDS.get(jobs.state(job).outcome, 0.0) for job in self._view.jobs.values())
        await self._wait_for(lambda: not self._view.active() or bool(self.stopped), seconds)
        left = self._view.active()
        if not left:
            return
        names = listed(ranks.label(pod) for pod in ranks.order(left))
        self._screen.say(f"{names} did not end within {span(seconds)} after the job: stopping")
        for pod in left:
            with suppress(NotFound, Conflict):
                meta = pod["metadata"]
                await self._cluster.delete(POD, meta["namespace"], meta["name"], uid=meta["uid"])
        await self._wait_for(lambda: not self._view.active(), _grace(left) + MARGIN_SECONDS)

    async def _cancel(self) -> None:
        left = [pod for pod in self._view.active() if at(pod, ("spec", "nodeName"))]
        if left and not self._kill.is_set():
            again = "again " if self.stopped and self.stopped.code == exits.INTERRUPTED else ""
            self._screen.say(f"stopping {counted(len(left), 'rank')}; press Ctrl-C {again}to kill")
        for job, resource in self._resources.items():
            with suppress(NotFound):
                await self._cluster.delete(resource, job.namespace, job.name)
        await self._wait_for(lambda: not self._view.present(), _grace(left) + MARGIN_SECONDS)

    async def _wait_for(self, done: Callable[[], bool], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not done() and not self._kill.is_set() and loop.time() < until:
            await self._next_change(min(TICK_SECONDS, until - loop.time()))
            self._tell()

    # Seeing

    def _pod_changed(self, change: Change) -> None:
        self._view.pod_changed(change)
        self.on_pod(change.object)
        self._changed.set()
        self._tell_rank(change.object)

    def _job_changed(self, change: Change) -> None:
        self._view.job_changed(change)
        self._changed.set()
        key = key_of(change.object)
        if jobs.state(change.object).finished and key in self._began:
            self.took.setdefault(key, asyncio.get_running_loop().time() - self._began[key])

    def _node_changed(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        others = [node for node in self._nodes if node["metadata"]["name"] != name]
        self._nodes = others if change.type == "DELETED" else [*others, change.object]

    async def _next_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await self._changed.wait()
                await asyncio.sleep(GATHER_SECONDS)
        self._changed.clear()

    def _all_finished(self) -> bool:
        """Say whether every job has ended; one that somebody has deleted has, too."""
        seen = self._view.jobs
        return all(
            job in seen and (jobs.state(seen[job]).finished or seen[job]["metadata"]["uid"] in self._view.gone)
            for job in self._resources
        )

    def _look_for_hopeless(self) -> None:
        for job in self._resources:
            sentence = hopeless(job.name, self._view.present(job), self._nodes)
            if sentence:
                self.stop(Stop(exits.OURS, sentence, "error"))

    # Telling

    def _tell(self) -> None:
        for job in self._resources:
            self._tell_job(job)
        if self._screen.live:
            lines = [(self._line(job), self._view.ranks(job)) for job in self._resources]
            self._screen.show(frame(lines, datetime.now(UTC), colour=self._screen.colour_words))

    def _tell_rank(self, pod: Object) -> None:
        """Tell what has changed about one rank, at once: a phase that is soon over is told, too."""
        rank = self._view.rank(pod)
        before = self._told_ranks.get((rank.namespace, rank.pod))
        self._told_ranks[rank.namespace, rank.pod] = rank
        line = rank_change(before, rank, ranks.failure(self._view.pods[rank.uid]))
        failed = rank.phase == "Failed" and not (before and before.phase == "Stopping")
        restarted = before is not None and rank.restarts > before.restarts
        if line and (failed or restarted or not self._screen.live):
            line = f"{rank.job}/{line}" if len(self._resources) > 1 else line
            self._screen.say(line, style="error" if failed else "dim")

    def _tell_job(self, job: JobKey) -> None:
        obj = self._view.jobs.get(job)
        if obj is None:
            return
        state = jobs.state(obj)
        if self._told_jobs.get(job) != state.phase:
            self._told_jobs[job] = state.phase
            if state.phase not in ("Pending", "Created") and not state.finished and not self._screen.live:
                self._screen.say(f"{job} {state.phase.lower()}", style="dim")
            if state.phase == "Suspended":
                self._screen.say(f"{job} waits: it is suspended; tw resume {job} lets it run")
        for sentence in set() if self.stopped else self._waits(job) - self._told_waits:
            self._told_waits.add(sentence)
            self._screen.say(f"{job} waits: {sentence}")

    def _waits(self, job: JobKey) -> set[str]:
        return {rank.detail for rank in self._view.ranks(job) if rank.phase == "Waiting" and rank.detail}

    def _line(self, job: JobKey) -> JobLine:
        obj = self._view.jobs.get(job)
        phase = jobs.state(obj).phase if obj else "Pending"
        return JobLine(job.name, phase, next(iter(self._waits(job)), ""))


def _informer(cluster: Cluster, resource: Resource, callback: Callable[[Change], None]) -> Informer:
    informer = Informer(cluster, resource)
    informer.subscribe(callback)
    return informer


def _grace(pods: Iterable[Object]) -> float:
    return max((float(at(pod, ("spec", "terminationGracePeriodSeconds"), 30)) for pod in pods), default=0.0)
