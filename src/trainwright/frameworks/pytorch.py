"""PyTorch: every process knows where the master is and which rank it has.

Masters come first and workers follow, so ranks have no holes: with one master, worker i is rank i + 1. Plain scripts
read MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK; torchrun reads none of these but the same facts under PET_ names,
where a rank is a node's and each node starts several processes.

A PyTorchJob and a Volcano Job with the plugin `pytorch` say the same things in different orders: users rely on both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING

from trainwright.api.common import Job
from trainwright.core import quantity
from trainwright.core.objects import at
from trainwright.frameworks.base import Endpoint, Entry, Framework, Net, Replica, WaitFor, Wiring, flag, port_flag

MASTER, WORKER = "Master", "Worker"
CONTAINER = "pytorch"
PORT_NAME = "pytorchjob-port"
WAIT_SECONDS = 200


@dataclass(frozen=True)
class Options:
    """Flags a user of the plugin may give: ``pytorch: ["--master=chief", "--port=2222"]``."""

    master: str = "master"
    worker: str = "worker"
    port: int = port_flag(23456)
    wait_master_enabled: bool = False
    wait_master_timeout: int = 300
    wait_master_image: str = ""
    """With a shell and nc, or a bash; nothing: our own image, which needs neither."""
    nproc: str = flag("")
    """How many processes each node of a PyTorchJob starts; nothing for a job that is none."""


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Tell one replica where the master is, which rank it has and how many there are."""
    return _of_pytorch_job(job, replica, options, net) if options.nproc else _of_plugin(job, replica, options, net)


def _of_plugin(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Tell every replica of the job of the master, but give ranks to masters and workers alone."""
    masters, nodes = job.count(options.master), job.count(options.master) + job.count(options.worker)
    if not masters:
        return Wiring()
    master = net.endpoint(job, options.master, 0, options.port)
    rank = {options.master: replica.index, options.worker: masters + replica.index}.get(replica.role)
    env = {
        "MASTER_ADDR": Entry(master.host, "where rank 0 is reached"),
        "MASTER_PORT": Entry(str(master.port), "the port rank 0 listens on"),
        "WORLD_SIZE": Entry(str(nodes), f"the replicas of {options.master} and {options.worker}"),
    }
    if rank is not None:
        env["RANK"] = Entry(str(rank), f"first the replicas of {options.master}, then those of {options.worker}")
        env |= {
            "PET_MASTER_ADDR": Entry(master.host, "MASTER_ADDR for torchrun"),
            "PET_MASTER_PORT": Entry(str(master.port), "MASTER_PORT for torchrun"),
            "PET_NNODES": Entry(str(nodes), "torchrun: how many nodes there are, one per pod"),
            "PET_NPROC_PER_NODE": _processes(job, replica, "auto"),
            "PET_NODE_RANK": Entry(str(rank), "torchrun: the rank of this node"),
        }
    waits = _wait_for_answer(replica, options, master) if replica.role == options.worker else ()
    return Wiring(env, {PORT_NAME: options.port}, waits, all_containers=True)


def _wait_for_answer(replica: Replica, options: Options, master: Endpoint) -> tuple[WaitFor, ...]:
    if not options.wait_master_enabled:
        return ()
    why = f"--wait-master-enabled: a {replica.role} starts once the master answers"
    step = WaitFor(
        "wait-for-master", (master.host,), options.wait_master_timeout, why, master.port, options.wait_master_image
    )
    return (step,)


def _of_pytorch_job(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    env = {"PYTHONUNBUFFERED": Entry("1", "output appears as it is printed, not when a buffer is full")}
    has_master = job.count(MASTER) > 0
    if has_master:
        env |= _ranks(job, replica, options, net.endpoint(job, MASTER, 0, options.port))
    env["PET_NPROC_PER_NODE"] = _processes(job, replica, options.nproc)
    env["PET_NNODES"] = Entry(str(job.total), "torchrun: how many nodes there are, one per pod")
    return Wiring(env, {PORT_NAME: options.port}, _wait_for_name(job, replica, options, net) if has_master else ())


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


def _wait_for_name(job: Job, replica: Replica, options: Options, net: Net) -> tuple[WaitFor, ...]:
    if replica.role == MASTER or not net.names:
        return ()
    host = net.endpoint(job, MASTER, 0, options.port).host
    return (WaitFor("init-pytorch", (host,), WAIT_SECONDS, "a worker starts once the master's name resolves"),)


FRAMEWORK = Framework(
    "pytorch",
    Options,
    wire,
    "ranks around a master, for plain scripts and torchrun",
    needs=("svc",),
    roles=("master", "worker"),
    lead=lambda job, options: options.master if job.count(options.master) else "",
)
