"""Finding a job among the runs that are kept, and opening what was kept of it, read-only."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainwright.cli import address, ranks, runs
from trainwright.cli.address import Address
from trainwright.cli.runs import Kept
from trainwright.cli.view import JobKey, View
from trainwright.cli.words import listed
from trainwright.cluster.base import Change
from trainwright.cluster.memory import reopen
from trainwright.core.errors import NotFound, did_you_mean
from trainwright.core.objects import Object, at
from trainwright.core.resources import EVENT, POD
from trainwright.kinds import KINDS
from trainwright.operator.home import JOURNAL, RESOURCES

GONE = "gone.jsonl"


@dataclass(frozen=True)
class KeptJob:
    """One job of one kept run: what was last seen of it, and its events."""

    run: Kept
    key: JobKey
    view: View
    events: list[Object]
    address: Address

    @property
    def object(self) -> Object | None:
        """Return the job as it was last seen."""
        return self.view.jobs.get(self.key)

    def pods(self) -> list[Object]:
        """Return the newest pod of every rank, or of the rank that was asked for."""
        pods = self.view.latest(self.key)
        if not self.address.rank:
            return pods
        labels = [ranks.label(pod) for pod in pods]
        rank = self.address.rank
        if rank in labels:
            return [pods[labels.index(rank)]]
        if rank.isdecimal() and int(rank) < len(pods):
            return [pods[int(rank)]]
        known = f" (there are: {', '.join(labels)})" if labels else "; it has no ranks"
        raise NotFound(f"{self.key} has no rank {rank!r}{did_you_mean(rank, labels)}{known}")


def find(text: str, namespace: str | None) -> KeptJob:
    """Return what a user names, from the newest run that has it; NotFound says what there is instead."""
    wanted = address.parse(text, [kind.resource for kind in KINDS])
    known: dict[str, None] = {}
    for run in runs.kept(runs.state()):
        known |= dict.fromkeys(job["name"] for job in run.jobs)
        keys = [
            JobKey(job["namespace"], job["name"], job["kind"]) for job in run.jobs if _is_meant(job, wanted, namespace)
        ]
        if len(keys) > 1:
            choices = listed(f"{key.kind.lower()}/{key.name} -n {key.namespace}" for key in keys)
            raise NotFound(f"{wanted} is the name of several jobs of the last run; write one of {choices}")
        if keys:
            view, events = asyncio.run(_opened(run.path))
            return KeptJob(run, keys[0], view, events, wanted)
    where = f" in namespace {namespace!r}" if namespace else ""
    there = f" (kept: {', '.join(list(known)[:10])})" if known else "; nothing has run yet, try: tw run FILE"
    raise NotFound(f"no run of a job {wanted.job!r} is kept{where}{did_you_mean(wanted.job, known)}{there}")


def _is_meant(job: runs.JobFacts, wanted: Address, namespace: str | None) -> bool:
    return (
        job["name"] == wanted.job
        and (not wanted.kind or job["kind"] == wanted.kind)
        and (namespace is None or job["namespace"] == namespace)
    )


async def _opened(path: Path) -> tuple[View, list[Object]]:
    """Return what the journal holds, and before it what had gone from it."""
    view = View()
    for obj in gone(path / GONE):
        _seen(view, Change("DELETED", obj))
    events: list[Object] = []
    if (path / JOURNAL).exists():
        cluster = reopen(path / JOURNAL, RESOURCES, now=lambda: datetime.now(UTC))
        for resource in (*(kind.resource for kind in KINDS), POD):
            for obj in (await cluster.list(resource)).items:
                _seen(view, Change("ADDED", obj))
        events = (await cluster.list(EVENT)).items
    return view, events


def _seen(view: View, change: Change) -> None:
    if change.object["kind"] == "Pod":
        view.pod_changed(change)
    else:
        view.job_changed(change)


def gone(path: Path) -> Iterable[Object]:
    """Yield the objects that had gone from the store; a last line that was cut is passed over."""
    import msgspec

    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError:
                return


def about(event: Object, job: KeptJob) -> bool:
    """Say whether an event is about a job or one of its pods."""
    place = event.get("involvedObject") or {}
    if place.get("namespace", job.key.namespace) != job.key.namespace:
        return False
    if place.get("kind") == job.key.kind:
        return bool(place.get("name") == job.key.name)
    pods = {at(pod, ("metadata", "name")) for pod in job.view.every_pod(job.key)}
    return place.get("name") in pods or str(place.get("name", "")).startswith(f"{job.key.name}-")
