"""Torch elastic: torchrun agents that meet at a rendezvous, and go on when one of them leaves or joins.

Unless the user names another place, worker 0 hosts the rendezvous. Three things make joins and losses survive with
the torch that is out there: no shared TCP store (a node that joins a running job would wait 60 s for an address nobody
publishes, and then every agent exits), short waits before a new round begins, and many restarts, because torchrun
counts every loss of a peer as one and by default allows none.
"""

from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.frameworks.base import Entry, Framework, Net, Replica, Wiring

WORKER = "Worker"
MAX_RESTARTS = 100
"""What examples of elastic jobs usually ask for: each peer that leaves, on purpose or not, costs one."""
_QUICK = {"last_call_timeout": "1", "keep_alive_interval": "1", "keep_alive_max_attempt": "3"}


@dataclass(frozen=True)
class Options:
    """The elastic policy: its range, and where and how the agents meet."""

    minimum: int
    maximum: int
    port: int = 23456
    nproc: str = "auto"
    backend: str = "c10d"
    host: str | None = None
    id: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    max_restarts: int | None = None
    standalone: bool = False


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:
    """Tell one agent where the others meet, how many may take part, and how patient to be."""
    env = {
        "PET_RDZV_ENDPOINT": _endpoint(job, options, net),
        "PET_RDZV_BACKEND": Entry(options.backend, "torchrun: how agents find each other"),
        "PET_NNODES": _nodes(job, options),
        "PET_MAX_RESTARTS": _restarts(options),
        "PET_RDZV_ID": _identity(job, options),
        "PET_RDZV_CONF": _conf(job, replica, options),
    }
    if options.standalone:
        env["PET_STANDALONE"] = Entry("1", "torchrun: elasticPolicy.standalone; it must read as a number")
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = Entry(
        "1", "with a shared store a worker that joins later ends the whole job after 60 s"
    )
    return Wiring(env)


def _endpoint(job: Job, options: Options, net: Net) -> Entry:
    if options.host is not None:
        return Entry(f"{options.host}:{options.port}", "torchrun: elasticPolicy.rdzvHost and rdzvPort")
    return Entry(str(net.endpoint(job, WORKER, 0, options.port)), "torchrun: worker 0 hosts the rendezvous")


def _nodes(job: Job, options: Options) -> Entry:
    """Count the agents: a Master runs one as well, which would be one too many with the workers at maximum."""
    others = job.total - job.count(WORKER)
    why = "torchrun: minReplicas:maxReplicas" + (f", plus {others} for the Master, whose agent joins" if others else "")
    return Entry(f"{options.minimum + others}:{options.maximum + others}", why)


def _restarts(options: Options) -> Entry:
    if options.max_restarts is not None:
        return Entry(str(options.max_restarts), "torchrun: elasticPolicy.maxRestarts")
    return Entry(
        str(MAX_RESTARTS), "torchrun: every peer that leaves costs one restart, and its default of 0 ends the job"
    )


def _identity(job: Job, options: Options) -> Entry:
    if options.id is not None:
        return Entry(options.id, "torchrun: elasticPolicy.rdzvId")
    own = f"{job.name}-{job.uid}" if job.uid else job.name
    return Entry(own, "torchrun: jobs that reach one store never mix, nor does a job with its predecessor")


def _conf(job: Job, replica: Replica, options: Options) -> Entry:
    pairs = dict(options.conf)
    given = len(pairs)
    for key, value in _QUICK.items():
        pairs.setdefault(key, value)
    if _is_ours(job, options):
        hosts = replica.role == WORKER and replica.index == 0
        pairs.setdefault("is_host", "1" if hosts else "0")
    why = "a new round begins after 1 s and a lost agent is noticed after 3 s, instead of 30 and 15"
    why += "; worker 0, the last to be scaled away, hosts the store" if "is_host" in pairs else ""
    return Entry(
        ",".join(f"{key}={value}" for key, value in pairs.items()), why + ("; rdzvConf first" if given else "")
    )


def _is_ours(job: Job, options: Options) -> bool:
    """Say whether worker 0 hosts the store."""
    has_hub = job.elastic is not None and job.elastic.hub is not None
    return has_hub and options.backend == "c10d" and not options.standalone


FRAMEWORK = Framework("torch_elastic", Options, wire, "torchrun agents that survive losses and joins")
