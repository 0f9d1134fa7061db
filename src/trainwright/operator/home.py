"""The local home: a cluster in this process whose pods are process trees on this machine.

Everything that runs beside the store is a loop over the same `Cluster`: the operator, the autoscaler, the scheduler,
the garbage collector, the owner of the pods of StatefulSets and Jobs, and the process kubelet. Leaving the home stops
the loops first, so that nothing is made again, then ends every pod, then closes what all pods shared, and last writes
down how it ended.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trainwright.admission import admit
from trainwright.api.common import Job
from trainwright.cluster.journal import Journal
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import ManifestError
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, SUPPORTING, Resource, resource_of
from trainwright.desired import Settings
from trainwright.frameworks.base import HostNames
from trainwright.inpod import kubectl, wait_for
from trainwright.kinds import COMMANDS, KINDS, Kind, kind_of
from trainwright.node import machine
from trainwright.node.base import Trial
from trainwright.node.isolation import choose
from trainwright.node.kubelet import Kubelet, KubeletOptions
from trainwright.node.way_out import way_out
from trainwright.operator.loop import Operator
from trainwright.operator.loopback import LoopbackNet
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.garbage import GarbageCollector
from trainwright.workloads.pod_owner import PodOwner
from trainwright.workloads.scheduler import Scheduler

RESOURCES = (
    *BUILT_IN,
    *SUPPORTING,
    *(kind.resource for kind in KINDS),
    *COMMANDS,
)
JOURNAL = "journal.sqlite"
NODE_NAME = "local"
SCALING = Conduct(settle=0.3, rest=5.0)
"""How quickly sizes follow here: pods start within a second, and whoever runs a job is watching."""


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


@dataclass(frozen=True)
class LocalHome:
    """A running home."""

    cluster: MemoryCluster
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
            self._check(kind, kind.read(admitted))
        return await self.cluster.create(resource_of(admitted, RESOURCES), admitted)

    def _check(self, kind: Kind, job: Job) -> None:
        """Refuse a job that could only hang or fail here, and say what will not work in others."""
        problems = list(kind.hindered(job, self.settings))
        if errors := [problem for problem in problems if problem.severity == "error"]:
            raise ManifestError(errors)
        for problem in problems:
            self.on_notice(str(problem))


@asynccontextmanager
async def local_home(options: HomeOptions) -> AsyncIterator[LocalHome]:
    """Open a home; leaving it ends every process that was started in it."""
    isolation, notice = choose(options.isolation, options.attempt)
    async with AsyncExitStack() as stack:
        journal = stack.enter_context(Journal.open(options.run_dir / JOURNAL, on_error=options.on_notice))
        cluster = MemoryCluster(RESOURCES, admit=_admission(lenient=options.lenient), now=_now, journal=journal)
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
        await stack.enter_async_context(isolation)
        environment = {**options.environment, **await way_out(isolation, stack)}
        node = KubeletOptions(
            NODE_NAME,
            options.run_dir,
            machine.offered(options.cpu, options.memory, options.gpu),
            environment=environment,
            cwd=options.cwd,
            now=_now,
            answers_pods=True,
        )
        kubelet = await stack.enter_async_context(Kubelet(cluster, isolation, node))
        cluster.serve_pods(kubelet)
        loops = [
            Operator(cluster, KINDS, settings, now=_now).run(),
            Scheduler(cluster).run(),
            GarbageCollector(cluster, RESOURCES).run(),
            PodOwner(cluster, (stateful_set.WORKLOAD, batch_job.WORKLOAD), now=_now).run(),
        ]
        if options.autoscale:
            loops.append(Autoscaler(cluster, KINDS, _now, conduct=SCALING).run())
        await stack.enter_async_context(_running(*loops))
        yield LocalHome(cluster, isolation.name, notice, options.run_dir, settings, options.lenient, options.on_notice)


@asynccontextmanager
async def _running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run loops beside the body; one that fails ends the body too, because a home without it would only hang."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def _admission(*, lenient: bool) -> Callable[[Resource, Object, Object | None], Object]:
    kinds = {kind.resource for kind in KINDS} | set(COMMANDS)

    def admitted(resource: Resource, obj: Object, old: Object | None) -> Object:
        return admit(obj, old, lenient=lenient).object if resource in kinds else obj

    return admitted


def _now() -> datetime:
    return datetime.now(UTC)
