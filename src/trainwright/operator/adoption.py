"""What another operator has begun is gone on with: the pods of its jobs get our label, and nothing is restarted.

The originals name pods as we do, and the same job owns them; only the label is missing by which our caches select. A
job that has a status without a record of ours was looked after by somebody else. What runs for it is labelled before
the first look at any job, for a job without pods would get new ones. What stands around the pods (Services and the
like) is labelled when we would make it and find it there (`round.py`); what we would not make is left as it is, and
goes with its job.
"""

from collections.abc import Iterable, Iterator, Sequence

from trainwright.cluster.base import Cluster
from trainwright.core.errors import NotFound
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, controller_uid, key
from trainwright.core.resources import BATCH_JOB, POD, STATEFUL_SET, Resource
from trainwright.core.whole import whole
from trainwright.operator.log import logger
from trainwright.reconcile.kind import Kind

RUNS = (STATEFUL_SET, BATCH_JOB, POD)
"""What runs for a job; who makes pods stands before the pods."""

log = logger(__name__)


async def adopt(cluster: Cluster, kinds: Iterable[Kind], namespaces: Sequence[str] = ()) -> None:
    """Label what runs for jobs that another operator has looked after; none of it is touched otherwise."""
    for kind in kinds:
        jobs = [job for job in await _all(cluster, kind.resource, namespaces) if _is_inherited(kind, job)]
        if jobs:
            found = await _adopt(cluster, kind, jobs, namespaces)
            log.info(
                "jobs of another operator are taken over",
                kind=kind.name,
                jobs=[key(job) for job in jobs],
                objects=found,
            )


def label(obj: Object, job: str) -> Object:
    """Return the patch that makes an object one that we look at; nothing if it is one already."""
    labels = obj["metadata"].get("labels") or {}
    return {} if labels.get(JOB_LABEL) == job else {"metadata": {"labels": {JOB_LABEL: job}}}


def _is_inherited(kind: Kind, job: Object) -> bool:
    status = whole(job).get("status") or {}
    going = "deletionTimestamp" in job["metadata"]
    return bool(status) and "record" not in status and not going and not kind.face.standing(status).finished


async def _adopt(cluster: Cluster, kind: Kind, jobs: Iterable[Object], namespaces: Sequence[str]) -> int:
    """Label what the jobs own, and what that owns in turn; return how many objects were labelled."""
    owners = {job["metadata"]["uid"]: str(job["metadata"]["name"]) for job in jobs}
    labelled = 0
    for row in (row for row in RUNS if row in kind.owns):
        for obj, name in _owned(await _all(cluster, row, namespaces), owners):
            owners[obj["metadata"]["uid"]] = name
            if patch := label(obj, name):
                labelled += await _patch(cluster, row, obj, patch)
    return labelled


def _owned(objects: Iterable[Object], owners: dict[str, str]) -> Iterator[tuple[Object, str]]:
    """Yield the objects that one of these controls, each with the name of its job."""
    for obj in objects:
        name = owners.get(controller_uid(obj))
        if name is not None:
            yield obj, name


async def _patch(cluster: Cluster, row: Resource, obj: Object, patch: Object) -> bool:
    try:
        await cluster.patch(row, obj["metadata"]["namespace"], obj["metadata"]["name"], patch)
    except NotFound:
        return False
    return True


async def _all(cluster: Cluster, row: Resource, namespaces: Sequence[str]) -> list[Object]:
    """Return all objects of a kind, in some namespaces or in all; none of a kind that is not there."""
    try:
        listings = [await cluster.list(row, namespace) for namespace in namespaces or ("",)]
    except NotFound:
        return []
    return [obj for listing in listings for obj in listing.items]
