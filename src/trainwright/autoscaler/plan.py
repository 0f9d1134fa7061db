"""The one entry of the autoscaler, and the table of policies.

To add a policy: one function of a cluster and jobs, one row here, a table of tests.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from trainwright.autoscaler.base import DEFAULT_POLICY, Cluster, ElasticJob, Plan, Policy
from trainwright.autoscaler.edl_compat import edl_compat
from trainwright.autoscaler.fulfilment import fulfilment
from trainwright.autoscaler.static import static

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "fulfilment": fulfilment,
        "edl-compat": edl_compat,
        "static": static,
    }
)


def plan(cluster: Cluster, jobs: Sequence[ElasticJob], policy: str = DEFAULT_POLICY) -> Plan:
    """Return the new sizes, each with its reason, and who waits for what."""
    return POLICIES[policy](cluster, jobs)
