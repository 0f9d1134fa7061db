"""Signs of life: a Lease in `kube-node-lease`, renewed all the time, and the node object looked after beside it.

The node controller gives a node up whose Lease was not renewed for its grace period (40 s by default), and has its pods
deleted some time later.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from trainwright.cluster.base import Cluster
from trainwright.core.errors import AlreadyExists, ClusterError, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import LEASE, NODE
from trainwright.node.registration import Registration

log = logging.getLogger(__name__)

NAMESPACE = "kube-node-lease"
_DURATION = 4
"""A lease lasts so many renewals."""
_LEAST_TIMEOUT = 5.0


class Heartbeat:
    """Says again and again that a node lives."""

    def __init__(
        self,
        cluster: Cluster,
        registration: Registration,
        node: str,
        *,
        seconds: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._registration = registration
        self._node = node
        self._seconds = seconds
        self._now = now

    async def run(self) -> None:
        """Go on until cancelled; what fails is tried again the next time."""
        while True:
            try:
                async with asyncio.timeout(max(self._seconds, _LEAST_TIMEOUT)):
                    await self._registration.keep()  # first: a node that was deleted took its lease with it
                    await self.renew()
            except (ClusterError, OSError) as error:  # TimeoutError is an OSError
                log.warning("the node's lease was not renewed: %s", error or "no answer in time")
            await asyncio.sleep(self._seconds)

    async def renew(self) -> None:
        """Renew the lease, or make it."""
        spec = {
            "holderIdentity": self._node,
            "leaseDurationSeconds": max(1, round(self._seconds * _DURATION)),
            "renewTime": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._cluster.patch(LEASE, NAMESPACE, self._node, {"spec": spec})
        except NotFound:
            await self._create(spec)

    async def _create(self, spec: Object) -> None:
        node = await self._cluster.get(NODE, "", self._node)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node["metadata"]["uid"]}
        meta = {"name": self._node, "namespace": NAMESPACE, "ownerReferences": [owner]}
        try:
            await self._cluster.create(
                LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            )
        except AlreadyExists:
            log.debug("somebody else has made the node's lease; it is renewed the next time")
