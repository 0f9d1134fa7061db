"""svc: the replicas of a job have names that resolve, and every process can read the names of all.

One ConfigMap holds the names of each task, as a file (one name per line), as a list with commas and as a number. Its
keys spell a task's name with _ for -. The variables only point to it, so that a job of thousands does not carry its
whole host list in every pod.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, NETWORK_POLICY, SERVICE
from trainwright.frameworks.base import Entry, Framework, Mount, Net, Replica, Wiring, bare, hosts

PATH = "/etc/volcano"


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``svc: ["--publish-not-ready-addresses"]``."""

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


def prepare(job: Job, options: Options, net: Net) -> Wiring:
    """Return what every replica gets: it is the same for all of them."""
    name = config_map(job)
    volume = {"name": name, "configMap": {"name": name}}
    mounts = (Mount(volume, PATH, "the host names of every task, one file per task"),) if net.names else ()
    return Wiring(
        dict(_variables(job)) if options.inject_hosts_env else {},
        mounts=mounts,
        hostname=True,
        init_steps_too=True,
    )


def wire(job: Job, replica: Replica, same: Wiring, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Give one replica its name and tell it those of the others."""
    return same


def objects(job: Job, options: Options, net: Net) -> tuple[Create, ...]:
    """Return the ConfigMap with all names, the Service that makes them resolve, and who may connect."""
    labels = {names.VOLCANO_JOB_LABEL: job.name, names.VOLCANO_NAMESPACE_LABEL: job.namespace}
    made = [bare(CONFIG_MAP, config_map(job), {"data": _lists(job, net)}), _service(job, options, labels)]
    if not options.disable_network_policy:
        made.append(_network_policy(job, labels))
    return tuple(map(Create, made))


def config_map(job: Job) -> str:
    """Return the name of the ConfigMap with the host names."""
    return f"{job.name}-svc"


def _variables(job: Job) -> Iterator[tuple[str, Entry]]:
    for role in job.roles:
        for key, why in (
            (_key(role.name, "HOSTS"), f"the host names of the task {role.name}, with commas"),
            (_key(role.name, "NUM"), f"how many host names the task {role.name} has"),
        ):
            source = {"configMapKeyRef": {"name": config_map(job), "key": key}}
            yield key, Entry(f"{config_map(job)}/{key}", why, source)


def _key(task: str, what: str) -> str:
    return f"VC_{task.replace('-', '_').upper()}_{what}"


def _lists(job: Job, net: Net) -> Mapping[str, str]:
    data = {}
    for role in job.roles:
        found = hosts(job, role.name) if net.names else ("127.0.0.1",) * role.replicas
        data[f"{role.name.replace('-', '_')}.host"] = "\n".join(found)
        data[_key(role.name, "HOSTS")] = ",".join(found)
        data[_key(role.name, "NUM")] = str(len(found))
    return data


def _service(job: Job, options: Options, labels: Mapping[str, str]) -> Object:
    spec = {
        "clusterIP": "None",
        "selector": dict(labels),
        "publishNotReadyAddresses": options.publish_not_ready_addresses,
    }
    return bare(SERVICE, job.name, {"spec": spec})


def _network_policy(job: Job, labels: Mapping[str, str]) -> Object:
    own = {"matchLabels": dict(labels)}
    spec = {"podSelector": own, "ingress": [{"from": [{"podSelector": own}]}], "policyTypes": ["Ingress"]}
    return bare(NETWORK_POLICY, job.name, {"spec": spec})


FRAMEWORK = Framework("svc", Options, wire, "names that resolve, and lists of them", objects=objects, prepare=prepare)
