"""The folder of a server: one server at a time, also while the last one's pods are still dying."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from trainwright.core.errors import HomeError
from trainwright.server.state import State

HOLD = """
import os, sys
from pathlib import Path
from trainwright.server.state import State
with State(Path(sys.argv[1])).held() as lock:
    if sys.argv[2:]:  # a pod's process that keeps the lock for a while longer
        os.set_inheritable(lock, True)
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", sys.argv[2])
    print("held", flush=True)
    sys.stdin.read()
"""


def holding(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLD, str(folder), *arguments]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "held\n"
    return other


def test_a_second_server_is_told_who_holds_the_folder(tmp_path: Path):
    with holding(tmp_path) as other:
        with pytest.raises(HomeError, match=rf"held by a server, process {other.pid}; stop it with: kill {other.pid}"):
            State(tmp_path).held().__enter__()
        assert State(tmp_path).holder() == other.pid
        other.kill()
    assert State(tmp_path).holder() is None


def test_what_a_killed_server_started_is_waited_for(tmp_path: Path):
    with holding(tmp_path, "0.5") as other:
        began = time.monotonic()
        other.kill()
        other.wait()
        with State(tmp_path).held():
            assert time.monotonic() - began > 0.3


def test_only_its_user_can_read_how_it_is_asked(tmp_path: Path):
    state = State(tmp_path)
    os.umask(os.umask(0o022))
    state.write_kubeconfig(1234)
    token = state.token()

    config = yaml.safe_load(state.kubeconfig.read_text())

    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1234"
    assert config["users"][0]["user"] == {"token": token}
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    state.write_kubeconfig(4321)
    assert state.token() == token, "it stays good"


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HomeError, match="name a folder that can be written with --state"):
        State(tmp_path / "file" / "serve").held().__enter__()
