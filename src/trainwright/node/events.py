"""Events on pods: what happened, for people. Written in the background, repeated ones counted, never in the way.

An event that cannot be written is dropped: it explains, nothing depends on it.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from trainwright.cluster.base import Cluster
from trainwright.core.errors import ClusterError, NotFound
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import EVENT

log = logging.getLogger(__name__)

_MESSAGE_LENGTH = 1024
_KEPT = 4096
_FLUSH_SECONDS = 2.0


class Events:
    """Writes events about pods, in order."""

    def __init__(self, cluster: Cluster, node: str, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._node = node
        self._now = now
        self._queue: asyncio.Queue[tuple[Object, str, str, str, datetime]] = asyncio.Queue()
        self._seen: dict[tuple[str, str, str], tuple[str, str, int]] = {}

    def emit(self, pod: Object, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Normal") -> None:
        """Say that something happened to a pod."""
        self._queue.put_nowait((pod, reason, message[:_MESSAGE_LENGTH], kind, self._now()))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            pod, reason, message, kind, when = await self._queue.get()
            try:
                await self._write(pod, reason, message, kind, when)
            except (ClusterError, OSError) as error:
                log.debug("an event was not written: %s: %s", reason, error)
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Wait until everything is written, but not for long."""
        try:
            await asyncio.wait_for(self._queue.join(), _FLUSH_SECONDS)
        except TimeoutError:
            log.debug("some events were not written in time")

    async def _write(self, pod: Object, reason: str, message: str, kind: str, when: datetime) -> None:
        meta = pod["metadata"]
        key = (meta.get("uid", ""), reason, message)
        if key in self._seen:
            namespace, name, count = self._seen[key]
            patch = {"count": count + 1, "lastTimestamp": timestamp(when)}
            try:
                await self._cluster.patch(EVENT, namespace, name, patch)
                self._seen[key] = (namespace, name, count + 1)
                return
            except NotFound:
                del self._seen[key]
        event = self._event(pod, reason, message, kind, timestamp(when))
        created = await self._cluster.create(EVENT, event)
        self._seen[key] = (created["metadata"]["namespace"], created["metadata"]["name"], 1)
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]

    def _event(self, pod: Object, reason: str, message: str, kind: str, when: str) -> Object:
        meta = pod["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta.get("uid", ""),
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        }
