"""Figures of a run: values over time, their means over parts of the run, and Jain's index of fairness."""

from collections.abc import Sequence

Window = tuple[float, float]
Steps = Sequence[tuple[float, float]]
"""Times and the value from each of them on."""


class Signal:
    """A value that changes in steps: every step is kept for the picture."""

    def __init__(self, value: float = 0.0, at: float = 0.0) -> None:
        self.steps: list[tuple[float, float]] = [(at, value)]

    @property
    def value(self) -> float:
        """Return the value now."""
        return self.steps[-1][1]

    def set(self, now: float, value: float) -> None:
        """Let the value be another from now on."""
        time, last = self.steps[-1]
        if value == last:
            return
        if time == now:
            self.steps[-1] = (now, value)
        else:
            self.steps.append((now, value))

    def integral(self, window: Window) -> float:
        """Return the area under the value within a part of the run."""
        low, high = window
        total = 0.0
        ends = [time for time, _ in self.steps[1:]] + [high]
        for (start, value), end in zip(self.steps, ends, strict=True):
            total += value * max(0.0, min(end, high) - max(start, low))
        return total

    def mean(self, window: Window) -> float:
        """Return the mean of the value over a part of the run."""
        low, high = window
        return self.integral(window) / (high - low) if high > low else self.at(low)

    def at(self, time: float) -> float:
        """Return the value at a time."""
        return next((value for start, value in reversed(self.steps) if start <= time), self.steps[0][1])

    def highest(self, window: Window) -> float:
        """Return the highest value within a part of the run."""
        low, high = window
        inside = [value for time, value in self.steps if low < time < high]
        return max([self.at(low), *inside])


def columns(steps: Steps, until: float, count: int) -> list[float]:
    """Return the mean of a value over each of so many equal parts of a run; nothing before its first step."""
    width = until / count
    totals = [0.0] * count
    ends = [time for time, _ in steps[1:]] + [until]
    for (start, value), end in zip(steps, ends, strict=True):
        place = int(start / width)
        while value and place < count and place * width < end:
            totals[place] += value * max(0.0, min(end, (place + 1) * width) - max(start, place * width))
            place += 1
    return [total / width for total in totals]


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 when all shares are equal, 1/n when one has everything; 1 if nobody has anything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    return sum(values) / len(values) if values else None
