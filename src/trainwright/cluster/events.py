"""Emit to Event objects. The same thing said again of an object raises the count of the event that said it first."""

import hashlib
import logging
from collections.abc import Callable
from datetime import datetime

from trainwright.cluster.base import Cluster
from trainwright.core.actions import Emit
from trainwright.core.errors import AlreadyExists, ClusterError, Ending
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import EVENT

COMPONENT = "trainwright"
_MESSAGE_LENGTH = 1024
"""Longer messages are refused by API servers."""

log = logging.getLogger(__name__)


class Recorder:
    """Writes events. An event that cannot be written is logged and holds nothing up."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now

    async def emit(self, about: Object, emit: Emit) -> None:
        """Tell users what happened to an object."""
        event = _event(about, emit, timestamp(self._now()))
        try:
            await self._write(event)
        except Ending:  # nobody will be there to read it
            log.debug("event %s was not written: its namespace is going", event["metadata"]["name"])
        except ClusterError as error:
            log.warning("event %s was not written: %s: %s", event["metadata"]["name"], emit.reason, error)

    async def _write(self, event: Object) -> None:
        namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
        try:
            await self._cluster.create(EVENT, event)
        except AlreadyExists:
            there = await self._cluster.get(EVENT, namespace, name)
            again = {"count": int(there.get("count", 1)) + 1, "lastTimestamp": event["lastTimestamp"]}
            await self._cluster.patch(EVENT, namespace, name, again)


def _event(about: Object, emit: Emit, time: str) -> Object:
    meta = about["metadata"]
    message = emit.message if len(emit.message) <= _MESSAGE_LENGTH else emit.message[: _MESSAGE_LENGTH - 1] + "…"
    said = "\0".join((meta.get("uid", ""), emit.type, emit.reason, message))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{meta['name']}.{digest}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        },
        "type": emit.type,
        "reason": emit.reason,
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
