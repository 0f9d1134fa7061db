"""Isolation `net`: what a pod has of its own: address, names, processes, files."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node.test_sandbox import ENV, net_works, run, said, serve, shell, soon  # noqa: F401 - a fixture among them

from trainwright.node import linux
from trainwright.node.base import Exit, Mount, ProcessSpec, SandboxSpec, SpawnError
from trainwright.node.isolation import try_net
from trainwright.node.net import NetIsolation, NetSandbox


@pytest.fixture
async def isolation(net_works) -> AsyncIterator[NetIsolation]:  # noqa: F811
    if not net_works:
        pytest.skip("namespaces are refused on this machine")
    async with NetIsolation() as opened:
        yield opened


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 localhost\n")
    return file


@pytest.fixture
async def pods(isolation, hosts) -> list[NetSandbox]:
    mounts = (Mount(hosts, "/etc/hosts"),)
    return [await isolation.open(SandboxSpec(f"uid-{name}", f"pod-{name}", mounts)) for name in "ab"]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "file").write_text("content")
    return folder


# Network and names


async def test_host_name_and_address_are_the_pods_own(pods):
    code = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('8.8.8.8', 1)); print(s.getsockname()[0])"
    )
    for pod, name in zip(pods, ("pod-a", "pod-b"), strict=True):
        assert await run(pod, "hostname") == (Exit(0), f"{name}\n")
        assert await run(pod, sys.executable, "-c", code) == (Exit(0), f"{pod.address}\n"), "as frameworks ask for it"
        assert await run(pod, "ls", "/sys/class/net") == (Exit(0), "eth0\nlo\n")
    assert socket.gethostname() not in ("pod-a", "pod-b")
    assert len({pod.address for pod in pods}) == 2


async def test_two_pods_listen_on_the_same_port(pods, tmp_path):
    for pod, text in zip(pods, ("first", "second"), strict=True):
        await serve(pod, "0.0.0.0", 2222, text, tmp_path)
    assert await said(await pods[0].connect(2222)) == "first"
    assert await said(await pods[1].connect(2222)) == "second"
    assert await said(await pods[0].connect(2222, pods[1].address)) == "second"


async def test_names_are_those_of_the_hosts_file_also_when_it_changes(pods, hosts, tmp_path):
    code = "import socket; print(socket.create_connection(('job-worker-0', 23456), 5).recv(9).decode())"
    await serve(pods[1], "0.0.0.0", 23456, "worker", tmp_path)
    began = time.monotonic()
    ended, printed = await run(pods[0], sys.executable, "-c", code)
    assert ended == Exit(1)
    assert "Name or service not known" in printed
    assert time.monotonic() - began < 2, "an unknown name must not wait for a name server"
    with hosts.open("a") as file:
        file.write(f"{pods[1].address} job-worker-0 job-worker-0.job\n")
    assert await run(pods[0], sys.executable, "-c", code) == (Exit(0), "worker\n")
    assert await said(await pods[0].connect(23456, "job-worker-0.job")) == "worker", "probes may name a host"
    with pytest.raises(OSError, match="no such host: 'nobody'"):
        await pods[0].connect(1, "nobody")


async def test_there_is_no_way_out_and_that_is_said_at_once(pods):
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 20)"
    began = time.monotonic()
    ended, printed = await run(pods[0], sys.executable, "-c", code)
    assert ended == Exit(1)
    assert "Network is unreachable" in printed
    assert time.monotonic() - began < 2


async def test_a_freed_address_is_not_used_again_soon(isolation):
    seen = set()
    for number in range(5):
        pod = await isolation.open(SandboxSpec(f"uid-{number}", "pod"))
        seen.add(pod.address)
        await pod.close()
    assert len(seen) == 5


LINKS = """
import os, sys
from trainwright.node import linux
from trainwright.node.netlink import Netlink
own, theirs = (open(f"/proc/{pid}/ns/user") for pid in ("self", sys.argv[1]))
net = open(f"/proc/{sys.argv[1]}/ns/net")
if not os.path.sameopenfile(own.fileno(), theirs.fileno()):
    linux.setns(theirs.fileno(), 0)
linux.setns(net.fileno(), 0)
print(*Netlink().links())
"""


async def test_links_go_with_their_pods_and_the_host_has_none(isolation):
    before = socket.if_nameindex()
    pods = [await isolation.open(SandboxSpec(f"uid-{number}", "pod")) for number in range(3)]
    assert socket.if_nameindex() == before
    zygote = next(pid for pid, parent in linux.parents().items() if parent == isolation._zygote._process.pid)

    def links() -> str:
        command = [sys.executable, "-c", LINKS, str(zygote)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert links() == "lo br0 v1 v2 v3"
    for pod in pods:
        await pod.close()
    await soon(lambda: links() == "lo br0")


# Processes


async def test_a_pod_sees_only_its_own_processes(pods):
    if try_net().limits:
        pytest.skip("no pid namespace on this machine")
    _, printed = await run(pods[0], "sh", "-c", "ls -d /proc/[0-9]*")
    assert len(printed.split()) <= 4
    code = "import os; print(os.getpid() < 50, os.readlink('/proc/self') == str(os.getpid()))"
    assert await run(pods[0], sys.executable, "-c", code) == (Exit(0), "True True\n")


# Files


TARGETS = [
    pytest.param("/etc/mpi", id="below a folder of the system"),
    pytest.param("/etc/volcano/deep/er", id="with several folders missing"),
    pytest.param("/workspace", id="below the root folder"),
    pytest.param("/data/sets/mnist", id="deep below the root folder"),
    pytest.param("/usr/local/share/trainwright-test", id="below /usr"),
    pytest.param("/var/run/secrets/token", id="through a symbolic link"),
    pytest.param("/dev/trainwright", id="below /dev"),
    pytest.param("/home/mpiuser/.ssh", id="in the home of a user who does not exist"),
    pytest.param("/opt", id="over a folder that exists"),
]


def seen_on_host(target: str) -> tuple[bool, set[Path], set[Path]]:
    return Path(target).exists(), set(Path("/").iterdir()), set(Path("/etc").iterdir())


@pytest.mark.parametrize("target", TARGETS)
async def test_a_volume_is_where_the_manifest_says(pods, volume, target):
    before = seen_on_host(target)
    usual = "test -f /etc/passwd && test -d /proc/self && ls /tmp > /dev/null"
    script = f"cat {target}/file && echo new > {target}/new && {usual}"
    assert await run(pods[0], "sh", "-c", script, mounts=(Mount(volume, target),)) == (Exit(0), "content")
    assert (volume / "new").read_text() == "new\n"
    assert seen_on_host(target) == before, "the host is not changed"


@pytest.mark.parametrize("target", TARGETS)
async def test_a_volume_can_be_read_only_and_a_single_file(pods, volume, target):
    mounts = (Mount(volume / "file", f"{target}/hostfile", read_only=True),)
    ended, printed = await run(
        pods[0], "sh", "-c", f"cat {target}/hostfile; echo x >> {target}/hostfile", mounts=mounts
    )
    assert ended.code
    assert "content" in printed
    assert "Read-only file system" in printed
    assert (volume / "file").read_text() == "content"


async def test_a_volume_belongs_to_one_container(pods, volume):
    mounts = (Mount(volume, "/workspace"), Mount(volume, "/etc/mpi"))
    one = await pods[0].start(shell("sleep 1000", mounts=mounts))
    assert await run(pods[0], "sh", "-c", "ls -d /workspace /etc/mpi 2> /dev/null") == (Exit(2), "")
    assert await run(pods[0], "cat", "/workspace/file", mounts=mounts) == (Exit(0), "content"), "and its execs"
    await one.kill()


async def test_volumes_may_lie_in_each_other_in_any_order(pods, tmp_path):
    folders = [tmp_path / name for name in ("outer", "inner", "config")]
    for folder in folders:
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    mounts = (
        Mount(folders[1], "/data/in/side"),
        Mount(folders[0], "/data"),
        Mount(folders[2], "/etc/app", read_only=True),
        Mount(folders[1] / "name", "/etc/app/sub/name"),
    )
    script = "cat /data/name /data/in/side/name /etc/app/name /etc/app/sub/name"
    assert await run(pods[0], "sh", "-c", script, mounts=mounts) == (Exit(0), "outerinnerconfiginner")


async def test_a_volume_may_cover_the_place_another_comes_from(pods, tmp_path, volume):
    empty = tmp_path / "empty"
    empty.mkdir()
    mounts = (Mount(empty, str(volume.parent)), Mount(volume, "/workspace"))
    assert await run(pods[0], "cat", "/workspace/file", mounts=mounts) == (Exit(0), "content")


async def test_a_volume_in_a_folder_of_the_user_is_made_in_place(pods, tmp_path, volume):
    project = tmp_path / "project"
    project.mkdir()
    script = f"cat {project}/data/file; echo result > {project}/result"
    assert await run(pods[0], "sh", "-c", script, mounts=(Mount(volume, f"{project}/data"),)) == (Exit(0), "content")
    assert (project / "result").read_text() == "result\n", "what is written beside a volume is not lost"


async def test_the_working_directory_may_be_a_volume(pods, volume):
    mounts = (Mount(volume, "/workspace"),)
    assert await run(pods[0], "sh", "-c", "pwd; cat file", cwd="/workspace", mounts=mounts) == (
        Exit(0),
        "/workspace\ncontent",
    )


async def test_the_command_may_be_in_a_volume(pods, volume):
    (volume / "train.sh").write_text("#!/bin/sh\necho trained\n")
    (volume / "train.sh").chmod(0o755)
    assert await run(pods[0], "/app/train.sh", mounts=(Mount(volume, "/app"),)) == (Exit(0), "trained\n")


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        pytest.param("missing", "/data", "volume at '/data': {source}: no such file or directory", id="no such source"),
        pytest.param(".", "data", "volume at 'data': the path must be absolute", id="a relative path"),
        pytest.param("file", "/usr", "volume at '/usr' (from {source}): not a directory", id="a file over a folder"),
        pytest.param(".", "/proc/app", "/proc belongs to the kernel, nothing can be made there", id="below /proc"),
    ],
)
async def test_a_volume_that_cannot_be(pods, volume, source, target, words):
    path = volume / source
    with pytest.raises(SpawnError) as raised:
        await pods[0].start(ProcessSpec(("true",), ENV, mounts=(Mount(path, target),)))
    assert words.format(source=path) in str(raised.value)


async def test_an_optional_mount_that_cannot_be_is_left_out(pods, volume):
    mounts = (
        Mount(volume / "missing", "/data", optional=True),
        Mount(volume / "file", "/usr", optional=True),
        Mount(volume, "/proc/app", optional=True),
        Mount(volume, "/workspace", optional=True),
    )
    assert await run(pods[0], "cat", "/workspace/file", mounts=mounts) == (Exit(0), "content")


async def test_a_mount_of_the_whole_pod_that_cannot_be(isolation, tmp_path):
    with pytest.raises(SpawnError, match="volume at '/etc/hosts'"):
        await isolation.open(SandboxSpec("uid", "pod", (Mount(tmp_path / "missing", "/etc/hosts"),)))


def seen_below(folder: str) -> set[Path]:
    return set(Path(folder).iterdir())


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp/ray"])
async def test_private_folders_are_shared_within_a_pod_only(pods, folder):
    assert await run(pods[0], "sh", "-c", f"ls {folder}; echo x > {folder}/x") == (Exit(0), "")
    assert await run(pods[0], "ls", folder) == (Exit(0), "x\n")
    assert await run(pods[1], "ls", folder) == (Exit(0), "")
    assert Path(folder, "x") not in seen_below(folder)


async def test_the_termination_message_has_its_usual_place(pods, volume):
    mounts = (Mount(volume / "file", "/dev/termination-log"),)
    assert await run(pods[0], "sh", "-c", "echo out of luck > /dev/termination-log", mounts=mounts) == (Exit(0), "")
    assert (volume / "file").read_text() == "out of luck\n"


async def test_devices_work(pods):
    code = "import os; os.urandom(4); open('/dev/null', 'w').write('x'); print(len(open('/dev/zero', 'rb').read(3)))"
    assert await run(pods[0], sys.executable, "-c", code) == (Exit(0), "3\n")


async def test_pods_do_not_wait_for_each_other(isolation):
    """A pod's network carries packets as soon as the pod is there, also among many."""
    server, address = await isolation.listen(7777)
    code = (
        f"import socket, time; t = time.time(); socket.create_connection(('{address}', 7777)); print(time.time() - t)"
    )

    async def one(number: int) -> float:
        pod = await isolation.open(SandboxSpec(f"uid-{number}", "pod"))
        return float((await run(pod, sys.executable, "-I", "-S", "-c", code))[1])

    with server:
        waits = await asyncio.gather(*(one(number) for number in range(20)))
    assert max(waits) < 1.0
