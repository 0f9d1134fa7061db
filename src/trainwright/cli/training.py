"""What a training log of our examples tells: its steps, the loss, and how long something has disturbed it.

Two forms of a line are read, from any rank:

    step 42 loss 0.5012 world 3 time 1760000000.123
    step 3 rank 1 loss 0.5012 world 4
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from trainwright.cli.merge import sources

_STEP = re.compile(r"^step (\d+)(?: rank (\d+))? loss (\S+) world (\d+)(?: time (\S+))?$")


@dataclass(frozen=True)
class Step:
    """One step, as one rank has told it."""

    number: int
    loss: float
    world: int
    time: float = 0.0
    rank: int = 0


@dataclass(frozen=True)
class Disturbance:
    """What a change did to a training: the last step before it, the first after it, and how much longer that took."""

    before: Step
    after: Step
    seconds: float


def steps(lines: Iterable[str]) -> list[Step]:
    """Return the steps that lines tell of, in order."""
    found = [
        Step(int(match[1]), float(match[3]), int(match[4]), float(match[5] or 0), int(match[2] or 0))
        for line in lines
        if (match := _STEP.match(line))
    ]
    return sorted(found, key=lambda step: (step.time, step.number, step.rank))


def read(folder: Path) -> list[Step]:
    """Return the steps of a run, from the logs of all its ranks."""
    return steps(line for source in sources(folder) for line in _lines(source.path(folder)))


def _lines(path: Path) -> list[str]:
    """Return the lines of a log that are complete by now."""
    return path.read_bytes().rpartition(b"\n")[0].decode(errors="replace").split("\n")


def disturbance(told: Sequence[Step], since: float, until: Step) -> Disturbance | None:
    """Return the longest pause between two steps from the last one before `since` to `until`, beyond the usual one."""
    place = next((at for at, step in enumerate(told) if step.time > since), len(told))
    pairs = [(a, b) for a, b in pairwise(told[max(place - 1, 0) :]) if b.time <= until.time]
    if not pairs:
        return None
    before, after = max(pairs, key=lambda pair: pair[1].time - pair[0].time)
    usual = median(b.time - a.time for a, b in pairwise(told))
    return Disturbance(before, after, max(after.time - before.time - usual, 0.0))


def gaps(told: Sequence[Step]) -> str:
    """Say what is wrong with the numbers of the steps; nothing if each from 1 to the last was told exactly once."""
    numbers = [step.number for step in told]
    missing = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if missing:
        return f"steps are missing: {', '.join(map(str, missing[:5]))}"
    return f"steps were done twice: {', '.join(map(str, twice[:5]))}" if twice else ""
