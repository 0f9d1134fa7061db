"""A store written out and brought in elsewhere holds the same."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainwright.api.faces import RESOURCES
from trainwright.cluster.journal import Journal, read
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import HomeError
from trainwright.core.resources import CONFIG_MAP, POD
from trainwright.server.transfer import bring_in, export


def fail(sentence: str) -> None:
    raise AssertionError(sentence)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    async def fill() -> None:
        with Journal.open(tmp_path / "store.sqlite", on_error=fail) as journal:
            cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC), journal=journal)
            for row, name in ((CONFIG_MAP, "a"), (POD, "b")):
                await cluster.create(row, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})
            await cluster.patch(POD, "default", "b", {"status": {"phase": "Failed"}}, subresource="status")

    asyncio.run(fill())
    return tmp_path / "store.sqlite"


def test_there_and_back(store: Path, tmp_path: Path):
    file = tmp_path / "all.json"
    assert export(store, file) == 2
    assert file.stat().st_mode & 0o777 == 0o600

    with Journal.open(tmp_path / "new.sqlite", on_error=fail) as journal:
        assert bring_in(file, journal) == 2

    old, new = read(store), read(tmp_path / "new.sqlite")
    assert new.version == old.version
    assert sorted(map(str, new.objects)) == sorted(map(str, old.objects))


def test_only_an_empty_store_takes_one_in(store: Path, tmp_path: Path):
    export(store, tmp_path / "all.json")
    with Journal.open(store, on_error=fail) as journal, pytest.raises(HomeError, match="is not empty; move it away"):
        bring_in(tmp_path / "all.json", journal)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hello", id="text"),
        pytest.param('{"kind": "List"}', id="a list of nothing"),
        pytest.param('{"metadata": {"resourceVersion": "1"}, "items": [{"kind": "Unknown"}]}', id="unknown kinds"),
    ],
)
def test_other_files_are_refused_before_anything_is_taken(tmp_path: Path, text: str):
    (tmp_path / "file").write_text(text)
    with Journal.open(tmp_path / "new.sqlite", on_error=fail) as journal:
        with pytest.raises(HomeError, match="is not what tw serve --export writes"):
            bring_in(tmp_path / "file", journal)
        assert journal.load().objects == []


def test_no_store(tmp_path: Path):
    with pytest.raises(HomeError, match="there is no such journal"):
        export(tmp_path / "none", tmp_path / "all.json")
