"""The journal: what was kept is there afterwards, whatever happened; what cannot be kept is said once."""

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainwright.cluster.journal import FORMAT, Journal, read
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Expired, HomeError, NotStored
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, CONFIG_MAP, EVENT, POD, SECRET
from trainwright.node import linux

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def fail(sentence: str) -> None:
    raise AssertionError(sentence)


def cluster(journal: Journal) -> MemoryCluster:
    return MemoryCluster(BUILT_IN, now=lambda: NOON, journal=journal)


def reopened(path: Path) -> MemoryCluster:
    """Return a cluster with everything that was kept, which keeps nothing itself."""
    return MemoryCluster(BUILT_IN, now=lambda: NOON, kept=read(path))


def thing(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.db"


async def fill(path: Path) -> list[Object]:
    """Keep two config maps and a pod; return them."""
    with Journal.open(path, on_error=fail) as journal:
        store = cluster(journal)
        await store.create(CONFIG_MAP, thing("a", data={"x": "1"}))
        await store.create(CONFIG_MAP, thing("b", data={"y": "ü"}))
        await store.create(CONFIG_MAP, thing("gone"))
        await store.create(POD, thing("pod", spec={}))
        await store.patch(CONFIG_MAP, "default", "a", {"data": {"x": "2"}})
        await store.patch(POD, "default", "pod", {"status": {"phase": "Running"}}, subresource="status")
        await store.delete(CONFIG_MAP, "default", "gone")
        return [*(await store.list(CONFIG_MAP)).items, *(await store.list(POD)).items]


async def test_what_was_there_is_there_again(path: Path):
    objects = await fill(path)

    again = reopened(path)

    assert [*(await again.list(CONFIG_MAP)).items, *(await again.list(POD)).items] == objects
    assert [path] == [*path.parent.iterdir()], "one plain file is left"


async def test_a_cluster_goes_on_where_it_ended(path: Path):
    objects = await fill(path)
    with Journal.open(path, on_error=fail) as journal:
        store = cluster(journal)
        new = await store.create(CONFIG_MAP, thing("c"))
        assert int(new["metadata"]["resourceVersion"]) > max(int(o["metadata"]["resourceVersion"]) for o in objects)
        with pytest.raises(Expired):
            await anext(store.watch(CONFIG_MAP, since="2"))
        await store.delete(CONFIG_MAP, "default", "a")

    names = [obj["metadata"]["name"] for obj in (await reopened(path).list(CONFIG_MAP)).items]
    assert names == ["b", "c"]


async def test_others_on_the_machine_cannot_read_it(path: Path):
    with Journal.open(path, on_error=fail) as journal:
        await cluster(journal).create(SECRET, thing("secret", data={"password": "x"}))
        await journal.flush()
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(modes) >= {path.name, f"{path.name}-wal"}
    assert set(modes.values()) == {0o600}


async def test_only_what_was_asked_for_is_kept(path: Path):
    with Journal.open(path, resources=[CONFIG_MAP], on_error=fail) as journal:
        store = cluster(journal)
        await store.create(CONFIG_MAP, thing("a"))
        await store.create(SECRET, thing("secret", data={"password": "x"}))
    assert [obj["kind"] for obj in read(path).objects] == ["ConfigMap"]


async def test_kinds_without_a_row_stay_in_the_journal(path: Path):
    await fill(path)
    with Journal.open(path, on_error=fail) as journal:
        store = MemoryCluster([POD], now=lambda: NOON, journal=journal)
        await store.delete(POD, "default", "pod")
    assert {obj["metadata"]["name"] for obj in read(path).objects} == {"a", "b"}


async def test_an_empty_journal(path: Path):
    Journal.open(path, on_error=fail).close()
    assert read(path).objects == []


async def test_flush_returns_when_it_is_on_disk(path: Path):
    journal = Journal.open(path, on_error=fail)
    store = cluster(journal)
    for n in range(20):
        await store.create(CONFIG_MAP, thing(f"c-{n}"))
        await journal.flush()
        assert len(read(path).objects) == n + 1
    journal.close()


async def test_it_can_be_read_while_it_is_written(path: Path):
    journal = Journal.open(path, on_error=fail)
    store = cluster(journal)
    await store.create(CONFIG_MAP, thing("count", data={"a": "0", "b": "0"}))
    await journal.flush()
    seen = []

    def look() -> None:
        for _ in range(50):
            (obj,) = read(path).objects
            seen.append((obj["data"]["a"], obj["data"]["b"]))

    reader = threading.Thread(target=look)
    reader.start()
    number = 0
    while reader.is_alive():
        number += 1
        await store.patch(CONFIG_MAP, "default", "count", {"data": {"a": str(number), "b": str(number)}})
        await asyncio.sleep(0)
    journal.close()
    assert all(a == b for a, b in seen)
    assert [int(a) for a, _ in seen] == sorted(int(a) for a, _ in seen)


async def test_many_changes_of_one_object_cost_little(path: Path):
    with Journal.open(path, on_error=fail) as journal:
        store = cluster(journal)
        await store.create(CONFIG_MAP, thing("busy"))
        for n in range(5000):
            await store.patch(CONFIG_MAP, "default", "busy", {"data": {"n": str(n)}})
        assert len(journal._pending) <= 1
    assert read(path).objects[0]["data"] == {"n": "4999"}


async def test_closing_twice_and_writing_afterwards_does_no_harm(path: Path):
    journal = Journal.open(path, on_error=fail)
    store = cluster(journal)
    journal.close()
    journal.close()
    await store.create(CONFIG_MAP, thing("late"))
    await journal.flush()
    assert read(path).objects == []


IMPORTS = """
import asyncio, concurrent.futures.thread, os, resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from trainwright.cluster.journal import Journal, read
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.resources import BUILT_IN, CONFIG_MAP
"""
PLAIN_USER = """
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""
SMALL_DISK = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""
READ = """
print(sorted(obj["metadata"]["name"] for obj in read(Path(sys.argv[1])).objects))
"""
WRITE = """
async def main():
    journal = Journal.open(Path(sys.argv[1]), on_error=lambda said: print("said:", said, flush=True))
    store = MemoryCluster(BUILT_IN, now=lambda: datetime.now(UTC), journal=journal)
    for n in range(int(sys.argv[2])):
        await store.create(CONFIG_MAP, {"metadata": {"name": f"c-{n}", "namespace": "d"}, "data": {"x": "x" * 2000}})
        await journal.flush()
        print(n, flush=True)
    journal.close()
    print("ended", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def writer(path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", IMPORTS + WRITE, str(path), "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.fault
def test_nothing_acknowledged_is_lost_by_kill_9(path: Path, writer: "subprocess.Popen[str]"):
    assert writer.stdout
    for line in writer.stdout:
        if int(line) >= 20:
            break
    writer.send_signal(signal.SIGKILL)
    last = max([20, *(int(line) for line in writer.stdout if line.strip().isdigit())])
    writer.wait()

    kept = {obj["metadata"]["name"] for obj in read(path).objects}
    assert {f"c-{n}" for n in range(last + 1)} <= kept
    with Journal.open(path, on_error=fail) as journal:
        assert len(journal.load().objects) == len(kept)


class TestTrouble:
    """What cannot be kept never stops the cluster, and is said once."""

    async def go_on(self, journal: Journal, store: MemoryCluster | None = None) -> None:
        store = store or cluster(journal)
        for n in range(50):
            await store.create(CONFIG_MAP, thing(f"c-{n}"))
            if n % 10 == 0:
                await journal.flush()
        assert len((await store.list(CONFIG_MAP)).items) == 50
        assert not journal.keeping
        journal.close()

    async def test_a_folder_that_cannot_be_made(self, tmp_path: Path):
        (tmp_path / "file").write_text("in the way")
        said: list[str] = []
        await self.go_on(Journal.open(tmp_path / "file" / "journal.db", on_error=said.append))
        assert len(said) == 1
        assert "cannot keep objects in" in said[0]

    async def test_a_file_that_is_a_folder(self, tmp_path: Path):
        (tmp_path / "journal.db").mkdir()
        said: list[str] = []
        await self.go_on(Journal.open(tmp_path / "journal.db", on_error=said.append))
        sentence = "the file cannot be made or opened there; going on without, so they cannot be looked at afterwards"
        assert said == [f"cannot keep objects in {tmp_path / 'journal.db'}: {sentence}"]

    async def test_a_database_that_breaks_while_it_is_used(self, path: Path):
        said: list[str] = []
        journal = Journal.open(path, on_error=said.append)
        store = cluster(journal)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE objects")
        await self.go_on(journal, store)
        assert len(said) == 1

    @pytest.mark.fault
    def test_a_full_disk(self, path: Path):
        done = program(IMPORTS + SMALL_DISK + WRITE, path, "200")
        assert done.stdout.count("said:") == 1
        assert "cannot keep objects in" in done.stdout
        assert done.stdout.endswith("199\nended\n")

    @pytest.mark.fault
    def test_a_read_only_folder(self, closed: Path):
        done = program(IMPORTS + PLAIN_USER + WRITE, closed / "journal.db", "3")
        assert done.stdout.count("said:") == 1
        assert done.stdout.endswith("ended\n")


@pytest.fixture
def closed() -> Iterator[Path]:
    """Return a folder that everybody may read and nobody but root may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        yield Path(folder)
        Path(folder).chmod(0o755)


def program(text: str, path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", text, str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Return a folder on a file system of 1 MB."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            linux.mount("tmpfs", folder, "tmpfs", data="size=1m,mode=777")
        except OSError:
            pytest.skip("needs root: a small file system is mounted")
        yield Path(folder)
        linux.unmount(folder)


class TestInsisting:
    """A journal whose owner cannot do without: what cannot be written is told to everybody who waits, and tried on."""

    async def fill_up(self, store: MemoryCluster, journal: Journal) -> None:
        for n in range(500):
            await store.create(CONFIG_MAP, thing(f"c-{n}", data={"x": "x" * 5000}))
            await journal.flush()

    @pytest.mark.fault
    async def test_a_full_disk_and_then_room_again(self, small_disk: Path):
        said: list[str] = []
        (small_disk / "ballast").write_bytes(b"x" * 500_000)
        journal = Journal.open(small_disk / "store", on_error=said.append, insist=True)
        store = cluster(journal)
        with pytest.raises(NotStored, match="the disk is full"):
            await self.fill_up(store, journal)
        assert "the disk is full" in journal.trouble
        with pytest.raises(NotStored):
            await journal.flush()

        (small_disk / "ballast").unlink()
        async with asyncio.timeout(20):
            while journal.trouble:  # noqa: ASYNC110 - it tries again once a second
                await asyncio.sleep(0.02)
        await journal.flush()
        journal.close()

        held = {obj["metadata"]["name"] for obj in (await store.list(CONFIG_MAP)).items}
        assert {obj["metadata"]["name"] for obj in read(small_disk / "store").objects} == held
        assert [sentence.partition("; ")[2] or sentence for sentence in said] == [
            "nothing new is accepted until it can be written again",
            f"{small_disk / 'store'}: it can be written again, and everything that had to wait is",
        ]

    async def test_what_waits_for_the_disk_waits_together(self, path: Path):
        with Journal.open(path, on_error=fail, insist=True) as journal:
            store = cluster(journal)

            async def durably(n: int) -> int:
                await store.create(CONFIG_MAP, thing(f"c-{n}"))
                await journal.flush()
                return len(read(path).objects)

            seen = await asyncio.gather(*map(durably, range(50)))
        assert len(set(seen)) < 10, "one write is for many"

    @pytest.mark.parametrize(
        "spoil",
        [
            pytest.param(lambda data: data[:4096] + b"\xff" * (len(data) - 4096), id="pages that make no sense"),
            pytest.param(lambda data: b"\xff" * 4096 + data[4096:], id="no head"),
            pytest.param(lambda data: data[:-4096], id="a page that is missing"),
        ],
    )
    def test_a_damaged_file_is_never_taken_for_an_empty_one(self, path: Path, spoil):
        asyncio.run(fill(path))
        spoilt = spoil(path.read_bytes())
        path.write_bytes(spoilt)
        with pytest.raises(HomeError, match=r"is damaged .* move it away|is not a journal"):
            Journal.open(path, on_error=fail, insist=True).load()
        assert path.read_bytes() == spoilt

    @pytest.mark.fault
    def test_a_torn_last_write_is_as_if_it_had_not_been(self, path: Path, writer: "subprocess.Popen[str]"):
        assert writer.stdout
        for line in writer.stdout:
            if int(line) >= 20:
                break
        writer.kill()
        writer.wait()
        log = path.with_name(f"{path.name}-wal")
        log.write_bytes(log.read_bytes()[:-1000] + b"\x00" * 500)
        with Journal.open(path, on_error=fail, insist=True) as journal:
            names = {obj["metadata"]["name"] for obj in journal.load().objects}
        assert names == {f"c-{n}" for n in range(len(names))}
        assert len(names) >= 20

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(HomeError, match="nothing could be kept"):
            Journal.open(tmp_path / "file" / "store", on_error=fail, insist=True)


class TestFormats:
    """A journal that an earlier release wrote is read as it is, and brought up to date when it is written."""

    @pytest.fixture
    def old(self, tmp_path: Path) -> Path:
        return Path(shutil.copyfile(Path(__file__).parent / "kept" / "format-1.sqlite", tmp_path / "journal.sqlite"))

    def test_format_1_is_read(self, old: Path):
        before = old.read_bytes()
        kept = read(old)
        assert {obj["kind"] for obj in kept.objects} == {"PyTorchJob", "Pod", "Service", "Event", "Node"}
        assert old.read_bytes() == before

    async def test_format_1_is_brought_up_to_date(self, old: Path):
        before = read(old)
        with Journal.open(old, on_error=fail, insist=True) as journal:
            store = MemoryCluster([POD], now=lambda: NOON, journal=journal)
            journal.note("boot", "1234")
            await store.delete(POD, "default", "one-master-0")
        assert len(read(old).objects) == len(before.objects) - 1
        with Journal.open(old, on_error=fail, insist=True) as journal:
            assert journal.fact("boot") == "1234"
        with closing(sqlite3.connect(old)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (FORMAT,)

    def test_an_upgrade_that_breaks_off_has_not_happened(self, old: Path):
        with closing(sqlite3.connect(old)) as other:
            other.execute("CREATE TABLE facts (in_the_way)")
        with pytest.raises(HomeError):
            Journal.open(old, on_error=fail, insist=True)
        with closing(sqlite3.connect(old)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (1,)


class TestReading:
    def test_from_a_read_only_folder(self, path: Path, closed: Path):
        asyncio.run(fill(path))
        shutil.copyfile(path, closed / path.name)
        done = program(IMPORTS + PLAIN_USER + READ, closed / path.name)
        assert done.stdout == "['a', 'b', 'pod']\n", done.stderr

    @pytest.mark.fault
    def test_after_a_crash_from_a_read_only_folder(self, path: Path, closed: Path, writer: "subprocess.Popen[str]"):
        assert writer.stdout
        for line in writer.stdout:
            if int(line) >= 20:
                break
        writer.kill()
        writer.wait()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", closed / f"{path.name}{suffix}")
        done = program(IMPORTS + PLAIN_USER + READ, closed / path.name)
        assert "c-20" in done.stdout, done.stderr

    def test_no_such_file(self, path: Path):
        with pytest.raises(HomeError, match="there is no such journal"):
            read(path)

    @pytest.mark.parametrize("content", [b"", b"hello", b"x" * 10_000])
    def test_something_else(self, tmp_path: Path, content):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(HomeError, match="is not a journal"):
            read(tmp_path / "x")

    def test_a_damaged_one(self, path: Path):
        asyncio.run(fill(path))
        data = bytearray(path.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        path.write_bytes(data)
        with pytest.raises(HomeError):
            read(path)


class TestForeignFiles:
    """A file that is not ours to write is left alone."""

    async def test_a_newer_format(self, path: Path):
        await fill(path)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version = {FORMAT + 1}")
        for call in (lambda: read(path), lambda: Journal.open(path, on_error=fail)):
            with pytest.raises(HomeError, match=rf"newer Trainwright \(format {FORMAT + 1}.*upgrade"):
                call()

    def test_another_programs_database(self, path: Path):
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE mine (x)")
        before = path.read_bytes()
        with pytest.raises(HomeError, match="not a journal"):
            Journal.open(path, on_error=fail)
        assert path.read_bytes() == before

    def test_no_database(self, path: Path):
        path.parent.mkdir()
        path.write_bytes(b"my diary" * 1000)
        with pytest.raises(HomeError, match="not a journal"):
            Journal.open(path, on_error=fail)
        assert path.read_bytes() == b"my diary" * 1000


async def test_events_can_be_found_afterwards(path: Path):
    with Journal.open(path, on_error=fail) as journal:
        await cluster(journal).create(EVENT, thing("e", involvedObject={"name": "job"}, reason="Started"))
    again = reopened(path)
    assert len((await again.list(EVENT, "default", fields="involvedObject.name=job")).items) == 1
