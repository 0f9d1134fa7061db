"""env: every process knows which replica of its task it is."""

from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.frameworks.base import Entry, Framework, Net, Replica, Wiring


@dataclass(frozen=True)
class Options:
    """There is nothing to choose."""


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Tell one replica its index."""
    index = str(replica.index)
    return Wiring(
        {
            "VK_TASK_INDEX": Entry(index, "the older name of VC_TASK_INDEX"),
            "VC_TASK_INDEX": Entry(index, f"which replica of the task {replica.role} this is"),
        },
        init_steps_too=True,
    )


FRAMEWORK = Framework("env", Options, wire, "each replica's own index")
