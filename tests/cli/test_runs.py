"""The folders of runs: named in order, locked while they run, pruned by number."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainwright.cli.runs import keep_from, kept, new_run, prune, state
from trainwright.core.errors import HomeError

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def ran(root, now=NOON, **facts):
    with new_run(root, now) as folder:
        folder.note(jobs=[], **facts)
    return folder.id


def test_a_run_is_found_again_with_what_was_noted(tmp_path):
    with new_run(tmp_path, NOON) as folder:
        folder.note(jobs=[{"name": "mnist"}])
        folder.note(exit=3)

    [run] = kept(tmp_path)
    assert run.path.name == "20260501-120000"
    assert run.jobs == [{"name": "mnist"}]
    assert run.meta["exit"] == 3


@pytest.mark.parametrize("later", [0, 1, -3600], ids=["in the same second", "a second later", "a clock that went back"])
def test_a_later_run_always_sorts_later(tmp_path, later):
    first = ran(tmp_path)
    second = ran(tmp_path, NOON + timedelta(seconds=later))

    assert [run.path.name for run in kept(tmp_path)] == [second, first]


def test_only_the_newest_are_kept_and_never_a_running_one_removed(tmp_path):
    with new_run(tmp_path, NOON) as running:
        running.note(jobs=[])
        names = [ran(tmp_path, NOON + timedelta(minutes=n)) for n in range(1, 5)]
        prune(tmp_path, 2)

        assert [run.path.name for run in kept(tmp_path)] == [names[3], names[2], running.id]
        assert [run.running for run in kept(tmp_path)] == [False, False, True]


def test_a_clock_that_jumps_ahead_prunes_nothing(tmp_path):
    names = [ran(tmp_path), ran(tmp_path, NOON + timedelta(days=4000))]
    prune(tmp_path, 50)

    assert [run.path.name for run in kept(tmp_path)] == names[::-1]


def test_a_state_folder_that_cannot_be_written_is_replaced_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.write_text("")

    with new_run(blocked / "runs", NOON) as folder:
        assert folder.path.parent == tmp_path
        assert "Not a directory" in folder.notice
        assert "XDG_STATE_HOME" in folder.notice
        assert str(folder.path) in folder.notice


def test_no_place_at_all_is_an_error_that_names_both(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(blocked))

    with pytest.raises(HomeError, match="cannot be written either"), new_run(blocked / "runs", NOON):
        pass


def test_half_written_and_foreign_folders_are_passed_over(tmp_path):
    (tmp_path / "20260101-000000").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "meta.json").write_text("{")

    assert list(kept(tmp_path)) == []


def test_the_place_follows_the_environment(tmp_path):
    assert state({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "trainwright" / "runs"
    assert state({"XDG_STATE_HOME": "relative"}) == state({})
    assert state({}).is_relative_to(Path.home())


def test_how_many_to_keep_is_a_number():
    assert keep_from({}) == 50
    assert keep_from({"TRAINWRIGHT_KEEP_RUNS": "3"}) == 3
    with pytest.raises(HomeError, match="TRAINWRIGHT_KEEP_RUNS is 'x'"):
        keep_from({"TRAINWRIGHT_KEEP_RUNS": "x"})
