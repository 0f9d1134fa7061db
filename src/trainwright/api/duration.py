"""Durations as Go writes them: "90s", "10m", "1h30m"."""

import re

from trainwright.api.reader import Text

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]{1,15}(\.[0-9]{1,15})?)(ns|us|ms|s|m|h)"
LONGEST = 2**63 / 1e9
"""Seconds; what is longer ends here, as Go has no longer ones."""

DURATION = Text("a duration", f"^(0|({_PART})+)$", "numbers with units, such as 90s, 10m or 1h30m", longest=64)


def seconds(text: str) -> float:
    """Return how many seconds a duration has."""
    return min(sum(float(number) * _UNITS[unit] for number, _, unit in re.findall(_PART, text)), LONGEST)
