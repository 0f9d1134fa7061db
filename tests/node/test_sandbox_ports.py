"""Isolation `ports`: what it refuses, and what it can do without namespaces."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node.test_sandbox import run

from trainwright.node.base import Exit, Mount, SandboxSpec, SpawnError
from trainwright.node.ports import PortsIsolation


@pytest.fixture
async def isolation() -> AsyncIterator[PortsIsolation]:
    async with PortsIsolation() as opened:
        yield opened


async def test_pods_are_at_127_0_0_1_and_carry_their_mark(isolation):
    pod = await isolation.open(SandboxSpec("uid-7", "pod"))
    assert pod.address == "127.0.0.1"
    assert await run(pod, "printenv", "TW_POD_UID") == (Exit(0), "uid-7\n")


@pytest.mark.parametrize(
    ("source", "target", "read_only", "refused"),
    [
        pytest.param(".", "/workspace", False, True, id="a volume at another path is refused"),
        pytest.param(".", "/dev/shm", False, False, id="shared memory is there already"),
        pytest.param(".", "{source}", False, False, id="a host path at its own path is there already"),
        pytest.param(".", "{source}", True, True, id="but it cannot be made read-only"),
        pytest.param("missing", "{source}", False, True, id="nor come into being"),
    ],
)
async def test_volumes(isolation, tmp_path, source, target, read_only, refused):
    path = tmp_path / source
    target = target.format(source=path)
    pod = await isolation.open(SandboxSpec("uid", "pod"))
    if refused:
        with pytest.raises(SpawnError) as raised:
            await run(pod, "true", mounts=(Mount(path, target, read_only),))
        assert f"volume at {target!r}" in str(raised.value)
        assert "--isolation net" in str(raised.value)
    else:
        assert await run(pod, "true", mounts=(Mount(path, target, read_only),)) == (Exit(0), "")
    assert await run(pod, "true", mounts=(Mount(path, target, read_only, optional=True),)) == (Exit(0), "")


async def test_names_are_not_missed_but_other_files_of_a_pod_are(isolation, tmp_path):
    await isolation.open(SandboxSpec("uid", "pod", (Mount(Path("/etc/hosts"), "/etc/hosts"),)))
    with pytest.raises(SpawnError, match="/var/run/token"):
        await isolation.open(SandboxSpec("uid", "pod", (Mount(tmp_path, "/var/run/token"),)))
