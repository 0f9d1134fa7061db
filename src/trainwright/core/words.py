"""How sentences write durations, counts and lists of names, the same in every layer."""

from collections.abc import Iterable


def span(duration: float) -> str:
    """Return a duration as short as a table wants it: 0.4s, 12s, 3m5s, 2h10m, 4d3h."""
    if duration < 1:
        return f"{max(duration, 0):.1f}s"
    whole = int(duration)
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}{rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def counted(number: int, word: str) -> str:
    """Return "1 rank", "3 ranks"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    *first, last = list(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last
