"""One life of a job, told by commands: the same words and the same answers in every home, for a person and a script."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import TW, Said

COLUMNS = 80


@dataclass(frozen=True)
class Step:
    """A command, what it prints (a pattern for everything), and its exit code."""

    words: str
    says: str
    code: int = 0


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
COLOUR = r"(\x1b\[\d*m)*"
OK = rf"{COLOUR}ok +{COLOUR} +"

JOB = r"pytorchjob\.kubeflow\.org/lab"
HEADS = r"NAME +KIND +PHASE +READY +RESTARTS +AGE +WAITS FOR\n"

BEGINNING = (
    Step("apply -f {file} --dry-run", rf"{JOB} created \(dry run\)\n"),
    Step("apply -f {file}", rf"{JOB} created\n"),
    Step("apply -f {file}", rf"{JOB} unchanged\n"),
    Step("apply -f {file} --set metadata.labels.team=audio", rf"{JOB} configured\n"),
    Step("apply -f {file} --set spec.elastic=1", r".*spec\.elastic: unknown field 'elastic'.*\n", 126),
)
MIDDLE = (
    Step("wait lab --for jsonpath={{.status.active}}=2/2 --timeout 60s", r"lab is .*2/2\n"),
    Step("wait lab --for phase=Running --timeout 60s", r"lab is Running\n"),
    Step("ps", rf"{HEADS}lab +PyTorchJob +Running +2/2 +0 +\S+\n"),
    Step("ps -o name", rf"{JOB}\n"),
    Step(
        "ps --no-headers -l team=nobody",
        r"there are no unfinished jobs in .*; tw ps --all shows those that have ended\n",
    ),
    Step("ps -o jsonpath={{.items[*].metadata.name}}", r"lab"),
    Step("scale lab 3", rf"{JOB} scaled from 2 to 3\n"),
    Step("scale lab 3", rf"{JOB} has 3 already\n"),
    Step("scale lab 9", r"tw: lab may have 1 to 3 Worker, found 9\n", 2),
    Step("scale labs 2", r"tw: there is no job 'labs' in .*; did you mean 'lab'\? \(there are: lab\).*\n", 127),
    Step("wait lab --for phase=Failed --timeout 0.2s", r"tw: lab is not Failed within 0\.2s \(--timeout\)\n", 124),
    Step("suspend lab", rf"{JOB} suspended\n"),
    Step("wait pytorchjob/lab --for condition=Suspended --timeout 60s", r"lab is Suspended\n"),
    Step("suspend lab", r"tw: lab is Suspended already; there is nothing to suspend\n", 1),
    Step("resume lab", rf"{JOB} resumed\n"),
    Step("wait lab --for phase=Running --timeout 60s", r"lab is Running\n"),
    Step("retry lab", r"tw: lab is Running, and only what has ended is retried; tw cancel ends it\n", 1),
    Step("cancel lab --grace 1s --timeout 60s", rf"{JOB} cancelled\n"),
)
END = (
    Step("ps", r"there are no unfinished jobs in .*; tw ps --all shows those that have ended\n"),
    Step("ps --all", rf"{HEADS}lab +PyTorchJob +Cancelled +0/3 +0 +\S+\n"),
    Step("cancel lab", r"tw: lab is Cancelled already; there is nothing to cancel\n", 1),
    Step("wait lab", r"lab is Cancelled\n", 143),
    Step("wait lab --for phase=Running", r"lab is Cancelled; it will not be Running any more\n", 1),
    Step("retry lab", r"pytorchjob\.kubeflow\.org/lab-2 created, to retry lab\n"),
    Step("wait lab-2 --for phase=Running --timeout 60s", r"lab-2 is Running\n"),
    Step("delete lab lab-2 --timeout 60s", rf"{JOB} deleted\n{JOB}-2 deleted\n"),
    Step("delete lab", r"tw: there is no job 'lab' in .*; there are no jobs\n", 127),
    Step("delete -f {file} --ignore-not-found", r"there is nothing to delete in .*\n"),
    Step("wait lab --for delete", r""),
)

MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: lab
  labels: {team: vision}
  annotations: {trainwright.dev/autoscale: "false"}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 3}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: pytorch, image: none, command: [sleep, "600"]}]
"""

_POD = "{spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: none, command: [sleep, '600']}]}}"
_VOLCANO_JOB = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: lab}}
spec: {{minAvailable: 2, tasks: [{{name: w, replicas: 2, template: {_POD}}}]}}
"""
_MPI_JOB = f"""\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: lab, annotations: {{trainwright.dev/transport: exec}}}}
spec: {{mpiReplicaSpecs: {{Launcher: {{template: {_POD}}}, Worker: {{replicas: 2, template: {_POD}}}}}}}
"""
_TRAINING_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: lab}
spec: {image: none, trainer: {entrypoint: sleep 600, min-instance: 2, max-instance: 2}}
"""
OTHER_KINDS = {
    "job.batch.volcano.sh": (_VOLCANO_JOB, "Aborted", "Terminated"),
    "mpijob.kubeflow.org": (_MPI_JOB, "Suspended", "Cancelled"),
    "trainingjob.paddlepaddle.org": (_TRAINING_JOB, "", "Cancelled"),
}
"""By the names of their jobs: a manifest, and the phases of such a job when it was suspended and when cancelled."""


def steps_of(name: str) -> list[Step]:
    """Return what is told to a job of another kind."""
    _, suspended, cancelled = OTHER_KINDS[name]
    job = re.escape(f"{name}/lab")
    waits = Step("wait lab --for phase=Running --timeout 60s", "lab is Running\n")
    pause = (
        Step("suspend lab", f"{job} suspended\n"),
        Step(f"wait lab --for phase={suspended} --timeout 60s", f"lab is {suspended}\n"),
        Step("resume lab", f"{job} resumed\n"),
        waits,
    )
    refused = Step("suspend lab", "tw: lab is a .* cannot be told to suspend; what they can be told is: cancel\n", 1)
    return [
        Step("apply -f {file}", f"{job} created\n"),
        waits,
        *(pause if suspended else (refused,)),
        Step("scale lab 3", "tw: lab is not elastic: .*\n", 1),
        Step("cancel lab --timeout 60s", f"{job} cancelled\n"),
        Step("ps --all --no-headers", rf"lab +\w+ +{cancelled} +0/\d .*\n"),
        Step("delete lab --timeout 60s", f"{job} deleted\n"),
    ]


Through = Callable[[Sequence[str], Mapping[str, str]], Said]


def piped(words: Sequence[str], environment: Mapping[str, str]) -> Said:
    """Run a command as a script does."""
    done = subprocess.run(words, env=dict(environment), capture_output=True, text=True, check=False, timeout=120)
    return Said(done.returncode, done.stdout, done.stderr)


def on_a_terminal(words: Sequence[str], environment: Mapping[str, str]) -> Said:
    """Run a command as a person does, on a terminal of 80 columns; everything it shows is in `out`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    plain = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(words, env=plain, stdin=slave, stdout=slave, stderr=slave) as running:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 1 << 16):
                shown += piece
        except OSError:  # the other side of the terminal is closed: the command has ended
            pass
        code = running.wait(timeout=120)
    os.close(master)
    text = shown.decode().replace("\r\n", "\n")
    assert not text.startswith("NAME") or all(len(line) <= COLUMNS for line in text.splitlines()), text
    return Said(code, text, "")


THROUGH = [pytest.param(piped, id="through a pipe"), pytest.param(on_a_terminal, id="on a terminal")]


def tell(steps: Iterable[Step], through: Through, environment: Mapping[str, str], file: Path, *home: str) -> None:
    """Give one command after the other, and compare what each says; `home` are the words that name the home."""
    for step in steps:
        said = through([TW, *step.words.format(file=file).split(), *home], environment)
        assert re.fullmatch(step.says, said.out + said.err, re.DOTALL), f"tw {step.words}: {said}"
        assert said.code == step.code, f"tw {step.words}: {said}"
