"""A job of any home with the pods it has, and those it had as far as that is known: what the views of one job need."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainwright.cli import address, homes, ranks
from trainwright.cli.address import Address
from trainwright.cli.homes import Home
from trainwright.cli.kept import GONE, gone
from trainwright.cli.view import JobKey, View, key_of
from trainwright.cluster.base import Change
from trainwright.core.errors import BadRequest, NotFound, did_you_mean
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object
from trainwright.core.resources import POD
from trainwright.kinds import Kind, kind_of


@dataclass(frozen=True)
class Seen:
    """One job as a home shows it."""

    home: Home
    kind: Kind
    job: Object
    view: View
    address: Address

    @property
    def key(self) -> JobKey:
        """Return what names the job."""
        return key_of(self.job)

    def pods(self) -> list[Object]:
        """Return the newest pod of every rank, or of the rank that was asked for."""
        pods = self.view.latest(self.key)
        return [pod_of(self.address.rank, pods, self.key.name)] if self.address.rank else pods


async def look(home: Home, text: str) -> Seen:
    """Return the job a user names, with its pods; NotFound says what there is instead."""
    kind, job = await homes.find(home, text)
    view = View()
    view.job_changed(Change("ADDED", job))
    present = await pods_of(home, kind, job)
    for pod in past_pods(home, kind, job, present):
        view.pod_changed(Change("DELETED", pod))
    for pod in present:
        view.pod_changed(Change("ADDED", pod))
    return Seen(home, kind, job, view, address.parse(text))


async def pods_of(home: Home, kind: Kind, job: Object) -> list[Object]:
    """Return the pods a job has."""
    meta = job["metadata"]
    listed = await home.cluster.list(POD, meta["namespace"], labels=f"{JOB_LABEL}={meta['name']}")
    return [pod for pod in listed.items if belongs(pod, kind)]


def past_pods(home: Home, kind: Kind, job: Object, present: Iterable[Object]) -> list[Object]:
    """Return the pods a job had that have gone, as they were last seen, where a run on this machine noted that."""
    known = {pod["metadata"]["uid"] for pod in present}
    return [pod for pod in _left(home.folder) if _is_past(pod, kind, job) and pod["metadata"]["uid"] not in known]


def belongs(pod: Object, kind: Kind) -> bool:
    """Say whether a pod with the job's label is that of a job of this kind; names may be shared by several kinds."""
    owners = [each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")]
    return not any(owner is not None and owner is not kind for owner in map(kind_of, owners))


def pod_of(rank: str, pods: Iterable[Object], job: str) -> Object:
    """Return the pod of a rank, named by role or counted through all ranks; NotFound says which there are."""
    found = {ranks.label(pod): pod for pod in pods}
    if rank in found:
        return found[rank]
    if rank.isdecimal() and int(rank) < len(found):
        return list(found.values())[int(rank)]
    known = f" (there are: {', '.join(found)})" if found else "; it has no ranks"
    raise NotFound(f"{job} has no rank {rank!r}{did_you_mean(rank, found)}{known}")


def numbers(text: str) -> frozenset[int]:
    """Return the ranks of "0-3" or "0,2,5-7"; BadRequest says what would be right."""
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadRequest(f"--rank: {text!r} names no ranks; write for example 3, 0-3 or 0,2,5-7")
        chosen |= set(range(int(first), int(last or first) + 1))
    return frozenset(chosen)


def _left(folder: Path | None) -> Iterable[Object]:
    return gone(folder / GONE) if folder else ()


def _is_past(obj: Object, kind: Kind, job: Object) -> bool:
    meta = obj["metadata"]
    same = (meta.get("namespace"), (meta.get("labels") or {}).get(JOB_LABEL))
    return (
        obj["kind"] == POD.kind
        and same == (job["metadata"]["namespace"], job["metadata"]["name"])
        and belongs(obj, kind)
    )
