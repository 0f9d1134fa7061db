"""Real mpirun across pods, started by exec: right sums on the right hosts, equal losses, and never a second run."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.conftest import ROOT
from tests.e2e import processes
from tests.e2e.running import Activate, AsPlainUser, Running, Start

from trainwright.core.objects import Object

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

EXAMPLES = ROOT / "examples" / "mpi"
TURNS = 20 if os.environ.get("TRAINWRIGHT_SOAK") else 2
IMPLEMENTATIONS = ["openmpi5", "openmpi4", "mpich"]


@pytest.fixture(params=IMPLEMENTATIONS)
def mpi(request: pytest.FixtureRequest, activate: Activate, environment: dict[str, str]) -> str:
    return use(request.param, activate, environment)


@pytest.fixture
def mpich(activate: Activate, environment: dict[str, str]) -> str:
    return use("mpich", activate, environment)


def use(name: str, activate: Activate, environment: dict[str, str]) -> str:
    (python,) = activate(name)
    environment["OPAL_PREFIX"] = str(python.parent.parent)  # where the wheels of Open MPI 4 look for their files
    return name


def example(name: str, **spec: object) -> Object:
    """Return an example with some fields of its spec changed."""
    job: Object = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return {**job, "spec": {**job["spec"], **spec}}


def running(job: Object, *command: str) -> Object:
    """Return a v1alpha1 job whose launcher runs this."""
    container = {**job["spec"]["template"]["spec"]["containers"][0], "command": [*command]}
    return {**job, "spec": {**job["spec"], "template": {"spec": {"containers": [container]}}}}


def written(job: Object, folder: Path) -> str:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return str(path)


def places(run: Running) -> dict[int, str]:
    """Return the host of every rank that had the right sum."""
    found = re.findall(r"rank (\d+) of 6 on allreduce(?:-v2)?-(worker-\d): sum 15", "\n".join(run.out))
    return {int(rank): host for rank, host in found}


RIGHT = {rank: f"worker-{rank // 2}" for rank in range(6)}


@pytest.mark.parametrize("turn_of_mpi", range(TURNS))
@pytest.mark.usefixtures("mpi")
def test_allreduce_is_right_and_every_rank_where_it_should_be(turn_of_mpi: int, start: Start) -> None:
    run = start("run", "examples/mpi/allreduce.yaml")

    assert run.wait(60) == 0, run.tail()
    assert places(run) == RIGHT, run.tail()


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as a plain user already")
def test_as_a_plain_user(mpi: str, start: Start, as_plain_user: AsPlainUser, framework: Callable[[str], Path]) -> None:
    run = start("run", "examples/mpi/allreduce.yaml", wrap=as_plain_user(framework(mpi)))

    assert run.wait(60) == 0, run.tail()
    assert places(run) == RIGHT, run.tail()


@pytest.mark.usefixtures("mpich")
def test_the_v2beta1_example(start: Start) -> None:
    run = start("run", "examples/mpi/v2beta1.yaml")

    assert run.wait(60) == 0, run.tail()
    assert places(run) == RIGHT, run.tail()


@pytest.mark.usefixtures("mpich")
def test_the_v2beta1_example_by_ssh(start: Start, activate: Activate) -> None:
    activate("sshd")
    run = start("run", "examples/mpi/v2beta1-ssh.yaml")

    assert run.wait(60) == 0, run.tail()
    assert places(run) == RIGHT, run.tail()


@pytest.mark.usefixtures("mpich")
def test_the_launcher_works_too(start: Start, tmp_path: Path) -> None:
    run = start("run", written(example("allreduce", runLauncherAsWorker=True), tmp_path))

    assert run.wait(60) == 0, run.tail()
    hosts = re.findall(r"rank \d+ of 6 on allreduce-(\S+): sum 15", "\n".join(run.out))
    assert sorted(hosts) == ["launcher", "launcher", "worker-0", "worker-0", "worker-1", "worker-1"], run.tail()


@pytest.mark.usefixtures("mpich")
@pytest.mark.parametrize("size", [{"gpus": 128}, {"replicas": 16}], ids=["gpus", "replicas"])
def test_the_design_documents_jobs_of_128_gpus(size: Object, start: Start, tmp_path: Path) -> None:
    container = {
        "name": "tensorflow-benchmarks",
        "image": "rongou/tensorflow_benchmarks:latest",
        "command": ["mpirun"],
        "args": ["-bind-to", "none", "sh", "-c", 'echo "rank $PMI_RANK of $PMI_SIZE"'],
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }
    job = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "MPIJob",
        "metadata": {"name": "tensorflow-benchmarks"},
        "spec": {**size, "backoffLimit": 0, "template": {"spec": {"containers": [container]}}},
    }
    run = start("run", "--gpu", "128", written(job, tmp_path))

    assert run.wait(100) == 0, run.tail()
    assert sorted(map(int, re.findall(r"rank (\d+) of 128", "\n".join(run.out)))) == [*range(128)]


def test_losses_are_those_of_a_serial_run(mpi: str, start: Start, tmp_path: Path, environment: dict[str, str]) -> None:
    program = ["python3", str(EXAMPLES / "train_sgd.py"), "--losses"]
    subprocess.run(
        ["mpirun", "-np", "1", *program, str(tmp_path / "serial")],
        env={**environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    run = start("run", written(running(example("train"), "mpirun", *program, str(tmp_path / "parallel")), tmp_path))

    assert run.wait(60) == 0, f"{mpi}: {run.tail()}"
    serial, parallel = ([*map(float, (tmp_path / name).read_text().split())] for name in ("serial", "parallel"))
    assert serial[-1] < serial[0] / 2
    assert parallel == pytest.approx(serial, abs=1e-9)


COUNTED = 'echo start >>"$STARTS"; exec mpirun sh -c "echo up; exec sleep 600"'


class TestKilled:
    """Whatever is killed, the verdict is right, nothing is left, and the launcher has started once."""

    @pytest.fixture
    def run(self, mpi: str, environment: dict[str, str], start: Start, tmp_path: Path) -> Running:
        environment["STARTS"] = str(tmp_path / "starts")
        job = running(example("allreduce", replicas=2, slotsPerWorker=1), "sh", "-c", COUNTED)
        run = start("run", written(job, tmp_path))
        begun = 0
        for _ in range(2):
            run.until(r"\| up$", 60, after=begun)
            begun = next(place for place in range(begun, len(run.lines)) if run.lines[place].endswith("| up")) + 1
        return run

    def starts(self, environment: dict[str, str]) -> list[str]:
        return Path(environment["STARTS"]).read_text().split()

    def test_a_rank(self, run: Running, environment: dict[str, str]) -> None:
        rank = next(each for each in processes.marked(run.mark) if is_rank(each, "1"))
        processes.kill(rank.pid)

        assert run.wait(40) not in (0, 124), run.tail()
        run.until(r"failed: .*(rank 1|a rank) on allreduce-worker-1 (was killed by SIGKILL|exited with code 9)")
        assert self.starts(environment) == ["start"]

    def test_the_agent(self, mpi: str, run: Running, environment: dict[str, str]) -> None:
        agents = [
            each for each in processes.marked(run.mark, HOSTNAME="allreduce-launcher") if "kubexec" in words(each)
        ]
        processes.kill(agents[0].pid)

        assert is_failure(run.wait(40), mpi), run.tail()
        assert self.starts(environment) == ["start"]

    def test_a_workers_main_process(self, mpi: str, run: Running, environment: dict[str, str]) -> None:
        main = next(each for each in processes.marked(run.mark, HOSTNAME="allreduce-worker-0") if "365d" in words(each))
        processes.kill(main.pid)

        assert is_failure(run.wait(60), mpi), run.tail()
        assert self.starts(environment) == ["start"]

    def test_the_launcher(self, run: Running, environment: dict[str, str]) -> None:
        main = next(
            each
            for each in processes.marked(run.mark, HOSTNAME="allreduce-launcher")
            if re.match(r"\S*(mpirun|prterun|mpiexec)", words(each)) and "PMI_RANK" not in each.environment
        )
        processes.kill(main.pid)

        assert run.wait(40) == 137, run.tail()
        assert self.starts(environment) == ["start"]


def is_failure(code: int, mpi: str) -> bool:
    """Say whether a run ended as it should after a host was lost: Open MPI 5 itself then exits with 0."""
    return code not in (0, 124) or mpi == "openmpi5"


def words(process: processes.Found) -> str:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def is_rank(process: processes.Found, number: str) -> bool:
    said = process.environment.get("PMI_RANK") or process.environment.get("OMPI_COMM_WORLD_RANK")
    return said == number and words(process).startswith("sleep 600")


@pytest.mark.parametrize(
    ("words", "changes", "said"),
    [
        pytest.param(
            ("run",),
            {"replicas": None, "gpus": 20},
            r"spec\.gpus: 20 is not a multiple of gpusPerNode \(8\); write 16 or 24",
            id="a number that does not divide",
        ),
        pytest.param(
            ("run", "--isolation", "ports"), {}, r"spec: mpirun needs pods with host names", id="pods without names"
        ),
    ],
)
def test_what_cannot_run_here_is_refused(
    words: tuple[str, ...], changes: Object, said: str, start: Start, tmp_path: Path
) -> None:
    run = start(*words, written(example("allreduce", **changes), tmp_path))

    assert run.wait(20) == 126, run.tail()
    run.until(said)
