"""The node object: made when a node starts, kept right while it lives, and marked when it stops.

Labels and taints that others have put on it stay: a node that was cordoned is still cordoned when it comes back.
"""

import asyncio
import logging
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainwright import __version__
from trainwright.cluster.base import Cluster
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import AlreadyExists, ClusterError, NotFound
from trainwright.core.objects import Object, at, moment, timestamp
from trainwright.core.resources import NODE

log = logging.getLogger(__name__)

WEBSOCKETS = "ExtendWebSocketsToKubelet"
"""The feature by which a node says that it speaks WebSocket itself, and needs no SPDY translated for it."""
_RETRY = Backoff(first=0.2, longest=5.0)
_STOP_SECONDS = 5.0
_SEEN_EVERY = timedelta(minutes=5)
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True)
class NodeFacts:
    """What the node object says."""

    name: str
    capacity: Mapping[str, str]
    address: str = "127.0.0.1"
    port: int = 0
    """Where the node serves logs and exec; 0: it does not."""
    labels: Mapping[str, str] = field(default_factory=dict)


class Registration:
    """Keeps one node object."""

    def __init__(self, cluster: Cluster, facts: NodeFacts, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._facts = facts
        self._now = now
        self._ready = True

    async def register(self) -> None:
        """Create the node, or take over the one an earlier run left; tried until it works."""
        failures = 0
        while True:
            try:
                await self._create_or_take_over()
                return
            except (ClusterError, OSError) as error:
                failures += 1
                log.warning("the node cannot be registered and is tried again: %s", error)
            await asyncio.sleep(_RETRY.seconds(failures))

    async def keep(self) -> None:
        """Look at the node, and write what is not as it should be: somebody may have given us up, or deleted it."""
        try:
            node = await self._cluster.get(NODE, "", self._facts.name)
        except NotFound:
            await self._create_or_take_over()
            return
        ready = _condition(node, "Ready")
        seen = moment(ready.get("lastHeartbeatTime"))
        if ready.get("status") != str(self._ready) or not seen or self._now() - seen > _SEEN_EVERY:
            await self._write_status(node)

    async def stopped(self) -> None:
        """Say that the node takes no pods any more."""
        self._ready = False
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._write_status(await self._cluster.get(NODE, "", self._facts.name))
        except (ClusterError, OSError) as error:  # TimeoutError is an OSError
            log.debug("the node could not be reported as stopped: %s", error)

    async def _create_or_take_over(self) -> None:
        name, labels = self._facts.name, _labels(self._facts)
        node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}
        try:
            node = await self._cluster.create(NODE, node)
        except AlreadyExists:
            node = await self._cluster.patch(NODE, "", name, {"metadata": {"labels": labels}})
        await self._write_status(node)

    async def _write_status(self, node: Object) -> None:
        status = node_status(self._facts, node, ready=self._ready, now=timestamp(self._now()))
        await self._cluster.patch(NODE, "", self._facts.name, {"status": status}, subresource="status")


def node_status(facts: NodeFacts, node: Object, *, ready: bool, now: str) -> Object:
    """Return what the status of a node should be, given the node as it is."""
    status: Object = {
        "capacity": dict(facts.capacity),
        "allocatable": dict(facts.capacity),
        "conditions": list(_conditions(node, ready=ready, now=now)),
        # No host name: an API server would try that first, and nothing says that it can be resolved there.
        "addresses": [{"type": "InternalIP", "address": facts.address}],
        "nodeInfo": _node_info(),
    }
    if facts.port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": facts.port}}
        status["declaredFeatures"] = [WEBSOCKETS]
    return status


def _conditions(node: Object, *, ready: bool, now: str) -> Iterable[Object]:
    if ready:
        yield _dated(node, now, "Ready", "True", "KubeletReady", "pods run as processes")
    else:
        yield _dated(node, now, "Ready", "False", "KubeletStopped", "the process kubelet has stopped")
    for name in _PRESSURES:
        yield _dated(node, now, name, "False", "NotMeasured", "this node does not measure it")
    ours = ("Ready", *_PRESSURES)
    yield from (each for each in at(node, ("status", "conditions")) or () if each["type"] not in ours)


def _dated(node: Object, now: str, name: str, status: str, reason: str, message: str) -> Object:
    old = _condition(node, name)
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since or now,
    }


def _condition(node: Object, name: str) -> Object:
    return next((each for each in at(node, ("status", "conditions")) or () if each["type"] == name), {})


def _labels(facts: NodeFacts) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _architecture(),
        **facts.labels,
    }


def _architecture() -> str:
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _node_info() -> Object:
    return {
        "architecture": _architecture(),
        "operatingSystem": platform.system().lower(),
        "osImage": platform.platform(terse=True),
        "kernelVersion": platform.release(),
        "kubeletVersion": f"trainwright-{__version__}",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "process://",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }
