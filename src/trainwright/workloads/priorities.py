"""Gives every new pod the priority of its class; what that means is decided in `placement/queue.py`.

A class that is not there is no error: a manifest that names one of a cluster also runs where nobody has made it.
"""

from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.objects import Object
from trainwright.core.resources import POD, PRIORITY_CLASS, Resource
from trainwright.placement.priorities import prioritised


def prioritising(cluster: MemoryCluster) -> Admit:
    """Return what gives pods their priority on their way in."""

    def admitted(resource: Resource, new: Object, old: Object | None) -> Object:
        return prioritised(new, cluster.glance(PRIORITY_CLASS)) if resource == POD and old is None else new

    return admitted
