"""A memory cluster with a process kubelet on it, and words to make pods and wait for what becomes of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, EVENT, POD
from trainwright.node.base import Isolation
from trainwright.node.kubelet import Kubelet, KubeletOptions
from trainwright.node.net import NetIsolation
from trainwright.node.ports import PortsIsolation

NODE = "here"
PATIENCE = 30.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}


def isolation(name: str) -> Isolation:
    return NetIsolation() if name == "net" else PortsIsolation()


def pod(
    name: str = "p",
    script: str = "true",
    *,
    namespace: str = "ns",
    container: Object | None = None,
    containers: list[Object] | None = None,
    meta: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod on our node that runs a shell script once, unless told otherwise."""
    main = {"name": "main", "image": "any", "command": ["sh", "-c", script], **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **(meta or {})},
        "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": containers or [main], **spec},
    }


def config_map(name: str, namespace: str = "ns", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


class World:
    """What a test sees of cluster and node."""

    def __init__(self, cluster: MemoryCluster, kubelet: Kubelet, root: Path, isolation: str) -> None:
        self.cluster = cluster
        self.kubelet = kubelet
        self.root = root
        self.isolation = isolation

    async def run(self, obj: Object) -> Object:
        """Create a pod and return it once it has ended."""
        await self.cluster.create(POD, obj)
        return await self.phase(obj["metadata"]["name"], "Succeeded", "Failed", namespace=obj["metadata"]["namespace"])

    async def phase(self, name: str, *phases: str, namespace: str = "ns") -> Object:
        return await self.until(name, lambda seen: seen["status"]["phase"] in phases, namespace)

    async def until(self, name: str, good: Callable[[Object], bool], namespace: str = "ns") -> Object:
        """Return a pod as soon as it is as wanted."""
        seen: Object = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = await self.cluster.get(POD, namespace, name)
                    if good(seen):
                        return seen
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"not so within {PATIENCE} s: {seen.get('status')}") from None

    async def gone(self, name: str, namespace: str = "ns") -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    await self.cluster.get(POD, namespace, name)
                    await asyncio.sleep(0.005)
        except NotFound:
            return

    async def log(self, name: str, container: str = "", *, follow: bool = False, restart: int | None = None) -> str:
        chunks = self.kubelet.logs("ns", name, container=container, follow=follow, restart=restart)
        return b"".join([chunk async for chunk in chunks]).decode()

    async def says(self, name: str, text: str) -> None:
        """Wait until a pod has printed something."""
        async with asyncio.timeout(PATIENCE):
            while True:
                files = (self.root / "logs" / "ns").glob(f"{name}_*/*/*.log")
                if any(text in file.read_text() for file in files):
                    return
                await asyncio.sleep(0.005)

    async def told(self, name: str, reason: str) -> None:
        """Wait for an event on a pod."""
        async with asyncio.timeout(PATIENCE):
            while reason not in await self.reasons(name):  # noqa: ASYNC110 - the API is asked, nobody tells
                await asyncio.sleep(0.005)

    async def events(self, name: str) -> list[Object]:
        """The events on a pod, everything said so far among them."""
        await self.kubelet.events.flush()
        listed = await self.cluster.list(EVENT, "ns")
        return [event for event in listed.items if event["involvedObject"]["name"] == name]

    async def reasons(self, name: str) -> list[str]:
        return [event["reason"] for event in await self.events(name)]


def state(obj: Object, container: str = "main", group: str = "containerStatuses") -> Object:
    """The status of one container; an empty one before there is any."""
    found: Object = {"state": {}, "lastState": {}, "restartCount": 0}
    return next((each for each in obj["status"].get(group, ()) if each["name"] == container), found)


def ended(obj: Object, container: str = "main", group: str = "containerStatuses") -> Object:
    found: Object = state(obj, container, group)["state"]["terminated"]
    return found


def conditions(obj: Object) -> dict[str, str]:
    return {"Ready": "", **{each["type"]: each["status"] for each in obj["status"].get("conditions", ())}}


ASLEEP = f"300.{os.getpid()}"
"""A time to sleep that no other test process asks for: finds what should not be running any more."""


def sleepers() -> int:
    """How many processes of ours sleep that time."""
    count = 0
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):
                count += (path / "cmdline").read_bytes() == f"sleep\0{ASLEEP}\0".encode()
    return count


def new_cluster() -> MemoryCluster:
    return MemoryCluster(BUILT_IN, now=lambda: datetime.now(UTC))


@asynccontextmanager
async def world(root: Path, name: str, cluster: MemoryCluster | None = None, **options: Any) -> AsyncIterator[World]:
    """A node on a memory cluster; leaving it ends everything."""
    cluster = cluster or new_cluster()
    given = {
        "node_name": NODE,
        "root": root,
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "environment": ENVIRONMENT,
        "cwd": root,
        "backoff": 0.05,
        **options,
    }
    async with isolation(name) as place, Kubelet(cluster, place, KubeletOptions(**given)) as kubelet:
        cluster.serve_pods(kubelet)
        yield World(cluster, kubelet, root, name)
