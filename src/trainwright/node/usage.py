"""What the pods of a node use right now, as `kubectl top` and `tw top` are told: the PodMetrics of metrics.k8s.io.

CPU is what processes have used between two looks. Whoever asks regularly gets what was used since the last answer; a
first question takes two looks half a second apart. Memory is counted as for limits: shared pages in proportion.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainwright.core.objects import Object, timestamp
from trainwright.node.memory import pss

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_SHORTEST, _LONGEST = 0.4, 30.0
"""Seconds between two looks that tell what is used now."""
_FIRST_SECONDS = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Busy:
    """One pod, and the processes of each of its containers that run."""

    pod: Object
    processes: Mapping[str, Iterable[int]]


@dataclass(frozen=True)
class _Look:
    time: float
    ticks: Mapping[int, int]
    """The CPU each process had used by then."""


class Meter:
    """Measures what pods use."""

    def __init__(self, pods: Callable[[], list[Busy]]) -> None:
        self._pods = pods
        self._looks: dict[tuple[str, str], _Look] = {}

    async def measured(self) -> list[Object]:
        """Return the PodMetrics of every pod of which something runs."""
        pods = self._pods()
        if not all(self._is_known(pod, name) for pod in pods for name in pod.processes):
            self._looks = dict(_look(pod, name) for pod in pods for name in pod.processes)
            await asyncio.sleep(_FIRST_SECONDS)
            pods = self._pods()
        before = self._looks
        self._looks = dict(_look(pod, name) for pod in pods for name in pod.processes)
        return [self._metrics(pod, before) for pod in pods if pod.processes]

    def _is_known(self, pod: Busy, container: str) -> bool:
        look = self._looks.get(_key(pod, container))
        return look is not None and _SHORTEST <= time.monotonic() - look.time <= _LONGEST

    def _metrics(self, busy: Busy, before: Mapping[tuple[str, str], _Look]) -> Object:
        meta = busy.pod["metadata"]
        windows, containers = [0.0], []
        for name, processes in busy.processes.items():
            new = self._looks[_key(busy, name)]
            old = before.get(_key(busy, name), new)
            passed = new.time - old.time
            used = sum(ticks - old.ticks.get(pid, 0) for pid, ticks in new.ticks.items()) / _TICKS
            cores = used / passed if passed else 0.0
            memory = sum(map(pss, processes))
            containers.append({"name": name, "usage": {"cpu": f"{cores * 1e9:.0f}n", "memory": f"{memory // 1024}Ki"}})
            windows.append(passed)
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "PodMetrics",
            "metadata": {name: meta[name] for name in ("name", "namespace", "labels") if name in meta},
            "timestamp": timestamp(datetime.now(UTC)),
            "window": f"{max(windows):.3f}s",
            "containers": containers,
        }


def _key(pod: Busy, container: str) -> tuple[str, str]:
    return str(pod.pod["metadata"]["uid"]), container


def _look(pod: Busy, container: str) -> tuple[tuple[str, str], _Look]:
    ticks = {pid: used for pid in pod.processes[container] if (used := _used(pid)) is not None}
    return _key(pod, container), _Look(time.monotonic(), ticks)


def _used(pid: int) -> int | None:
    """Return the clock ticks a process has spent on the CPU; None if it is no more."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])
    return None
