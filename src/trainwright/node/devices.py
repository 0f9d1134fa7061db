"""GPUs: which ones a pod may use. Handed out at its start, taken back when nothing of it runs any more.

On a cluster a container sees the GPUs it asked for and, with NVIDIA's runtime, no others. So on a node that offers GPUs
a container that asked for none gets an empty CUDA_VISIBLE_DEVICES. A node that offers none leaves the variable alone.
The caller's own CUDA_VISIBLE_DEVICES names the GPUs there are to hand out.
"""

from collections.abc import Mapping

from trainwright.core.objects import Object
from trainwright.node.refusals import Refused
from trainwright.placement import amounts

GPU = "nvidia.com/gpu"


def gpu_ids(count: int, caller: Mapping[str, str]) -> list[str]:
    """Return the ids of the GPUs this node hands out: those the caller may see, at most `count`."""
    seen = caller.get("CUDA_VISIBLE_DEVICES", "").strip()
    ids = [part.strip() for part in seen.split(",") if part.strip()] if seen else [str(i) for i in range(count)]
    return ids[:count]


def wanted(container: Object) -> int:
    """Return how many GPUs a container asks for."""
    resources = container.get("resources") or {}
    asked = {**amounts(resources.get("requests")), **amounts(resources.get("limits"))}
    return asked.get(GPU, 0)


class Devices:
    """The GPUs of this node and who has them."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = list(ids)
        self._taken: dict[str, str] = {}

    def take(self, uid: str, pod: Object) -> dict[str, str | None]:
        """Return the value of CUDA_VISIBLE_DEVICES for each container; Refused when there are not enough.

        Init containers end before the others begin, so they share the others' GPUs; sidecars keep theirs.
        """
        spec = pod["spec"]
        inits = spec.get("initContainers") or []
        lasting = [c for c in inits if c.get("restartPolicy") == "Always"] + list(spec["containers"])
        passing = [c for c in inits if c.get("restartPolicy") != "Always"]
        if not self._ids and not any(map(wanted, [*lasting, *passing])):
            return {container["name"]: None for container in [*inits, *spec["containers"]]}
        total = max([sum(map(wanted, lasting)), *map(wanted, passing)])
        mine = self._claim(uid, total)
        values: dict[str, str | None] = {}
        start = 0
        for container in lasting:
            values[container["name"]] = ",".join(mine[start : start + wanted(container)])
            start += wanted(container)
        return values | {container["name"]: ",".join(mine[: wanted(container)]) for container in passing}

    def give_back(self, uid: str) -> None:
        """Take back what a pod had."""
        self._taken = {device: owner for device, owner in self._taken.items() if owner != uid}

    def _claim(self, uid: str, count: int) -> list[str]:
        free = [device for device in self._ids if device not in self._taken]
        if count > len(free):
            raise Refused(f"{count} {GPU} asked for, but only {len(free)} of this node's {len(self._ids)} are free")
        for device in free[:count]:
            self._taken[device] = uid
        return free[:count]
