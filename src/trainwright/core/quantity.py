"""Kubernetes quantities ("500m", "2Gi", "1e3") as exact numbers that add up."""

import re
from decimal import Decimal

_SUFFIXES = {
    "": Decimal(1),
    **{
        suffix: Decimal(1000) ** power
        for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
    },
    **{suffix + "i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_PATTERN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?", re.ASCII)


def parse(text: str | int | float) -> Decimal:
    """Return the number a quantity stands for, or raise ValueError with what would be right."""
    match = _PATTERN.fullmatch(str(text)) if not isinstance(text, bool) else None
    if not match:
        raise ValueError(f"{text!r} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi")
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def show(value: Decimal, *, binary: bool = False) -> str:
    """Return a short way to write a quantity for a reader: 0.5 as 500m, and bytes as 2Gi when `binary`, rounded."""
    if binary:
        for suffix in _BINARY:
            scaled = value / _SUFFIXES[suffix]
            if scaled >= 1:
                return f"{_plain(round(scaled, 1))}{suffix}"
        return _plain(value)
    if value == value.to_integral_value():
        return _plain(value)
    return f"{_plain(round(value * 1000))}m" if abs(value) < 1 else _plain(round(value, 3))


def exact(value: Decimal, *, binary: bool = False) -> str:
    """Return a quantity as an object says it: as short as it can be without rounding, to the thousandth."""
    if value % 1:
        return f"{_plain(value * 1000)}m"
    for suffix in _BINARY if binary and value else ():
        if value % _SUFFIXES[suffix] == 0:
            return f"{_plain(value / _SUFFIXES[suffix])}{suffix}"
    return _plain(value)


def _plain(value: Decimal | int) -> str:
    text = f"{Decimal(value):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
