"""How the commands write times, durations, ages and plain tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from trainwright.core.objects import moment

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def seconds(text: str) -> float:
    """Return the seconds of "90", "30s", "5m" or "1h30m", or raise ValueError with what would be right."""
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return float(compact)
    if not re.fullmatch(rf"({_PART.pattern})+", compact):
        raise ValueError(f"{text!r} is not a duration; write for example 30s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(compact))


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


def clock(text: str | None) -> str:
    """Return the time of day of an API timestamp, where the reader is; nothing if there is none."""
    when = moment(text)
    return when.astimezone().strftime("%H:%M:%S") if when else ""


def counted(number: int, word: str) -> str:
    """Return "1 rank", "3 ranks"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    *first, last = list(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a plain table whose columns are as wide as they must be."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


class Duration(click.ParamType[float]):
    """A duration on the command line, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds, or fail with what would be right."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
