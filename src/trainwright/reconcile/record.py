"""What a job must remember between rounds, kept as one small object in its status.

Objects alone do not tell how often a replica has failed: a container's restart count goes with its pod, and a pod that
failed is deleted to be made again. So the record holds what was counted already and of which pod, and every failure
counts exactly once however often it is looked at:

    version     how often the job has been restarted as a whole; every pod carries the version it was made for
    restarts    per role, every container restart and every pod made again, over the whole life of the job
    seen        per role and index, the uid of the pod that was seen to run
    counted     per role and index, that pod's container restarts that are in `restarts` already (when there are any)
    done        per role, the indices that succeeded; they are never run again
    falls       per role and index, how often the pod has failed in a row, and when it last did
    retired     uids of pods whose end is settled: counted, or removed on purpose; they only have to go
    cause       why the job failed, and `culprit` who failed first: known after the pods are gone

Jobs that live by policies (`phases.py`) remember a little more, so that each event is acted upon exactly once:

    failed      per role and index, the uid of a failed pod that is left as it is
    completed   per role, that the end of all its replicas was noticed; in `stages.py`, that one trainer has succeeded
    troubled    per role, the number of container restarts at which its failure was last noticed
    oldest      pods of versions from this one on stay when they have ended; those of earlier versions go
    timers      actions that wait for the matter to settle
    commands    uids of commands that were carried out and are still there
    unknown     that the scheduler lost sight of the gang was noticed
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from trainwright.core.objects import Object, moment, timestamp

Cause = Literal["", "Failure", "BackoffLimit", "Deadline", "Cancelled", "Invalid"]


@dataclass(frozen=True)
class Fall:
    """How often a replica's pods have failed in a row, and when the last one did."""

    times: int
    at: datetime


@dataclass(frozen=True)
class RoleRecord:
    """What is remembered of one role."""

    restarts: int = 0
    seen: Mapping[int, str] = field(default_factory=dict)
    counted: Mapping[int, int] = field(default_factory=dict)
    done: frozenset[int] = frozenset()
    falls: Mapping[int, Fall] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    completed: bool = False
    troubled: int = 0


@dataclass(frozen=True)
class Timer:
    """An action that is taken at a time, unless what called for it is settled by then."""

    at: datetime
    action: str
    event: str
    role: str = ""
    """Of which role the event told; nothing if it told of the whole job."""
    index: int | None = None
    """Of which replica; None: of the whole role."""
    uid: str = ""
    """Of which pod; nothing if that does not matter."""

    @property
    def key(self) -> tuple[str, int | None, str]:
        """Return what tells it from other timers: there is one for each replica and action."""
        return self.role, self.index, self.action


@dataclass(frozen=True)
class Record:
    """What is remembered of a job."""

    version: int = 0
    roles: Mapping[str, RoleRecord] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()
    cause: Cause = ""
    culprit: Object | None = None
    oldest: int = 0
    timers: tuple[Timer, ...] = ()
    commands: frozenset[str] = frozenset()
    unknown: bool = False
    inherited: bool = False
    """Whether another operator has looked after the job until now; it is not written down."""

    def role(self, name: str) -> RoleRecord:
        """Return what is remembered of a role; an empty record of a new one."""
        return self.roles.get(name, _EMPTY)

    @property
    def restarts(self) -> int:
        """Return every restart of every role."""
        return sum(role.restarts for role in self.roles.values())

    @property
    def is_blank(self) -> bool:
        """Say whether it has nothing in it but which pods were seen."""
        told = {name: role for name, role in self.roles.items() if replace(role, seen={}) != _EMPTY}
        return replace(self, roles=told, inherited=False) == Record()

    def next_version(self) -> "Record":
        """Return the record of a job that starts again as a whole: only the counts are kept."""
        roles = {name: RoleRecord(role.restarts) for name, role in self.roles.items()}
        version = self.version + 1
        return replace(self, version=version, oldest=version, roles=roles, retired=frozenset(), timers=())

    def stopped(self) -> "Record":
        """Return the record of a job that is stopped as a whole: what has ended stays as it is."""
        roles = {name: replace(role, seen={}, counted={}) for name, role in self.roles.items()}
        return replace(self, version=self.version + 1, roles=roles, retired=frozenset(), timers=())

    def is_past(self, version: int, *, ended: bool) -> bool:
        """Say whether a pod of that version has to go because the job has been stopped or started again since."""
        return version < (self.oldest if ended else self.version)


_EMPTY = RoleRecord()


def read(status: Mapping[str, Any] | None) -> Record:
    """Return the record in a job's status; an empty one for a job that has none yet, or has it from somebody else."""
    kept = (status or {}).get("record") or {}
    version = int(kept.get("version", 0))
    return Record(
        version=version,
        roles={name: _read_role(role) for name, role in (kept.get("roles") or {}).items()},
        retired=frozenset(kept.get("retired") or ()),
        cause=kept.get("cause", ""),
        culprit=kept.get("culprit"),
        oldest=int(kept.get("oldest", version)),
        timers=tuple(map(_read_timer, kept.get("timers") or ())),
        commands=frozenset(kept.get("commands") or ()),
        unknown=bool(kept.get("unknown")),
        inherited=bool(status) and "record" not in (status or {}),
    )


def write(record: Record) -> Object:
    """Return a record as JSON, without what is empty, always in the same order."""
    roles = {name: _write_role(role) for name, role in sorted(record.roles.items())}
    return {
        "version": record.version,
        **({"oldest": record.oldest} if record.oldest != record.version else {}),
        **_filled(
            roles={name: role for name, role in roles.items() if role},
            retired=sorted(record.retired),
            cause=record.cause,
            culprit=record.culprit,
            timers=[_write_timer(timer) for timer in record.timers],
            commands=sorted(record.commands),
            unknown=record.unknown,
        ),
    }


def _read_role(role: Mapping[str, Any]) -> RoleRecord:
    return RoleRecord(
        restarts=int(role.get("restarts", 0)),
        seen={int(index): str(uid) for index, uid in (role.get("seen") or {}).items()},
        counted={int(index): int(count) for index, count in (role.get("counted") or {}).items()},
        done=frozenset(map(int, role.get("done") or ())),
        falls={int(index): _read_fall(fall) for index, fall in (role.get("falls") or {}).items()},
        failed={int(index): str(uid) for index, uid in (role.get("failed") or {}).items()},
        completed=bool(role.get("completed")),
        troubled=int(role.get("troubled", 0)),
    )


def _write_role(role: RoleRecord) -> Object:
    return _filled(
        restarts=role.restarts,
        seen=_by_index(role.seen.items()),
        counted=_by_index((index, count) for index, count in role.counted.items() if count),
        done=sorted(role.done),
        falls=_by_index((index, _write_fall(fall)) for index, fall in role.falls.items()),
        failed=_by_index(role.failed.items()),
        completed=role.completed,
        troubled=role.troubled,
    )


def _read_fall(fall: Mapping[str, Any]) -> Fall:
    last = moment(fall["at"])
    assert last is not None, "a fall is written with its time"
    return Fall(int(fall["times"]), last)


def _write_fall(fall: Fall) -> Object:
    return {"times": fall.times, "at": timestamp(fall.at)}


def _read_timer(timer: Mapping[str, Any]) -> Timer:
    due = moment(timer["at"])
    assert due is not None, "a timer is written with its time"
    return Timer(
        due, timer["action"], timer["event"], timer.get("role", ""), timer.get("index"), str(timer.get("uid", ""))
    )


def _write_timer(timer: Timer) -> Object:
    said = _filled(action=timer.action, event=timer.event, role=timer.role, uid=timer.uid)
    return {"at": timestamp(timer.at), **said, **({} if timer.index is None else {"index": timer.index})}


def _by_index(items: Iterable[tuple[int, Any]]) -> Object:
    return {str(index): value for index, value in sorted(items)}


def _filled(**values: Any) -> Object:
    return {name: value for name, value in values.items() if value}
