"""MXNet: scheduler, servers and workers of its parameter server find each other through DMLC_* variables.

The scheduler is known by name, but it can only listen on an address: DMLC_USE_KUBERNETES makes it listen on all. Every
other process says its address itself, because the one it would guess is that of the first interface it sees.
"""

from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.frameworks.base import Entry, Framework, Net, Replica, Wiring, port_flag

PORT_NAME = "mxnet-port"


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``mxnet: ["--scheduler=boss", "--port=9000"]``."""

    scheduler: str = "scheduler"
    server: str = "server"
    worker: str = "worker"
    port: int = port_flag(9000)


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Tell one replica what it is, where the scheduler is and how many others there are."""
    kinds = {options.scheduler: "scheduler", options.server: "server", options.worker: "worker"}
    if replica.role not in kinds or not job.count(options.scheduler):
        return Wiring()
    scheduler = net.endpoint(job, options.scheduler, 0, options.port)
    env = {
        "DMLC_PS_ROOT_URI": Entry(scheduler.host, "where the scheduler is reached"),
        "DMLC_PS_ROOT_PORT": Entry(str(scheduler.port), "the port the scheduler listens on"),
        "DMLC_NUM_SERVER": Entry(str(job.count(options.server)), f"the replicas of {options.server}"),
        "DMLC_NUM_WORKER": Entry(str(job.count(options.worker)), f"the replicas of {options.worker}"),
        "DMLC_ROLE": Entry(kinds[replica.role], f"what a replica of {replica.role} is to MXNet"),
        "DMLC_USE_KUBERNETES": Entry("1", "the scheduler listens on every address: it cannot listen on a name"),
        "DMLC_NODE_HOST": _own_address(scheduler.host, net),
    }
    return Wiring(env, {PORT_NAME: options.port} if replica.role == options.scheduler else {})


def _own_address(host: str, net: Net) -> Entry:
    why = "the address under which the others reach this replica"
    if not net.names:
        return Entry(host, why)
    return Entry("status.podIP", why, {"fieldRef": {"fieldPath": "status.podIP"}})


FRAMEWORK = Framework(
    "mxnet",
    Options,
    wire,
    "scheduler, servers and workers of MXNet's parameter server",
    needs=("svc",),
    roles=("scheduler", "server", "worker"),
)
