"""Ray: one head and workers that join it; their commands are Ray's own, whatever the user's container says.

Only the containers named by the flags are changed; others in the same pods, and other tasks of the job such as one that
submits work, are left alone. A Service of the head's own carries its three ports for clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.resources import SERVICE
from trainwright.frameworks.base import Framework, Net, Replica, Wiring, bare, flag, port_flag


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``ray: ["--head=head", "--clientPort=10001"]``."""

    head: str = "head"
    worker: str = "worker"
    head_container: str = flag("head", "headContainer")
    worker_container: str = flag("worker", "workerContainer")
    port: int = port_flag(6379)
    dashboard_port: int = port_flag(8265, "dashboardPort")
    client_port: int = port_flag(10001, "clientPort")

    @property
    def ports(self) -> Mapping[str, int]:
        """Return the ports of the head by name."""
        return {"gcs": self.port, "dashboard": self.dashboard_port, "client-server": self.client_port}


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Give the head and the workers the commands that make them a cluster."""
    if replica.role == options.head:
        command = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={options.port} "
            f"--dashboard-port={options.dashboard_port} --ray-client-server-port={options.client_port}"
        )
        why = "the head of the cluster"
        return Wiring(commands={options.head_container: (("sh", "-c", command), why)}, ports=options.ports)
    if replica.role == options.worker and job.count(options.head):
        head = net.endpoint(job, options.head, 0, options.port)
        join = ("sh", "-c", f"ray start --block --address={head}")
        return Wiring(commands={options.worker_container: (join, "joins the cluster of the head")})
    return Wiring()


def objects(job: Job, options: Options, net: Net) -> tuple[Create, ...]:  # noqa: ARG001
    """Return the Service by which clients reach the head."""
    selector = {
        names.VOLCANO_JOB_LABEL: job.name,
        names.VOLCANO_NAMESPACE_LABEL: job.namespace,
        names.TASK_LABEL: options.head,
    }
    # By number: a port that the user has declared under another name is then reached as well.
    ports = [
        {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
        for name, number in options.ports.items()
    ]
    spec = {"type": "ClusterIP", "selector": selector, "ports": ports}
    return (Create(bare(SERVICE, f"{job.name}-head-svc", {"spec": spec})),)


FRAMEWORK = Framework(
    "ray",
    Options,
    wire,
    "a head and workers that join it",
    needs=("svc",),
    roles=("head", "worker"),
    objects=objects,
    elastic=lambda job, options: options.worker if job.count(options.worker) else "",
    nameless=("error", "the nodes of a Ray cluster listen on addresses of their own"),
)
