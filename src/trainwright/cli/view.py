"""What was last seen of the jobs of a run and of their pods, also of those that are gone.

Fed by informers while a job runs, and from a journal afterwards; everything the commands say about ranks comes from
here. What disappears from the store (a cleaned-up pod, a cancelled job) is handed to `keep` first.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from trainwright.cli import ranks
from trainwright.cli.ranks import Rank
from trainwright.cluster.base import Change
from trainwright.core.objects import Object, at


@dataclass(frozen=True, order=True)
class JobKey:
    """Names one job of a run."""

    namespace: str
    name: str
    kind: str

    def __str__(self) -> str:
        return self.name


def key_of(job: Object) -> JobKey:
    """Return what names a job."""
    return JobKey(job["metadata"].get("namespace", ""), job["metadata"]["name"], job["kind"])


class View:
    """The jobs of one run and their pods."""

    def __init__(self, keep: Callable[[Object], None] | None = None) -> None:
        self.jobs: dict[JobKey, Object] = {}
        self.pods: dict[str, Object] = {}
        """Every pod there ever was, by uid, in order of appearance."""
        self.gone: set[str] = set()
        self._made: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The uids of the pods that have had a name, one after the other."""
        self._keep = keep

    def job_changed(self, change: Change) -> None:
        """Take note of a change to a job; a deleted one stays as it was last seen."""
        self.jobs[key_of(change.object)] = change.object
        if change.type == "DELETED":
            self.gone.add(change.object["metadata"]["uid"])
            self._kept(change.object)

    def pod_changed(self, change: Change) -> None:
        """Take note of a change to a pod."""
        meta = change.object["metadata"]
        uid = meta["uid"]
        if uid not in self.pods:
            self._made[meta.get("namespace", ""), meta["name"]].append(uid)
        self.pods[uid] = change.object
        if change.type == "DELETED":
            self.gone.add(uid)
            self._kept(change.object)

    def _kept(self, gone: Object) -> None:
        if self._keep:
            self._keep(gone)

    def every_pod(self, job: JobKey) -> list[Object]:
        """Return all pods a job ever had, in the order of ranks, older incarnations first."""
        return ranks.order(pod for pod in self.pods.values() if self._belongs(pod, job))

    def present(self, job: JobKey | None = None) -> list[Object]:
        """Return the pods that are there now, of one job or of all."""
        pods = self.every_pod(job) if job else self.pods.values()
        return [pod for pod in pods if pod["metadata"]["uid"] not in self.gone]

    def active(self) -> list[Object]:
        """Return the pods that are there and have not ended."""
        return [pod for pod in self.present() if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]

    def latest(self, job: JobKey) -> list[Object]:
        """Return the newest pod of each rank, there or not."""
        return list({pod["metadata"]["name"]: pod for pod in self.every_pod(job)}.values())

    def ranks(self, job: JobKey) -> list[Rank]:
        """Return each rank as it is now."""
        return [self.rank(pod) for pod in self.latest(job)]

    def rank(self, pod: Object) -> Rank:
        """Return the rank of a pod as it is now; pods made again count as restarts."""
        meta = pod["metadata"]
        seen = [ranks.rank(self.pods[uid]) for uid in self._made[meta.get("namespace", ""), meta["name"]]]
        newest = replace(seen[-1], restarts=sum(each.restarts for each in seen) + len(seen) - 1)
        if newest.uid in self.gone and newest.phase not in ("Succeeded", "Failed"):
            return replace(newest, phase="Gone", detail="")
        return newest

    def _belongs(self, pod: Object, job: JobKey) -> bool:
        meta = pod["metadata"]
        if meta.get("namespace") != job.namespace or ranks.job_of(pod) != job.name:
            return False
        kinds = {each.kind for each in self.jobs if each.name == job.name and each.namespace == job.namespace}
        owners = {each["kind"] for each in meta.get("ownerReferences") or () if each.get("controller")}
        return not owners & (kinds - {job.kind})


def container_name(pod: Object, container: str, *, several_jobs: bool) -> str:
    """Return how a reader knows a container: its rank, with the job where there are several, and likewise itself."""
    containers = at(pod, ("spec", "containers")) or []
    label = f"{ranks.job_of(pod)}/{ranks.label(pod)}" if several_jobs and ranks.job_of(pod) else ranks.label(pod)
    alone = len(containers) == 1 and containers[0]["name"] == container
    return label if alone else f"{label}/{container}"
