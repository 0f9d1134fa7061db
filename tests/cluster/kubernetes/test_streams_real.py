"""Exec and logs through a real API server, to a node that is this test.

It shows what no stub of ours can: that the API server passes our WebSocket on, and our refusals are its own.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.kubernetes.server import Request, serve
from tests.cluster.kubernetes.serving import server_tls, until
from tests.cluster.kubernetes.test_streams import Peer, exited, output, upgraded

from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import BadRequest, ClusterError, NotFound
from trainwright.core.resources import NAMESPACE, NODE, POD, Resource

pytestmark = pytest.mark.e2e

SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)


async def shell(peer: Peer) -> None:
    """Say on standard output what came in, and exit with code 3 at its end."""
    while True:
        _, data = await peer.receive()
        if data == b"\xff\x00":
            await peer.send(2, b"bye")
            await peer.status(exited(3))
            return
        await peer.send(1, data[1:].upper())


async def kubelet(request: Request) -> None:
    if request.path.startswith("/containerLogs/"):
        await request.answer(200, f"{request.query.get('tailLines', 'all')} lines\n".encode())
        return
    await upgraded(shell)(request)


@pytest.fixture
async def home(kubeconfig: Path) -> AsyncIterator[tuple[KubernetesCluster, str]]:
    """Return a cluster and a namespace where pod "p" is on a node that this test answers for."""
    name = f"streams-{uuid.uuid4().hex[:10]}"
    async with serve(kubelet, server_tls()) as serving, KubernetesCluster.from_config(str(kubeconfig)) as cluster:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": serving.port}},
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
        }
        await cluster.create(NAMESPACE, {"metadata": {"name": name}})
        try:
            await cluster.create(NODE, {"metadata": {"name": name}, "status": status})
            with contextlib.suppress(ClusterError):  # kube-controller-manager may be first
                await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": name}})
            spec = {"nodeName": name, "containers": [{"name": "main", "image": "none"}]}
            await cluster.create(POD, {"metadata": {"name": "p", "namespace": name}, "spec": spec})
            yield cluster, name
        finally:
            with contextlib.suppress(NotFound):
                await cluster.delete(POD, name, "p", grace=0)
            with contextlib.suppress(NotFound):
                await cluster.delete(NODE, "", name)
            await cluster.delete(NAMESPACE, "", name)


async def test_a_command_its_input_and_its_exit_code(home):
    cluster, namespace = home
    session = await cluster.exec(namespace, "p", ["sh"], container="main", stdin=True)
    await session.write(b"hello")
    await session.close_input()
    assert await output(session) == {"stdout": b"HELLO", "stderr": b"bye"}
    assert await session.wait() == 3
    await until(lambda: cluster.rest.connections()[0] <= 1)


async def test_logs(home):
    cluster, namespace = home
    assert [chunk async for chunk in cluster.logs(namespace, "p")] == [b"all lines\n"]
    assert [chunk async for chunk in cluster.logs(namespace, "p", tail=5)] == [b"5 lines\n"]


async def test_refusals_are_the_servers_own(home):
    cluster, namespace = home
    with pytest.raises(BadRequest, match="container absent is not valid for pod p"):
        await cluster.exec(namespace, "p", ["true"], container="absent")
    with pytest.raises(NotFound, match='pods "absent" not found'):
        await cluster.exec(namespace, "absent", ["true"])
    with pytest.raises(NotFound):
        await anext(cluster.logs(namespace, "absent"))
