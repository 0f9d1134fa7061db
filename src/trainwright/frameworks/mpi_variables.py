"""The variables by which mpirun is told what its command line would say, whichever MPI it belongs to.

Open MPI 4 (ORTE), Open MPI 5 (PRTE), MPICH (Hydra) and Intel MPI each read names of their own and ignore the others',
Open MPI 5 even those of Open MPI 4: it would start all ranks where mpirun runs, and say nothing. So all of them are
set, and a bare `mpirun program` works with each. Hostfiles come in two forms: `host slots=2` for Open MPI, `host:2` for
the others.
"""

from collections.abc import Iterator

from trainwright.frameworks.base import Entry

Variables = Iterator[tuple[str, Entry]]


def as_root() -> Variables:
    """Yield what lets ranks run as root."""
    why = "Open MPI refuses to run as root without both, and containers mostly are"
    for prefix in ("OMPI", "PRTE"):
        for end in ("", "_CONFIRM"):
            yield f"{prefix}_ALLOW_RUN_AS_ROOT{end}", Entry("1", why)


def by_ssh(arguments: str, why: str) -> Variables:
    """Yield what ssh is called with when it starts processes on another host."""
    yield "OMPI_MCA_plm_rsh_args", Entry(arguments, f"Open MPI 4: {why}")
    yield "PRTE_MCA_plm_ssh_args", Entry(arguments, f"Open MPI 5: {why}")
    yield "HYDRA_LAUNCHER_EXTRA_ARGS", Entry(arguments, f"MPICH: {why}")
    yield "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", Entry(arguments, f"Intel MPI: {why}")


def by_agent(path: str) -> Variables:
    """Yield what makes mpirun start processes by an agent instead of ssh."""
    yield "OMPI_MCA_plm_rsh_agent", Entry(path, "Open MPI 4 starts its daemons by exec instead of ssh")
    yield "OMPI_MCA_plm_rsh_no_tree_spawn", Entry("1", "Open MPI 4: only the launcher may exec, so it starts them all")
    attached = "the agent ends what it started; a daemon that detaches itself would be out of its reach"
    yield "OMPI_MCA_orte_leave_session_attached", Entry("1", f"Open MPI 4: {attached}")
    yield "PRTE_MCA_prte_leave_session_attached", Entry("1", f"Open MPI 5: {attached}")
    yield "PRTE_MCA_plm_ssh_agent", Entry(path, "Open MPI 5, the same under its own name")
    yield "HYDRA_LAUNCHER", Entry("rsh", "MPICH calls the agent as it would call rsh")
    yield "HYDRA_LAUNCHER_EXEC", Entry(path, "MPICH starts its proxies by exec instead of ssh")
    yield "I_MPI_HYDRA_BOOTSTRAP", Entry("rsh", "Intel MPI calls the agent as it would call rsh")
    yield "I_MPI_HYDRA_BOOTSTRAP_EXEC", Entry(path, "Intel MPI starts its proxies by exec instead of ssh")


def placement(hostfile: str, hydra_hostfile: str, slots: int) -> Variables:
    """Yield where ranks go; without a hostfile in its own form Open MPI is told nothing of it."""
    if hostfile:
        yield "OMPI_MCA_orte_default_hostfile", Entry(hostfile, "Open MPI 4: the hosts and their slots")
        yield "PRTE_MCA_prte_default_hostfile", Entry(hostfile, "Open MPI 5: the hosts and their slots")
    yield "OMPI_MCA_orte_keep_fqdn_hostnames", Entry("true", "Open MPI 4 would cut names at the first dot")
    yield "OMPI_MCA_orte_set_default_slots", Entry(str(slots), "Open MPI 4: ranks per host where a hostfile says none")
    yield "PRTE_MCA_prte_set_default_slots", Entry(str(slots), "Open MPI 5, the same under its own name")
    bound = "each pod counts its cores from 0, so ranks bound by default would meet on the same ones"
    yield "OMPI_MCA_hwloc_base_binding_policy", Entry("none", f"Open MPI 4: {bound}")
    yield "PRTE_MCA_hwloc_default_binding_policy", Entry("none", f"Open MPI 5: {bound}")
    more = "more ranks than slots are allowed, as they are with MPICH"
    yield "OMPI_MCA_rmaps_base_oversubscribe", Entry("1", f"Open MPI 4: {more}")
    yield "PRTE_MCA_rmaps_default_mapping_policy", Entry("slot:oversubscribe", f"Open MPI 5: {more}")
    yield "HYDRA_HOST_FILE", Entry(hydra_hostfile, "MPICH: the hosts and their slots, in its own form")
    yield "HYDRA_LAUNCHER_AUTOFORK", Entry("0", "MPICH would start ranks in the launcher where a name looks local")
    yield "I_MPI_HYDRA_HOST_FILE", Entry(hydra_hostfile, "Intel MPI: the hosts and their slots")
    yield "I_MPI_PERHOST", Entry(str(slots), "Intel MPI: ranks per host")
