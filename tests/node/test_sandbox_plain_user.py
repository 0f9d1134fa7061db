"""The tests of the sandboxes once more, as a user without any privilege."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.plain_user import UID, plain_user_command

FILES = [
    "tests/node/test_neighbours.py",
    "tests/node/test_sandbox.py",
    "tests/node/test_sandbox_net.py",
    "tests/node/test_sandbox_ports.py",
]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as a plain user already")


def again(home: Path, root: Path, *arguments: str, mask: tuple[str, ...] = ()) -> str:
    """Run tests as a plain user and return what pytest printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    command += [f"--basetemp={home / 'tmp'}"]
    home.mkdir(mode=0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        plain_user_command(command, home=home, mask=mask),
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_runs_without_any_privilege(tmp_path, root):
    script = "id -u; id -G; grep CapPrm /proc/self/status; whoami; echo $HOME; touch ~/made; touch /root/x"
    command = plain_user_command(["sh", "-c", script], home=tmp_path / "home")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(UID), str(UID), "CapPrm:", "0" * 16, "plain", str(tmp_path / "home")]
    assert "Permission denied" in done.stderr
    assert (tmp_path / "home" / "made").stat().st_uid == UID
    assert "plain" not in Path("/etc/passwd").read_text()


POD = """
import asyncio, os, sys
from pathlib import Path
from trainwright.node.base import Mount, ProcessSpec, SandboxSpec
from trainwright.node.net import NetIsolation

async def main():
    async with NetIsolation() as isolation:
        pod = await isolation.open(SandboxSpec("uid", "pod-a"))
        script = "id -u; hostname; grep CapEff /proc/self/status; echo x > /workspace/made"
        mounts = (Mount(Path.home(), "/workspace"),)
        print(pod.address, flush=True)
        process = await pod.start(ProcessSpec(("sh", "-c", script), dict(os.environ), mounts=mounts, stdout=1))
        print((await process.wait()).code)

asyncio.run(main())
"""


def test_a_pod_of_a_plain_user(tmp_path, root):
    home = tmp_path / "home"
    command = plain_user_command([sys.executable, "-c", POD], home=home)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert printed == ["10.77.1.1", str(UID), "pod-a", "CapEff:", "0" * 16, "0"]
    assert (home / "made").stat().st_uid == UID


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_everything_as_a_plain_user(tmp_path, root):
    printed = again(tmp_path / "home", root, *FILES)
    assert "skipped" not in printed


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_everything_without_a_fresh_proc(tmp_path, root):
    """As in a container whose /proc has masked paths: pods then have no pid namespace, and still nothing is left."""
    printed = again(tmp_path / "home", root, *FILES, mask=("/proc/fs",))
    assert "1 skipped" in printed, "only the test that needs a pid namespace"
