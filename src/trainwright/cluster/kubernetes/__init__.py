"""The API server as a `Cluster`: a client of our own, on asyncio, `ssl` and msgspec.

    async with KubernetesCluster.from_config() as cluster:
        pods = await cluster.list(POD, "default", labels="app=web")
        await cluster.rest.request("GET", "/apis")

From the wire up: `transport` (HTTP/1.1 and a pool), `connect` (proxy, TLS), `kubeconfig` and `auth` (who we are),
`retry` and `rest` (requests), `decode`, `watch`, `websocket` and `streams` (exec), `client` (the protocol).
Errors are those of `core.errors`, and the few of `errors` for what only a network can do.
"""

from trainwright.cluster.kubernetes.client import FIELD_MANAGER, KubernetesCluster, collection, path_of
from trainwright.cluster.kubernetes.errors import OutcomeUnknown, Refused, Unreachable
from trainwright.cluster.kubernetes.kubeconfig import Access, Material, Server, User, load
from trainwright.cluster.kubernetes.rest import APPLY_PATCH, JSON, MERGE_PATCH, Rest
from trainwright.cluster.kubernetes.retry import Patience
from trainwright.cluster.kubernetes.streams import PodSession

__all__ = [
    "APPLY_PATCH",
    "FIELD_MANAGER",
    "JSON",
    "MERGE_PATCH",
    "Access",
    "KubernetesCluster",
    "Material",
    "OutcomeUnknown",
    "Patience",
    "PodSession",
    "Refused",
    "Rest",
    "Server",
    "Unreachable",
    "User",
    "collection",
    "load",
    "path_of",
]
