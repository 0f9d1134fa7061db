"""What fits where: pods, nodes, gangs, shortfalls. Pure arithmetic, shared by the scheduler and whoever explains it.

Amounts are whole numbers, so that they add up exactly and fast: thousandths for cpu, units (bytes, devices) otherwise.
"""

from trainwright.placement.amounts import Amounts, allocatable, amounts, minus, plus, pod_limits, pod_requests, show
from trainwright.placement.fit import Claim, Shortfall, place
from trainwright.placement.gangs import Pass, schedule, usable

__all__ = [
    "Amounts",
    "Claim",
    "Pass",
    "Shortfall",
    "allocatable",
    "amounts",
    "minus",
    "place",
    "plus",
    "pod_limits",
    "pod_requests",
    "schedule",
    "show",
    "usable",
]
