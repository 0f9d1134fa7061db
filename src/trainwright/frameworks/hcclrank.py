"""hcclrank: the rank of a replica as an annotation, where Ascend's device plugin looks for it.

A RANK that the replica already has is taken over, whoever has set it; else masters come first and workers follow.
"""

from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core.objects import at
from trainwright.frameworks.base import Entry, Framework, Net, Replica, Wiring

ANNOTATION = "hccl/rankIndex"


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``hcclrank: ["--master=chief"]``."""

    master: str = "master"
    worker: str = "worker"


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Write one replica's rank on its pod."""
    found = _variable(job, replica)
    if found is not None:
        return Wiring(annotations={ANNOTATION: Entry(found, "the RANK of this replica")})
    ranks = {options.master: replica.index, options.worker: job.count(options.master) + replica.index}
    if replica.role not in ranks:
        return Wiring()
    why = f"first the replicas of {options.master}, then those of {options.worker}"
    return Wiring(annotations={ANNOTATION: Entry(str(ranks[replica.role]), why)})


def _variable(job: Job, replica: Replica) -> str | None:
    """Return RANK as the user's containers have it, or as a framework has set it."""
    role = job.role(replica.role)
    for container in at(role.template, ("spec", "containers"), []) if role else []:
        for each in container.get("env") or ():
            if each.get("name") == "RANK" and "value" in each:
                return str(each["value"])
    entry = replica.told.get("RANK")
    return entry.value if entry else None


FRAMEWORK = Framework("hcclrank", Options, wire, "the rank as an annotation, for Ascend devices")
