"""How fast a training goes, read from its log: lines that count steps, and when they were printed. Pure.

What counts is a number after one of the words trainings count with: "step 120", "iter: 120", "global_step=120",
"Iteration [120/5000]", "batch 120"; or the count of a progress bar. Of several on a line the first is taken. A count
that goes back (a new epoch, a restart) begins anew.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from trainwright.core.objects import moment

_COUNTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![a-z])(?:global[ _-]?step|step|iteration|iter|batch)s?(?![a-z])\s*[:=#]?\s*\[?\s*(\d{1,12})(?!\w|\.\d)",
        r"\b(\d{1,12})/\d+ \[\d+:\d\d",  # a progress bar: 120/5000 [00:37<25:20, 3.21it/s]
    )
)
_LEAST_SECONDS = 0.5
"""Lines closer together tell nothing: when a line was printed is known to a fraction of a second."""


@dataclass(frozen=True)
class Progress:
    """Where a training is, and how many steps it takes in a second; None where the log does not tell."""

    step: int | None = None
    rate: float | None = None


def count(line: str) -> int | None:
    """Return the step a line tells of, or None."""
    found = next((match for pattern in _COUNTS if (match := pattern.search(line))), None)
    return int(found[1]) if found else None


def progress(lines: Iterable[str]) -> Progress:
    """Return what lines with a time in front of them tell."""
    told = [each for each in map(_told, lines) if each]
    if not told:
        return Progress()
    steps = _last_climb(told)
    (began, first), (ended, last) = steps[0], steps[-1]
    passed = (ended - began).total_seconds()
    return Progress(last, (last - first) / passed if passed >= _LEAST_SECONDS else None)


def _told(line: str) -> tuple[datetime, int] | None:
    stamp, _, text = line.partition(" ")
    step = count(text)
    if step is None:
        return None
    try:
        when = moment(stamp)
    except ValueError:
        return None
    return (when, step) if when else None


def _last_climb(told: list[tuple[datetime, int]]) -> list[tuple[datetime, int]]:
    """Return the end of a count, from where it last went back."""
    start = max((place for place in range(1, len(told)) if told[place][1] < told[place - 1][1]), default=0)
    return told[start:]
