"""MPI over ssh: the master knows its workers in every way that mpirun may ask for them.

The variables of every MPI are set together; they are in `mpi_variables`. Nothing on mpirun's command line is needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core.actions import Create
from trainwright.core.objects import at
from trainwright.core.resources import CONFIG_MAP
from trainwright.frameworks import mpi_variables
from trainwright.frameworks.base import (
    Entry,
    Framework,
    Mount,
    Net,
    Replica,
    WaitFor,
    Wiring,
    bare,
    flag,
    hosts,
    port_flag,
)

PORT_NAME = "mpijob-port"
PATH = "/etc/mpi"
HOSTFILE, HYDRA_HOSTFILE = "hostfile", "hostfile.hydra"
WAIT_SECONDS = 600


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``mpi: ["--master=launcher", "--slots=4"]``."""

    master: str = "master"
    worker: str = "worker"
    port: int = port_flag(22)
    """Where the workers' ssh servers listen."""
    slots: int = 0
    """How many ranks a worker takes; 0: one per accelerator, or one."""
    keys: str = flag("/root/.ssh")
    """The folder with the ssh client's key and configuration."""


@dataclass(frozen=True)
class Team:
    """What is the same for every replica."""

    options: Options
    workers: tuple[str, ...]
    everyone: Wiring
    master: Wiring


def prepare(job: Job, options: Options, net: Net) -> Team:
    """Work out what every replica gets, and what the master gets beyond it."""
    workers = hosts(job, options.worker)
    mounts = tuple(_mounts(job, net))
    ports = {PORT_NAME: options.port}
    as_root = dict(mpi_variables.as_root())
    everyone = Wiring(as_root, ports, mounts=mounts, init_steps_too=True, all_containers=True)
    env = {
        "MPI_HOST": Entry(",".join(workers), "the workers, with commas"),
        **as_root,
        **dict(_variables(job, options)),
    }
    waits = (_wait(options, workers),) if workers and net.names else ()
    master = Wiring(env, ports, waits, mounts, init_steps_too=True, all_containers=True)
    return Team(options, workers, everyone, master)


def wire(job: Job, replica: Replica, team: Team, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Tell the master who its workers are and how to reach them; a master alone needs no telling."""
    if replica.role != team.options.master:
        return team.everyone
    return team.master if job.role(team.options.worker) else Wiring()


def objects(job: Job, options: Options, net: Net) -> tuple[Create, ...]:  # noqa: ARG001
    """Return the ConfigMap with the hostfiles."""
    slots = _slots(job, options)
    workers = hosts(job, options.worker)
    data = {
        HOSTFILE: "\n".join(f"{host} slots={slots}" for host in workers),
        HYDRA_HOSTFILE: "\n".join(f"{host}:{slots}" for host in workers),
    }
    return (Create(bare(CONFIG_MAP, config_map(job), {"data": data})),)


def config_map(job: Job) -> str:
    """Return the name of the ConfigMap with the hostfiles."""
    return f"{job.name}-mpi"


def _slots(job: Job, options: Options) -> int:
    """Return how many ranks a worker takes: as asked, else one per accelerator, else one."""
    if options.slots:
        return options.slots
    role = job.role(options.worker)
    containers = at(role.template, ("spec", "containers"), []) if role else []
    limits: Mapping[str, object] = at(containers[0], ("resources", "limits"), {}) or {} if containers else {}
    counts = [int(str(amount)) for name, amount in limits.items() if name.endswith("/gpu") and str(amount).isdecimal()]
    return sum(counts) or 1


def _mounts(job: Job, net: Net) -> Iterator[Mount]:
    if net.names:
        name = config_map(job)
        volume = {"name": name, "configMap": {"name": name}}
        yield Mount(volume, PATH, "the workers and their slots, as Open MPI and as MPICH read them")


def _variables(job: Job, options: Options) -> mpi_variables.Variables:
    """Yield what mpirun reads: that it uses ssh, with the job's key, and where the ranks go."""
    yield "OMPI_MCA_plm_rsh_agent", Entry("ssh", "Open MPI 4: how workers are reached")
    yield "PRTE_MCA_plm_ssh_agent", Entry("ssh", "Open MPI 5: how workers are reached")
    yield "HYDRA_LAUNCHER", Entry("ssh", "MPICH: how workers are reached")
    login = f"-F {options.keys}/config -i {options.keys}/id_rsa -p {options.port}"
    yield from mpi_variables.by_ssh(login, "with the job's key, and without questions")
    yield from mpi_variables.placement(f"{PATH}/{HOSTFILE}", f"{PATH}/{HYDRA_HOSTFILE}", _slots(job, options))
    yield "HYDRA_IFACE", Entry("eth0", "MPICH: workers call back an address; the master's short name does not resolve")
    yield "OMPI_MCA_mpi_yield_when_idle", Entry("1", "Open MPI: a rank that waits leaves the core to the others")


def _wait(options: Options, workers: tuple[str, ...]) -> WaitFor:
    why = "mpirun ends at once when a worker does not answer yet"
    return WaitFor("wait-for-workers", workers, WAIT_SECONDS, why, options.port)


FRAMEWORK = Framework(
    "mpi",
    Options,
    wire,
    "hostfiles and variables for mpirun over ssh",
    needs=("svc", "ssh"),
    roles=("master", "worker"),
    objects=objects,
    prepare=prepare,
    lead=lambda job, options: options.master if job.count(options.master) else "",
    nameless=("error", "mpirun reaches the workers by host names of their own"),
)
