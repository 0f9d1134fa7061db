"""The folder of every run: journal, logs, and `meta.json`, kept so that `tw logs`, `status` and `events` work later.

Runs live in `$XDG_STATE_HOME/trainwright/runs/<id>/` (default `~/.local/state`). The id is the time of the start, made
later than every id there is, so that the order of runs survives a clock that jumps; for the same reason old runs are
pruned by number and never by age. A running run holds a lock on its folder and is never pruned.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainwright.core.errors import HomeError

KEEP = 50
KEEP_VARIABLE = "TRAINWRIGHT_KEEP_RUNS"
_STAMP = "%Y%m%d-%H%M%S"


JobFacts = Mapping[str, str]
"""Kind, namespace and name of a job, as meta.json has them."""


@dataclass(frozen=True)
class RunFolder:
    """One run's folder, open for writing."""

    path: Path
    notice: str = ""
    """Why it is not in the state directory, when it is not."""

    @property
    def id(self) -> str:
        """Return the run's name."""
        return self.path.name

    def note(self, **facts: Any) -> None:
        """Add facts to meta.json; a reader sees the old file or the new one, never half of one."""
        import msgspec

        known = msgspec.json.encode({**_meta(self.path), **facts})
        draft = self.path / ".meta.json"
        draft.write_bytes(msgspec.json.format(known, indent=2))
        draft.replace(self.path / "meta.json")


@dataclass(frozen=True)
class Kept:
    """A run that was kept, or is still going on."""

    path: Path
    meta: Mapping[str, Any] = field(repr=False)

    @property
    def jobs(self) -> Sequence[JobFacts]:
        """Return kind, namespace and name of each job of the run."""
        jobs: Sequence[JobFacts] = self.meta.get("jobs", ())
        return jobs

    @property
    def running(self) -> bool:
        """Say whether the run is still going on."""
        return is_locked(self.path)


def state(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that holds the runs."""
    base = Path(environment.get("XDG_STATE_HOME") or "")
    root = base if base.is_absolute() else Path.home() / ".local" / "state"
    return root / "trainwright" / "runs"


@contextmanager
def new_run(root: Path, now: datetime) -> Iterator[RunFolder]:
    """Make the folder of a new run and hold its lock; a temporary one when `root` cannot be written."""
    folder, lock = _made(root, now)
    try:
        yield folder
    finally:
        os.close(lock)


def kept(root: Path) -> Iterator[Kept]:
    """Yield the runs there are, newest first."""
    for name in reversed(_names(root)):
        meta = _meta(root / name)
        if meta:
            yield Kept(root / name, meta)


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest `keep` runs; never one that is running, never in the way of the one that asks."""
    names = _names(root)
    for name in names[: max(len(names) - keep, 0)]:
        with suppress(OSError):
            if not is_locked(root / name):
                shutil.rmtree(root / name, ignore_errors=True)


def keep_from(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many runs to keep; HomeError when the variable says nonsense."""
    text = environment.get(KEEP_VARIABLE) or str(KEEP)
    if not text.isdecimal():
        raise HomeError(f"{KEEP_VARIABLE} is {text!r}; write how many runs to keep, such as {KEEP}")
    return int(text)


def _made(root: Path, now: datetime) -> tuple[RunFolder, int]:
    try:
        root.mkdir(parents=True, exist_ok=True)
        return _claimed(root, now)
    except OSError as error:
        notice = (
            f"this run cannot be kept in {root} ({error.strerror or error}); "
            "set XDG_STATE_HOME to a folder that can be written"
        )
    try:
        path = Path(tempfile.mkdtemp(prefix="trainwright-"))
        return RunFolder(path, f"{notice}; it is in {path} instead"), _lock(path)
    except OSError as error:
        elsewhere = tempfile.gettempdir()
        raise HomeError(f"{notice}; {elsewhere} cannot be written either ({error.strerror})") from error


def _claimed(root: Path, now: datetime) -> tuple[RunFolder, int]:
    stamp = now.astimezone(UTC)
    with suppress(ValueError, IndexError):
        newest = datetime.strptime(_names(root)[-1], _STAMP).replace(tzinfo=UTC)
        stamp = max(stamp, newest + timedelta(seconds=1))
    while True:
        path = root / stamp.strftime(_STAMP)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            stamp += timedelta(seconds=1)
            continue
        try:
            return RunFolder(path), _lock(path)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _lock(path: Path) -> int:
    """Take the lock, and write a little first: a full disk lets a file be made and refuses its contents."""
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(lock, b"\0" * 4096)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def is_locked(path: Path) -> bool:
    """Say whether somebody is at work in a folder: its lock is held."""
    try:
        lock = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _names(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    except OSError:
        return []


def _meta(path: Path) -> dict[str, Any]:
    import msgspec

    try:
        meta = msgspec.json.decode((path / "meta.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return meta if isinstance(meta, dict) else {}
