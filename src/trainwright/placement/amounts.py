"""How much of each resource a pod asks for and a node has."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from trainwright.core import quantity
from trainwright.core.objects import Object

Amounts = Mapping[str, int]
"""Resource name to whole number: thousandths for cpu, units for everything else."""


def amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the quantities of a resource list as whole numbers, rounded up as the scheduler does."""
    return {name: _whole(name, quantity.parse(value)) for name, value in (quantities or {}).items()}


def plus(left: Amounts, right: Amounts) -> dict[str, int]:
    """Return both together."""
    total = dict(left)
    for name, value in right.items():
        total[name] = total.get(name, 0) + value
    return total


def minus(left: Amounts, right: Amounts) -> dict[str, int]:
    """Return what is left; it may be below nothing."""
    return plus(left, {name: -value for name, value in right.items()})


def left(offered: Amounts, held: Iterable[Amounts]) -> dict[str, int]:
    """Return how much of what is offered nobody holds."""
    free = dict(offered)
    for part in held:
        for name, value in part.items():
            free[name] = free.get(name, 0) - value
    return free


def pod_requests(pod: Object) -> dict[str, int]:
    """Return what a pod asks a node for: all containers together, or the hungriest init step if that is more."""
    spec = pod["spec"]
    running = _sum(map(_container_requests, spec.get("containers") or ()))
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        request = _container_requests(container)
        if container.get("restartPolicy") == "Always":  # a sidecar: stays beside everything that follows
            running = plus(running, request)
        else:
            peak = {name: max(peak.get(name, 0), request.get(name, 0)) for name in {*peak, *request}}
    total = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {*running, *peak}}
    return {**plus(total, amounts(spec.get("overhead"))), "pods": 1}


def pod_limits(pod: Object) -> dict[str, int]:
    """Return how much a pod may come to use: limits, and requests where a container has none; nothing without any."""
    containers = pod["spec"].get("containers") or ()
    if not any((container.get("resources") or {}).get("limits") for container in containers):
        return {}
    return _sum(map(_container_limits, containers))


def pod_bounds(pod: Object) -> dict[str, int]:
    """Return the limits that a pod states, and nothing for those it does not."""
    spec = pod["spec"]
    parts = {part: [_bounded(each) for each in spec.get(part) or ()] for part in ("containers", "initContainers")}
    return {name: value for name, value in pod_requests({"spec": parts}).items() if name != "pods"}


def allocatable(node: Object) -> dict[str, int]:
    """Return what a node offers."""
    status = node.get("status") or {}
    return amounts(status.get("allocatable") or status.get("capacity"))


def written(name: str, value: int) -> str:
    """Return an amount as an object says it, without rounding."""
    if name == "cpu":
        return quantity.exact(Decimal(value) / 1000)
    return quantity.exact(Decimal(value), binary=name in ("memory", "ephemeral-storage"))


def show(name: str, value: int) -> str:
    """Return an amount as a user would write it."""
    if name == "cpu":
        return quantity.show(Decimal(value) / 1000)
    return quantity.show(Decimal(value), binary=name in ("memory", "ephemeral-storage"))


def _bounded(container: Object) -> Object:
    """Return a container that asks for its limits and nothing else."""
    return {**container, "resources": {"limits": (container.get("resources") or {}).get("limits")}}


def _container_requests(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _container_limits(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("requests")), **amounts(resources.get("limits"))}


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        total = plus(total, part)
    return total


def _whole(name: str, value: Decimal) -> int:
    return int((value * 1000 if name == "cpu" else value).to_integral_value(ROUND_CEILING))
