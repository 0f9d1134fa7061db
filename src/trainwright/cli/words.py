"""How the commands write times, durations, ages and plain tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

from trainwright.core.objects import moment
from trainwright.core.words import counted, listed, span

__all__ = ["Duration", "clock", "columns", "counted", "listed", "seconds", "span"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_GAP = "  "
_LEAST = 8
"""No column becomes narrower than this."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def seconds(text: str) -> float:
    """Return the seconds of "90", "30s", "5m" or "1h30m", or raise ValueError with what would be right."""
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return float(compact)
    if not re.fullmatch(rf"({_PART.pattern})+", compact):
        raise ValueError(f"{text!r} is not a duration; write for example 30s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(compact))


def clock(text: str | None) -> str:
    """Return the time of day of an API timestamp, where the reader is; nothing if there is none."""
    when = moment(text)
    return when.astimezone().strftime("%H:%M:%S") if when else ""


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """Return the lines of a plain table whose columns are as wide as they must be, or as the room allows."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    if width is not None:
        widths = _narrowed(widths, width - len(_GAP) * (len(widths) - 1))
    return [_GAP.join(map(_cell, row, widths)).rstrip() for row in table]


def _narrowed(widths: list[int], room: int) -> list[int]:
    """Return widths that fit: the widest column gives way first."""
    widths = [*widths]
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


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
