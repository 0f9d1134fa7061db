"""The homes the contract suite runs on: in memory, the Kubernetes client over a stub, over our own API, and a real one.

Each test has two namespaces of its own on the real one, so the suite can run beside anything else.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cluster.kubernetes.real import kubeconfig
from tests.cluster.kubernetes.server import Api, serve
from tests.contract.home import WIDGET, ClusterUnderTest
from tests.server.serving import serving

from trainwright.cluster.base import Cluster
from trainwright.cluster.kubernetes import Access, KubernetesCluster, Server, collection
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import AlreadyExists, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, NAMESPACE, Resource
from trainwright.workloads import batch_job, stateful_set
from trainwright.workloads.garbage import GarbageCollector
from trainwright.workloads.pod_owner import PodOwner

__all__ = ["kubeconfig"]

HISTORY = 200
ROWS = (*BUILT_IN, WIDGET)
CONTROLLERS: set[str] = set()
"""Says "absent" once a namespace was left without its account for seconds: nobody waits for a second one."""
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)
DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


@pytest.fixture(params=["memory", "http", "served", pytest.param("kubernetes", marks=pytest.mark.e2e)])
async def under(request: pytest.FixtureRequest) -> AsyncIterator[ClusterUnderTest]:
    homes = {
        "memory": memory,
        "http": http,
        "served": served,
        "kubernetes": lambda: kubernetes(request.getfixturevalue("kubeconfig")),
    }
    async with homes[request.param]() as it:
        yield it


@contextlib.asynccontextmanager
async def memory() -> AsyncIterator[ClusterUnderTest]:
    cluster = MemoryCluster(ROWS, now=lambda: datetime.now(UTC), history=HISTORY)
    async with local(cluster, cluster) as it:
        yield it


@contextlib.asynccontextmanager
async def http() -> AsyncIterator[ClusterUnderTest]:
    """The Kubernetes client; behind HTTP there is the memory cluster. Pages are small, so that there are several."""
    store = MemoryCluster(ROWS, now=lambda: datetime.now(UTC), history=HISTORY)
    async with (
        serve(Api(store, ROWS)) as serving,
        KubernetesCluster(Access(Server(serving.url)), page=2) as cluster,
        local(cluster, store) as it,
    ):
        yield it


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[ClusterUnderTest]:
    """The Kubernetes client; behind HTTP there is the API of `tw serve`."""
    store = MemoryCluster(ROWS, now=lambda: datetime.now(UTC), history=HISTORY)
    async with serving(store) as api, api.client() as cluster, local(cluster, store) as it:
        yield it


@contextlib.asynccontextmanager
async def local(cluster: Cluster, store: MemoryCluster) -> AsyncIterator[ClusterUnderTest]:
    """A cluster in whose store our own controllers run."""

    async def expired(resource: Resource) -> str:
        """Let a version grow old: the store forgets it after so many further changes."""
        since = (await store.list(resource)).version
        obj: Object = {"metadata": {"name": "ages", "namespace": "elsewhere" if resource.namespaced else ""}}
        await store.create(resource, obj)
        for age in range(HISTORY + 1):
            patch = {"metadata": {"annotations": {"age": str(age)}}}
            await store.patch(resource, obj["metadata"]["namespace"], "ages", patch)
        return since

    async def settle() -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    workloads = PodOwner(store, (stateful_set.WORKLOAD, batch_job.WORKLOAD), now=lambda: datetime.now(UTC))
    controllers = asyncio.gather(GarbageCollector(store, ROWS).run(), workloads.run())
    try:
        yield ClusterUnderTest(cluster, "contract-a", "contract-b", expired, settle)
    finally:
        controllers.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await controllers


@contextlib.asynccontextmanager
async def kubernetes(kubeconfig: Path) -> AsyncIterator[ClusterUnderTest]:
    async def expired(resource: Resource) -> str:
        """Return a version from before the server began to keep any."""
        return "1"

    async def settle() -> None:
        await asyncio.sleep(0.5)

    async with KubernetesCluster.from_config(str(kubeconfig)) as cluster:
        await install(cluster)
        name = f"contract-{uuid.uuid4().hex[:12]}"
        mine, other = namespaces = f"{name}-a", f"{name}-b"
        for namespace in namespaces:
            await cluster.create(NAMESPACE, {"metadata": {"name": namespace}})
        collects = all([await has_controllers(cluster, namespace) for namespace in namespaces])
        try:
            yield ClusterUnderTest(cluster, mine, other, expired, settle, collects_garbage=collects)
        finally:
            for namespace in namespaces:
                await cluster.delete(NAMESPACE, "", namespace)


async def install(cluster: KubernetesCluster) -> None:
    """Register the suite's own kind, unless it is there already, and wait until it is served."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": WIDGET.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
        "subresources": {"status": {}},
    }
    definition = {
        "metadata": {"name": f"{WIDGET.plural}.{WIDGET.group}"},
        "spec": {
            "group": WIDGET.group,
            "scope": "Namespaced",
            "names": {"plural": WIDGET.plural, "kind": WIDGET.kind, "singular": WIDGET.kind.lower()},
            "versions": [version],
        },
    }
    with contextlib.suppress(AlreadyExists):
        await cluster.create(DEFINITION, definition)
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(NotFound):
                await cluster.rest.request("GET", collection(WIDGET))
                return
            await asyncio.sleep(0.05)


async def has_controllers(cluster: KubernetesCluster, namespace: str) -> bool:
    """Say whether kube-controller-manager runs: it gives every namespace the account that pods need. Else we do."""
    for _ in range(0 if "absent" in CONTROLLERS else 100):
        with contextlib.suppress(NotFound):
            await cluster.get(SERVICE_ACCOUNT, namespace, "default")
            return True
        await asyncio.sleep(0.05)
    CONTROLLERS.add("absent")
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": namespace}})
    return False
