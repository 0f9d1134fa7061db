"""A launcher and its workers as plain pods, with nothing of a job kind: what mpirun needs to start ranks by exec."""

from typing import Any

from tests.node.world import World, config_map, pod

from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from trainwright.inpod import agent, kubectl

HOSTFILE, HYDRA = "/etc/mpi/hostfile", "/etc/mpi/hostfile.hydra"
CONFIG: Object = {"name": "config", "configMap": {"name": "job-config", "defaultMode": 0o555}}
CONFIG_MOUNT = {"name": "config", "mountPath": "/etc/mpi"}
LAUNCHER_ENV = {
    "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_orte_leave_session_attached": "1",
    "OMPI_MCA_orte_default_hostfile": HOSTFILE,
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_plm_ssh_agent": "/etc/mpi/kubexec.sh",
    "PRTE_MCA_prte_leave_session_attached": "1",
    "PRTE_MCA_prte_default_hostfile": HOSTFILE,
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
    "HYDRA_LAUNCHER": "rsh",
    "HYDRA_LAUNCHER_EXEC": "/etc/mpi/kubexec.sh",
    "HYDRA_HOST_FILE": HYDRA,
    "HYDRA_LAUNCHER_AUTOFORK": "0",
}
"""No flag of mpirun is needed with these, whichever mpirun it is."""
ALL_REDUCE = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"rank={world.rank} of={world.size} host={socket.gethostname()} sum={total};", flush=True)
"""


def rbac(workers: list[str], namespace: str = "ns") -> list[tuple[Any, Object]]:
    """Return the account of a launcher and what it may: exec into its own workers."""
    meta = {"name": "launcher", "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": workers},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"], "resourceNames": workers},
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "launcher"},
        "subjects": [{"kind": "ServiceAccount", "name": "launcher", "namespace": namespace}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    return [(SERVICE_ACCOUNT, account), (ROLE, role), (ROLE_BINDING, binding)]


async def prepare(here: World, workers: int = 3, slots: int = 2) -> list[str]:
    """Make everything but the launcher, and return the workers' names once they run."""
    names = [f"job-worker-{index}" for index in range(workers)]
    hosts = "".join(f"{name} slots={slots}\n" for name in names)
    hydra = "".join(f"{name}:{slots}\n" for name in names)
    data = {"kubexec.sh": agent.SCRIPT, "hostfile": hosts, "hostfile.hydra": hydra}
    await here.cluster.create(CONFIG_MAP, config_map("job-config", **data))
    selector = {"clusterIP": "None", "selector": {"app": "job"}, "publishNotReadyAddresses": True}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "job", "namespace": "ns"}, "spec": selector}
    await here.cluster.create(SERVICE, service)
    for resource, obj in rbac(names):
        await here.cluster.create(resource, obj)
    for name in names:
        # Open MPI's daemons look for the agent too, although they never call it.
        await here.cluster.create(
            POD, member(name, "exec sleep 1000", container={"volumeMounts": [CONFIG_MOUNT]}, volumes=[CONFIG])
        )
    for name in names:
        await here.phase(name, "Running")
    return names


def member(name: str, script: str, **spec: Any) -> Object:
    """Return a pod of the job."""
    searched = {"searches": ["job.ns.svc.cluster.local"]}
    return pod(
        name, script, meta={"labels": {"app": "job"}}, hostname=name, subdomain="job", dnsConfig=searched, **spec
    )


def launcher(script: str, name: str = "job-launcher", *, account: str = "launcher", **env: str) -> Object:
    """Return the pod that runs mpirun."""
    kube = {"name": "kube", "mountPath": "/opt/kube"}
    delivery = {
        "name": "kubectl-delivery",
        "image": "any",
        "command": [*kubectl.delivery()],
        "env": [{"name": "TARGET_DIR", "value": "/opt/kube"}],
        "volumeMounts": [kube],
    }
    variables = [{"name": key, "value": value} for key, value in {**LAUNCHER_ENV, **env}.items()]
    main = {"env": variables, "volumeMounts": [kube, CONFIG_MOUNT]}
    return member(
        name,
        script,
        container=main,
        initContainers=[delivery],
        volumes=[{"name": "kube", "emptyDir": {}}, CONFIG],
        serviceAccountName=account,
    )
