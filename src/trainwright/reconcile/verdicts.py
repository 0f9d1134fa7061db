"""When a job has succeeded, and who is to blame when it has failed."""

import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from trainwright.api.common import Job
from trainwright.core.objects import Object, at, moment
from trainwright.reconcile.kind import Counts

_LATE = datetime.max.replace(tzinfo=UTC)
_COMMON = (1, 128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""Codes with which ranks end that lost a peer or were stopped: of two failures at one time, the other one is first."""


def lead_or_all(job: Job, counts: Mapping[str, Counts]) -> bool:
    """Kubeflow's rule: the Master has succeeded; without one all Workers have, or one Worker of an elastic job."""
    if job.count("Master"):
        return counts["Master"].succeeded > 0
    wanted, succeeded = job.count("Worker"), counts["Worker"].succeeded if "Worker" in counts else 0
    return succeeded > 0 and (succeeded >= wanted or job.elastic is not None)


@dataclass(frozen=True)
class Culprit:
    """The replica that failed first, and how, as far as its pod tells."""

    pod: str
    container: str = ""
    code: int | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    limit: str = ""
    """The memory limit it broke."""
    at: str = ""
    behind: str = ""
    """Who failed in truth, where the replica only tells of others: the rank that mpirun names."""

    def __str__(self) -> str:
        """Return the failure in words: "mnist-worker-1 exited with code 137 (out of memory: limit 2Gi)"."""
        return f"{self.pod} {self._ending()}{f': {self.behind}' if self.behind else ''}"

    def _ending(self) -> str:
        if self.reason == "OOMKilled":
            return f"exited with code {self.code} (out of memory{f': limit {self.limit}' if self.limit else ''})"
        if self.code is None:
            said = f": {self.message}" if self.message else ""
            return f"failed ({self.reason}{said})" if self.reason else f"failed{said}"
        if self.signal:
            return f"was killed by {signal_name(self.signal)} (exit code {self.code})"
        return f"exited with code {self.code}"

    def as_json(self) -> Object:
        """Return it as the record keeps it, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", 0)}


def culprit(job: Job, pods: Iterable[Object]) -> Culprit | None:
    """Return who failed first; None if nobody did.

    In a gang one failure brings down the rest, so the earliest counts and not the loudest. Failures that ended a pod
    come before those after which the container was restarted; there, who was restarted most often is the likely cause.
    What a pod does after it was told to go is not held against it.
    """
    order = {role.label: place for place, role in enumerate(job.roles)}
    failures = [failure for pod in pods for failure in _failures(pod)]
    if not failures:
        return None
    failures.sort(key=lambda each: (*each.weight, _place(job, each.culprit.pod, order)))
    return failures[0].culprit


def read_culprit(kept: Object | None) -> Culprit | None:
    """Return the culprit a record keeps."""
    return Culprit(**kept) if kept else None


@dataclass(frozen=True)
class _Failure:
    culprit: Culprit
    weight: tuple[bool, bool, int, datetime, bool, bool]


def _failures(pod: Object) -> Iterator[_Failure]:
    """Yield what went wrong in a pod, with what makes it more or less likely to be the first cause."""
    status, meta = pod.get("status") or {}, pod["metadata"]
    leaving, failed = "deletionTimestamp" in meta, status.get("phase") == "Failed"
    found = False
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in ("state", "lastState"):
            ended = at(each, (state, "terminated")) or {}
            if not ended.get("exitCode"):
                continue
            found = True
            blamed = _culprit(pod, str(each.get("name", "")), ended)
            restarts = 0 if failed else -int(each.get("restartCount", 0))
            when = moment(ended.get("finishedAt")) or _LATE
            is_common = blamed.code in _COMMON and blamed.reason != "OOMKilled"
            yield _Failure(
                blamed, (leaving, not (failed and state == "state"), restarts, when, is_common, state != "state")
            )
    if failed and not found:
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
        when = moment(at(status, ("conditions",), None) and _condition_time(status)) or _LATE
        yield _Failure(Culprit(meta["name"], reason=reason, message=message), (leaving, False, 0, when, False, False))


def _condition_time(status: Object) -> str | None:
    times = [each.get("lastTransitionTime") for each in status.get("conditions") or () if each.get("status") == "False"]
    return max(filter(None, times), default=None)


def _culprit(pod: Object, container: str, ended: Object) -> Culprit:
    code = int(ended["exitCode"])
    number = int(ended.get("signal") or 0) or (code - 128 if 128 < code < 128 + signal.NSIG else 0)
    specs = at(pod, ("spec", "containers"), []) or []
    limit = next(
        (at(each, ("resources", "limits", "memory"), "") for each in specs if each.get("name") == container), ""
    )
    return Culprit(
        pod=pod["metadata"]["name"],
        container=container,
        code=code,
        signal=number,
        reason=str(ended.get("reason") or ""),
        message=str(ended.get("message") or "").strip(),
        limit=str(limit) if ended.get("reason") == "OOMKilled" else "",
        at=str(ended.get("finishedAt") or ""),
    )


def _place(job: Job, pod: str, order: Mapping[str, int]) -> tuple[int, int]:
    role, _, index = pod.removeprefix(f"{job.name}-").rpartition("-")
    return order.get(role, len(order)), int(index) if index.isdecimal() else 0


def signal_name(number: int) -> str:
    """Return a signal as people know it: SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
