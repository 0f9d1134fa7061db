"""mpirun in an MPIJob: where the workers are, how many ranks each takes, and how a process is started there.

The variables for Open MPI 4 (ORTE), Open MPI 5 (PRTE), MPICH (Hydra) and Intel MPI are given together, so that a bare
`mpirun program` works with each; none of them is read by another. Open MPI 5 ignores every ORTE name in silence and
would start all ranks in the launcher, which is why both sets are always there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import CONFIG_MAP, SECRET
from trainwright.frameworks.base import Entry, Framework, Mount, Net, Replica, Wiring
from trainwright.inpod import agent

LAUNCHER, WORKER = "Launcher", "Worker"
FOLDER = "/etc/mpi"
AGENT, HOSTFILE, HYDRA_HOSTFILE, DISCOVER = "kubexec.sh", "hostfile", "hostfile.hydra", "discover_hosts.sh"
CONFIG_VOLUME, SSH_VOLUME = "mpi-job-config", "ssh-auth"
_RUNNABLE, _READABLE = 0o555, 0o444
_PATIENCE = "-o ConnectionAttempts=10"


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
    env = dict(_as_root())
    if options.modern:
        env["K_MPI_JOB_ROLE"] = Entry(replica.role.lower(), "which part of the job this pod is")
    if is_launcher:
        env |= dict(_launch(options))
        env |= dict(_placement(options))
        if options.modern and not options.launcher_works:
            blank = "the launcher takes no ranks and shall see no GPUs"
            env |= {name: Entry("", blank) for name in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")}
    return Wiring(env, mounts=mounts)


def _as_root() -> Iterator[tuple[str, Entry]]:
    why = "Open MPI refuses to run as root without both, and containers mostly are"
    for prefix in ("OMPI", "PRTE"):
        for end in ("", "_CONFIRM"):
            yield f"{prefix}_ALLOW_RUN_AS_ROOT{end}", Entry("1", why)


def _launch(options: Options) -> Iterator[tuple[str, Entry]]:
    """Yield how processes are started: by the agent, or by a patient ssh."""
    if options.transport == "ssh":
        patient = "workers may not listen yet"
        yield "OMPI_MCA_plm_rsh_args", Entry(_PATIENCE, f"Open MPI 4: {patient}")
        yield "PRTE_MCA_plm_ssh_args", Entry(_PATIENCE, f"Open MPI 5: {patient}")
        yield "HYDRA_LAUNCHER_EXTRA_ARGS", Entry(_PATIENCE, f"MPICH: {patient}")
        yield "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", Entry(_PATIENCE, f"Intel MPI: {patient}")
        return
    path = f"{FOLDER}/{AGENT}"
    yield "OMPI_MCA_plm_rsh_agent", Entry(path, "Open MPI 4 starts its daemons by exec instead of ssh")
    yield "OMPI_MCA_plm_rsh_no_tree_spawn", Entry("1", "Open MPI 4: only the launcher may exec, so it starts them all")
    yield "PRTE_MCA_plm_ssh_agent", Entry(path, "Open MPI 5, the same under its own name")
    yield "HYDRA_LAUNCHER", Entry("rsh", "MPICH calls the agent as it would call rsh")
    yield "HYDRA_LAUNCHER_EXEC", Entry(path, "MPICH starts its proxies by exec instead of ssh")
    yield "I_MPI_HYDRA_BOOTSTRAP", Entry("rsh", "Intel MPI calls the agent as it would call rsh")
    yield "I_MPI_HYDRA_BOOTSTRAP_EXEC", Entry(path, "Intel MPI starts its proxies by exec instead of ssh")


def _placement(options: Options) -> Iterator[tuple[str, Entry]]:
    """Yield where ranks go, for each MPI in its own words."""
    open_mpi, hydra, slots = f"{FOLDER}/{HOSTFILE}", f"{FOLDER}/{HYDRA_HOSTFILE}", str(options.slots)
    if options.implementation in ("Intel", "MPICH"):
        hydra = open_mpi  # whose form the hostfile then has
    else:
        yield "OMPI_MCA_orte_default_hostfile", Entry(open_mpi, "Open MPI 4: the hosts and their slots")
        yield "PRTE_MCA_prte_default_hostfile", Entry(open_mpi, "Open MPI 5: the hosts and their slots")
    yield "OMPI_MCA_orte_keep_fqdn_hostnames", Entry("true", "Open MPI 4 would cut names at the first dot")
    yield "OMPI_MCA_orte_set_default_slots", Entry(slots, "Open MPI 4: ranks per host where a hostfile says none")
    yield "PRTE_MCA_prte_set_default_slots", Entry(slots, "Open MPI 5, the same under its own name")
    bound = "each pod counts its cores from 0, so ranks bound by default would meet on the same ones"
    yield "OMPI_MCA_hwloc_base_binding_policy", Entry("none", f"Open MPI 4: {bound}")
    yield "PRTE_MCA_hwloc_default_binding_policy", Entry("none", f"Open MPI 5: {bound}")
    more = "more ranks than slots are allowed, as they are with MPICH"
    yield "OMPI_MCA_rmaps_base_oversubscribe", Entry("1", f"Open MPI 4: {more}")
    yield "PRTE_MCA_rmaps_default_mapping_policy", Entry("slot:oversubscribe", f"Open MPI 5: {more}")
    yield "HYDRA_HOST_FILE", Entry(hydra, "MPICH: the hosts and their slots, in its own form")
    yield "HYDRA_LAUNCHER_AUTOFORK", Entry("0", "MPICH would start ranks in the launcher where a name looks local")
    yield "I_MPI_HYDRA_HOST_FILE", Entry(hydra, "Intel MPI: the hosts and their slots")
    yield "I_MPI_PERHOST", Entry(slots, "Intel MPI: ranks per host")


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
