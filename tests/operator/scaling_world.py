"""A memory cluster with nodes, the real operator, scheduler and autoscaler, and a kubelet that only says it runs pods.

Everything runs in virtual time: `wait` lets seconds pass at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.operator.confined import confined

from trainwright.admission import admit
from trainwright.api.faces import RESOURCES
from trainwright.cluster.base import Change
from trainwright.cluster.informer import Informer
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Conflict, NotFound
from trainwright.core.names import AUTOSCALE_ANNOTATION, ELASTIC_ANNOTATION
from trainwright.core.objects import Object, at
from trainwright.core.resources import EVENT, NODE, POD, Resource
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS, kind_of
from trainwright.operator.home import is_elastic
from trainwright.operator.loop import Operator
from trainwright.operator.measures import Measures
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.placement import Amounts
from trainwright.workloads.scheduler import Scheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STOPPING_SECONDS = 2.0


def _container(name: str, cpu: str) -> Object:
    return {"name": name, "image": "i", "command": ["c"], "resources": {"requests": {"cpu": cpu}}}


def pytorch_job(name: str, least: int, most: int, size: int, cpu: str = "1", **elastic: Any) -> Object:
    worker = {"replicas": size, "template": {"spec": {"containers": [_container("pytorch", cpu)]}}}
    policy = {"minReplicas": least, "maxReplicas": most, **elastic}
    spec = {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def volcano_job(name: str, least: int, most: int, size: int, cpu: str = "1") -> Object:
    task = {
        "name": "worker",
        "replicas": most,
        "minAvailable": least,
        "template": {"spec": {"containers": [_container("main", cpu)], "restartPolicy": "OnFailure"}},
    }
    meta = {"name": name, "namespace": "default", "annotations": {ELASTIC_ANNOTATION: "worker"}}
    spec = {"minAvailable": least, "elasticReplicas": size, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def training_job(name: str, least: int, most: int, size: int, cpu: str = "1") -> Object:
    trainer = {
        "entrypoint": "python train.py",
        "min-instance": least,
        "max-instance": most,
        "resources": {"requests": {"cpu": cpu}},
    }
    nothing = {"cpu": "0", "memory": "0"}  # the master of a fault-tolerant job takes room of its own otherwise
    spec = {
        "image": "i",
        "fault_tolerant": True,
        "elasticReplicas": size,
        "trainer": trainer,
        "master": {"resources": {"requests": nothing, "limits": nothing}},
    }
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": meta, "spec": spec}


def opted_out(job: Object) -> Object:
    annotations = {**(job["metadata"].get("annotations") or {}), AUTOSCALE_ANNOTATION: "false"}
    return {**job, "metadata": {**job["metadata"], "annotations": annotations}}


def node(name: str = "n", cpu: str = "8", **spec: Any) -> Object:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}, "conditions": ready},
    }


def pod(name: str, cpu: str) -> Object:
    """Return a pod that is not ours."""
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [_container("web", cpu)]}}


def _admit(resource: Resource, obj: Object, old: Object | None) -> Object:
    return admit(obj, old).object if resource in {kind.resource for kind in KINDS} else obj


@dataclass
class World:
    """The cluster, and whoever works on it."""

    without: tuple[str, ...] = ()
    max_load: float = 1.0
    namespaces: tuple[str, ...] = ()
    """The only ones the autoscaler may look into; none: all."""
    capacity: Amounts | None = None
    measures: Measures = field(default_factory=Measures)

    def __post_init__(self) -> None:
        self.cluster: MemoryCluster = MemoryCluster(RESOURCES, admit=_admit, now=self.now)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=asyncio.get_running_loop().time())

    def autoscaler(self, cluster: Any = None) -> Autoscaler:
        conduct = Conduct(
            settle=1.0,
            rest=30.0,
            max_load=self.max_load,
            without=self.without,
            capacity=self.capacity,
            in_turn=True,
        )
        seen = confined(cluster or self.cluster, self.namespaces) if self.namespaces else cluster or self.cluster
        return Autoscaler(seen, KINDS, self.now, conduct=conduct, namespaces=self.namespaces, measures=self.measures)

    async def submit(self, *objects: Object) -> None:
        for obj in objects:
            kind = kind_of(obj)
            row = kind.resource if kind else {"Node": NODE, "Pod": POD}[obj["kind"]]
            await self.cluster.create(row, obj)

    async def wait(self, seconds: float = 20) -> None:
        await asyncio.sleep(seconds)  # virtual

    async def job(self, name: str) -> Object:
        for kind in KINDS:
            for obj in (await self.cluster.list(kind.resource)).items:
                if obj["metadata"]["name"] == name:
                    return obj
        raise KeyError(name)

    async def change(self, name: str, patch: Object, **how: Any) -> None:
        obj = await self.job(name)
        kind = kind_of(obj)
        assert kind
        await self.cluster.patch(kind.resource, "default", name, patch, **how)

    async def sizes(self) -> dict[str, int]:
        """Return the size of every job."""
        found = {}
        for kind in KINDS:
            for obj in (await self.cluster.list(kind.resource)).items:
                found[obj["metadata"]["name"]] = at(obj, kind.size_path)
        return found

    async def history(self, name: str) -> list[str]:
        """Return the changes of a job's size, as "2-4"."""
        entries = ((await self.job(name)).get("status") or {}).get("scaleHistory") or []
        return [f"{entry['from']}-{entry['to']}" for entry in entries]

    async def told(self, name: str, reason: str) -> list[str]:
        """Return the messages of a job's events for one reason, in order, each as often as it was told."""
        events = sorted((await self.cluster.list(EVENT)).items, key=lambda each: each["firstTimestamp"])
        mine = [each for each in events if each["involvedObject"]["name"] == name and each["reason"] == reason]
        return [each["message"] for each in mine for _ in range(each["count"])]

    async def finish(self, name: str) -> None:
        """Have all pods of a job succeed that run."""
        ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-03-01T12:00:00Z"}}
        for each in (await self.cluster.list(POD, "default", fields="status.phase=Running")).items:
            if each["metadata"]["name"].startswith(f"{name}-") and "deletionTimestamp" not in each["metadata"]:
                await self._say(each, "Succeeded", ended)

    async def _say(self, each: Object, phase: str, state: Mapping[str, Any]) -> None:
        name = each["spec"]["containers"][0]["name"]
        status = {
            "phase": phase,
            "containerStatuses": [{"name": name, "ready": phase == "Running", "restartCount": 0, "state": state}],
            "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
        }
        meta = each["metadata"]
        await self.cluster.patch(POD, meta["namespace"], meta["name"], {"status": status}, subresource="status")

    async def kubelet(self) -> None:
        """Say of bound pods that they run, and remove those that are told to go a little later."""
        pods = Informer(self.cluster, POD)
        async with asyncio.TaskGroup() as tasks:

            def changed(change: Change) -> None:
                obj = change.object
                if change.type == "DELETED" or not obj["spec"].get("nodeName"):
                    return
                if "deletionTimestamp" in obj["metadata"]:
                    tasks.create_task(self._bury(obj))
                elif (obj.get("status") or {}).get("phase", "Pending") == "Pending":
                    tasks.create_task(self._say(obj, "Running", {"running": {}}))

            pods.subscribe(changed)
            await pods.run()

    async def _bury(self, obj: Object) -> None:
        await asyncio.sleep(STOPPING_SECONDS)
        meta = obj["metadata"]
        with suppress(NotFound, Conflict):  # gone already, or another of that name by now
            await self.cluster.delete(POD, meta["namespace"], meta["name"], grace=0, uid=meta["uid"])


@asynccontextmanager
async def world(*objects: Object, scaling: bool = True, **conduct: Any) -> AsyncIterator[World]:
    """Open a world; `scaling` says whether the autoscaler works in it."""
    opened = World(**conduct)
    await opened.submit(*objects)
    loops: list[Callable[[], Any]] = [
        Operator(opened.cluster, KINDS, KUBERNETES, opened.now).run,
        Scheduler(opened.cluster, RESOURCES, is_elastic).run,
        opened.kubelet,
    ]
    if scaling:
        loops.append(opened.autoscaler().run)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop()) for loop in loops]
        yield opened
        for task in running:
            task.cancel()
