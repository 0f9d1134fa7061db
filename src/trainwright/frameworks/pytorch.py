"""PyTorch: every process knows where the master is and which rank it has.

The master is rank 0 and worker i is rank i + 1. Plain scripts read MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK;
torchrun reads none of these but the same facts under PET_ names, where a rank is a node's and each node starts
several processes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING

from trainwright.api.common import Job
from trainwright.core import quantity
from trainwright.core.objects import at
from trainwright.frameworks.base import Endpoint, Entry, Framework, Net, Replica, WaitFor, Wiring

MASTER, WORKER = "Master", "Worker"
CONTAINER = "pytorch"
PORT_NAME = "pytorchjob-port"
WAIT_SECONDS = 200


@dataclass(frozen=True)
class Options:
    """What a job may choose: the port the master listens on, and how many processes each node starts."""

    port: int = 23456
    nproc: str = "auto"


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Tell one replica where the master is, which rank it has and how many there are."""
    env = {"PYTHONUNBUFFERED": Entry("1", "output appears as it is printed, not when a buffer is full")}
    has_master = job.count(MASTER) > 0
    if has_master:
        env |= _ranks(job, replica, options, net.endpoint(job, MASTER, 0, options.port))
    env["PET_NPROC_PER_NODE"] = _processes(job, replica, options.nproc)
    env["PET_NNODES"] = Entry(str(job.total), "torchrun: how many nodes there are, one per pod")
    return Wiring(env, {PORT_NAME: options.port}, _wait(job, replica, options, net) if has_master else ())


def _ranks(job: Job, replica: Replica, options: Options, master: Endpoint) -> Mapping[str, Entry]:
    rank = replica.index + (0 if replica.role == MASTER else job.count(MASTER))
    per_node = int(options.nproc) if options.nproc.isdecimal() else 1
    times = f", times {per_node} processes each" if per_node > 1 else ""
    return {
        "MASTER_PORT": Entry(str(master.port), "the port rank 0 listens on"),
        "PET_MASTER_PORT": Entry(str(master.port), "the same for torchrun"),
        "MASTER_ADDR": Entry(master.host, "where rank 0 is reached"),
        "PET_MASTER_ADDR": Entry(master.host, "the same for torchrun"),
        "WORLD_SIZE": Entry(str(job.total * per_node), f"all {job.total} replicas{times}"),
        "RANK": Entry(str(rank), "the master is rank 0 and worker i is rank i + 1"),
        "PET_NODE_RANK": Entry(str(rank), "torchrun: the rank of this node"),
    }


def _processes(job: Job, replica: Replica, nproc: str) -> Entry:
    """Say how many processes a node starts, without the trap in torchrun's "auto".

    Where torch sees no accelerator, "auto" counts the cores of the machine and not the share the pod was given: a pod
    with one core on a machine with 64 would start 64 processes. What the pod asks for is the better answer.
    """
    if nproc != "auto":
        return Entry(nproc, "torchrun: spec.nprocPerNode")
    resources = at(_main(job, replica), ("resources",), {}) or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    if "cpu" not in amounts or any("/" in name for name in amounts):
        return Entry("auto", "torchrun: one process per accelerator, or per core where there is none")
    cores = int(quantity.parse(amounts["cpu"]).to_integral_value(rounding=ROUND_CEILING))
    why = f'torchrun: "auto" without accelerators would count the machine\'s cores; the pod is given {amounts["cpu"]}'
    return Entry(str(max(cores, 1)), why)


def _main(job: Job, replica: Replica) -> Mapping[str, object]:
    role = job.role(replica.role)
    containers = at(role.template, ("spec", "containers"), []) if role else []
    return next((each for each in containers if each.get("name") == CONTAINER), containers[0] if containers else {})


def _wait(job: Job, replica: Replica, options: Options, net: Net) -> tuple[WaitFor, ...]:
    if replica.role == MASTER or not net.names:
        return ()
    host = net.endpoint(job, MASTER, 0, options.port).host
    return (WaitFor("init-pytorch", (host,), WAIT_SECONDS, "a worker starts once the master's name resolves"),)


FRAMEWORK = Framework("pytorch", Options, wire, "ranks around a master, for plain scripts and torchrun")
