"""The table of situations, and the one that speaks: the first row that recognises the facts.

Order is meaning. What ends or holds a job as a whole comes first, then what keeps pods from being made, placed and
started, then what goes wrong while they run, and at last that nothing does.
"""

from collections.abc import Mapping

from trainwright.why import sizes
from trainwright.why.base import Facts, Judge, Verdict
from trainwright.why.ended import ENDED
from trainwright.why.held import HELD
from trainwright.why.room import ROOM, unplaced
from trainwright.why.running import FINE, GOING_ON, RUNNING
from trainwright.why.starting import FOLLOWING, STARTING

_ALIVE: tuple[Judge, ...] = (
    *STARTING,
    *ROOM,
    sizes.below_minimum,
    unplaced,
    *RUNNING,
    *FOLLOWING,
    *GOING_ON,
    *sizes.SIZES,
    *FINE,
)

SITUATIONS: Mapping[str, Judge] = {row.__name__.replace("_", "-"): row for row in (*HELD, *ENDED, *_ALIVE)}
"""Every situation by its name, in the order of precedence."""


def judge(facts: Facts) -> Verdict:
    """Say why a job is as it is: one verdict, and after its own evidence how the job came to its size."""
    rows = (*HELD, *(ENDED if facts.standing.finished else _ALIVE))
    for row in rows:
        if (verdict := row(facts)) is not None:
            evidence = map(_one_line, (*verdict.evidence, *_sizes(facts, verdict)))
            sentence, situation = _one_line(verdict.sentence), row.__name__.replace("_", "-")
            return Verdict(sentence, tuple(filter(None, evidence)), verdict.next, situation)
    raise AssertionError("the last row of each table recognises everything")


def _one_line(text: str) -> str:
    """Return words of others, which may have several lines, on one."""
    return " ".join(text.splitlines())


def _sizes(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """Return the history of the job's size, without what the sentence has said already."""
    return tuple(line for line in sizes.history(facts) if line not in verdict.sentence)
