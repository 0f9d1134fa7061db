"""A run in a few lines of text: one line per job, as tall as the share of its maximum that runs."""

from collections.abc import Iterator, Sequence

from trainwright.simulate.meters import columns
from trainwright.simulate.result import JobResult, Result

MOST_LINES = 24
"""With more jobs than this there is one line per group."""
_BLOCKS = " ▁▂▃▄▅▆▇█"


def lines(result: Result, width: int = 60) -> Iterator[str]:
    """Yield the timeline of a run: time, utilisation, other load, jobs."""
    rows = [("utilisation", columns(result.utilisation, result.until, width))]
    for load in result.loads:
        most = max(value for _, value in load.wanted) or 1
        rows.append((load.name, [value / most for value in columns(load.running, result.until, width)]))
    rows += _jobs(result, width)
    left = max(len(name) for name, _ in rows)
    end = f"{result.until:g} s"
    yield f"{result.policy.ljust(left)}  0 s{end.rjust(width - 3)}"
    for name, shares in rows:
        yield f"{name.ljust(left)}  {bar(shares)}".rstrip()


def bar(shares: Sequence[float]) -> str:
    """Return shares as blocks; anything above nothing is seen."""
    return "".join(_BLOCKS[0 if share <= 0 else max(1, min(8, round(share * 8)))] for share in shares)


def _jobs(result: Result, width: int) -> list[tuple[str, list[float]]]:
    if len(result.jobs) <= MOST_LINES:
        return [(job.name, _shares([job], result.until, width)) for job in result.jobs]
    groups: dict[str, list[JobResult]] = {}
    for job in result.jobs:
        groups.setdefault(job.group, []).append(job)
    return [(f"{name} ({len(jobs)})", _tallest(_sums(jobs, result.until, width))) for name, jobs in groups.items()]


def _shares(jobs: Sequence[JobResult], until: float, width: int) -> list[float]:
    most = sum(job.maximum for job in jobs)
    return [value / most for value in _sums(jobs, until, width)]


def _sums(jobs: Sequence[JobResult], until: float, width: int) -> list[float]:
    return [sum(values) for values in zip(*(columns(job.running, until, width) for job in jobs), strict=True)]


def _tallest(values: Sequence[float]) -> list[float]:
    most = max(values) or 1.0
    return [value / most for value in values]
