"""The local home: a cluster in this process whose pods are process trees on this machine.

Everything that runs beside the store is a loop over the same `Cluster`: the operator, the autoscaler, the scheduler,
the garbage collector, the owner of the pods of StatefulSets and Jobs, and the process kubelet. Leaving the home stops
the loops first, so that nothing is made again, then ends every pod, then closes what all pods shared, and last writes
down how it ended.

`tw run` opens a home for one run. `tw serve` opens one that lasts (`Lasting`): it goes on with what an earlier one
left, and what is begun in it is on disk before.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trainwright.admission import admit
from trainwright.api.common import Job
from trainwright.api.faces import RESOURCES
from trainwright.cluster.beside import beside
from trainwright.cluster.journal import JOURNAL, Journal
from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.errors import ManifestError, Problem
from trainwright.core.objects import Object
from trainwright.core.resources import Resource, resource_of
from trainwright.desired import Settings
from trainwright.frameworks.base import HostNames
from trainwright.inpod import kubectl, wait_for
from trainwright.kinds import COMMANDS, KINDS, Kind, kind_of
from trainwright.node import machine
from trainwright.node.base import Trial, User
from trainwright.node.isolation import choose
from trainwright.node.kubelet import Kubelet, KubeletOptions
from trainwright.node.way_out import way_out
from trainwright.operator.loop import Operator
from trainwright.operator.loopback import LoopbackNet
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.garbage import GarbageCollector
from trainwright.workloads.pod_owner import PodOwner
from trainwright.workloads.priorities import prioritising
from trainwright.workloads.quotas import counting
from trainwright.workloads.scheduler import Scheduler

NODE_NAME = "local"
SCALING = Conduct(settle=0.3, rest=5.0, in_turn=True)
"""How quickly sizes follow here: pods start within a second, and whoever runs a job is watching."""
_HISTORY = 10_000
"""So many changes a run remembers for those who watch."""


@dataclass(frozen=True)
class Lasting:
    """What a home needs that goes on where an earlier one ended, however that ended."""

    journal: Journal
    lock: int
    """The descriptor of a lock, kept until nothing of any pod is left, even if this process is killed."""
    rebooted: bool = False
    """Whether the machine has started anew since."""
    grace: float = 30.0
    """So long pods may take to end when the home stops; their jobs go on in the next one."""
    user_of: Callable[[Object], User | None] = lambda obj: None  # noqa: ARG005 - all objects are ours
    """Whose an object is, and the processes of a pod; None: our own."""
    inherit: Callable[[MemoryCluster], Admit] | None = None
    """Makes what is done to every object on its way in, after it was checked; None: nothing."""
    history: int = 4_000
    """So many changes are remembered for those who watch."""


@dataclass(frozen=True)
class HomeOptions:
    """What a local home is made of, and where it keeps what happened."""

    run_dir: Path
    isolation: Literal["auto", "net", "ports"] = "auto"
    attempt: Callable[[], Trial] | None = None
    """Where the result of a trial that was begun earlier comes from; None: one is made."""
    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    """What is offered to jobs; None: what this machine has."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    lenient: bool = False
    autoscale: bool = True
    """Whether elastic jobs are resized to share what is offered."""
    on_notice: Callable[[str], None] = lambda sentence: None  # noqa: ARG005 - nobody listens
    """Told in words what is unusual: nothing can be kept, a pod asks for what cannot be given."""
    lasting: Lasting | None = None
    """What it goes on with; None: with nothing, and nothing goes on with it."""


@dataclass(frozen=True)
class LocalHome:
    """A running home."""

    cluster: MemoryCluster
    kubelet: Kubelet
    isolation: str
    notice: str
    """The one sentence about how pods are kept apart here."""
    run_dir: Path
    settings: Settings
    lenient: bool = False
    on_notice: Callable[[str], None] = lambda sentence: None  # noqa: ARG005 - nobody listens

    async def submit(self, obj: Object) -> Object:
        """Store an object as `kubectl create` would; ManifestError if admission or this home refuses it."""
        admitted = admit(obj, lenient=self.lenient).object
        if kind := kind_of(admitted):
            for problem in _hindrances(kind, kind.read(admitted), self.settings):
                self.on_notice(str(problem))
        return await self.cluster.create(resource_of(admitted, RESOURCES), admitted)


@asynccontextmanager
async def local_home(options: HomeOptions) -> AsyncIterator[LocalHome]:
    """Open a home; leaving it ends every process that was started in it."""
    isolation, notice = choose(options.isolation, options.attempt)
    lasting = options.lasting
    async with AsyncExitStack() as stack:
        net = HostNames() if isolation.name == "net" else stack.enter_context(LoopbackNet())
        settings = Settings(
            net,
            "trainwright",
            (sys.executable, "-I", str(wait_for.__file__)),
            pulls=False,
            kubectl_image="trainwright",
            kubectl_command=kubectl.delivery(),
            one_machine=True,
        )
        if lasting:
            cluster = _cluster(lasting.journal, options, _admission(lenient=options.lenient, settings=settings))
            isolation.hold(lasting.lock)
        else:
            journal = stack.enter_context(Journal.open(options.run_dir / JOURNAL, on_error=options.on_notice))
            cluster = _cluster(journal, options, _admission(lenient=options.lenient))
        await stack.enter_async_context(isolation)
        environment = {**options.environment, **await way_out(isolation, stack)}
        kubelet = await stack.enter_async_context(Kubelet(cluster, isolation, _node(options, environment)))
        cluster.serve_pods(kubelet)
        if lasting:
            stack.push_async_callback(kubelet.evict, lasting.grace)
        await stack.enter_async_context(beside(*_loops(cluster, settings, options)))
        yield LocalHome(
            cluster, kubelet, isolation.name, notice, options.run_dir, settings, options.lenient, options.on_notice
        )


def _cluster(journal: Journal, options: HomeOptions, checked: Admit) -> MemoryCluster:
    """Return a cluster with everything an earlier home left; what comes in goes through all that stands at its door."""
    steps = [checked]

    def admitted(resource: Resource, obj: Object, old: Object | None) -> Object:
        for step in steps:
            obj = step(resource, obj, old)
        return obj

    lasting = options.lasting
    history = lasting.history if lasting else _HISTORY
    cluster = MemoryCluster(RESOURCES, admit=admitted, now=_now, journal=journal, history=history)
    if lasting and lasting.inherit:
        steps.append(lasting.inherit(cluster))
    steps += (prioritising(cluster), counting(cluster))
    return cluster


def _node(options: HomeOptions, environment: Mapping[str, str]) -> KubeletOptions:
    node = KubeletOptions(
        NODE_NAME,
        options.run_dir,
        machine.offered(options.cpu, options.memory, options.gpu),
        environment=environment,
        cwd=options.cwd,
        now=_now,
        answers_pods=True,
    )
    if not options.lasting:
        return node
    lasting = options.lasting
    return replace(node, durable=lasting.journal.flush, rebooted=lasting.rebooted, user_of=lasting.user_of)


def _loops(cluster: MemoryCluster, settings: Settings, options: HomeOptions) -> list[Coroutine[Any, Any, None]]:
    loops = [
        Operator(cluster, KINDS, settings, now=_now).run(),
        Scheduler(cluster, RESOURCES, is_elastic).run(),
        GarbageCollector(cluster, RESOURCES).run(),
        PodOwner(cluster, (stateful_set.WORKLOAD, batch_job.WORKLOAD), now=_now).run(),
    ]
    if options.autoscale:
        loops.append(Autoscaler(cluster, KINDS, _now, conduct=SCALING).run())
    return loops


def is_elastic(obj: Object) -> bool:
    """Say whether an object is an elastic job."""
    kind = kind_of(obj)
    return kind is not None and kind.read(obj).elastic is not None


def _admission(*, lenient: bool, settings: Settings | None = None) -> Admit:
    """Return the admission of our kinds; with settings, new jobs that could only hang or fail here are refused, too."""
    kinds = {kind.resource for kind in KINDS} | set(COMMANDS)

    def admitted(resource: Resource, obj: Object, old: Object | None) -> Object:
        if resource not in kinds:
            return obj
        made = admit(obj, old, lenient=lenient).object
        if settings and old is None and (kind := kind_of(made)):
            _hindrances(kind, kind.read(made), settings)
        return made

    return admitted


def _hindrances(kind: Kind, job: Job, settings: Settings) -> Sequence[Problem]:
    """Return what will not work of a job here; ManifestError for one that could only hang or fail."""
    problems = tuple(kind.hindered(job, settings))
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise ManifestError(errors)
    return problems


def _now() -> datetime:
    return datetime.now(UTC)
