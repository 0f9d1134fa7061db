"""What each replica of a TrainingJob is told, and what it runs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.api.examples import TRAINING, changed
from tests.frameworks.test_pytorch import Loopback

from trainwright import frameworks
from trainwright.api.training_job import default, read
from trainwright.frameworks.base import HostNames, Net, Replica

SERVERS: dict[str, Any] = {"spec.pserver": {"min-instance": 2}}
MASTER: dict[str, Any] = {"spec.master": {}}


def wired(changes: dict[str, Any], replica: str, net: Net | None = None) -> frameworks.Wired:
    role, _, index = replica.rpartition("-")
    return frameworks.wire(read(default(changed(TRAINING, changes))), Replica(role, int(index)), net or HostNames())


def env(changes: dict[str, Any], replica: str, net: Net | None = None) -> dict[str, str]:
    return {name: variable.entry.value for name, variable in wired(changes, replica, net).env.items()}


def test_a_trainer_with_servers_is_told_everything_in_the_words_of_both_generations():
    changes = {**SERVERS, **MASTER, "spec.passes": 3, "spec.trainer.workspace": "/work"}

    assert env(changes, "trainer-1") == {
        "PADDLE_JOB_NAME": "j",
        "TRAINERS": "2",
        "PSERVERS": "2",
        "ENTRY": "python train.py",
        "TOPOLOGY": "python train.py",
        "TRAINER_PACKAGE": "/work",
        "PADDLE_INIT_PORT": "7164",
        "PADDLE_INIT_TRAINER_COUNT": "0",
        "PADDLE_INIT_PORTS_NUM": "1",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_NUM_PASSES": "3",
        "PADDLE_INIT_USE_GPU": "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "PYTHONUNBUFFERED": "1",
        "NAMESPACE": "(metadata.namespace)",
        "POD_IP": "(status.podIP)",
        "MASTER_IP": "j-master-0.j",
        "ETCD_IP": "j-master-0.j",
        "PADDLE_INIT_PSERVERS": "j-pserver-0.j,j-pserver-1.j",
        "PADDLE_INIT_TRAINER_ID": "1",
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINING_ROLE": "TRAINER",
        "PADDLE_PORT": "7164",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": "j-trainer-0.j:7164,j-trainer-1.j:7164",
        "PADDLE_CURRENT_ENDPOINT": "j-trainer-1.j:7164",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_PSERVERS_IP_PORT_LIST": "j-pserver-0.j:7164,j-pserver-1.j:7164",
    }


RESOURCES = "spec.trainer.resources"
OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"


@pytest.mark.parametrize(
    ("changes", "replica", "name", "value"),
    [
        pytest.param(SERVERS, "pserver-1", "TRAINING_ROLE", "PSERVER", id="a server knows what it is"),
        pytest.param(SERVERS, "pserver-1", "POD_IP", "j-pserver-1.j", id="and finds itself in the list of servers"),
        pytest.param(SERVERS, "pserver-1", "PADDLE_PSERVER_ID", "1", id="its number is that of its pod"),
        pytest.param(SERVERS, "pserver-1", "PADDLE_TRAINER_ID", None, id="which is no rank of a trainer"),
        pytest.param(SERVERS, "trainer-0", "PADDLE_MASTER", None, id="with servers nobody else is met"),
        pytest.param({}, "trainer-0", "PADDLE_PSERVERS_IP_PORT_LIST", None, id="without servers there is no list"),
        pytest.param({}, "trainer-0", "PADDLE_DISTRI_BACKEND", "gloo", id="without GPUs gloo sums"),
        pytest.param({}, "trainer-0", "PADDLE_MASTER", "$(POD_IP):7164", id="who serves must know itself by address"),
        pytest.param({}, "trainer-1", "PADDLE_MASTER", "j-trainer-0.j:7164", id="the others know it by name"),
        pytest.param(
            {},
            "trainer-0",
            "PADDLE_TRAINER_ENDPOINTS",
            "$(POD_IP):7164,j-trainer-1.j:7164",
            id="also in the list of trainers",
        ),
        pytest.param({}, "trainer-0", "PADDLE_CURRENT_ENDPOINT", "$(POD_IP):7164", id="in which it finds itself"),
        pytest.param({}, "trainer-1", "MASTER_IP", None, id="without a master there is none"),
        pytest.param({"spec.port": 80}, "trainer-0", "PADDLE_PORT", "80", id="the job's own port"),
        pytest.param(
            {RESOURCES: {"requests": {"cpu": "200m"}}},
            "trainer-0",
            "PADDLE_INIT_TRAINER_COUNT",
            "1",
            id="a fifth of a core is one thread",
        ),
        pytest.param(
            {RESOURCES: {"requests": {"cpu": "1500m"}}},
            "trainer-0",
            "PADDLE_INIT_TRAINER_COUNT",
            "2",
            id="one and a half are two",
        ),
        pytest.param(
            {RESOURCES: {"limits": {OLD_GPU: 4}, "requests": {"cpu": 8}}},
            "trainer-0",
            "PADDLE_INIT_TRAINER_COUNT",
            "4",
            id="GPUs count, also where there is only a limit",
        ),
        pytest.param(
            {RESOURCES: {"limits": {OLD_GPU: 4}}}, "trainer-0", "PADDLE_INIT_USE_GPU", "1", id="GPUs are used"
        ),
        pytest.param(
            {RESOURCES: {"limits": {OLD_GPU: 4}}}, "trainer-0", "PADDLE_DISTRI_BACKEND", None, id="and NCCL sums"
        ),
        pytest.param(
            {"spec.fault_tolerant": True, "spec.trainer.max-instance": 4, "spec.elasticReplicas": 3},
            "trainer-2",
            "TRAINERS",
            "2",
            id="the first generation counts on the fewest trainers",
        ),
        pytest.param(
            {"spec.fault_tolerant": True, "spec.trainer.max-instance": 4, "spec.elasticReplicas": 3},
            "trainer-2",
            "PADDLE_TRAINERS_NUM",
            "3",
            id="the second on those there are",
        ),
    ],
)
def test_what_a_replica_is_told(changes, replica, name, value):
    assert env(changes, replica).get(name) == value


def test_without_host_names_everybody_has_a_port_of_its_own():
    told = env(SERVERS, "pserver-1", Loopback())

    own = f"{told['POD_IP']}:{told['PADDLE_PORT']}"
    assert own in told["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    assert len(set(told["PADDLE_PSERVERS_IP_PORT_LIST"].split(","))) == 2


def test_ports_are_numbered_from_the_first_on():
    opened = wired({"spec.ports_num": 2}, "trainer-0").ports

    assert {name: port for name, (port, _) in opened.items()} == {
        "jobport-7164": 7164,
        "jobport-7165": 7165,
        "jobport-7166": 7166,
    }


def start(
    changes: dict[str, Any], replica: str, folder: Path, tools: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run what a replica runs, in an image that has only a shell and some tools."""
    for name, script in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    role = replica.partition("-")[0]
    command = wired(changes, replica).commands[role][0]
    told = {**env(changes, replica), "PATH": f"{folder}:/bin:/usr/bin"}
    return subprocess.run(command, env=told, text=True, capture_output=True, timeout=10, check=False)


@pytest.mark.parametrize(
    ("entrypoint", "code", "says"),
    [
        pytest.param("show a b=c", 0, "show: a b=c\n", id="plain words are run as they are"),
        pytest.param("show a && show 'b c'", 0, "show: a\nshow: b c\n", id="anything else by a shell"),
        pytest.param("WORD=x show a", 0, "show: a\n", id="with a variable before it"),
        pytest.param("exit 7", 7, "", id="a word of the shell's own"),
        pytest.param("nothing-of-that-name", 127, "", id="what is not there"),
    ],
)
def test_a_trainer_runs_its_entrypoint(tmp_path, entrypoint, code, says):
    ended = start({"spec.trainer.entrypoint": entrypoint}, "trainer-0", tmp_path, {"show": 'echo "show: $*"'})

    assert (ended.returncode, ended.stdout) == (code, says)


def test_a_trainer_works_in_its_workspace(tmp_path):
    changes = {"spec.trainer.entrypoint": "where", "spec.trainer.workspace": str(tmp_path)}

    ended = start(changes, "trainer-0", tmp_path, {"where": 'echo "$PWD $PYTHONPATH"'})

    assert ended.stdout == f"{tmp_path} {tmp_path}\n"


def test_a_workspace_that_is_not_there_is_said(tmp_path):
    ended = start({"spec.trainer.workspace": "/no/such"}, "trainer-0", tmp_path, {})

    assert ended.returncode == 1
    assert ended.stderr == "the workspace /no/such is not there; is it in the image, or on a volume?\n"


OF_THE_FIRST_GENERATION = {
    "paddle_k8s": 'echo "paddle_k8s $*"',
    "paddle": 'echo "paddle $1 $3 $4 $5 ${8}"',
    "pserver": 'echo "pserver $*"',
}


@pytest.mark.parametrize(
    ("changes", "replica", "tools", "says"),
    [
        pytest.param(
            SERVERS,
            "pserver-0",
            OF_THE_FIRST_GENERATION,
            "paddle pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2",
            id="an image of the first generation brings a server",
        ),
        pytest.param(
            {**SERVERS, "spec.fault_tolerant": True},
            "pserver-0",
            OF_THE_FIRST_GENERATION,
            "pserver -port 7164 -num-pservers 2 -etcd-endpoint http://j-master-0.j:2379",
            id="and another one for fault-tolerant jobs",
        ),
        pytest.param(
            {**SERVERS, "spec.trainer.entrypoint": "serve"},
            "pserver-0",
            {"serve": 'echo "$TRAINING_ROLE"'},
            "PSERVER",
            id="in any other image a server runs the entrypoint",
        ),
        pytest.param(
            MASTER, "master-0", OF_THE_FIRST_GENERATION, "paddle_k8s start_master", id="the image's own master"
        ),
    ],
)
def test_servers_and_masters_run_what_the_image_brings(tmp_path, changes, replica, tools, says):
    assert start(changes, replica, tmp_path, tools).stdout.strip() == says
