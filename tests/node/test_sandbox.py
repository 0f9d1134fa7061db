"""Both isolations with real processes: start, end, kill, sockets.

`test_sandbox_plain_user.py` runs this file, and `test_sandbox_net.py`, once more as a user without privileges.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.node import linux
from trainwright.node.base import Exit, ProcessSpec, Sandbox, SandboxSpec, SpawnError
from trainwright.node.isolation import try_net
from trainwright.node.net import NetIsolation
from trainwright.node.pods import PodProcess, PodSandbox
from trainwright.node.ports import PortsIsolation

ENV = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
AnyIsolation = NetIsolation | PortsIsolation


@pytest.fixture(scope="session")
def net_works() -> bool:
    return try_net().works


@pytest.fixture(params=["net", "ports"])
async def isolation(request, net_works) -> AsyncIterator[AnyIsolation]:
    if request.param == "net" and not net_works:
        pytest.skip("namespaces are refused on this machine")
    async with NetIsolation() if request.param == "net" else PortsIsolation() as opened:
        yield opened


@pytest.fixture
async def pod(isolation) -> PodSandbox:
    opened: PodSandbox = await isolation.open(SandboxSpec(uid=uuid.uuid4().hex, hostname="pod-a"))
    return opened


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds to sleep that finds the sleeper again among all processes; nothing may be left of it."""
    text = f"{uuid.uuid4().int % 10**9 + 10**9}"
    yield text
    left = sleepers(text)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"{len(left)} processes were left running"


def sleepers(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"sleep" and mark.encode() in words:
                found.append(int(folder.name))
    return found


def running(pids: set[int]) -> set[int]:
    """Return those that have not ended; who has, may still wait for the machine's own init to take notice."""

    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "X"

    return {pid for pid in pids if state(pid) not in "XZ"}


def open_files(pid: int | str = "self") -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def read(path: str) -> str:
    return Path(path).read_text()


async def soon(what: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Wait until `what` says something true, and return it."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "this did not happen in time"
        await asyncio.sleep(0.005)
    return value


async def run(sandbox: Sandbox, *argv: str, **more: Any) -> tuple[Exit, str]:
    """Run a command to its end and return how it ended and what it printed."""
    with tempfile.TemporaryFile() as output:
        spec = ProcessSpec(argv, more.pop("env", ENV), stdout=output.fileno(), stderr=output.fileno(), **more)
        ended = await (await sandbox.start(spec)).wait()
        output.seek(0)
        return ended, output.read().decode(errors="surrogateescape")


def shell(script: str, **more: Any) -> ProcessSpec:
    return ProcessSpec(("sh", "-c", script), ENV, **more)


DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvpe("sleep", ["sleep", sys.argv[1]], {"PATH": os.environ["PATH"]})
    os._exit(0)
os.wait()
"""


def daemonise(mark: str, then: str) -> str:
    """A script that starts a daemon, detached by double fork, setsid and a cleared environment, and goes on."""
    return f"{sys.executable} -I -S -c '{DAEMON}' {mark}; {then}"


# How processes end


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        pytest.param("true", Exit(0), id="success"),
        pytest.param("exit 3", Exit(3), id="an exit code of its own"),
        pytest.param("kill -KILL $$", Exit(137, 9), id="SIGKILL is 137"),
        pytest.param("kill -TERM $$", Exit(143, 15), id="SIGTERM is 143"),
        pytest.param("kill -INT $$", Exit(130, 2), id="SIGINT is not ignored, as it would be for background jobs"),
        pytest.param("kill -PIPE $$", Exit(141, 13), id="SIGPIPE is not ignored, as it would be under Python"),
        pytest.param("exit 143", Exit(143), id="an exit code that only looks like a signal"),
    ],
)
async def test_the_exit_is_told_as_it_was(pod, script, ended):
    assert (await run(pod, "sh", "-c", script))[0] == ended


async def test_a_signal_reaches_the_process(pod, tmp_path):
    ready = tmp_path / "ready"
    process = await pod.start(shell(f"trap 'exit 7' USR1; touch {ready}; while :; do sleep 0.01; done"))
    await soon(ready.exists)
    process.signal(signal.SIGUSR1)
    assert await process.wait() == Exit(7)
    process.signal(signal.SIGUSR1)  # nothing happens once it has ended


async def test_several_can_wait_and_one_may_give_up(pod):
    process = await pod.start(shell("sleep 0.2; exit 4"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.01)
    assert [*await asyncio.gather(process.wait(), process.wait())] == [Exit(4), Exit(4)]


# What cannot be started


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        pytest.param(
            ("no-such-command",), None, "command not found: 'no-such-command' is in no folder of PATH", id="name"
        ),
        pytest.param(("/no/such",), None, "command not found: '/no/such' does not exist", id="path"),
        pytest.param(("./train.sh",), None, "'./train.sh' does not exist (working directory ", id="relative path"),
        pytest.param(("/etc/passwd",), None, "permission denied, it is not executable (chmod +x", id="not executable"),
        pytest.param(("/etc",), None, "cannot start '/etc': it is a folder", id="a folder"),
        pytest.param(("true",), "/no/such", "working directory '/no/such': no such file or directory", id="no folder"),
        pytest.param(
            ("true",), "/etc/passwd", "working directory '/etc/passwd': not a directory", id="a file as folder"
        ),
        pytest.param((), None, "there is no command to start", id="nothing at all"),
        pytest.param(("true", "a\0b"), None, "cannot start 'true': embedded null byte", id="a NUL byte"),
        pytest.param(("true", "x" * 3_000_000), None, "are too long for the kernel", id="three megabytes of arguments"),
    ],
)
async def test_what_cannot_be_started_is_said_in_words(pod, argv, cwd, words):
    with pytest.raises(SpawnError) as raised:
        await pod.start(ProcessSpec(argv, ENV, cwd=cwd))
    assert words in str(raised.value)
    assert (await run(pod, "true"))[0] == Exit(0)  # and the pod goes on


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "#!/no/such/python\n", "its interpreter does not exist (/no/such/python)", id="missing interpreter"
        ),
        pytest.param("print('hello')\n", "no script with a #! line", id="no interpreter"),
    ],
)
async def test_a_script_that_cannot_be_started(pod, tmp_path, text, words):
    script = tmp_path / "train.py"
    script.write_text(text)
    script.chmod(0o755)
    with pytest.raises(SpawnError) as raised:
        await pod.start(ProcessSpec((str(script),), ENV))
    assert words in str(raised.value)


async def test_a_closed_pod_starts_nothing(pod):
    await pod.close()
    await pod.close()
    with pytest.raises(SpawnError, match="the pod has ended"):
        await pod.start(shell("true"))
    assert pod.pids() == []


# What a process is given


async def test_the_environment_is_exactly_what_was_asked_for(pod, isolation):
    odd = b"caf\xe9".decode(errors="surrogateescape")
    env = {"PATH": ENV["PATH"], "A": "1", "ODD": odd, "LARGE": "x" * 100_000}
    _, printed = await run(pod, "env", env=env)
    found = dict(line.split("=", 1) for line in printed.splitlines())
    assert bool(found.pop("TW_POD_UID", "")) == (isolation.name == "ports")
    assert found == env


async def test_a_megabyte_of_environment_arrives(pod):
    env = ENV | {f"V{n}": "x" * 10_000 for n in range(100)}
    _, printed = await run(pod, "sh", "-c", "env | wc -c", env=env)
    assert int(printed) > 1_000_000


async def test_only_the_three_usual_files_are_open(pod):
    spec = {"stdin": os.open(os.devnull, os.O_RDONLY)}
    _, printed = await run(
        pod, sys.executable, "-I", "-S", "-c", "import os; print(os.listdir('/proc/self/fd'))", **spec
    )
    os.close(spec["stdin"])
    assert printed.strip() == "['0', '1', '2', '3']"  # 3 is the listing itself


async def test_standard_input_is_empty_unless_given(pod):
    assert await run(pod, "cat") == (Exit(0), "")
    read, write = os.pipe()
    os.write(write, b"hello")
    os.close(write)
    assert await run(pod, "cat", stdin=read) == (Exit(0), "hello")
    os.close(read)


async def test_output_goes_straight_to_the_file(pod, tmp_path):
    with (tmp_path / "log").open("ab") as file:
        process = await pod.start(shell("seq 100000; echo problem >&2", stdout=file.fileno(), stderr=file.fileno()))
    await process.wait()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [*(str(n + 1) for n in range(100000)), "problem"]


async def test_the_working_directory_is_the_callers_unless_given(pod, tmp_path):
    assert await run(pod, "pwd") == (Exit(0), f"{Path.cwd()}\n")
    assert await run(pod, "pwd", cwd="/usr") == (Exit(0), "/usr\n")


async def test_files_belong_to_the_user_and_capabilities_are_his_own(pod, tmp_path):
    assert await run(pod, "sh", "-c", f"id -u; touch {tmp_path}/made") == (Exit(0), f"{os.getuid()}\n")
    assert (tmp_path / "made").stat().st_uid == os.getuid()
    _, printed = await run(pod, "grep", "CapEff", "/proc/self/status")
    assert printed.strip() in read("/proc/self/status")


async def test_a_terminal_controls_what_runs_on_it(pod):
    ours, theirs = os.openpty()
    # exec: a shell that is just starting a child may swallow the signal for both
    spec = shell("tty; echo ready; exec sleep 1000", stdin=theirs, stdout=theirs, stderr=theirs, terminal=True)
    process = await pod.start(spec)
    os.close(theirs)
    printed = ""
    while "ready" not in printed:
        printed += (await asyncio.to_thread(os.read, ours, 1000)).decode()
    assert printed.startswith("/dev/pts/")
    os.write(ours, b"\x03")
    assert await process.wait() == Exit(130, 2)
    os.close(ours)


async def test_a_process_is_the_leader_of_its_own_session(pod):
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert await run(pod, sys.executable, "-c", code) == (Exit(0), "True\n")


# Process ids


async def test_process_ids_are_those_of_the_host(pod, mark):
    process = await pod.start(shell(f"sleep {mark} & sleep {mark}; true"))
    await soon(lambda: len(sleepers(mark)) == 2)
    assert read(f"/proc/{process.pid}/cmdline").startswith("sh\0-c\0")
    await soon(lambda: pod.pids() == sorted([process.pid, *sleepers(mark)]))
    assert "Pss:" in read(f"/proc/{process.pid}/smaps_rollup")
    await process.kill()


# Whole trees end


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        pytest.param("exit 3", Exit(3), id="the command exits"),
        pytest.param("kill -KILL $$", Exit(137, 9), id="the command is killed"),
    ],
)
async def test_a_daemon_ends_with_the_command_that_made_it(pod, mark, then, ended):
    process = await pod.start(shell(daemonise(mark, f"sleep 0.2; {then}")))
    await soon(lambda: sleepers(mark))
    assert await process.wait() == ended
    assert not sleepers(mark)


async def test_kill_ends_the_whole_tree_even_if_it_ignores_signals(pod, mark, tmp_path):
    heard = tmp_path / "heard"
    deaf = f"trap 'touch {heard}' TERM; sleep {mark} & sleep {mark} & while :; do wait; done"
    process = await pod.start(shell(daemonise(mark, deaf)))
    await soon(lambda: len(sleepers(mark)) == 3)
    process.signal(signal.SIGTERM)
    await soon(heard.exists)
    assert len(sleepers(mark)) == 3
    await process.kill()
    assert not sleepers(mark)
    assert await process.wait() == Exit(137, 9)
    await process.kill()


async def test_kill_spares_the_other_processes_of_the_pod(pod, mark):
    other = await pod.start(shell(daemonise(mark, f"sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 2)
    process = await pod.start(shell(daemonise(mark, f"sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 4)
    await process.kill()
    assert len(sleepers(mark)) == 2
    assert not other.ended
    await pod.close()
    assert await other.wait() == Exit(137, 9)
    assert not sleepers(mark)


async def test_an_exec_may_leave_something_running_until_the_pod_ends(pod, mark):
    process = await pod.start(shell(daemonise(mark, "exit 5"), leave_children=True))
    assert await process.wait() == Exit(5)
    assert len(sleepers(mark)) == 1
    await pod.close()
    assert not sleepers(mark)


async def test_a_killed_exec_leaves_nothing(pod, mark):
    process = await pod.start(shell(daemonise(mark, f"sleep {mark}"), leave_children=True))
    await soon(lambda: len(sleepers(mark)) == 2)
    await process.kill()
    assert not sleepers(mark)


async def test_closing_one_pod_spares_the_others(isolation, pod, mark):
    other = await isolation.open(SandboxSpec("other", "other"))
    await pod.start(shell(daemonise(mark, f"sleep {mark}")))
    kept = await other.start(shell(daemonise(mark, f"sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 4)
    await pod.close()
    assert len(sleepers(mark)) == 2
    assert not kept.ended
    await other.close()


async def test_leaving_the_isolation_ends_every_pod(net_works, mark):
    for kind in [PortsIsolation] + [NetIsolation] * net_works:
        async with kind() as isolation:
            pods = [await isolation.open(SandboxSpec(f"uid-{n}", f"pod-{n}")) for n in range(3)]
            processes = [await pod.start(shell(daemonise(mark, f"sleep {mark}"))) for pod in pods]
            await soon(lambda: len(sleepers(mark)) == 6)
        assert not sleepers(mark)
        # killed, or just in time to say that its child was
        assert [(await process.wait()).code for process in processes] == [137] * 3


async def test_supervision_outlives_what_a_pod_may_signal(pod, mark):
    process = await pod.start(shell(f"exec sleep {mark}"))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(process.supervisor, number)
        os.kill(pod._init, number)
    process.signal(signal.SIGUSR2)
    assert await process.wait() == Exit(140, 12), "it still obeys, and still tells"


async def test_a_killed_supervisor_takes_its_process_along(pod, mark):
    process = await pod.start(shell(daemonise(mark, f"exec sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 2)
    os.kill(process.supervisor, signal.SIGKILL)
    assert await process.wait() == Exit(137, 9)
    await pod.close()
    assert not sleepers(mark)


async def test_a_killed_pod_init_is_the_end_of_the_pod(isolation, pod, mark):
    process = await pod.start(shell(daemonise(mark, f"sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 2)
    os.kill(pod._init, signal.SIGKILL)
    assert await process.wait() == Exit(137, 9)
    await pod.close()
    assert not sleepers(mark)
    assert (await run(await isolation.open(SandboxSpec("next", "next")), "true"))[0] == Exit(0)


async def test_a_killed_zygote_is_the_end_of_all_pods(isolation, pod, mark):
    process = await pod.start(shell(daemonise(mark, f"sleep {mark}")))
    await soon(lambda: len(sleepers(mark)) == 2)
    zygote = next(pid for pid, parent in linux.parents().items() if parent == isolation._zygote._process.pid)
    os.kill(zygote, signal.SIGKILL)
    assert await process.wait() == Exit(137, 9)
    await soon(lambda: not sleepers(mark))
    with pytest.raises(SpawnError, match="the process that starts pods has ended"):
        await isolation.open(SandboxSpec("late", "late"))


AGENT = """
import asyncio, os, sys
from trainwright.node.base import ProcessSpec, SandboxSpec
from trainwright.node.net import NetIsolation
from trainwright.node.ports import PortsIsolation

async def main(kind, script):
    async with {"net": NetIsolation, "ports": PortsIsolation}[kind]() as isolation:
        for n in range(3):
            pod = await isolation.open(SandboxSpec(f"uid-{n}", f"pod-{n}"))
            await pod.start(ProcessSpec(("sh", "-c", script), dict(os.environ)))
        print("ready", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


def start_agent(kind: str, script: str) -> "subprocess.Popen[bytes]":
    agent = subprocess.Popen([sys.executable, "-c", AGENT, kind, script], stdout=subprocess.PIPE)
    assert agent.stdout
    assert agent.stdout.readline() == b"ready\n"
    return agent


@pytest.mark.parametrize("kind", ["net", "ports"])
async def test_kill_9_of_the_agent_leaves_nothing(kind, net_works, mark):
    if kind == "net" and not net_works:
        pytest.skip("namespaces are refused on this machine")
    script = daemonise(mark, f"trap '' TERM HUP; sleep {mark}; sleep {mark}")
    with start_agent(kind, script) as agent:
        await soon(lambda: len(sleepers(mark)) == 6)
        helpers = linux.descendants(agent.pid, linux.parents())
        agent.kill()
    await soon(lambda: not sleepers(mark))
    await soon(lambda: not running(helpers))


# Giving up halfway


async def test_a_start_that_is_cancelled_leaves_nothing(pod, mark):
    for delay in (0.0, 0.001, 0.002, 0.004, 0.008):
        starting = asyncio.create_task(pod.start(shell(daemonise(mark, f"sleep {mark}"))))
        await asyncio.sleep(delay)
        starting.cancel()
        try:
            process: PodProcess = await starting
        except asyncio.CancelledError:
            continue
        await process.kill()
    await soon(lambda: not sleepers(mark))
    assert (await run(pod, "true"))[0] == Exit(0)


async def test_an_open_that_is_cancelled_leaves_nothing(isolation):
    for delay in (0.0, 0.001, 0.002, 0.004):
        opening = asyncio.create_task(isolation.open(SandboxSpec("uid", "name")))
        await asyncio.sleep(delay)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    assert (await run(await isolation.open(SandboxSpec("uid", "name")), "true"))[0] == Exit(0)


# Sockets


SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("ready")
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(sys.argv[3].encode())
"""


async def serve(sandbox: Sandbox, host: str, port: int, text: str, folder: Path, head: str = "") -> None:
    """Start a server that says `text` to everybody, and wait until it listens."""
    with (folder / f"{text}.log").open("wb") as log:
        argv = (sys.executable, "-c", SERVER, host, str(port), head + text)
        await sandbox.start(ProcessSpec(argv, ENV, stdout=log.fileno(), stderr=log.fileno()))
    await soon(lambda: (folder / f"{text}.log").read_text() == "ready\n")


async def said(connected: socket.socket) -> str:
    with connected:
        assert not connected.getblocking()
        return (await asyncio.get_running_loop().sock_recv(connected, 100)).decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_the_agent_connects_to_a_port_inside(pod, tmp_path):
    port = free_port()
    await serve(pod, "127.0.0.1", port, "inside", tmp_path)
    assert await said(await pod.connect(port, "127.0.0.1")) == "inside"
    assert await said(await pod.connect(port, "localhost")) == "inside"


async def test_nobody_listens(pod):
    with pytest.raises(ConnectionRefusedError):
        await pod.connect(free_port())


async def test_pods_reach_a_socket_of_the_agent(isolation, pod):
    server, address = await isolation.listen(free_port())
    with server:
        script = f"import socket; print(socket.create_connection(('{address}', {server.getsockname()[1]})).recv(9))"
        client = asyncio.create_task(run(pod, sys.executable, "-c", script))
        connection, _ = await asyncio.get_running_loop().sock_accept(server)
        with connection:
            connection.send(b"hello")
        assert await client == (Exit(0), "b'hello'\n")


async def test_a_port_in_use_is_said_to_be(isolation):
    server, _ = await isolation.listen(free_port())
    with server, pytest.raises(OSError, match="Address already in use"):
        await isolation.listen(server.getsockname()[1])


# Many


async def test_fifty_pods_and_nothing_left_of_them(isolation, mark):
    async def one(number: int) -> PodSandbox:
        pod: PodSandbox = await isolation.open(SandboxSpec(f"uid-{number}", f"pod-{number}"))
        await pod.start(ProcessSpec(("sleep", mark), ENV))
        return pod

    before = open_files()
    helpers = len(linux.descendants(os.getpid(), linux.parents()))
    for _ in range(2):
        pods = await asyncio.gather(*(one(number) for number in range(50)))
        assert len(sleepers(mark)) == 50
        if isolation.name == "net":
            assert len({pod.address for pod in pods}) == 50
        await asyncio.gather(*(pod.close() for pod in pods))
        assert not sleepers(mark)
    await soon(lambda: open_files() == before)
    assert len(linux.descendants(os.getpid(), linux.parents())) == helpers, "no zombie, no helper"


async def test_many_short_processes_leave_no_descriptor(pod):
    assert (await run(pod, "true"))[0] == Exit(0)
    before = open_files()
    for _ in range(20):
        with pytest.raises(SpawnError):
            await pod.start(ProcessSpec(("no-such-command",), ENV))
        assert (await run(pod, "true"))[0] == Exit(0)
    await soon(lambda: open_files() == before)
    assert open_files(pod._init) < 15


def test_the_helpers_load_nothing_heavy():
    code = "import sys; from trainwright.node import zygote; print(*sys.modules)"
    source = str(Path(linux.__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({source!r}); {code}"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    heavy = {"asyncio", "dataclasses", "logging", "msgspec", "pathlib", "subprocess", "typing", "yaml"}
    assert not heavy.intersection(loaded), "each import delays the first pod; see zygote.py"
