"""Which gang strategy a cluster offers: found out by asking its API server, unless somebody has chosen one.

The rule of `auto`, in this order:

- native, where the API server serves PodGroups of its own in the version we write. It does so only where somebody has
  switched gangs on; whether the scheduler was told too cannot be seen from here.
- volcano, where Volcano's PodGroups are served and its queue `default` is there and open. Its scheduler makes that
  queue; definitions alone, which other projects install as well, would leave pods waiting for nobody.
- gates, which need nothing but the stock scheduler.

The coscheduling plugin is only taken by choice: nobody can see from here by which name pods ask for its scheduler.
"""

from typing import Literal, Protocol

from trainwright.cluster.base import Cluster
from trainwright.core.errors import Forbidden, NotFound
from trainwright.core.objects import at
from trainwright.core.resources import NATIVE_POD_GROUP, POD_GROUP, Resource
from trainwright.desired.base import Gang
from trainwright.operator.log import logger

Choice = Literal["auto", "native", "volcano", "scheduler-plugins", "gates", "none"]

QUEUE = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
DEFAULT_QUEUE = "default"

log = logger(__name__)


class Discoverable(Cluster, Protocol):
    """A cluster that can be asked what it serves."""

    async def serves(self, resource: Resource) -> bool:
        """Say whether objects of a kind can be stored there at all."""


async def chosen(cluster: Discoverable, choice: Choice) -> Gang:
    """Return the strategy that was chosen, or the one the cluster offers."""
    if choice != "auto":
        return choice
    found = await detect(cluster)
    log.info("gang strategy found", gang=found)
    return found


async def detect(cluster: Discoverable) -> Gang:
    """Return the best strategy a cluster offers."""
    if await cluster.serves(NATIVE_POD_GROUP):
        return "native"
    if await cluster.serves(POD_GROUP) and await _has_open_queue(cluster):
        return "volcano"
    return "gates"


async def _has_open_queue(cluster: Cluster) -> bool:
    try:
        queue = await cluster.get(QUEUE, "", DEFAULT_QUEUE)
    except NotFound:
        return False
    except Forbidden as error:
        log.info("Volcano is not taken; say --gang volcano if its scheduler runs here", error=error)
        return False
    return at(queue, ("status", "state"), "Open") in ("", "Open")
