"""What this machine can offer to pods: processors, memory and GPUs, as far as this process may use them."""

import os
from pathlib import Path

from trainwright.node.devices import GPU

_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def offered(cpu: str | None = None, memory: str | None = None, gpu: str | None = None) -> dict[str, str]:
    """Return the capacity of a node: what is given, else what this machine has."""
    return {
        "cpu": cpu if cpu is not None else str(_processors()),
        "memory": memory if memory is not None else str(_memory()),
        GPU: gpu if gpu is not None else str(_gpus()),
    }


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    """Return the machine's memory in bytes, or what the container we are in may use of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (_number(Path(path)) for path in _MEMORY_LIMITS)
    return min(whole, *(limit for limit in limits if limit), whole)


def _number(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdecimal() else 0


def _gpus() -> int:
    return len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()])
