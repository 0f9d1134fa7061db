"""Which waiting pods may start now: gangs whole or not at all, in order of arrival.

A gang is the pods of one namespace that carry the same gang label. As many of them as their gang-min annotation says
must have a place, or get one in this very pass, before any starts; the others follow one by one as they fit. A pod
without a gang is a gang of one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trainwright.core.names import GANG_LABEL, GANG_MIN_ANNOTATION
from trainwright.core.objects import Object
from trainwright.placement.amounts import Amounts, allocatable, minus, plus, pod_requests
from trainwright.placement.fit import Claim, Shortfall, place


@dataclass(frozen=True)
class Pass:
    """What one look at the waiting pods decides, by pod uid."""

    bindings: Mapping[str, str] = field(default_factory=dict)
    """Which node each pod that may start now gets."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Why each of the others waits, in words."""


@dataclass(frozen=True)
class _Gang:
    waiting: Sequence[Object]
    placed: int
    minimum: int

    @property
    def missing(self) -> int:
        """Return how many more pods must get a place together."""
        return max(0, self.minimum - self.placed)


def schedule(nodes: Iterable[Object], pods: Iterable[Object]) -> Pass:
    """Return who may start now and where, and why the others wait."""
    pods = list(pods)
    offered = {node["metadata"]["name"]: allocatable(node) for node in nodes if usable(node)}
    free = _free(offered, pods)
    bindings: dict[str, str] = {}
    waits: dict[str, str] = {}
    for gang in _gangs(pods):
        together, rest = gang.waiting[: gang.missing], gang.waiting[gang.missing :]
        if len(together) < gang.missing:
            sentence = (
                f"waiting for the rest of the gang: {gang.placed + len(together)} of {gang.minimum} pods are there"
            )
            waits.update({_uid(pod): sentence for pod in gang.waiting})
            continue
        units = [together, *([pod] for pod in rest)] if together else [[pod] for pod in rest]
        for position, unit in enumerate(units):
            result = place(free, offered, [Claim(_uid(pod), pod_requests(pod)) for pod in unit])
            if isinstance(result, Shortfall):
                stuck = [pod for later in units[position:] for pod in later]
                waits.update({_uid(pod): _sentence(result, len(unit)) for pod in stuck})
                break
            bindings.update(result)
            for pod in unit:
                free[result[_uid(pod)]] = minus(free[result[_uid(pod)]], pod_requests(pod))
    return Pass(bindings, waits)


def _sentence(short: Shortfall, pods: int) -> str:
    who = f"a gang of {pods} pods" if pods > 1 else "one pod"
    never = "; it can never fit here" if short.forever else ""
    return f"{who} {short}{never}"


def _gangs(pods: Sequence[Object]) -> list[_Gang]:
    """Return the gangs that have waiting pods, first come first."""
    members: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        meta = pod["metadata"]
        gang = (meta.get("labels") or {}).get(GANG_LABEL)
        members.setdefault((meta["namespace"], f"gang {gang}" if gang else f"pod {meta['name']}"), []).append(pod)
    gangs = [_gang(group) for group in members.values()]
    return sorted((gang for gang in gangs if gang.waiting), key=lambda gang: _arrival(gang.waiting[0]))


def _gang(pods: Sequence[Object]) -> _Gang:
    waiting = sorted(filter(_waits, pods), key=_arrival)
    placed = sum(1 for pod in pods if pod["spec"].get("nodeName") and not _leaving(pod))
    wanted = max((_minimum(pod) for pod in waiting), default=1)
    return _Gang(waiting, placed, wanted)


def _minimum(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(GANG_MIN_ANNOTATION, "1")
    return int(text) if text.isdigit() else 1


def _free(offered: Mapping[str, Amounts], pods: Iterable[Object]) -> dict[str, Amounts]:
    """Return what no pod holds; a pod that is stopping holds its share until it is gone."""
    used: dict[str, Amounts] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in offered and not _finished(pod):
            used[node] = plus(used.get(node, {}), pod_requests(pod))
    return {name: minus(amounts, used.get(name, {})) for name, amounts in offered.items()}


def usable(node: Object) -> bool:
    """Say whether a node takes pods at all: it is ready, and nobody has cordoned it."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("unschedulable")


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return not (spec.get("nodeName") or spec.get("schedulingGates") or _leaving(pod) or _finished(pod))


def _leaving(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _arrival(pod: Object) -> tuple[str, int, str]:
    name = pod["metadata"]["name"]
    return pod["metadata"].get("creationTimestamp", ""), len(name), name


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
