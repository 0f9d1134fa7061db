"""TensorFlow: every process is told who is in the cluster and who it is itself, in TF_CONFIG.

The bytes are those that Go's encoder writes: no blanks, the roles in a fixed order, those without replicas left out.
A job of one task with one replica is not distributed, and is told nothing.
"""

import json
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.frameworks.base import Entry, Framework, Net, Replica, Wiring, port_flag


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``tensorflow: ["--port=5000", "--worker=trainer"]``."""

    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: int = port_flag(2222)


@dataclass(frozen=True)
class Cluster:
    """What is the same for every replica: the list of all is as long as the job and written out only once."""

    types: dict[str, str]
    """The user's name of a task to the name TensorFlow has for it."""
    text: str
    """The first part of TF_CONFIG; nothing for a job that is not distributed."""


def prepare(job: Job, options: Options, net: Net) -> Cluster:
    """Write down who is in the cluster."""
    types = {options.ps: "ps", options.worker: "worker", options.chief: "chief", options.evaluator: "evaluator"}
    if len(job.roles) == 1 and job.total == 1:
        return Cluster(types, "")
    members = {
        kind: [str(net.endpoint(job, task, index, options.port)) for index in range(job.count(task))]
        for task, kind in types.items()
        if job.count(task)
    }
    return Cluster(types, _compact(members))


def wire(job: Job, replica: Replica, cluster: Cluster, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Tell one replica who is in the cluster, and which of them it is."""
    if not cluster.text:
        return Wiring()
    kind = cluster.types.get(replica.role, replica.role)
    task = _compact({"type": kind, "index": replica.index})
    value = f'{{"cluster":{cluster.text},"task":{task}}}'
    return Wiring({"TF_CONFIG": Entry(value, f"who is in the cluster; this is {kind} {replica.index}")})


def lead(job: Job, options: Options) -> str:
    """Return the chief, or the workers where there is none."""
    return next((task for task in (options.chief, options.worker) if job.count(task)), "")


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


FRAMEWORK = Framework(
    "tensorflow",
    Options,
    wire,
    "TF_CONFIG, for parameter servers and for all-reduce",
    needs=("svc",),
    roles=("worker",),
    prepare=prepare,
    lead=lead,
)
