"""A home in which many jobs get into trouble side by side, what is said of each, and short words for such jobs."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from trainwright.api.faces import FACES, RESOURCES
from trainwright.cli.gathered import gather
from trainwright.cli.homes import Home
from trainwright.cluster.base import Cluster, Listing
from trainwright.cluster.informer import Informer
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Forbidden, NotFound
from trainwright.core.objects import Object, at
from trainwright.core.resources import EVENT, POD, Resource, resource_of
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS, kind_of
from trainwright.operator.home import HomeOptions, local_home
from trainwright.operator.loop import Operator
from trainwright.why import Verdict, judge

SECONDS = 40
LOOK_SECONDS = 0.2
"""What ranks print is no object, so we look again after so long even if no object has changed."""


@dataclass
class Trouble:
    """A home, and what is to be said about the jobs in it."""

    cluster: Cluster
    folder: Path | None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def blind(self) -> "Trouble":
        """Return the same for somebody who may see the objects of a namespace and nothing else."""
        return replace(self, cluster=cast("Cluster", _Blind(self.cluster)))

    async def submit(self, *objects: Object) -> None:
        """Store objects as they are; what a home checks beyond admission is not asked."""
        for obj in objects:
            await self.cluster.create(resource_of(obj, RESOURCES), obj)

    async def job(self, name: str) -> Object:
        """Return a job by its name."""
        for kind in KINDS:
            for obj in (await self.cluster.list(kind.resource, "default")).items:
                if obj["metadata"]["name"] == name:
                    return obj
        raise KeyError(name)

    async def why(self, name: str, later: timedelta = timedelta()) -> Verdict:
        """Return the verdict about a job, now or as it would be later if nothing happened."""
        job = await self.job(name)
        kind = kind_of(job)
        assert kind
        home = Home(self.cluster, "the test", "default", "run" if self.folder else "cluster", self.folder)
        return judge(await gather(home, kind, job, datetime.now().astimezone() + later))

    async def until_why(self, name: str, sentence: str, *evidence: str, later: timedelta = timedelta()) -> Verdict:
        """Wait until the verdict about a job is a sentence of that form, with such evidence."""
        verdict = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    self._changed.clear()
                    with suppress(KeyError):
                        verdict = await self.why(name, later)
                        if _is_said(verdict, sentence, evidence):
                            return verdict
                    await self._news()
        except TimeoutError:
            raise AssertionError(f"{sentence!r} is not what is said of {name}: {verdict}") from None

    async def until_pod(self, name: str, *state: str) -> Object:
        """Wait until a pod has been made and its status has something at a path, and return it."""
        async with asyncio.timeout(SECONDS):
            while True:
                self._changed.clear()
                with suppress(NotFound):
                    pod = await self.cluster.get(POD, "default", name)
                    if not state or state[-1] == at(pod, ("status", *state[:-1])):
                        return pod
                await self._news()

    async def _news(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)

    async def follow(self) -> None:
        """Take notice of every change, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource in (POD, EVENT, *(face.resource for face in FACES)):
                informer = Informer(self.cluster, resource)
                informer.subscribe(lambda _: self._changed.set())
                tasks.create_task(informer.run())


class _Blind:
    """A cluster seen with the rights of one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def list(self, resource: Resource, namespace: str = "", **selectors: str) -> Listing:
        if not namespace:
            raise Forbidden(f"you cannot list {resource}")
        return await self._cluster.list(resource, namespace, **selectors)


def _is_said(verdict: Verdict, sentence: str, evidence: Sequence[str]) -> bool:
    found = re.fullmatch(sentence, verdict.sentence)
    return found is not None and all(any(re.fullmatch(each, line) for line in verdict.evidence) for each in evidence)


@asynccontextmanager
async def trouble(environment: Mapping[str, str], folder: Path, **offered: Any) -> AsyncIterator[Trouble]:
    """Open a home on this machine."""
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    options = HomeOptions(run_dir=folder, environment=environment, cwd=folder, **offered)
    async with local_home(options) as home:
        opened = Trouble(home.cluster, folder)
        following = asyncio.create_task(opened.follow())
        yield opened
        following.cancel()


@asynccontextmanager
async def unattended(folder: Path, *, operator: bool = False) -> AsyncIterator[Trouble]:
    """Open a place for objects where nobody runs pods, and an operator looks after jobs only if that is asked for."""
    cluster = MemoryCluster(RESOURCES, now=_now)
    opened = Trouble(cluster, folder)
    loops = [opened.follow(), *([Operator(cluster, KINDS, KUBERNETES, now=_now).run()] if operator else [])]
    running = [asyncio.create_task(loop) for loop in loops]
    yield opened
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)


# Jobs


def container(script: str | None, *, name: str = "pytorch", **more: Any) -> Object:
    command = {} if script is None else {"command": ["sh", "-c", script]}
    return {"name": name, "image": "any:1", **command, **more}


def asking(**amounts: Any) -> Object:
    """Return what a container asks for, and may use."""
    return {"resources": {"requests": amounts, "limits": amounts}}


def _job(kind: str, name: str, spec: Object, **meta: Any) -> Object:
    (version,) = (face.resource.api_version for face in FACES if face.name == kind)
    place = {"name": name, "namespace": "default", **meta}
    return {"apiVersion": version, "kind": kind, "metadata": place, "spec": spec}


def torch(
    name: str,
    script: str | None = "sleep 1000",
    *,
    workers: int = 0,
    policy: str = "Never",
    run: Object | None = None,
    pod: Object | None = None,
    meta: Object | None = None,
    **more: Any,
) -> Object:
    """Return a PyTorchJob whose ranks all run a script."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container(script, **more)], **(pod or {})}
    role = {"restartPolicy": policy, "template": {"spec": spec}}
    roles = {"Master": {"replicas": 1, **role}, **({"Worker": {"replicas": workers, **role}} if workers else {})}
    return _job("PyTorchJob", name, {"runPolicy": run or {}, "pytorchReplicaSpecs": roles}, **(meta or {}))


def task(name: str, script: str = "sleep 1000", replicas: int = 1, pod: Object | None = None, **more: Any) -> Object:
    """Return a task of a Volcano Job."""
    main = container(script, name="main", **more.pop("container", {}))
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def volcano(name: str, *tasks: Object, **spec: Any) -> Object:
    """Return a Volcano Job."""
    return _job("Job", name, {"tasks": list(tasks), **spec})


def elastic(name: str, least: int, most: int, cpu: str, **meta: Any) -> Object:
    """Return an elastic PyTorchJob that begins at its least size."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container("sleep 1000", **asking(cpu=cpu))]}
    worker = {"replicas": least, "restartPolicy": "OnFailure", "template": {"spec": spec}}
    policy = {"minReplicas": least, "maxReplicas": most}
    return _job("PyTorchJob", name, {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}, **meta)


def mpi(name: str, **more: Any) -> Object:
    """Return an MPIJob with two workers."""
    launcher = {"replicas": 1, "template": {"spec": {"containers": [container("sleep 1000", name="main")]}}}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container("sleep 1000", name="main", **more)]}
    worker = {"replicas": 2, "template": {"spec": pod}}
    roles = {"Launcher": launcher, "Worker": worker}
    return _job("MPIJob", name, {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles})


def training(name: str, entrypoint: str) -> Object:
    """Return a TrainingJob of two trainers."""
    nothing = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "0", "memory": "0"}}
    trainer = {"entrypoint": entrypoint, "min-instance": 2, "max-instance": 2, "resources": nothing}
    return _job("TrainingJob", name, {"image": "any:1", "trainer": trainer})


def command(name: str, job: Object, action: str) -> Object:
    """Return the Command that tells a Volcano Job what to do."""
    target = {
        "apiVersion": job["apiVersion"],
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name, "namespace": "default"},
        "action": action,
        "target": target,
        "message": "asked for by ada",
    }
