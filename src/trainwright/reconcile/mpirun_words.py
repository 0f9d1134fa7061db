"""Which rank failed, in mpirun's own words: Open MPI 4 and 5, MPICH and Intel MPI each say it differently.

Only what the launcher printed last is looked at, because a pod's termination message holds no more. Where the words
give a rank and no host, the host follows from how ranks are placed: slot by slot.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainwright.reconcile.verdicts import signal_name


@dataclass(frozen=True)
class Fault:
    """A rank that failed, as far as mpirun says."""

    rank: int | None = None
    host: str = ""
    code: int | None = None
    signal: int = 0
    lost: bool = False
    """Its host was lost: nothing is known of the rank."""

    def __str__(self) -> str:
        """Return the fault in words: "rank 3 on j-worker-1 was killed by SIGKILL"."""
        if self.lost:
            return f"{self.host} was lost while ranks ran there"
        who = f"rank {self.rank}" if self.rank is not None else "a rank"
        where = f" on {self.host}" if self.host else ""
        if self.signal:
            return f"{who}{where} was killed by {signal_name(self.signal)}"
        return f"{who}{where} exited with code {self.code}"


_SIGNALLED = re.compile(
    r"process rank (?P<rank>\d+) with PID \d+ on node\s+(?P<host>\S+)\s+exited\s+on\s+signal\s+(?P<signal>\d+)"
)
_EXITED = re.compile(r"Process name: \[(?:\[\d+,\d+\]|[^\]]*@\d+),(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)")
_HYDRA = re.compile(r"PID \d+ RUNNING AT (?P<host>\S+)\s+=\s+(?:EXIT CODE|KILLED BY SIGNAL): (?P<code>\d+)")
_HYDRA_SIGNAL = re.compile(r"EXIT STRING: [^(]*\(signal (?P<signal>\d+)\)|KILLED BY SIGNAL: (?P<again>\d+)")
_LOST = re.compile(
    r"lost communication with a remote daemon.*?Remote daemon:\s*\[.*?\] on node (?P<host>[\w.-]+)", re.S
)


def fault(text: str, hosts: Sequence[str], slots: int) -> Fault | None:
    """Return who failed first by what mpirun printed; None if it says nothing of it."""
    if found := _SIGNALLED.search(text):
        return Fault(int(found["rank"]), _short(found["host"]), signal=int(found["signal"]))
    if found := _EXITED.search(text):
        rank = int(found["rank"])
        host = hosts[rank // slots] if slots and rank // slots < len(hosts) else ""
        return Fault(rank, _short(host), int(found["code"]))
    if found := _HYDRA.search(text):
        said = Fault(None, _short(found["host"]), int(found["code"]))
        killed = _HYDRA_SIGNAL.search(text)
        return replace(said, code=None, signal=int(killed["signal"] or killed["again"])) if killed else said
    if found := _LOST.search(text):
        return Fault(host=_short(found["host"]), lost=True)
    return None


def _short(host: str) -> str:
    return host.partition(".")[0]
