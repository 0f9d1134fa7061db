"""`tw serve` and `tw kubeconfig` where nothing is served: what they print, and what they say instead."""

import os
import subprocess
import sys
from pathlib import Path


def tw(state: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("tw")), *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_no_server_runs(tmp_path: Path):
    done = tw(tmp_path, "kubeconfig")
    assert done.returncode == 125
    assert done.stderr == f"tw: no tw serve runs in {tmp_path}/trainwright/serve; start one with: tw serve\n"


def test_a_unit_for_these_options(tmp_path: Path):
    done = tw(tmp_path, "serve", "--cpu", "8", "--print-systemd")
    assert done.returncode == 0
    assert f"ExecStart={Path(sys.executable).with_name('tw')} serve --cpu 8\n" in done.stdout
    assert not (tmp_path / "trainwright").exists()


def test_nothing_to_export(tmp_path: Path):
    done = tw(tmp_path, "serve", "--export", str(tmp_path / "all.json"))
    assert done.returncode == 125
    assert "there is no such journal" in done.stderr


def test_a_store_of_another_program_is_left_alone(tmp_path: Path):
    folder = tmp_path / "trainwright" / "serve"
    folder.mkdir(parents=True)
    (folder / "store.sqlite").write_text("my diary" * 100)
    done = tw(tmp_path, "serve")
    assert done.returncode == 125
    assert "is not a journal" in done.stderr
    assert (folder / "store.sqlite").read_text() == "my diary" * 100
