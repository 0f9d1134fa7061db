"""What is seen of jobs through commands: `logs`, `status`, `events`, `exec`, `top`, `doctor`, names that complete.

One server with a few jobs, looked at by a person on a terminal and by a script through a pipe: the same words.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import TW
from tests.e2e import processes
from tests.e2e.commanding import COLOUR, OK, STAMP, THROUGH, Step, piped, tell
from tests.e2e.running import Running, Start
from tests.e2e.served import job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

TALKS = "for i in 1 2 3; do echo step $i of rank $RANK; sleep 0.3; done; touch up-$RANK; sleep 600"
CRASHES = "echo try; sleep 0.3; if [ -e crashed ]; then echo again; sleep 600; fi; touch crashed; exit 3"
FAILS = "echo broken >&2; exit 7"

TIME = r"\d\d:\d\d:\d\d"

STEPS = (
    Step("logs talk", rf"({COLOUR}\S+ +\|{COLOUR} step \d of rank \d\n){{6}}"),
    Step("logs talk/worker-0", r"step 1 of rank 1\nstep 2 of rank 1\nstep 3 of rank 1\n"),
    Step("logs talk/1 --tail 1 --timestamps", rf"{STAMP} step 3 of rank 1\n"),
    Step("logs talk --rank 0 --grep [23]", r"step 2 of rank 0\nstep 3 of rank 0\n"),
    Step("logs talk --since 0s", r""),
    Step("logs crash --previous", r"try\n"),
    Step("logs crash", r"try\ntry\nagain\n"),
    Step("logs fail", r"broken\n"),
    Step("logs talk/7", r"tw: talk has no rank '7' \(there are: master-0, worker-0\)\n", 127),
    Step("logs talk --rank x", r"tw: --rank: 'x' names no ranks; write for example 3, 0-3 or 0,2,5-7\n", 2),
    Step("logs talk -c nobody", r"tw: no rank has a container 'nobody' \(there are: .*pytorch\)\n", 127),
    Step("logs tlak", r"tw: there is no job 'tlak' in .*; did you mean 'talk'\? .*\n", 127),
    Step(
        "status talk",
        rf"PyTorchJob default/talk: Running for \S+\n"
        rf"  {TIME}  Created: .*\n  {TIME}  Running: .*\n"
        r"    RANK +PHASE +NODE +EXIT +RESTARTS +AGE +LAST LINE\n"
        r"  master \(1: 1 running\)\n    master-0 +Running +local +0 +\S+ +step 3 of rank 0\n"
        r"  worker \(1: 1 running\)\n    worker-0 +Running +local +0 +\S+ +step 3 of rank 1\n",
    ),
    Step(
        "status fail",
        r"PyTorchJob default/fail: Failed after .*master-0 +Failed +local +7 +0 +\S+ +exited with code 7\n",
    ),
    Step("status crash", r".*master-0 +Running +local +1 +\S+ +again\n"),
    Step("status talk/worker-0 -o name", r"pod/talk-worker-0\n"),
    Step("status talk -o jsonpath={{.metadata.name}}", r"talk"),
    Step("status fail -w", r"(?:.*\n)?PyTorchJob default/fail: Failed after .*\n"),
    Step(
        "events fail",
        rf"TIME +TYPE +ABOUT +REASON +WHAT HAPPENED\n.*{TIME}  Warning +pytorchjob/fail +PyTorchJobFailed +.*\n",
    ),
    Step("events talk/worker-0", rf".*{TIME}  Normal +pod/talk-worker-0 +Started +pytorch runs\n"),
    Step("events talk -o name", r"(event/\S+\n)+"),
    Step("exec talk -- sh -c exit${{IFS}}5", r"", 5),
    Step("exec talk/worker-0 -- printenv RANK", r"1\n"),
    Step("exec talk -- no-such-command", r"tw: .*command not found: 'no-such-command'.*\n", 127),
    Step("exec fail -- true", r"tw: no rank of fail runs; tw status fail shows what became of them\n", 1),
    Step("why fail", r"fail failed: fail-master-0 exited with code 7\n.*try: .*\n"),
    Step(
        "doctor --kubeconfig {file}/state/trainwright/serve/kubeconfig",
        rf"{OK}trainwright .*{OK}cluster +cluster 'tw-serve' answers, Kubernetes v1.*{OK}PyTorchJob +known, 3 jobs.*"
        rf"{OK}rights +you may make jobs, see pods, logs and events, and execute, in namespace 'default'\n",
    ),
    Step("doctor -o json", r"\[\n.*\"what\": \"tw serve\",\n +\"found\": \"answers, 2 unfinished jobs in .*\]\n"),
)
TOP = (
    r"JOB +RANK +NODE +CPU +MEMORY +LIMIT +STEP +STEPS/S\n"
    r"crash +master-0 +local +\d.*\ntalk +master-0 +local +\d\.\d\d +\S+ +3 +[\d.]+\ntalk +worker-0 .*\n"
)


def alone(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment in which no cluster of whoever runs the tests is found, and no place of theirs written."""
    places = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), processes.MARK: uuid.uuid4().hex}
    return {name: value for name, value in environment.items() if name != "KUBECONFIG"} | places


@pytest.fixture(autouse=True)
def no_cluster(environment: dict[str, str], tmp_path: Path) -> None:
    """Look at nothing but what the test itself has started."""
    environment["HOME"] = str(tmp_path)
    environment.pop("KUBECONFIG", None)


@dataclass(frozen=True)
class Lab:
    """A server with a job that talks, one that has crashed once, and one that has failed."""

    folder: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return one server for all who only look."""
    folder = tmp_path_factory.mktemp("lab")
    environment = alone(os.environ, folder)
    server = Running([TW, "serve", "--port", "0", "--cpu", "16"], environment, folder)
    try:
        server.until("serving this user")
        jobs = [job("talk", TALKS, workers=1), job("crash", CRASHES, policy="OnFailure"), job("fail", FAILS)]
        (folder / "jobs.yaml").write_text(yaml.safe_dump_all(jobs))
        assert piped([TW, "apply", "-f", str(folder / "jobs.yaml")], environment).code == 0
        assert piped([TW, "wait", "fail", "--timeout", "60s"], environment).code == 7
        until(lambda: (folder / "up-0").exists() and (folder / "up-1").exists())
        until(lambda: "again" in piped([TW, "logs", "crash"], environment).out)
        yield Lab(folder, environment)
    finally:
        server.stop()
    assert not processes.left(environment[processes.MARK])


def until(holds, seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.mark.parametrize("through", THROUGH)
def test_every_view(through, lab):
    tell(STEPS, through, lab.environment, lab.folder)


def test_top_is_printed_once_in_a_pipe(lab):
    said = piped([TW, "top"], lab.environment)

    assert re.fullmatch(TOP, said.out), said


class Terminal:
    """A command on a terminal, and a person at it."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.shown = ""
        pid, self._terminal = pty.fork()
        if not pid:
            os.execve(words[0], words, environment)
        self._pid = pid

    def until(self, pattern: str, seconds: float = 30) -> None:
        """Wait until something is shown."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown, re.DOTALL):
            assert time.monotonic() < end, self.shown
            self._read(0.2)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def code(self, seconds: float = 30) -> int:
        """Return the exit code once the command has ended, having read all it shows."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._read(0.2):
            pass
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._terminal], [], [], seconds)[0]:
            return True
        try:
            self.shown += os.read(self._terminal, 1 << 16).decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            return False
        return True


def test_top_stays_on_a_terminal_until_q(lab):
    terminal = Terminal([TW, "top", "talk"], lab.environment)
    terminal.until(r"STEPS/S.*worker-0.*q quits\n.*\x1b\[J.*q quits")
    terminal.type("q")

    assert terminal.code() == 0


def test_a_shell_in_a_rank(lab):
    terminal = Terminal([TW, "exec", "talk/worker-0", "-it", "--", "sh"], lab.environment)
    terminal.until(r"[#$] ")
    terminal.type("echo rank=$RANK $(tty | cut -c1-8)\n")
    terminal.until(r"rank=1 /dev/pts")
    terminal.type("sleep 100\n")
    terminal.until("sleep 100\n")
    terminal.type("\x03")
    terminal.type("exit 9\n")

    assert terminal.code() == 9


def test_what_is_piped_in_comes_back(lab):
    data = os.urandom(1 << 20)
    done = subprocess.run([TW, "exec", "talk", "-i", "--", "cat"], env=lab.environment, input=data, capture_output=True)

    assert (done.returncode, done.stdout == data) == (0, True)


GROWS = "id=$(date +%s%N); echo $HOSTNAME up $id; while [ ! -e stop ]; do sleep 0.05; done; echo $HOSTNAME down $id"


@pytest.mark.parametrize("by_api", [False, True], ids=["from the files", "through the API"])
def test_following_hears_restarts_and_ranks_that_come_later(start: Start, environment, tmp_path, by_api):
    served = start("serve", "--port", "0", "--cpu", "16", cwd=tmp_path)
    served.until("serving this user")
    words = ["--kubeconfig", str(tmp_path / "state" / "trainwright" / "serve" / "kubeconfig")] if by_api else []
    manifest = {**job("late", GROWS, policy="OnFailure"), "metadata": {"name": "late", "annotations": NOT_SCALED}}
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2}
    manifest["spec"]["pytorchReplicaSpecs"] = {"Worker": {**manifest["spec"]["pytorchReplicaSpecs"]["Master"]}}
    (tmp_path / "late.yaml").write_text(yaml.safe_dump(manifest))
    assert piped([TW, "apply", "-f", str(tmp_path / "late.yaml")], environment).code == 0

    following = start("logs", "late", "-f", *words)
    following.until(r"^worker-0 \| late-worker-0 up")
    assert piped([TW, "exec", "late/0", "--", "pkill", "-9", "-f", "stop"], environment).code in (0, 137)
    following.until(r"^worker-0 \| late-worker-0 up", after=1)
    assert piped([TW, "scale", "late", "2"], environment).code == 0
    following.until(r"^worker-1 \| late-worker-1 up")
    (tmp_path / "stop").touch()

    assert following.wait() == 0
    assert {line.split()[2] for line in following.out if " down " in line} == {"late-worker-0", "late-worker-1"}
    assert len(set(following.out)) == len(following.out), following.out
    assert following.err == []


NOT_SCALED = {"trainwright.dev/autoscale": "false"}


@pytest.mark.parametrize("by_api", [False, True], ids=["from the files", "through the API"])
def test_a_rank_that_outlives_its_job_is_not_followed_for_ever(start: Start, environment, tmp_path, by_api):
    served = start("serve", "--port", "0", "--cpu", "16", cwd=tmp_path)
    served.until("serving this user")
    words = ["--kubeconfig", str(tmp_path / "state" / "trainwright" / "serve" / "kubeconfig")] if by_api else []
    script = "echo $RANK up; touch up-$RANK; while [ ! -e up-1 ]; do sleep 0.05; done; [ $RANK = 0 ] || sleep 600"
    lasting = job("lasting", script, workers=1, runPolicy={"cleanPodPolicy": "None"})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(lasting))
    assert piped([TW, "apply", "-f", str(tmp_path / "job.yaml")], environment).code == 0

    following = start("logs", "lasting", "-f", *words)

    assert following.wait() == 0
    assert sorted(following.out) == ["master-0 | 0 up", "worker-0 | 1 up"]


def test_following_a_run_ends_with_it(start: Start, environment, tmp_path):
    (tmp_path / "job.yaml").write_text(
        yaml.safe_dump(job("short", "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"))
    )
    running = start("run", "job.yaml", cwd=tmp_path)
    running.until(r"\| one")
    following = start("logs", "short", "-f", cwd=tmp_path)
    following.until(r"\| one")
    (tmp_path / "go").touch()

    assert (running.wait(), following.wait()) == (0, 0)
    assert following.out == ["master-0 | one", "master-0 | two"]


def test_a_reader_that_stops_reading_stops_us_and_nothing_grows(start: Start, environment, tmp_path):
    """A pager that shows its first page must not make us read everything into memory."""
    flood = 'i=0; while [ $i -lt 40 ]; do i=$((i+1)); head -c 1000000 /dev/zero | tr "\\0" "x" | fold -w 99; echo; done'
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job("flood", flood)))
    assert start("run", "-q", "job.yaml", cwd=tmp_path).wait() == 0

    with subprocess.Popen([TW, "logs", "flood"], env=environment, stdout=subprocess.PIPE) as reading:
        assert reading.stdout
        first = reading.stdout.readline()
        until(lambda: _asleep(reading.pid))
        held = _resident(reading.pid)
        reading.send_signal(signal.SIGINT)
        assert reading.wait(10) == 130

    assert first == b"x" * 99 + b"\n"
    assert held < 120 << 20


def _asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/wchan").read_text() != "0" and "pipe" in Path(f"/proc/{pid}/wchan").read_text()


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


COMPLETE = """
eval "$(tw completion bash)"
COMP_WORDS=({words}); COMP_CWORD={place}
_tw_completion tw; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param("tw lo", ["logs"], id="a command"),
        pytest.param("tw status ta", ["talk"], id="a job"),
        pytest.param("tw exec pytorchjob/ta", ["pytorchjob/talk"], id="a job of a kind"),
        pytest.param("tw logs --ti", ["--timestamps"], id="an option"),
    ],
)
def test_bash_completes_live_names(lab, words, names):
    script = COMPLETE.format(words=words, place=len(words.split()) - 1)
    path = f"{Path(TW).parent}{os.pathsep}{lab.environment['PATH']}"
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={**lab.environment, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == names, done.stderr
