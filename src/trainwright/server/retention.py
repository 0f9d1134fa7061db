"""What a server forgets, so that it never grows without end: finished jobs, what they had, events, logs.

Of the newest finished jobs everything stays; of the next ones the job itself; the others are deleted, oldest first.
Events go after an hour, as on a cluster, and earlier when there are very many. Logs go with their pods, or a day
after pods that somebody else deleted.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from trainwright.api.faces import FACES
from trainwright.cluster.base import Cluster
from trainwright.core.errors import ClusterError
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, at, moment
from trainwright.core.resources import EVENT, POD, SERVICE, Resource
from trainwright.node.logs import pod_folder

log = logging.getLogger(__name__)

_EVENT_AGE = timedelta(hours=1)
_LOGS_OF_GONE = 86400.0
_TURN = 50
_LOOKS = 500
"""So many deletions, and so many looks, in a row before others have their turn."""


@dataclass(frozen=True)
class Keep:
    """How much stays."""

    finished: int = 10_000
    """So many finished jobs."""
    whole: int = 1_000
    """Of so many of these also pods, Services and logs."""
    events: int = 10_000


class Retention:
    """Forgets what is older than what stays, among the objects of one cluster and the logs in one folder."""

    def __init__(self, cluster: Cluster, root: Path, keep: Keep, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._root = root
        self._keep = keep
        self._now = now

    async def run(self, every: float = 30.0) -> None:
        """Forget again and again, until cancelled; what fails is tried again the next time."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.forget()
            except (ClusterError, OSError) as error:
                log.warning("what is too old was not forgotten: %s", error)

    async def forget(self) -> None:
        """Forget what is too old now."""
        finished = await self._finished()
        await self._strip([job for _, job in finished[self._keep.whole :]])
        for resource, job in finished[self._keep.finished :]:
            await self._delete(resource, [job])
        await self._forget_events()
        await self._forget_logs()

    async def _finished(self) -> list[tuple[Resource, Object]]:
        """Return the jobs that have finished, the newest first."""
        found = []
        for face in FACES:
            for index, job in enumerate((await self._cluster.list(face.resource)).items):
                if face.standing(job.get("status") or {}).finished:
                    found.append((face.resource, job))
                if index % _LOOKS == 0:
                    await asyncio.sleep(0)
        return sorted(found, key=lambda each: str(each[1]["metadata"].get("creationTimestamp")), reverse=True)

    async def _strip(self, jobs: Iterable[Object]) -> None:
        """Take from finished jobs what they had, but not the jobs themselves."""
        theirs = {(job["metadata"]["namespace"], job["metadata"]["name"]) for job in jobs}
        if not theirs:
            return
        for resource in (POD, SERVICE):
            children = (await self._cluster.list(resource, labels=JOB_LABEL)).items
            old = [each for each in children if _job(each) in theirs and _is_over(resource, each)]
            await self._delete(resource, old)
            for each in old if resource is POD else ():
                meta = each["metadata"]
                folder = pod_folder(self._root, meta["namespace"], meta["name"], meta["uid"])
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _forget_events(self) -> None:
        events = (await self._cluster.list(EVENT)).items
        events.sort(key=_happened)
        extra, oldest = len(events) - self._keep.events, self._now() - _EVENT_AGE
        old = [each for index, each in enumerate(events) if index < extra or _is_before(each, oldest)]
        await self._delete(EVENT, old)

    async def _forget_logs(self) -> None:
        """Remove logs of pods that are long gone."""
        known = {pod["metadata"]["uid"] for pod in (await self._cluster.list(POD)).items}
        await asyncio.to_thread(_remove_logs, self._root / "logs", known, time.time() - _LOGS_OF_GONE)

    async def _delete(self, resource: Resource, objects: Iterable[Object]) -> None:
        for index, obj in enumerate(objects):
            meta = obj["metadata"]
            try:
                await self._cluster.delete(resource, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
            except ClusterError as error:
                log.debug("not forgotten: %s %s: %s", resource, meta["name"], error)
            if index % _TURN == 0:
                await asyncio.sleep(0)


def _job(child: Object) -> tuple[str, str]:
    meta = child["metadata"]
    return meta.get("namespace", ""), str((meta.get("labels") or {}).get(JOB_LABEL))


def _is_over(resource: Resource, obj: Object) -> bool:
    return resource is not POD or at(obj, ("status", "phase")) in ("Succeeded", "Failed")


def _happened(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))


def _is_before(event: Object, when: datetime) -> bool:
    happened = moment(_happened(event))
    return happened is not None and happened < when


def _remove_logs(root: Path, known: set[str], before: float) -> None:
    for folder in root.glob("*/*_*"):
        if folder.name.rpartition("_")[2] not in known:
            with suppress(OSError):
                if folder.stat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)
