"""Objects kept in SQLite: what a memory cluster holds can be read afterwards, and survives its process.

The file holds the newest state of every object and the version it belongs to; each commit is one consistent moment.
One thread writes. While it waits for the disk further changes gather, and only the newest state of each object is
written, so a slow disk costs neither time in the cluster nor memory. What cannot be kept never stops the cluster: a
journal says so once and goes on without keeping, and one that insists tries again until it can, with `flush` telling
everybody meanwhile.

A file of an older format is brought up to date when it is opened for writing, in one transaction; it is read as it is.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from trainwright.core.errors import HomeError, NotStored
from trainwright.core.objects import Object
from trainwright.core.resources import Resource

JOURNAL = "journal.sqlite"
"""The name of the file in the folder of a run."""
FORMAT = 2
_APPLICATION = 0x74776A6C  # "twjl": `file` and we can tell a journal from other databases
_GATHER = 0.01
"""Seconds in which changes gather before they are written together."""
_TRY_AGAIN = 0.5
"""Seconds between two tries of a journal that insists."""
_STEPS = (
    """
    CREATE TABLE objects (
        api_version TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        object BLOB NOT NULL, PRIMARY KEY (api_version, kind, namespace, name)
    );
    CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL);
    """,
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);",
)
"""What leads from each format to the next, beginning with an empty file."""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE api_version = ? AND kind = ? AND namespace = ? AND name = ?"
_STATE = "INSERT OR REPLACE INTO state VALUES (1, ?)"
_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

_Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class Kept:
    """What a journal holds: objects as they were at one version."""

    objects: list[Object]
    version: int


class Journal:
    """A journal open for writing; `Journal.open` makes one. Closing it writes the rest and leaves one plain file."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection | None,
        resources: Iterable[Resource] | None,
        on_error: Callable[[str], None],
        *,
        insist: bool = False,
    ) -> None:
        self.path = path
        self.trouble = ""
        """Why nothing can be written at the moment, in words; empty while all is well."""
        self._connection = connection
        self._resources = None if resources is None else frozenset(resources)
        self._on_error = on_error
        self._insist = insist
        self._pending: dict[_Row, Object | None] = {}
        self._facts: dict[str, str] = _facts(connection) if connection else {}
        self._version = self._written = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._hurry = self._closing = False
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        if connection:
            self._writer.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        resources: Iterable[Resource] | None = None,
        on_error: Callable[[str], None],
        insist: bool = False,
    ) -> "Journal":
        """Open or make a journal that keeps these resources (None: all).

        What cannot be written, now or later, is told to `on_error` in one sentence, once, perhaps from another thread.
        HomeError is only for a file that must not be touched: another program's, or a newer version's. With `insist`,
        it is also for one that cannot be written or is damaged; and what cannot be written later is tried until it can.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch(mode=0o600)  # it holds Secrets, too; what SQLite puts beside it gets the same mode
            connection = _connect(path, check=insist)
        except (sqlite3.OperationalError, OSError) as error:
            if insist:
                raise HomeError(f"{path}: {_reason(error)}; nothing could be kept") from error
            on_error(_sentence(path, error))
            return cls(path, None, resources, on_error)
        return cls(path, connection, resources, on_error, insist=insist)

    @property
    def keeping(self) -> bool:
        """Say whether changes are still kept."""
        return self._connection is not None and not self._closing

    def load(self) -> Kept:
        """Return what is in it."""
        if not self.keeping:
            return Kept([], 0)
        self._wait()
        return read(self.path)

    def record(self, resource: Resource, key: tuple[str, str], version: int, obj: Object | None) -> None:
        """Keep the new state of an object, or that it is gone. Returns at once; the object must not change later."""
        if self._resources is not None and resource not in self._resources:
            return
        with self._changed:
            if not self.keeping:
                return
            if not self._pending:
                self._changed.notify_all()
            self._pending[resource.api_version, resource.kind, *key] = obj
            self._version = version

    def fact(self, name: str) -> str | None:
        """Return what was noted under a name, if anything was."""
        return self._facts.get(name)

    def note(self, name: str, value: str) -> None:
        """Keep a fact beside the objects; it is written with the next change of one."""
        with self._changed:
            self._facts[name] = value

    async def flush(self) -> None:
        """Return when everything recorded so far is on disk; NotStored if that cannot be said now.

        A journal that does not insist has told its owner already, and only returns.
        """
        if not self.keeping or self._written >= self._version:
            self._say_trouble()
            return
        written = asyncio.get_running_loop().create_future()
        with self._changed:
            self._waiting.append((self._version, written))
            self._hurry = True
            self._changed.notify_all()
        await written
        self._say_trouble()

    def close(self) -> None:
        """Write what is left and end; a second time does nothing."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._writer.ident:
            self._writer.join()
        if self._connection:
            # Without a write-ahead log beside it the file can be read from a read-only folder. Somebody who reads it
            # right now prevents that; then the log stays.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _say_trouble(self) -> None:
        if self.trouble:
            raise NotStored(self.trouble)

    def _wait(self) -> None:
        with self._changed:
            target, self._hurry = self._version, True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._written >= target or not self.keeping)

    def _write(self) -> None:
        """Write batch after batch: the body of the one thread that uses the connection."""
        while self._connection:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closing)
                if not self._pending:
                    return
                self._changed.wait_for(lambda: self._hurry or self._closing, timeout=_GATHER)
                batch, self._pending = self._pending, {}
                version, self._hurry = self._version, False
            try:
                _commit(self._connection, batch, self._facts.copy(), version)
            except (sqlite3.Error, OSError) as error:
                if self._insist and not self._closing:
                    self._postpone(batch, error)
                    continue
                self._give_up(error)
            self._wrote(version)

    def _wrote(self, version: int) -> None:
        """Tell everybody who waits for it that all changes up to a version are written."""
        with self._changed:
            self._written = version
            recovered, self.trouble = self._connection and self.trouble, ""
            self._tell()
        if recovered:
            self._on_error(f"{self.path}: it can be written again, and everything that had to wait is")

    def _postpone(self, batch: dict[_Row, Object | None], error: Exception) -> None:
        """Put back what could not be written, under what came since, tell everybody who waits, and pause."""
        with self._changed:
            self._pending = {**batch, **self._pending}
            news, self.trouble = not self.trouble, f"{self.path}: {_reason(error)}"
            self._tell()
        if news:
            self._on_error(f"{self.trouble}; nothing new is accepted until it can be written again")
        with self._changed:
            self._changed.wait_for(lambda: self._closing, timeout=_TRY_AGAIN)

    def _tell(self) -> None:
        """Wake everybody whose changes are on disk, or cannot be put there now."""
        self._changed.notify_all()
        heard = [each for each in self._waiting if each[0] <= self._written or self.trouble or not self.keeping]
        self._waiting = [each for each in self._waiting if each not in heard]
        for _, written in heard:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                written.get_loop().call_soon_threadsafe(_settle, written)

    def _give_up(self, error: Exception) -> None:
        connection, self._connection = self._connection, None
        with contextlib.suppress(sqlite3.Error):
            if connection:
                connection.close()
        with self._changed:
            self._pending = {}
        self._on_error(_sentence(self.path, error))


def _settle(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


def read(path: Path) -> Kept:
    """Return what a journal holds, also while another process writes it or from a folder that is read-only."""
    if not path.is_file():
        raise HomeError(f"{path}: there is no such journal")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            return _load(connection, path)
    except sqlite3.OperationalError:
        # After a crash the log beside it is still to be applied, and reading it needs a lock file in the same folder.
        # Where that is not allowed, a copy is read.
        return _read_copy(path)
    except sqlite3.DatabaseError as error:
        raise HomeError(f"{path}: is not a journal, or is damaged ({error})") from error


def _read_copy(path: Path) -> Kept:
    try:
        with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
            copy = Path(folder, "journal")
            for suffix in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            with contextlib.closing(sqlite3.connect(copy)) as connection:
                return _load(connection, path)
    except (sqlite3.Error, OSError) as error:
        raise HomeError(f"{path}: cannot be read: {error}") from error


def _connect(path: Path, *, check: bool) -> sqlite3.Connection:
    """Return a connection to a journal ready to be written, with `check` after a look at every page of it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        found = _format(connection, path)
        if not found and not empty:
            raise HomeError(f"{path}: is a database, but not a journal; name another file")
        if check and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise HomeError(_damaged(path, damage))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _upgrade(connection, found)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_CORRUPT:
            raise HomeError(_damaged(path, error)) from error
        raise HomeError(f"{path}: is not a journal ({error}); name another file") from error
    except HomeError:
        connection.close()
        raise
    return connection


def _upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Bring a journal from the format it has to ours, all of it or nothing."""
    if found == FORMAT:
        return
    steps = "".join(_STEPS[found:])
    connection.executescript(
        f"BEGIN; {steps} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
    )


def _format(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of a journal, 0 for an empty file; HomeError for one that is not for us to read."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application not in (0, _APPLICATION):
        raise HomeError(f"{path}: is a database of another program, not a journal; name another file")
    if application and version > FORMAT:
        raise HomeError(
            f"{path}: was written by a newer Trainwright (format {version}, this one knows {FORMAT}); "
            "upgrade Trainwright, or move the file away"
        )
    return version if application else 0


def _load(connection: sqlite3.Connection, path: Path) -> Kept:
    if not _format(connection, path):
        raise HomeError(f"{path}: is not a journal, or one that was never written to")
    connection.execute("BEGIN")
    try:
        objects = [msgspec.json.decode(row[0]) for row in connection.execute("SELECT object FROM objects")]
    except msgspec.DecodeError as error:
        raise HomeError(_damaged(path, error)) from error
    state = connection.execute("SELECT version FROM state").fetchone()
    return Kept(objects, state[0] if state else 0)


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM facts").fetchall())


def _commit(
    connection: sqlite3.Connection, batch: dict[_Row, Object | None], facts: Mapping[str, str], version: int
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows = ((*row, msgspec.json.encode(obj)) for row, obj in batch.items() if obj is not None)
        connection.executemany(_PUT, rows)
        connection.executemany(_REMOVE, (row for row, obj in batch.items() if obj is None))
        connection.executemany(_FACT, facts.items())
        connection.execute(_STATE, (version,))
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:  # a full disk ends some transactions by itself
            connection.execute("ROLLBACK")
        raise


_IN_WORDS = {
    "unable to open database file": "the file cannot be made or opened there",
    "attempt to write a readonly database": "it is read-only",
    "database or disk is full": "the disk is full",
}


def _reason(error: Exception) -> str:
    return _IN_WORDS.get(str(error), str(error))


def _sentence(path: Path, error: Exception) -> str:
    return f"cannot keep objects in {path}: {_reason(error)}; going on without, so they cannot be looked at afterwards"


def _damaged(path: Path, damage: object) -> str:
    words = str(damage).splitlines()[-1]
    return f"{path}: is damaged ({words}); bring back a copy of it, or move it away to begin with nothing"
