"""Who grows, who shrinks, who waits: (cluster, jobs) -> sizes, for every kind that can be resized.

Pure: no clock, no objects, no writes. The operator and the simulator tell it what there is and carry out the answer.
"""

from trainwright.autoscaler.base import (
    DEFAULT_POLICY,
    NOWHERE,
    Ask,
    Change,
    Cluster,
    ElasticJob,
    Fixed,
    Node,
    Plan,
    Policy,
)
from trainwright.autoscaler.plan import POLICIES, plan

__all__ = [
    "DEFAULT_POLICY",
    "NOWHERE",
    "POLICIES",
    "Ask",
    "Change",
    "Cluster",
    "ElasticJob",
    "Fixed",
    "Node",
    "Plan",
    "Policy",
    "plan",
]
