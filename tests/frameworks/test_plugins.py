"""Plugins of a Volcano Job: what each replica is told, what admission adds and refuses, what a plugin implies."""

from dataclasses import dataclass

import pytest
from tests.frameworks.volcano import job, manifest

from trainwright import frameworks
from trainwright.frameworks import plugins
from trainwright.frameworks.base import HostNames, Replica


def wired(made, replica: str) -> frameworks.Wired:
    task, _, index = replica.rpartition("-")
    return frameworks.wire(made, Replica(task, int(index)), HostNames())


def env(made, replica: str) -> dict[str, str]:
    return {name: each.entry.value for name, each in wired(made, replica).env.items()}


def data(made, name: str) -> dict[str, str]:
    found = {each.object["metadata"]["name"]: each.object for each in frameworks.objects(made, HostNames())}
    listed: dict[str, str] = found[name]["data"]
    return listed


@pytest.mark.parametrize(
    ("asked", "tasks", "replica", "name", "value"),
    [
        pytest.param("env", "main:2", "main-1", "VC_TASK_INDEX", "1", id="env: a replica knows its index"),
        pytest.param("env", "main:2", "main-1", "VK_TASK_INDEX", "1", id="env: under its older name too"),
        pytest.param("pytorch", "master:1 worker:1", "master-0", "MASTER_ADDR", "j-master-0.j", id="pytorch: address"),
        pytest.param("pytorch", "master:1 worker:1", "worker-0", "MASTER_PORT", "23456", id="pytorch: port"),
        pytest.param("pytorch", "master:1 worker:2 extra:2", "worker-1", "RANK", "2", id="pytorch: worker i is i + 1"),
        pytest.param(
            "pytorch", "master:1 worker:2 extra:2", "extra-0", "WORLD_SIZE", "3", id="pytorch: others no count"
        ),
        pytest.param(
            "pytorch", "master:1 worker:2 extra:2", "extra-0", "RANK", None, id="pytorch: others have no rank"
        ),
        pytest.param("pytorch", "master:2 worker:1", "worker-0", "RANK", "2", id="pytorch: two masters leave no hole"),
        pytest.param("pytorch", "worker:2", "worker-0", "MASTER_ADDR", None, id="pytorch: no master, nothing is said"),
        pytest.param("pytorch", "master:1 worker:1", "worker-0", "PET_NODE_RANK", "1", id="pytorch: torchrun is told"),
        pytest.param("mpi", "master:1 worker:2", "master-0", "MPI_HOST", "j-worker-0.j,j-worker-1.j", id="mpi: hosts"),
        pytest.param("mpi", "master:1 worker:2", "worker-0", "MPI_HOST", None, id="mpi: a worker needs no hosts"),
        pytest.param("mpi", "master:1 worker:0", "master-0", "MPI_HOST", "", id="mpi: no replicas, an empty list"),
        pytest.param("mpi", "master:1", "master-0", "MPI_HOST", None, id="mpi: a master alone is told nothing"),
        pytest.param("tensorflow", "worker:1", "worker-0", "TF_CONFIG", None, id="tensorflow: one replica is alone"),
        pytest.param("mxnet", "scheduler:1 server:1 worker:2", "worker-0", "DMLC_NUM_WORKER", "2", id="mxnet: workers"),
        pytest.param("mxnet", "scheduler:1 server:1 worker:2", "server-0", "DMLC_ROLE", "server", id="mxnet: its role"),
    ],
)
def test_variables(asked, tasks, replica, name, value):
    assert env(job(tasks, **{asked: []}), replica).get(name) == value


def test_tf_config_is_what_go_would_write():
    made = job("ps:1 trainer:2", tensorflow=["--worker=trainer"])

    assert env(made, "trainer-1")["TF_CONFIG"] == (
        '{"cluster":{"ps":["j-ps-0.j:2222"],"worker":["j-trainer-0.j:2222","j-trainer-1.j:2222"]},'
        '"task":{"type":"worker","index":1}}'
    )


def test_svc_spells_tasks_with_underscores():
    assert data(job("mpi-worker:2", svc=[]), "j-svc") == {
        "mpi_worker.host": "j-mpi-worker-0.j\nj-mpi-worker-1.j",
        "VC_MPI_WORKER_HOSTS": "j-mpi-worker-0.j,j-mpi-worker-1.j",
        "VC_MPI_WORKER_NUM": "2",
    }


def test_the_hostfiles_have_slots_in_both_forms():
    assert data(job("master:1 worker:1", mpi=["--slots=4"]), "j-mpi") == {
        "hostfile": "j-worker-0.j slots=4",
        "hostfile.hydra": "j-worker-0.j:4",
    }


@pytest.mark.parametrize(
    ("asked", "port"),
    [
        pytest.param({"mpi": []}, 22, id="neither says a port"),
        pytest.param({"mpi": ["--port=2222"]}, 2222, id="mpi says it"),
        pytest.param({"mpi": [], "ssh": ["--ssh-port=2222"]}, 2222, id="ssh says it"),
    ],
)
def test_mpi_and_ssh_agree_on_the_port(asked, port):
    made = job("master:1 worker:1", **asked)

    assert wired(made, "master-0").wait_for[0][0].port == port
    assert f"-p {port}" in env(made, "master-0")["OMPI_MCA_plm_rsh_args"]


@pytest.mark.parametrize(
    ("asked", "path", "problem"),
    [
        pytest.param(
            {"big_plugin": []}, "spec.plugins.big_plugin", "unknown plugin 'big_plugin' (there are", id="a plugin"
        ),
        pytest.param({"pytroch": []}, "spec.plugins.pytroch", "did you mean 'pytorch'?", id="a misspelt plugin"),
        pytest.param(
            {"pytorch": ["--mastr=a"]},
            "spec.plugins.pytorch",
            "unknown flag '--mastr'; did you mean '--master'?",
            id="a misspelt flag",
        ),
        pytest.param(
            {"pytorch": ["--port=abc"]},
            "spec.plugins.pytorch",
            "--port: expected a whole number, found 'abc'; write for example --port=23456",
            id="a port that is no number",
        ),
        pytest.param(
            {"pytorch": ["--port=0"]}, "spec.plugins.pytorch", "a port is between 1 and 65535, found 0", id="a bad port"
        ),
        pytest.param({"pytorch": ["--port"]}, "spec.plugins.pytorch", "--port lacks its value", id="no value"),
        pytest.param(
            {"svc": ["--inject-hosts-env=maybe"]}, "spec.plugins.svc", "expected true or false", id="a bad switch"
        ),
        pytest.param(
            {"mpi": ["--master=boss"]},
            "spec.plugins.mpi",
            "there is no task 'boss' (there are: master, worker); name the one that is meant with --master",
            id="an mpi master that is not there",
        ),
    ],
)
def test_refused(asked, path, problem):
    errors = [each for each in plugins.check(manifest("master:1 worker:1", **asked)) if each.severity == "error"]

    assert [each.path for each in errors] == [path]
    assert problem in errors[0].message


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param({"pytorch": ["--master=boss"]}, "there is no task 'boss'", id="a role that no task has"),
        pytest.param({"ssh": ["--ssh-port=-10"]}, "22 is taken instead", id="an ssh port that cannot be one"),
    ],
)
def test_only_warned(asked, words):
    (problem,) = plugins.check(manifest("master:1 worker:1", **asked))

    assert problem.severity == "warning"
    assert words in problem.message


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        pytest.param({"tensorflow": []}, {"tensorflow": [], "svc": []}, id="tensorflow builds on svc"),
        pytest.param({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}, id="mpi builds on svc and ssh"),
        pytest.param({"ray": [], "svc": ["--x"]}, {"ray": [], "svc": ["--x"]}, id="what is there is kept"),
        pytest.param({"hcclrank": []}, {"hcclrank": []}, id="hcclrank builds on nothing"),
    ],
)
def test_needs_are_added(asked, stored):
    assert plugins.with_needs(manifest("master:1", **asked))["spec"]["plugins"] == stored


@pytest.mark.parametrize(
    ("tasks", "asked", "lead"),
    [
        pytest.param("chief:1 worker:2 ps:1", {"tensorflow": []}, ["chief"], id="the chief ends the job"),
        pytest.param("worker:2 ps:1", {"tensorflow": []}, ["worker"], id="without a chief the workers do"),
        pytest.param("master:1 worker:2", {"pytorch": []}, ["master"], id="the master of torch does"),
        pytest.param("scheduler:1 server:1 worker:2", {"mxnet": []}, [], id="all of mxnet end by themselves"),
        pytest.param("head:1 worker:2", {"ray": []}, [], id="ray has no end of its own"),
    ],
)
def test_lead(tasks, asked, lead):
    assert [role.name for role in job(tasks, **asked).roles if role.policies] == lead


def test_a_master_of_mpi_is_started_again_unless_the_user_says_otherwise():
    roles = {role.name: role for role in job("master:1 worker:1", mpi=[]).roles}

    assert roles["master"].restart_policy == "OnFailure"
    assert roles["worker"].restart_policy == "Always"


@pytest.mark.parametrize(
    ("words", "port"),
    [(["--port=5000"], 5000), (["-port=5000"], 5000), (["--port", "5000"], 5000), (["-port", "5000"], 5000)],
    ids=str,
)
def test_flags_are_written_as_go_takes_them(words, port):
    assert wired(job("master:1", pytorch=words), "master-0").ports["pytorchjob-port"] == (port, "pytorch")


@dataclass(frozen=True)
class Nameless(HostNames):
    """A net where pods have no names of their own."""

    names: bool = False


@pytest.mark.parametrize(
    ("asked", "tasks", "said"),
    [
        pytest.param("tensorflow", "worker:2", [], id="what is wired by ports alone works"),
        pytest.param(
            "ray",
            "head:1 worker:1",
            ["error spec.plugins.ray: the nodes of a Ray cluster listen on addresses of their own"],
            id="a cluster of Ray is refused",
        ),
        pytest.param(
            "mpi",
            "master:1 worker:1",
            [
                "error spec.plugins.mpi: mpirun reaches the workers by host names of their own",
                "warning spec.plugins.ssh: keys are only given to pods with files and addresses of their own",
            ],
            id="mpi is refused, and ssh says what it cannot do",
        ),
    ],
)
def test_where_pods_have_no_names(asked, tasks, said):
    made = job(tasks, **{asked: []})

    found = sorted(f"{problem.severity} {problem}" for problem in plugins.hindered(made, Nameless()))

    end = ", which isolation ports does not give them; use --isolation net"
    assert found == [f"{words}{end}" for words in said]
    assert not list(plugins.hindered(made, HostNames()))
