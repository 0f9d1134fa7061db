"""The process kubelet: registers a node, runs the pods that are bound to it as process trees, answers logs and exec.

It sees nothing but a `Cluster` and an `Isolation`. Each pod has a worker of its own (`pod_worker`); this module only
starts them, tells them what the API says about their pod, and ends them all when the node stops.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwright.cluster.base import Change, Cluster, Session
from trainwright.cluster.informer import Informer
from trainwright.core.errors import BadRequest, ClusterError, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import POD, SERVICE
from trainwright.node import logs
from trainwright.node.base import Isolation, Process, User
from trainwright.node.devices import GPU, Devices, gpu_ids
from trainwright.node.events import Events
from trainwright.node.hosts import HostsFiles
from trainwright.node.log_times import Timekeeper
from trainwright.node.memory import MemoryLimits, group_parent
from trainwright.node.pod_requests import Requests
from trainwright.node.pod_worker import (
    NodeParts,
    PodWorker,
    container_names,
    default_container,
    deletion_pending,
    has_ended,
    no_container,
)
from trainwright.node.registration import NodeFacts, Registration
from trainwright.node.tokens import Issue
from trainwright.node.usage import Busy, Meter

log = logging.getLogger(__name__)

_PODS_DEFAULT = "1000"
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class KubeletOptions:
    """What a node is made of."""

    node_name: str
    root: Path
    """Where pods keep their files: logs, volumes, claims."""
    capacity: Mapping[str, str]
    """What the node offers: cpu, memory, nvidia.com/gpu, pods, as quantities."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The caller's environment, in the place of an image's."""
    cwd: str | Path = field(default_factory=Path.cwd)
    """Where commands run unless the manifest says workingDir."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    backoff: float = 10.0
    """The first wait before a container is restarted again; doubles up to thirty times as much."""
    refresh: float = 10.0
    """How often mounted ConfigMaps and Secrets are looked at again."""
    address: str = "127.0.0.1"
    """The node's own address, as pods are told it."""
    port: int = 0
    """Where the node serves logs and exec to an API server; 0: nowhere."""
    labels: Mapping[str, str] = field(default_factory=dict)
    answers_pods: bool = False
    """Whether pods ask this node for what they would ask an API server: it is then the only one there is."""
    issue_token: Issue | None = None
    """Who gives pods the tokens of their service accounts; None: nobody does."""
    api_server: str = ""
    """The address at which pods reach the API server; none: they do not."""
    control_groups: bool = True
    """Whether memory limits may use control groups; else processes are polled."""
    durable: Callable[[], Awaitable[None]] | None = None
    """Returns when all that was written so far survives this process; None: nothing has to."""
    rebooted: bool = False
    """Whether the machine has started anew since an earlier kubelet ran pods here."""
    user_of: Callable[[Object], User | None] = lambda obj: None  # noqa: ARG005 - all objects are ours
    """Whose an object is, and the processes of a pod; None: our own."""


class Kubelet:
    """A node. Entering it registers the node and begins to run pods; leaving it kills every pod and waits."""

    def __init__(self, cluster: Cluster, isolation: Isolation, options: KubeletOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._own = Informer(cluster, POD, fields=f"spec.nodeName={options.node_name}")
        self._pods = Informer(cluster, POD)
        self._services = Informer(cluster, SERVICE)
        self.events = Events(cluster, options.node_name, options.now)
        """What is said about this node's pods; `flush` waits until all of it is written."""
        self._hosts = HostsFiles(self._services.items, self._pods.items, options.api_server)
        self._root = options.root.absolute()
        self._files = logs.FileLogs(self._root)
        gpus = gpu_ids(int(options.capacity.get(GPU) or 0), options.environment)
        self._capacity = {"pods": _PODS_DEFAULT, **options.capacity}
        if GPU in self._capacity:
            self._capacity[GPU] = str(len(gpus))
        facts = NodeFacts(options.node_name, self._capacity, options.address, options.port, options.labels)
        self.registration = Registration(cluster, facts, options.now)
        """The node object."""
        self._parts = NodeParts(
            cluster=cluster,
            isolation=isolation,
            events=self.events,
            hosts=self._hosts,
            devices=Devices(gpus),
            limits=MemoryLimits(group_parent() if options.control_groups else None),
            times=Timekeeper(),
            name=options.node_name,
            address=options.address,
            root=self._root,
            allocatable=self._capacity,
            environment=options.environment,
            cwd=str(options.cwd),
            now=options.now,
            backoff=options.backoff,
            requests=Requests(cluster, self._start_in, options.user_of) if options.answers_pods else None,
            issue_token=options.issue_token,
            durable=options.durable,
            rebooted=options.rebooted,
            user_of=options.user_of,
        )
        self._finished: set[str] = set()
        """Pods that have ended and have no worker; what a late change says about them starts nothing."""
        self._workers: dict[str, PodWorker] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._meter = Meter(lambda: [Busy(worker.pod, worker.processes()) for worker in self._workers.values()])
        self._stopping = False

    async def __aenter__(self) -> "Kubelet":
        """Register the node and begin to run its pods."""
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / "pods").mkdir(mode=0o700, exist_ok=True)  # Secrets lie there
        try:
            await self._begin_all()
        except BaseException:
            await self._end(self._loops)
            raise
        return self

    async def _begin_all(self) -> None:
        await self.registration.register()
        self._services.subscribe(lambda _: self._hosts.changed())
        self._pods.subscribe(lambda _: self._hosts.changed())
        for informer in (self._services, self._pods):
            self._begin(informer.run())
            await informer.synced.wait()
        for loop in (self.events.run(), self._hosts.run(), self._parts.times.run(), self._refresh()):
            self._begin(loop)
        self._own.subscribe(self._changed)
        self._begin(self._own.run())
        await self._own.synced.wait()
        self._remove_orphans()

    async def __aexit__(self, *error: object) -> None:
        """Kill every pod, wait until all are gone, and say that the node is."""
        self._stopping = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.shut_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await asyncio.gather(*(worker.ended() for worker in workers))
                await self.registration.stopped()
                await self.events.flush()
        await self._end([*self._tasks.values(), *self._loops])
        if await self._is_durable():
            for worker in workers:
                worker.remove_files()

    async def drain(self, grace: float) -> None:
        """Take no pods any more, and end those there are: each within its own grace, and all within so many seconds."""
        self._stopping = True
        await self.registration.stopped()
        workers = list(self._workers.values())
        for worker in workers:
            worker.shut_down(grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace + _STOP_SECONDS):
                await asyncio.gather(*(worker.ended() for worker in workers))

    async def evict(self, grace: float) -> None:
        """Take no pods any more, and end and delete those there are: whoever owns them makes them again later."""
        self._stopping = True
        await self.registration.stopped()
        running = list(self._workers.values())
        for worker in running:
            meta, seconds = worker.pod["metadata"], int(min(grace, worker.grace))
            with contextlib.suppress(ClusterError):  # it has gone, or has given its name to another
                await self._cluster.delete(POD, meta["namespace"], meta["name"], uid=worker.uid, grace=seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace + _STOP_SECONDS):
                await asyncio.gather(*(worker.let_go.wait() for worker in running))

    # Logs and exec

    async def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        restart: int | None = None,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output from the start, through all restarts; with `follow` until it has ended.

        `restart` picks one run (-1 is the last), `previous` the one before the last; `tail` and `since` hold for each.
        """
        restart = logs.BEFORE if previous else restart
        part = logs.Part(tail, since, timestamps)
        worker = self._worker(namespace, pod)
        if worker is None:
            ended = self._own.get(namespace, pod)
            container = container or (default_container(ended) if ended else "")
            if ended and container not in container_names(ended):
                raise no_container(ended, container)
            async for chunk in self._files.logs(
                namespace, pod, container=container, restart=restart, tail=tail, since=since, timestamps=timestamps
            ):
                yield chunk
            return
        container = container or worker.default_container()
        growth = worker.growth(container)
        if follow:
            only = max(growth.begun + 1 + restart, 0) if restart is not None and restart < 0 else restart
            async for chunk in logs.follow(worker.log_folder, container, growth, only, part):
                yield chunk
            return
        found = logs.runs(worker.log_folder, container)
        if not found:
            words = worker.waiting_words(container)
            raise BadRequest(f"container {container!r} in pod {pod!r} is waiting to start: {words}")
        for run in logs.chosen(found, restart):
            async for chunk in logs.read(logs.log_path(worker.log_folder, container, run), part):
                yield chunk

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: list[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Session:
        """Start a command inside a running pod; with `tty` on a terminal of its own."""
        worker = self._here(namespace, pod)
        if not command:
            raise BadRequest("there is no command to execute")
        return await worker.exec(command, container, stdin=stdin, tty=tty)

    async def _start_in(
        self, namespace: str, pod: str, command: list[str], container: str, stdio: tuple[int | None, int, int]
    ) -> Process:
        return await self._here(namespace, pod).start(command, container, stdio)

    async def connect(self, namespace: str, pod: str, port: int) -> socket.socket:
        """Return a socket connected to a port of a running pod's own localhost; OSError if nobody listens."""
        return await self._here(namespace, pod).connect(port)

    async def usage(self) -> list[Object]:
        """Return what each running pod uses, as PodMetrics."""
        return await self._meter.measured()

    def pods(self) -> list[Object]:
        """Return the pods of this node."""
        return [worker.pod for worker in self._workers.values()]

    def _here(self, namespace: str, pod: str) -> PodWorker:
        worker = self._worker(namespace, pod)
        if worker is None and self._own.get(namespace, pod):
            raise BadRequest(f"pod {pod!r} of namespace {namespace!r} is not running")
        if worker is None:
            raise NotFound(f"pod {pod!r} of namespace {namespace!r} does not run on node {self._options.node_name!r}")
        return worker

    def _worker(self, namespace: str, pod: str) -> PodWorker | None:
        return self._workers.get(self._names.get((namespace, pod), ""))

    # Pods

    def _changed(self, change: Change) -> None:
        """Tell a pod's worker what has become of it; a pod that is new gets one."""
        pod = change.object
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if change.type == "DELETED":
            self._finished.discard(uid)
            if worker:
                worker.gone()
        elif worker:
            worker.update(pod)
        elif uid in self._finished or has_ended(pod):
            self._finished.add(uid)
            if deletion_pending(pod):
                self._start(pod, over=True)
        elif not self._stopping:
            self._start(pod)

    def _start(self, pod: Object, *, over: bool = False) -> None:
        meta = pod["metadata"]
        try:
            worker = PodWorker(self._parts, pod, over=over)
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # no API server would have let it in
            self.events.emit(pod, "FailedValidation", f"this pod makes no sense: {error!r}", "Warning")
            return
        self._workers[worker.uid] = worker
        self._names[meta["namespace"], meta["name"]] = worker.uid
        self._tasks[worker.uid] = asyncio.create_task(self._run(worker))

    async def _run(self, worker: PodWorker) -> None:
        """Run a pod and forget it; a worker that breaks must not take the node with it."""
        meta = worker.pod["metadata"]
        try:
            await worker.run()
        except Exception:
            log.exception("the worker of pod %s/%s broke", meta["namespace"], meta["name"])
            return
        self._workers.pop(worker.uid, None)
        if self._names.get((meta["namespace"], meta["name"])) == worker.uid:
            del self._names[meta["namespace"], meta["name"]]
        if not worker.is_gone:
            self._finished.add(worker.uid)
            if deletion_pending(worker.pod):  # asked for while its last things were put away
                self._start(worker.pod, over=True)
        # What is noted there about its end, or that it ever began, is needed until the store says it.
        if await self._is_durable():
            worker.remove_files()
        if self._tasks.get(worker.uid) is asyncio.current_task():
            del self._tasks[worker.uid]

    async def _is_durable(self) -> bool:
        if self._parts.durable is None:
            return True
        try:
            await self._parts.durable()
        except ClusterError:
            return False
        return True

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._options.refresh)
            for worker in list(self._workers.values()):
                await worker.refresh_volumes()

    def _remove_orphans(self) -> None:
        """Remove folders of pods that went while nobody looked."""
        for folder in (self._root / "pods").iterdir():
            if folder.name not in self._workers:
                shutil.rmtree(folder, ignore_errors=True)

    # Loops

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, loop: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(loop)
        task.add_done_callback(_say_if_broken)
        self._loops.append(task)


def _say_if_broken(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("a loop of the kubelet broke", exc_info=task.exception())
