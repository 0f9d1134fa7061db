"""What a job must remember between rounds, kept as one small object in its status.

Objects alone do not tell how often a replica has failed: a container's restart count goes with its pod, and a pod that
failed is deleted to be made again. So the record holds what was counted already and of which pod, and every failure
counts exactly once however often it is looked at:

    version     how often the job has been restarted as a whole; every pod carries the version it was made for
    restarts    per role, every container restart and every pod made again, over the whole life of the job
    seen        per role and index, the uid of the pod that was seen to run
    counted     per role and index, that pod's container restarts that are in `restarts` already (when there are any)
    done        per role, the indices that succeeded; they are never run again
    retired     uids of pods whose end is settled: counted, or removed on purpose; they only have to go
    cause       why the job failed, and `culprit` who failed first: known after the pods are gone
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainwright.core.objects import Object

Cause = Literal["", "Failure", "BackoffLimit", "Deadline", "Invalid"]


@dataclass(frozen=True)
class RoleRecord:
    """What is remembered of one role."""

    restarts: int = 0
    seen: Mapping[int, str] = field(default_factory=dict)
    counted: Mapping[int, int] = field(default_factory=dict)
    done: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Record:
    """What is remembered of a job."""

    version: int = 0
    roles: Mapping[str, RoleRecord] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()
    cause: Cause = ""
    culprit: Object | None = None

    def role(self, name: str) -> RoleRecord:
        """Return what is remembered of a role; an empty record of a new one."""
        return self.roles.get(name, _EMPTY)

    @property
    def restarts(self) -> int:
        """Return every restart of every role."""
        return sum(role.restarts for role in self.roles.values())

    def next_version(self) -> "Record":
        """Return the record of a job that starts again as a whole: only the counts are kept."""
        roles = {name: RoleRecord(role.restarts) for name, role in self.roles.items()}
        return replace(self, version=self.version + 1, roles=roles, retired=frozenset())


_EMPTY = RoleRecord()


def read(status: Mapping[str, Any] | None) -> Record:
    """Return the record in a job's status; an empty one for a job that has none yet."""
    kept = (status or {}).get("record") or {}
    return Record(
        version=int(kept.get("version", 0)),
        roles={name: _read_role(role) for name, role in (kept.get("roles") or {}).items()},
        retired=frozenset(kept.get("retired") or ()),
        cause=kept.get("cause", ""),
        culprit=kept.get("culprit"),
    )


def write(record: Record) -> Object:
    """Return a record as JSON, without what is empty, always in the same order."""
    roles = {name: _write_role(role) for name, role in sorted(record.roles.items())}
    return {
        "version": record.version,
        **_filled(
            roles={name: role for name, role in roles.items() if role},
            retired=sorted(record.retired),
            cause=record.cause,
            culprit=record.culprit,
        ),
    }


def _read_role(role: Mapping[str, Any]) -> RoleRecord:
    return RoleRecord(
        restarts=int(role.get("restarts", 0)),
        seen={int(index): str(uid) for index, uid in (role.get("seen") or {}).items()},
        counted={int(index): int(count) for index, count in (role.get("counted") or {}).items()},
        done=frozenset(map(int, role.get("done") or ())),
    )


def _write_role(role: RoleRecord) -> Object:
    return _filled(
        restarts=role.restarts,
        seen=_by_index(role.seen.items()),
        counted=_by_index((index, count) for index, count in role.counted.items() if count),
        done=sorted(role.done),
    )


def _by_index(items: Iterable[tuple[int, Any]]) -> Object:
    return {str(index): value for index, value in sorted(items)}


def _filled(**values: Any) -> Object:
    return {name: value for name, value in values.items() if value}
