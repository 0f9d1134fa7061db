"""What fits where, and who goes first: pods, nodes, gangs, quotas, the queue.

Pure arithmetic, shared by the scheduler and whoever explains it. Amounts are whole numbers, so that they add
up exactly and fast: thousandths for cpu, units (bytes, devices) otherwise.
"""

from trainwright.placement.amounts import Amounts, allocatable, amounts, minus, plus, pod_limits, pod_requests, show
from trainwright.placement.fit import Claim, Shortfall, place
from trainwright.placement.gangs import usable
from trainwright.placement.queue import OVER_QUOTA

__all__ = [
    "OVER_QUOTA",
    "Amounts",
    "Claim",
    "Shortfall",
    "allocatable",
    "amounts",
    "minus",
    "place",
    "plus",
    "pod_limits",
    "pod_requests",
    "show",
    "usable",
]
