"""One pod of this node, from the moment it is bound here until it is gone from the API and nothing of it is left.

    volumes ─▶ sandbox ─▶ /etc/hosts ─▶ init containers, in order ─▶ containers ─▶ sidecars stopped ─▶ sandbox closed
                 └── told to stop at any point: preStop, SIGTERM, grace, SIGKILL ──────────────────────┘

The pod's status is computed whole whenever something changed and written when it differs; many changes while one write
is under way become one write. A pod that has ended needs no worker any more: who deletes the object waits for nobody.

Where objects outlive this process (`NodeParts.durable`), no container is begun before it is on disk that it may have
been. What began under an earlier kubelet is known from the status and from `notes`, and never begun again by mistake.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from trainwright.cluster.base import Cluster, Session
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import BadRequest, ClusterError, Conflict, HomeError, Invalid, NotFound
from trainwright.core.objects import Object, moment, timestamp
from trainwright.core.resources import POD
from trainwright.node import environment, hosts, images, logs, notes, sessions, terminal, volumes
from trainwright.node.base import Isolation, Mount, Process, ProcessSpec, Sandbox, SandboxSpec, SpawnError, User
from trainwright.node.container import ContainerRun, Place, resumed
from trainwright.node.devices import Devices
from trainwright.node.events import Events
from trainwright.node.log_times import Timekeeper
from trainwright.node.memory import MemoryLimits, descendants
from trainwright.node.patience import Patience
from trainwright.node.pod_requests import Door, Requests
from trainwright.node.refusals import Missing, Refused
from trainwright.node.sources import Facts, Found, Reference, fetch
from trainwright.node.status import OURS, Container, ContainerKind, PodFacts, pod_status, status_patch, waiting
from trainwright.node.tokens import Issue, Tokens
from trainwright.node.unsupported import unsupported

log = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.005
_RETRY = Backoff(first=0.2, longest=5.0)
_GRACE_DEFAULT = 30.0
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class NodeParts:
    """What all pods of a node share."""

    cluster: Cluster
    isolation: Isolation
    events: Events
    hosts: hosts.HostsFiles
    devices: Devices
    limits: MemoryLimits
    times: Timekeeper
    name: str
    address: str
    root: Path
    allocatable: Mapping[str, str]
    environment: Mapping[str, str]
    cwd: str
    now: Callable[[], datetime]
    backoff: float
    requests: Requests | None = None
    """Answers what pods with a service account ask; None: they have an API server to ask."""
    issue_token: Issue | None = None
    """Gives pods the tokens by which an API server knows them; None: there are none."""
    durable: Callable[[], Awaitable[None]] | None = None
    """Returns when all that was written so far survives this process; None: nothing has to."""
    rebooted: bool = False
    """Whether the machine has started anew since pods ran here: notes may then be lost."""
    user_of: Callable[[Object], User | None] = lambda obj: None  # noqa: ARG005 - all objects are ours
    """Whose an object is, and the processes of a pod; None: our own."""


class PodWorker:
    """Runs one pod."""

    def __init__(self, node: NodeParts, pod: Object, *, over: bool = False) -> None:
        """Take on a pod; one that is `over` has ended already and is only to be deleted."""
        self.pod = pod
        self.uid = str(pod["metadata"]["uid"])
        self._node = node
        self._user = node.user_of(pod)
        self._folder = node.root / "pods" / self.uid
        self.log_folder = logs.pod_folder(node.root, self._meta["namespace"], self._meta["name"], self.uid)
        claims = node.root / "claims" / self._meta["namespace"]
        self._volumes = volumes.Volumes(volumes.Folders(self._folder, claims), self._user)
        self._tokens = Tokens(node.issue_token, node.now) if node.issue_token else None
        self._sources: dict[str, Path] = {}
        self._devices: dict[str, str | None] = {}
        self._sandbox: Sandbox | None = None
        self._door: Door | None = None
        self._views = {each.name: each for each in self._first_views()}
        self._runs: dict[str, ContainerRun] = {}
        start = (pod.get("status") or {}).get("startTime") or timestamp(node.now())
        self._facts = PodFacts(node.address, start_time=start)
        self._growths: dict[str, logs.Growth] = {}
        self._stopping = asyncio.Event()
        self._patience: Patience | None = None
        self._stop_reason = ""
        self._over = asyncio.Event()
        """Set when nothing of the pod runs any more, or ever did; before the last status is written."""
        self._over_before = over
        self._deleting = asyncio.Event()
        self._gone = asyncio.Event()
        self.let_go = asyncio.Event()
        """Set when the node holds the object back no longer; a finalizer may."""
        self._dirty = asyncio.Event()
        self._writing = asyncio.Lock()
        self._written: Object = pod.get("status") or {}

    # Told from outside

    def update(self, pod: Object) -> None:
        """Take the newest form of the pod; one that is to be deleted is stopped."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleting.set()
            self._stop(self.grace)
        self._dirty.set()

    def gone(self) -> None:
        """Take notice that the object is no more: there is nothing to wait for."""
        self._gone.set()
        self._deleting.set()
        self._stop(0)

    def shut_down(self, grace: float = 0) -> None:
        """End the pod because its node stops: at once, or within its own grace if that is no longer than this one."""
        if not self._over.is_set():
            self._facts = replace(
                self._facts,
                failed=True,
                reason="Terminated",
                message="ended because its node stops",
            )
        self._stop(min(grace, self.grace))

    async def run(self) -> None:
        """Run the pod and return when it has ended, and if it is to be deleted only when its object is gone."""
        reporting = asyncio.create_task(self._report())
        try:
            if self._over_before:
                self._finish()
            else:
                await self._live()
                await self.write_status()
            if self._deleting.is_set() or deletion_pending(self.pod):
                await self._delete()
                self.let_go.set()
                await self._gone.wait()
        finally:
            self.let_go.set()
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            await self._close()

    async def ended(self) -> None:
        """Return when nothing of the pod runs any more and that is written down."""
        await self._over.wait()
        await self.write_status()

    # Asked from outside

    def default_container(self) -> str:
        """Return the container meant when none is named."""
        return default_container(self.pod)

    @property
    def is_gone(self) -> bool:
        """Say whether the object is no more."""
        return self._gone.is_set()

    def growth(self, container: str) -> logs.Growth:
        """Return what a follower of a container's log must know."""
        self._check_container(container)
        return self._growth(container)

    def waiting_words(self, container: str) -> str:
        """Return why a container has not begun."""
        state = self._view(container).state.get("waiting") or {}
        return str(state.get("reason") or "it has not begun")

    async def exec(self, command: list[str], container: str, *, stdin: bool, tty: bool = False) -> Session:
        """Start a command in a running container; with `tty` on a terminal of its own."""
        run, spec = self._beside(command, container)
        with self._told_why(container):
            if tty:
                return await terminal.start(run.start_beside, spec)
            return await sessions.start(run.start_beside, spec, stdin=stdin)

    async def start(self, command: list[str], container: str, stdio: tuple[int | None, int, int]) -> Process:
        """Start a command in a running container on descriptors of the caller's."""
        run, spec = self._beside(command, container)
        stdin, stdout, stderr = stdio
        with self._told_why(container):
            piped = replace(spec, stdin=stdin, stdout=stdout, stderr=stderr, leave_children=True)
            return await run.start_beside(piped)

    def _beside(self, command: list[str], container: str) -> tuple[ContainerRun, ProcessSpec]:
        """Return how a command is started in a container: as its main process was."""
        container = container or self.default_container()
        self._check_container(container)
        run = self._runs.get(container)
        if run is None or run.command is None or self._sandbox is None:
            raise BadRequest(f"container {container!r} of pod {self._meta['name']!r} is not running")
        return run, replace(run.command, argv=images.found(tuple(command), run.command.env))

    @contextlib.contextmanager
    def _told_why(self, container: str) -> Iterator[None]:
        try:
            yield
        except SpawnError as error:
            name = container or self.default_container()
            raise BadRequest(f"container {name!r} of pod {self._meta['name']!r}: {error}") from error

    def processes(self) -> dict[str, list[int]]:
        """Return the processes of each container that runs; what is executed beside a lone one counts as its own."""
        running = {name: run.process.pid for name, run in self._runs.items() if run.process is not None}
        pids = self._sandbox.pids() if self._sandbox else []
        if len(running) == 1:
            return dict.fromkeys(running, pids)
        return {name: sorted(descendants(pid, pids)) for name, pid in running.items()}

    async def connect(self, port: int) -> socket.socket:
        """Return a socket connected to a port of the pod's own localhost; OSError if nobody listens."""
        if self._sandbox is None:
            raise BadRequest(f"pod {self._meta['name']!r} is not running")
        try:
            return await self._sandbox.connect(port, "127.0.0.1")
        except ConnectionRefusedError:
            return await self._sandbox.connect(port, "::1")

    async def refresh_volumes(self) -> None:
        """Write volumes again whose ConfigMaps, Secrets or labels have changed."""
        if self._sandbox is None or self._over.is_set() or not self._sources:
            return
        with contextlib.suppress(Missing, Refused, ClusterError, OSError):  # the files stay as they are
            await self._prepare_volumes()

    # The life of the pod

    async def _live(self) -> None:
        if self._meta.get("deletionTimestamp"):
            self._deleting.set()
            self._stop(self.grace)
        tasks = [asyncio.create_task(self._end_when_told()), asyncio.create_task(self._watch_deadline())]
        lacking = () if self._tokens else volumes.left_out(self.pod)
        ids = (self._user.uid, self._user.gid) if self._user else (os.getuid(), os.getgid())
        if warnings := [*unsupported(self.pod, *ids), *lacking]:
            self._emit("Unsupported", "; ".join(warnings), "Warning")
        try:
            if await self._prepare():
                await self._run_containers()
        except Refused as error:
            self._fail("UnsupportedPod", str(error))
        except Exception as error:
            log.exception("pod %s/%s could not be run", self._meta["namespace"], self._meta["name"])
            self._fail("KubeletError", f"the process kubelet failed: {error!r}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close()
            self._finish()

    async def _prepare(self) -> bool:
        """Make everything the containers need; False when told to stop meanwhile."""
        try:
            self._devices = self._node.devices.take(self.uid, self.pod)
        except Refused as error:
            self._fail("UnexpectedAdmissionError", str(error))
            return False
        self._dirty.set()
        return (
            await self._tried("FailedMount", self._prepare_volumes)
            and await self._tried("FailedCreatePodSandBox", self._open)
            and await self._tried("NotStored", self._announce)
            and not self._stopping.is_set()
        )

    async def _announce(self) -> None:
        """Have it on disk that this pod has its address, and so may have begun, before it does."""
        if self._node.durable:
            await self.write_status()
            await self._node.durable()

    async def _tried(self, reason: str, step: Callable[[], Awaitable[None]]) -> bool:
        """Take a step again and again until it works; False when told to stop."""
        failures = 0
        while not self._stopping.is_set():
            try:
                await step()
                if failures:
                    self._all_wait("")
                return True
            except (Missing, SpawnError, HomeError, ClusterError, OSError) as error:
                failures += 1
                self._all_wait(str(error))
                self._emit(reason, str(error), "Warning")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _RETRY.seconds(failures))
        return False

    async def _prepare_volumes(self) -> None:
        found = await self._fetched(volumes.references(self.pod))
        self._folder.mkdir(parents=True, exist_ok=True)
        tokens = await self._tokens.current(self.pod, volumes.wishes(self.pod)) if self._tokens else volumes.NO_TOKENS
        self._sources = self._volumes.prepare(self.pod, self._pod_facts(), found, tokens)

    async def _fetched(self, references: Iterable[Reference]) -> Found:
        """Return the ConfigMaps and Secrets that are there; Refused if a Secret is another user's."""
        found = await fetch(self._node.cluster, self._meta["namespace"], references)
        for (kind, name), obj in found.items():
            if kind == "Secret" and self._node.user_of(obj) != self._user:
                raise Refused(f"Secret {name!r} belongs to another user; make one of your own, under another name")
        return found

    async def _open(self) -> None:
        file = self._folder / "etc-hosts"
        hosts.rewrite(file, hosts.text(self.pod, "", ""))
        spec = SandboxSpec(self.uid, hosts.hostname(self.pod), (Mount(file, "/etc/hosts"),))
        self._sandbox = await self._node.isolation.open(spec)
        self._facts = replace(self._facts, pod_ip=self._sandbox.address)
        self._dirty.set()
        if self._node.isolation.name == "net":  # elsewhere pods share the host's names
            await self._node.hosts.add(self.pod, self._sandbox.address, file)
        if self._node.requests and self.pod["spec"].get("serviceAccountName"):
            with contextlib.suppress(OSError):  # where pods are not apart, nobody could be told from others
                self._door = await Door.open(self._sandbox, partial(self._node.requests.answer, self.pod))

    async def _run_containers(self) -> None:
        """Run init containers one after the other, then the others together, and end sidecars after them."""
        sidecars: list[tuple[ContainerRun, asyncio.Task[None]]] = []
        try:
            if await self._initialize(sidecars):
                async with asyncio.TaskGroup() as mains:
                    for index, spec in enumerate(self.pod["spec"]["containers"]):
                        mains.create_task(self._new_run(spec, f"spec.containers[{index}]").run())
            grace = self._patience or Patience(self.grace)
            for sidecar, task in reversed(sidecars):
                await sidecar.stop(grace)
                await task
        finally:
            for _, task in sidecars:
                task.cancel()

    async def _initialize(self, sidecars: list[tuple[ContainerRun, asyncio.Task[None]]]) -> bool:
        """Run the init containers; False if one failed for good or the pod was told to stop."""
        for index, spec in enumerate(self.pod["spec"].get("initContainers") or ()):
            if self._stopping.is_set():
                break
            run = self._new_run(spec, f"spec.initContainers[{index}]")
            if run.view.kind == "sidecar":
                sidecars.append((run, asyncio.create_task(run.run())))
                await run.up.wait()
            else:
                await run.run()
            if not run.view.initialized:
                return False
        return not self._stopping.is_set()

    def _new_run(self, spec: Object, path: str) -> ContainerRun:
        assert self._sandbox is not None
        place = Place(
            sandbox=self._sandbox,
            launch=self._launch,
            log_folder=self.log_folder,
            private=self._folder,
            limits=self._node.limits,
            times=self._node.times,
            now=self._node.now,
            backoff=self._node.backoff,
            grace=self.grace,
            changed=self._dirty.set,
            emit=self._emit,
            stop_reason=lambda: self._stop_reason,
        )
        policy = self.pod["spec"].get("restartPolicy", "Always")
        view = self._views[spec["name"]]
        run = ContainerRun(place, spec, path, view, policy)
        run.growth = self._growth(spec["name"], run.growth)
        self._runs[spec["name"]] = run
        return run

    async def _launch(self, container: Object, path: str) -> ProcessSpec:
        """Return command, environment and mounts of a container."""
        found = await self._fetched(environment.references(container))
        try:
            manifest = environment.declared(container, self._pod_facts(), found)
        except Refused as error:
            raise Refused(f"{path}.{error}") from error
        caller = self._node.environment
        env = environment.complete(
            environment.of_user(caller, self._user) if self._user else caller,
            manifest,
            container,
            hostname=hosts.hostname(self.pod),
            devices=self._devices.get(container["name"]),
            peers=self._node.hosts.peers(self._meta["namespace"]),
        )
        argv = images.found(images.command(container, path, manifest), env, container.get("image", ""))
        mounts = volumes.mounts(container, path, self.pod, self._sources, manifest)
        usual = self._user.home if self._user else self._node.cwd
        cwd = container.get("workingDir") or usual
        if container.get("workingDir"):
            _check_folder(cwd, mounts, f"{path}.workingDir", usual)
        return ProcessSpec(argv, env, cwd, mounts, user=self._user)

    # Ending

    def _stop(self, seconds: float) -> None:
        if self._patience is None:
            self._patience = Patience(seconds)
            self._stopping.set()
        else:
            self._patience.shorten(seconds)

    async def _end_when_told(self) -> None:
        """Once told to stop, end the containers; sidecars last, since the others may need them to the end."""
        await self._stopping.wait()
        assert self._patience is not None
        runs = [run for run in self._runs.values() if not run.done.is_set()]
        first = [run for run in runs if run.view.kind != "sidecar"]
        await asyncio.gather(*(run.stop(self._patience) for run in first))
        for run in reversed([run for run in runs if run.view.kind == "sidecar"]):
            await run.stop(self._patience)

    async def _watch_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return
        began = moment(self._facts.start_time) or self._node.now()
        passed = max(0.0, (self._node.now() - began).total_seconds())
        await asyncio.sleep(max(0.0, seconds - passed) if passed > 1 else float(seconds))
        self._stop_reason = "DeadlineExceeded"
        self._fail("DeadlineExceeded", f"ended after activeDeadlineSeconds: {seconds}")
        self._stop(self.grace)

    def _fail(self, reason: str, message: str) -> None:
        self._facts = replace(self._facts, failed=True, reason=reason, message=message)
        self._emit(reason, message, "Warning")
        self._dirty.set()

    async def _close(self) -> None:
        """End whatever is left inside and free what the pod had."""
        sandbox, self._sandbox = self._sandbox, None
        self._node.hosts.remove(self.uid)
        if self._door is not None:
            await self._door.close()
        if sandbox is not None:
            try:
                await sandbox.close()
            except (OSError, SpawnError) as error:
                log.warning("a sandbox could not be closed: %s: %s", self._meta["name"], error)
        self._node.devices.give_back(self.uid)

    def _finish(self) -> None:
        """Settle how the pod ended: with all its containers gone it can only have succeeded or failed."""
        for name in self._views:
            self._growth(name).end()
        self._over.set()
        self._dirty.set()

    async def _delete(self) -> None:
        """Tell the API that the pod has stopped: only then the object may go."""
        meta, failures = self._meta, 0
        while not self._gone.is_set():
            try:
                await self._node.cluster.delete(POD, meta["namespace"], meta["name"], uid=self.uid, grace=0)
                return
            except (NotFound, Conflict):
                self._gone.set()
                return
            except (ClusterError, OSError) as error:
                failures += 1
                log.warning("a stopped pod could not be deleted and is tried again: %s: %s", meta["name"], error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _RETRY.seconds(failures))

    def remove_files(self) -> None:
        """Remove the pod's own folders; its logs stay."""
        self._volumes.remove()

    # Status

    async def _report(self) -> None:
        """Write the status whenever something changed."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._dirty.clear()
            await self.write_status()

    async def write_status(self) -> None:
        """Write the status as it is now, if it differs from what was written."""
        failures = 0
        while not self._gone.is_set() and not self._over_before:
            async with self._writing:
                status = self._status()
                patch = status_patch(self._written, status)
                if not patch:
                    return
                try:
                    await self._patch(patch)
                    self._written = status
                    return
                except NotFound:
                    return
                except Invalid as error:
                    log.warning("a pod's status was refused: %s: %s", self._meta["name"], error)
                    return
                except (ClusterError, OSError) as error:
                    failures += 1
                    log.debug("a pod's status is written again later: %s: %s", self._meta["name"], error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _RETRY.seconds(failures))

    async def _patch(self, patch: Object) -> None:
        meta = self._meta
        body = {"metadata": {"uid": self.uid}, "status": patch}  # with uid: never a namesake's status
        await self._node.cluster.patch(POD, meta["namespace"], meta["name"], body, subresource="status")

    def _status(self) -> Object:
        inits = [self._view(each["name"]) for each in self.pod["spec"].get("initContainers") or ()]
        mains = [self._view(each["name"]) for each in self.pod["spec"]["containers"]]
        pod = {**self.pod, "status": {**(self.pod.get("status") or {}), "conditions": self._conditions()}}
        facts = replace(self._facts, final=self._over.is_set())
        return pod_status(pod, inits, mains, facts, self._node.now())

    def _conditions(self) -> list[Object]:
        """Return the conditions there are: ours as last written, others as the API shows them."""
        seen = (self.pod.get("status") or {}).get("conditions") or ()
        ours = [each for each in self._written.get("conditions") or () if each["type"] in OURS]
        return [*ours, *(each for each in seen if each["type"] not in OURS)]

    # Small things

    @property
    def _meta(self) -> Object:
        meta: Object = self.pod["metadata"]
        return meta

    @property
    def grace(self) -> float:
        """Return the seconds the pod may take to end: what the deletion says, else what the pod says."""
        asked = self._meta.get("deletionGracePeriodSeconds")
        if asked is None:
            asked = self.pod["spec"].get("terminationGracePeriodSeconds")
        return _GRACE_DEFAULT if asked is None else float(asked)

    def _first_views(self) -> Iterator[Container]:
        """Yield the containers as they are before anything was done, or as an earlier kubelet left them."""
        spec, status = self.pod["spec"], self.pod.get("status") or {}
        inits = spec.get("initContainers") or []
        seen = {
            each["name"]: each
            for group in ("initContainerStatuses", "containerStatuses")
            for each in status.get(group) or ()
        }
        for each in inits:
            kind: ContainerKind = "sidecar" if each.get("restartPolicy") == "Always" else "init"
            yield self._first_view(each, kind, "PodInitializing", seen)
        for each in spec["containers"]:
            reason = "PodInitializing" if inits else "ContainerCreating"
            yield self._first_view(each, "main", reason, seen)

    def _first_view(self, spec: Object, kind: ContainerKind, reason: str, seen: Mapping[str, Object]) -> Container:
        view = Container(spec["name"], spec.get("image", ""), kind, waiting(reason))
        if old := seen.get(spec["name"]):
            view = replace(
                view,
                state=old.get("state") or view.state,
                last_state=old.get("lastState") or {},
                restarts=int(old.get("restartCount") or 0),
                id=old.get("containerID", ""),
            )
        note = notes.last(self._folder, spec["name"])
        announced = (self.pod.get("status") or {}).get("podIP")
        if note is None and self._node.rebooted and announced:
            note = notes.presume(self._folder, spec["name"])
        return resumed(view, note, self._node.now())

    def _view(self, name: str) -> Container:
        run = self._runs.get(name)
        return run.view if run else self._views[name]

    def _all_wait(self, message: str) -> None:
        """Say in every container's status what the pod waits for."""
        for name, view in self._views.items():
            if "waiting" in view.state:
                self._views[name] = replace(view, state=waiting(view.state["waiting"]["reason"], message))
        self._dirty.set()

    def _growth(self, container: str, begun: logs.Growth | None = None) -> logs.Growth:
        """Return the one record of a container's log; made before the container, since followers may come first."""
        growth = self._growths.get(container)
        if growth is None:
            growth = self._growths[container] = logs.Growth()
            growth.begun = growth.over = max(logs.runs(self.log_folder, container), default=-1)
        if begun is not None:
            growth.begun, growth.over = max(growth.begun, begun.begun), max(growth.over, begun.over)
        return growth

    def _check_container(self, name: str) -> None:
        if name not in self._views:
            raise no_container(self.pod, name)

    def _pod_facts(self) -> Facts:
        address = self._sandbox.address if self._sandbox else ""
        return Facts(self.pod, self._node.name, address, self._node.address, self._node.allocatable)

    def _emit(self, reason: str, message: str, kind: Literal["Normal", "Warning"]) -> None:
        self._node.events.emit(self.pod, reason, message, kind)


def no_container(pod: Object, name: str) -> BadRequest:
    """Return what is said when a pod has no container of that name."""
    known = ", ".join(container_names(pod))
    return BadRequest(f"container {name!r} is not in pod {pod['metadata']['name']!r} (there are: {known})")


def container_names(pod: Object) -> list[str]:
    """Return the names of all containers of a pod, init containers first."""
    spec = pod["spec"]
    return [each["name"] for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def default_container(pod: Object) -> str:
    """Return the container of a pod that is meant when none is named."""
    named = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return str(named or pod["spec"]["containers"][0]["name"])


def has_ended(pod: Object) -> bool:
    """Say whether a pod has succeeded or failed: nothing of it may ever run again."""
    return (pod.get("status") or {}).get("phase") in _TERMINAL


def deletion_pending(pod: Object) -> bool:
    """Say whether a pod that is to be deleted waits for its node."""
    return bool(pod["metadata"].get("deletionTimestamp") and pod["metadata"].get("deletionGracePeriodSeconds"))


def _check_folder(folder: str, mounts: tuple[Mount, ...], path: str, instead: str) -> None:
    mounted = any(folder == mount.target or folder.startswith(mount.target.rstrip("/") + "/") for mount in mounts)
    if not mounted and not Path(folder).is_dir():
        raise Refused(
            f"{path}: there is no folder {folder!r} on this machine; make it, mount a volume there, "
            f"or leave workingDir out to run in {instead!r}"
        )
