"""Every Volcano example trains with its real framework, as root and as a user without privileges, and completes.

The manifests run as they stand. What each must have said in the end is a row of the table; the scripts check for
themselves that the loss has fallen, so a job that completes has learned something.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.e2e.running import Activate, AsPlainUser, Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

FOLDER = Path("examples/volcano")
STEPS = 20
STEP = re.compile(r"^(?P<pod>\S+)\s*\| (?=.*\brank (?P<rank>\d+))(?=.*\bstep (?P<step>\d+)).*\bloss (?P<loss>\d\S*)")
SUM = re.compile(r"\| rank (\d) of 4 on (\S+): sum (\d+)$")
PATIENCE = 200  # a ray worker that is there long before its head looks for it only every half minute


def ranks_agree(*pods: str) -> Callable[[Running], None]:
    """Return what checks that these pods, one rank each in this order, have done every step with the same loss."""

    def check(run: Running) -> None:
        seen = steps(run)
        assert seen.keys() == {(pod, rank, step) for rank, pod in enumerate(pods) for step in range(1, STEPS + 1)}
        assert all(seen[pods[0], 0, step] == loss for (_, _, step), loss in seen.items()), "ranks disagree"

    return check


def steps(run: Running) -> dict[tuple[str, int, int], str]:
    """Return the losses that were told, by pod, rank and step."""
    found = [match.groupdict() for line in run.out if (match := STEP.match(line))]
    losses = {(each["pod"], int(each["rank"]), int(each["step"])): each["loss"] for each in found}
    assert len(losses) == len(found), run.tail()
    return losses


def chief_alone_ends(run: Running) -> None:
    """The chief has done every step; workers and parameter servers would have served for ever."""
    ranks_agree("chief-0")(run)
    ended = {line for line in run.err if line.endswith((" succeeded", " stopped"))}
    assert ended == {"chief-0 succeeded", "ps-0 stopped", "worker-0 stopped", "worker-1 stopped"}


def both_workers_push(run: Running) -> None:
    """Two workers have done every step, each under a rank that the scheduler gave it."""
    seen = steps(run)
    ranks = {pod: rank for pod, rank, _ in seen}
    assert sorted(ranks.values()) == [0, 1]
    assert ranks.keys() == {"worker-0", "worker-1"}
    assert len(seen) == 2 * STEPS


def every_node_answers(run: Running) -> None:
    """Ray has run a task on the head and on both workers, and the submitting task alone has ended by itself."""
    said = "\n".join(run.out)
    answered = re.findall(r"^submit-0\s*\| rank \d ran on ray-cluster-job-(\S+)$", said, re.MULTILINE)
    assert sorted(answered) == ["head-0", "worker-0", "worker-1"], run.tail()
    assert {"submit-0 succeeded", "head-0 stopped", "worker-0 stopped", "worker-1 stopped"} <= set(run.err)


def all_ranks_add_up(run: Running) -> None:
    """Four ranks, two on each worker, have the same right sum."""
    found = [match.groups() for line in run.out if (match := SUM.search(line))]
    ranks = {int(rank): host.rpartition("-")[2] for rank, host, _ in found}
    assert ranks == {0: "0", 1: "0", 2: "1", 3: "1"}, run.tail()
    assert {total for _, _, total in found} == {"6"}


def names_resolve(run: Running) -> None:
    """The master has reached both workers by the names in its host file, and workers know who they are."""
    for index in (0, 1):
        assert any(re.match(rf"master-0\s*\| plain-job-worker-{index}\.plain-job 200$", line) for line in run.out)
        assert any(re.match(rf"worker-{index}\s*\| replica {index} of 2$", line) for line in run.out)


@dataclass(frozen=True)
class Example:
    """What an example needs on the PATH, what it must have shown, and whether it works without host names."""

    frameworks: tuple[str, ...]
    check: Callable[[Running], None]
    without_names: bool = False


TABLE = {
    "mpi": Example(("openmpi5", "sshd"), all_ranks_add_up),
    "mxnet": Example(("mxnet",), both_workers_push, without_names=True),
    "plain": Example((), names_resolve),
    "pytorch": Example(("torch",), ranks_agree("master-0", "worker-0", "worker-1"), without_names=True),
    "ray": Example(("ray",), every_node_answers),
    "tensorflow-ps": Example(("tensorflow",), chief_alone_ends, without_names=True),
    "tensorflow-workers": Example(("tensorflow",), ranks_agree("worker-0", "worker-1"), without_names=True),
}


def test_the_table_has_every_example() -> None:
    assert TABLE.keys() == {path.stem for path in (ROOT / FOLDER).glob("*.yaml")}


@pytest.mark.parametrize("name", TABLE)
def test_an_example(name: str, start: Start, activate: Activate) -> None:
    activate(*TABLE[name].frameworks)
    run = start(*said_command(name))

    assert run.wait(PATIENCE) == 0, run.tail()
    TABLE[name].check(run)


@pytest.mark.parametrize("name", TABLE)
def test_an_example_as_a_plain_user(name: str, start: Start, activate: Activate, as_plain_user: AsPlainUser) -> None:
    reach = activate(*TABLE[name].frameworks)
    run = start(*said_command(name), "--isolation", "net", wrap=as_plain_user(*reach))

    assert run.wait(PATIENCE) == 0, run.tail()
    TABLE[name].check(run)


@pytest.mark.parametrize("name", [name for name, example in TABLE.items() if example.without_names])
def test_an_example_on_distinct_ports(name: str, start: Start, activate: Activate) -> None:
    activate(*TABLE[name].frameworks)
    run = start(*said_command(name), "--isolation", "ports")

    assert run.wait(PATIENCE) == 0, run.tail()
    TABLE[name].check(run)


@pytest.mark.parametrize("name", ["mpi", "ray"])
def test_what_needs_host_names_is_refused_on_distinct_ports(name: str, start: Start) -> None:
    run = start(*said_command(name), "--isolation", "ports")

    assert run.wait() == 126, run.tail()
    assert any(line.startswith(f"spec.plugins.{name}: ") for line in run.err), run.tail()
    assert "--isolation net" in run.err[-1]


def said_command(name: str) -> list[str]:
    """Return the words with which an example says it is run."""
    path = FOLDER / f"{name}.yaml"
    said = re.search(rf"^#.*tw (run {re.escape(str(path))})", (ROOT / path).read_text(), re.MULTILINE)
    assert said, f"{path} does not say how to run it"
    return said[1].split()


def set_command(task: int, command: str) -> tuple[str, str]:
    """Return the words that give a task another command."""
    return "--set", f"spec.tasks.{task}.template.spec.containers.0.command={command}"


@pytest.mark.parametrize("privileged", [pytest.param(True, id="as root"), pytest.param(False, id="as a plain user")])
def test_torchrun_reads_the_same_facts_under_its_own_names(
    privileged: bool, start: Start, activate: Activate, as_plain_user: AsPlainUser
) -> None:
    reach = activate("torch")
    torchrun = f"[python3, -m, torch.distributed.run, examples/pytorch/train_static.py, --steps={STEPS}]"
    words = [*said_command("pytorch"), *set_command(0, torchrun), *set_command(1, torchrun)]
    run = start(*words, wrap=list if privileged else as_plain_user(*reach))

    assert run.wait(PATIENCE) == 0, run.tail()
    TABLE["pytorch"].check(run)


@pytest.mark.parametrize("privileged", [pytest.param(True, id="as root"), pytest.param(False, id="as a plain user")])
@pytest.mark.parametrize("implementation", ["openmpi4", "mpich"])
def test_mpi_with_another_implementation(
    implementation: str, privileged: bool, start: Start, activate: Activate, as_plain_user: AsPlainUser
) -> None:
    reach = activate(implementation, "sshd")
    # Open MPI 4 tells its daemons where it is installed only when it is called by its whole path.
    mpirun = reach[0].parent / "mpirun"
    words = [*said_command("mpi"), *set_command(0, f"[{mpirun}, python3, examples/mpi/allreduce.py]")]
    run = start(*words, wrap=list if privileged else as_plain_user(*reach))

    assert run.wait() == 0, run.tail()
    all_ranks_add_up(run)


AS_IMAGES_DO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: mpi
spec:
  plugins:
    mpi: ["--slots=2"]
  tasks:
    - name: master
      replicas: 1
      template:
        spec:
          containers:
            - name: mpi
              image: any
              command: [mpirun, --hostfile, /etc/mpi/hostfile, -np, "4", python3, examples/mpi/allreduce.py]
    - name: worker
      replicas: 2
      template:
        spec:
          containers:
            - name: mpi
              image: any
              command: [sshd, -D]
"""


@pytest.mark.parametrize("privileged", [pytest.param(True, id="as root"), pytest.param(False, id="as a plain user")])
def test_mpi_with_nothing_but_defaults(
    privileged: bool,
    start: Start,
    activate: Activate,
    as_plain_user: AsPlainUser,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Port 22 and root's own folder for the keys, as in an image."""
    reach = activate("openmpi5", "sshd")
    run = start("run", written(tmp_path_factory, AS_IMAGES_DO), wrap=list if privileged else as_plain_user(*reach))

    assert run.wait() == 0, run.tail()
    all_ranks_add_up(run)


SSH = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: logins
spec:
  plugins:
    svc: []
    ssh: ["--ssh-key-file-path=%(keys)s", "--ssh-port=2222"]
  tasks:
    - name: client
      replicas: 1
      policies: [{event: TaskCompleted, action: CompleteJob}]
      template:
        metadata:
          annotations: {trainwright.dev/wait-for: "server:2222"}
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: any
              command: [sh, -c, 'for name in logins-server-0 logins-server-1.logins; do %(ssh)s $name hostname; done']
    - name: server
      replicas: 2
      template:
        spec:
          containers:
            - name: main
              image: any
              command: [sshd, -D, -p, "2222", -o, AuthorizedKeysFile=%(keys)s/authorized_keys]
"""


@pytest.mark.parametrize(
    ("privileged", "keys", "ssh"),
    [
        pytest.param(True, "/root/.ssh", "ssh -p 2222", id="as root, whose ssh finds everything by itself"),
        pytest.param(False, "/etc/keys", "ssh -F /etc/keys/config -i /etc/keys/id_rsa -p 2222", id="as a plain user"),
    ],
)
def test_a_pod_logs_in_to_another_by_name_without_a_question(
    privileged: bool,
    keys: str,
    ssh: str,
    start: Start,
    activate: Activate,
    as_plain_user: AsPlainUser,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    reach = activate("sshd")
    manifest = written(tmp_path_factory, SSH % {"keys": keys, "ssh": ssh})
    run = start("run", manifest, wrap=list if privileged else as_plain_user(*reach))

    assert run.wait() == 0, run.tail()
    answers = [line.rpartition("| ")[2] for line in run.out if "| logins-server-" in line]
    assert answers == ["logins-server-0", "logins-server-1"], run.tail()


def written(folders: pytest.TempPathFactory, manifest: str) -> str:
    """Return the path of a manifest that everybody can read."""
    folder = folders.mktemp("manifest")
    folder.chmod(0o755)
    (folder / "job.yaml").write_text(manifest)
    return str(folder / "job.yaml")
