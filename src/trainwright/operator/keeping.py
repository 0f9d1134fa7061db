"""Writes how jobs are to where their definition keeps it: the status, or an annotation beside it.

A definition that somebody else has brought drops what it does not know from a status, and with it what we must
remember. That is noticed when the first status of a job comes back without it: nothing is counted in it yet, and what
was seen is there to be seen again. From then on the whole status is written into an annotation (`core/whole.py`) first,
and what the definition keeps of it into the status afterwards. The first of the two writes is the one that counts: who
is killed between them reads the annotation, and writes the status then. Where a definition keeps everything, the
annotation goes once the status has it.
"""

from trainwright.cluster.base import Cluster
from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object, merge_patch
from trainwright.core.whole import Path, annotation, dropped, is_apart, whole, without
from trainwright.operator.log import logger
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Kind

OURS = frozenset(
    {("record",), ("active",), ("restarts",), ("elasticReplicas",), ("elasticSelector",), ("scaleHistory",)}
)
"""What no definition but ours has in a status: it is no reason to write one that would drop it."""

log = logger(__name__)


class Keeping:
    """Knows which kinds lose what of their statuses, and which keep them whole, as far as it was seen."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lost: dict[str, frozenset[Path]] = {}
        self._whole: set[str] = set()

    def is_kept(self, job: Object, status: Object) -> bool:
        """Say whether a job, as it is stored, says all of a status, and in the right place."""
        stored = job.get("status") or {}
        if not is_apart(job):
            return not merge_patch(stored, status)
        said = not merge_patch(whole(job)["status"], status) and not _difference(stored, status, OURS)
        return said and any(dropped(status, stored))

    async def keep(self, kind: Kind, job: Object, status: Object) -> Object:
        """Write a status over the job that was read, and return the job as stored; Conflict if it is another by now."""
        if self._may_risk_it(kind, job, status):
            job = await self._write(kind, job, {"status": merge_patch(job.get("status") or {}, status)}, status=True)
            if not self._notice(kind, status, job):
                return job
        if not is_apart(job) or merge_patch(whole(job)["status"], status):
            job = await self._write(kind, job, _noted(annotation(job, status)))
        if _difference(job.get("status") or {}, status, OURS):
            patch = _difference(job.get("status") or {}, status, self._lost.get(kind.name, frozenset()))
            job = await self._write(kind, job, {"status": patch}, status=True)
            self._notice(kind, status, job)
        if not any(dropped(status, job.get("status") or {})):
            job = await self._write(kind, job, _noted(None))
        return job

    def _may_risk_it(self, kind: Kind, job: Object, status: Object) -> bool:
        """Say whether a status may be written as it is: its definition keeps it, or there is nothing to be lost yet.

        A status without a record was written by another operator, or came back to us without it.
        """
        if is_apart(job) or kind.name in self._lost:
            return False
        known = job.get("status") or {}
        return kind.name in self._whole or "record" in known or (not known and records.read(status).is_blank)

    def _notice(self, kind: Kind, status: Object, job: Object) -> bool:
        """Remember what was dropped of a status; return whether anything was, and say so the first time."""
        lost = frozenset(dropped(status, job.get("status") or {}))
        if lost and kind.name not in self._lost:
            log.warning(
                "the definition of a kind is not ours and drops what must be remembered: an annotation of each job "
                "has it instead; tw install --adopt-crds replaces the definition",
                kind=kind.name,
                annotation=RECORD_ANNOTATION,
                dropped=", ".join(sorted(".".join(path) for path in lost)),
            )
        if not lost:
            self._whole.add(kind.name)
        else:
            self._whole.discard(kind.name)
            self._lost[kind.name] = self._lost.get(kind.name, frozenset()) | lost
        return bool(lost)

    async def _write(self, kind: Kind, job: Object, change: Object, *, status: bool = False) -> Object:
        meta = job["metadata"]
        over = {**change.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
        return await self._cluster.patch(
            kind.resource,
            meta["namespace"],
            meta["name"],
            {**change, "metadata": over},
            subresource="status" if status else "",
        )


def _difference(stored: Object, status: Object, left_out: frozenset[Path]) -> Object:
    return merge_patch(without(stored, left_out), without(status, left_out))


def _noted(text: str | None) -> Object:
    return {"metadata": {"annotations": {RECORD_ANNOTATION: text}}}
