"""What each replica of a static PyTorchJob is told."""

import pytest
from tests.reconcile.making import manifest, read, role

from trainwright import frameworks
from trainwright.api.common import Job
from trainwright.frameworks.base import Endpoint, HostNames, Replica


class Loopback:
    names = False

    def endpoint(self, job: Job, role: str, index: int, port: int) -> Endpoint:
        return Endpoint("127.0.0.1", 20_000 + index)


def env(job: Job, replica: str, net=None) -> dict[str, str]:
    name, index = replica.split("-")
    wired = frameworks.wire(job, Replica(name, int(index)), net or HostNames())
    return {key: each.entry.value for key, each in wired.env.items()}


def test_a_master_and_its_workers_know_each_other():
    job = read(manifest(master=1, workers=2))

    assert list(env(job, "Worker-1").items()) == [
        ("PYTHONUNBUFFERED", "1"),
        ("MASTER_PORT", "23456"),
        ("PET_MASTER_PORT", "23456"),
        ("MASTER_ADDR", "j-master-0"),
        ("PET_MASTER_ADDR", "j-master-0"),
        ("WORLD_SIZE", "3"),
        ("RANK", "2"),
        ("PET_NODE_RANK", "2"),
        ("PET_NPROC_PER_NODE", "auto"),
        ("PET_NNODES", "3"),
    ]


@pytest.mark.parametrize(
    ("master", "workers", "replica", "name", "value"),
    [
        pytest.param(1, 0, "Master-0", "WORLD_SIZE", "1", id="a master alone is a world of one"),
        pytest.param(1, 0, "Master-0", "PET_NNODES", "1", id="a master alone is one node"),
        pytest.param(1, 3, "Master-0", "RANK", "0", id="the master is rank 0"),
        pytest.param(1, 3, "Worker-0", "RANK", "1", id="worker 0 is rank 1"),
        pytest.param(1, 3, "Worker-2", "PET_NODE_RANK", "3", id="worker i is node rank i + 1"),
        pytest.param(0, 2, "Worker-1", "PET_NNODES", "2", id="workers alone know how many they are"),
        pytest.param(0, 2, "Worker-1", "MASTER_ADDR", None, id="workers alone are told of no master"),
        pytest.param(0, 2, "Worker-1", "RANK", None, id="workers alone are told no rank"),
        pytest.param(0, 2, "Worker-1", "PET_RDZV_ENDPOINT", None, id="without elasticPolicy there is no rendezvous"),
    ],
)
def test_static(master, workers, replica, name, value):
    assert env(read(manifest(master, workers)), replica).get(name) == value


@pytest.mark.parametrize(
    ("nproc", "resources", "expected", "world"),
    [
        pytest.param(None, None, "auto", "2", id="unset means auto"),
        pytest.param("4", None, "4", "8", id="a number multiplies the world size"),
        pytest.param("gpu", None, "gpu", "2", id="gpu is torchrun's to count"),
        pytest.param(None, {"limits": {"cpu": "1500m"}}, "2", "2", id="auto with a CPU limit is the limit rounded up"),
        pytest.param(None, {"requests": {"cpu": "100m"}}, "1", "2", id="auto with a small CPU request is one process"),
        pytest.param(
            None, {"limits": {"cpu": "8", "nvidia.com/gpu": 2}}, "auto", "2", id="auto with accelerators counts those"
        ),
        pytest.param("2", {"limits": {"cpu": "8"}}, "2", "4", id="a number is never replaced by the CPU limit"),
    ],
)
def test_processes_per_node(nproc, resources, expected, world):
    obj = manifest(master=1, workers=1)
    if nproc:
        obj["spec"]["nprocPerNode"] = nproc
    if resources:
        for spec in obj["spec"]["pytorchReplicaSpecs"].values():
            spec["template"]["spec"]["containers"][0]["resources"] = resources

    told = env(read(obj), "Worker-0")

    assert (told["PET_NPROC_PER_NODE"], told["WORLD_SIZE"]) == (expected, world)


@pytest.mark.parametrize(
    ("master", "replica", "waits"),
    [
        pytest.param(0, "Worker-0", [], id="a worker without a master does not wait"),
        pytest.param(1, "Worker-0", ["init-pytorch: j-master-0"], id="a worker waits for its master's name"),
        pytest.param(1, "Master-0", [], id="the master waits for nobody"),
    ],
)
def test_waiting(master, replica, waits):
    name, index = replica.split("-")

    wired = frameworks.wire(read(manifest(master, 2)), Replica(name, int(index)), HostNames())

    assert [f"{wait.name}: {' '.join(wait.hosts)}" for wait, _ in wired.wait_for] == waits


def test_a_home_without_names_says_where_the_master_is_and_nobody_waits():
    job = read(manifest(master=1, workers=1))

    wired = frameworks.wire(job, Replica("Worker", 0), Loopback())

    assert env(job, "Worker-0", Loopback())["MASTER_ADDR"] == "127.0.0.1"
    assert env(job, "Worker-0", Loopback())["MASTER_PORT"] == "20000"
    assert not wired.wait_for


def test_the_port_is_that_of_the_template():
    obj = manifest(master=1, workers=2)
    template = role()["template"]
    template["spec"]["containers"][0]["ports"] = [{"name": "pytorchjob-port", "containerPort": 8080}]
    for spec in obj["spec"]["pytorchReplicaSpecs"].values():
        spec["template"] = template

    assert env(read(obj), "Master-0")["MASTER_PORT"] == "8080"


def test_every_framework_has_a_summary_and_needs_only_what_there_is():
    for name, row in frameworks.FRAMEWORKS.items():
        assert row.name == name
        assert row.summary
        assert set(row.needs) <= set(frameworks.FRAMEWORKS)
