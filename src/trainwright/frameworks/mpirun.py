"""mpirun in an MPIJob: where the workers are, how many ranks each takes, and how a process is started there.

The launcher gets the variables of every MPI together; they are in `mpi_variables`. A job's spec says which form the
hostfile has and whether processes are started by exec or by ssh.
"""

from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import CONFIG_MAP, SECRET
from trainwright.frameworks import mpi_variables
from trainwright.frameworks.base import Entry, Framework, Mount, Net, Replica, Wiring
from trainwright.inpod import agent

LAUNCHER, WORKER = "Launcher", "Worker"
FOLDER = "/etc/mpi"
AGENT, HOSTFILE, HYDRA_HOSTFILE, DISCOVER = "kubexec.sh", "hostfile", "hostfile.hydra", "discover_hosts.sh"
CONFIG_VOLUME, SSH_VOLUME = "mpi-job-config", "ssh-auth"
_RUNNABLE, _READABLE = 0o555, 0o444
_SSH = "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@dataclass(frozen=True)
class Options:
    """What the job says about its launch."""

    transport: str = "exec"
    slots: int = 1
    launcher_works: bool = False
    implementation: str = ""
    """Nothing in v1alpha1, where the form of the hostfile is Open MPI's."""
    ssh_path: str = "/root/.ssh"

    @property
    def modern(self) -> bool:
        """Say whether the job is written as v2beta1."""
        return self.implementation != ""


def domain(job: Job, options: Options) -> str:
    """Return the Service under whose name the pods of a job resolve."""
    return job.name if options.modern else f"{job.name}-worker"


def launcher_host(job: Job) -> str:
    """Return the launcher's host name, which its pod does not have for a name."""
    return f"{job.name}-launcher"


def hosts(job: Job, options: Options) -> list[str]:
    """Return every host that takes ranks, the launcher first if it does, in the order of their indices."""
    pods = [names.pod(job.name, WORKER, index) for index in range(job.count(WORKER))]
    if options.launcher_works:
        pods.insert(0, launcher_host(job))
    return [f"{pod}.{job.name}.{job.namespace}.svc" for pod in pods] if options.modern else pods


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:  # noqa: ARG001 - hosts are pods by name here
    """Give the launcher all that mpirun reads, and a worker what a daemon that is started in it needs."""
    is_launcher = replica.role == LAUNCHER
    mounts = (*_config(job, options, is_launcher), *(_keys(job, options) if options.transport == "ssh" else ()))
    env = dict(mpi_variables.as_root())
    if options.modern:
        env["K_MPI_JOB_ROLE"] = Entry(replica.role.lower(), "which part of the job this pod is")
    if is_launcher:
        env |= dict(_launch(options))
        env |= dict(_placement(options))
        if options.modern and not options.launcher_works:
            blank = "the launcher takes no ranks and shall see no GPUs"
            env |= {name: Entry("", blank) for name in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")}
    return Wiring(env, mounts=mounts)


def _launch(options: Options) -> mpi_variables.Variables:
    """Return how processes are started: by the agent, or by a patient ssh."""
    if options.transport == "ssh":
        return mpi_variables.by_ssh(_SSH, "workers may not listen yet, and each start has another host key")
    return mpi_variables.by_agent(f"{FOLDER}/{AGENT}")


def _placement(options: Options) -> mpi_variables.Variables:
    """Return where ranks go; with Intel MPI or MPICH the hostfile has their form."""
    hostfile = f"{FOLDER}/{HOSTFILE}"
    if options.implementation in ("Intel", "MPICH"):
        return mpi_variables.placement("", hostfile, options.slots)
    return mpi_variables.placement(hostfile, f"{FOLDER}/{HYDRA_HOSTFILE}", options.slots)


def _config(job: Job, options: Options, is_launcher: bool) -> tuple[Mount, ...]:
    """Return the mount of the ConfigMap: a worker only gets the agent, which every daemon of Open MPI looks for."""
    wanted = [HOSTFILE, DISCOVER] if options.modern else [HOSTFILE, HYDRA_HOSTFILE]
    if options.modern and options.implementation == "OpenMPI":
        wanted.append(HYDRA_HOSTFILE)
    keys = wanted if is_launcher else []
    if options.transport == "exec":
        keys = [AGENT, *keys]
    items = [{"key": key, "path": key, "mode": _RUNNABLE if key.endswith(".sh") else _READABLE} for key in keys]
    volume = {"name": CONFIG_VOLUME, "configMap": {"name": config_name(job), "items": items}}
    why = "the hosts, and the agent that starts processes there" if is_launcher else "the agent"
    return (Mount(volume, FOLDER, why),) if keys else ()


def _keys(job: Job, options: Options) -> tuple[Mount, ...]:
    files = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
    secret: Object = {
        "secretName": f"{job.name}-ssh",
        "items": [{"key": key, "path": path} for key, path in files],
    }
    if options.ssh_path == Options.ssh_path:
        secret["defaultMode"] = 0o600
    return (
        Mount({"name": SSH_VOLUME, "secret": secret}, options.ssh_path, "the key with which pods let each other in"),
    )


def config_name(job: Job) -> str:
    """Return the name of the ConfigMap with hosts and agent."""
    return f"{job.name}-config"


def objects(job: Job, options: Options, net: Net) -> tuple[Create, ...]:  # noqa: ARG001 - hosts are pods by name here
    """Return the ConfigMap with the hosts and the agent, and the keys where ssh is used."""
    labels = {"app": job.name}
    config = {**_object(job, CONFIG_MAP.kind, config_name(job), labels), "data": _data(job, options)}
    if options.transport != "ssh":
        return (Create(config),)
    secret = {**_object(job, SECRET.kind, f"{job.name}-ssh", labels), "type": "kubernetes.io/ssh-auth"}
    return (Create(config), Create(secret, fill="ssh-auth"))


def _data(job: Job, options: Options) -> Object:
    everyone = hosts(job, options)
    open_mpi = "".join(f"{host} slots={options.slots}\n" for host in everyone)
    hydra = "".join(f"{host}:{options.slots}\n" for host in everyone)
    data = {HOSTFILE: hydra if options.implementation in ("Intel", "MPICH") else open_mpi}
    if options.implementation in ("", "OpenMPI"):
        data[HYDRA_HOSTFILE] = hydra
    if options.modern:
        data[DISCOVER] = "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in everyone)
    if options.transport == "exec":
        data[AGENT] = agent.SCRIPT
    return data


def _object(job: Job, kind: str, name: str, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {**labels, names.JOB_LABEL: job.name},
            "ownerReferences": [owner_reference(job.object)],
        },
    }


FRAMEWORK = Framework("mpirun", Options, wire, "ranks that mpirun starts in the pods of an MPIJob", objects=objects)
