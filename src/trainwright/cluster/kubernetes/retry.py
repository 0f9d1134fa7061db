"""When a request may be repeated, and after how long. A table, without I/O.

What is sure not to have been carried out may always be repeated: no connection, 401 with new credentials, 429, and 503
that comes with Retry-After. After an answer that leaves it open (a broken connection, a server error) only what can be
carried out twice with the effect of once is repeated.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.cluster.queue import Backoff

_SERVER_TROUBLE = (500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How often and how long one request is tried."""

    tries: int = 6
    seconds: float = 30.0
    """No wait begins that would end later than this after the first try."""
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, longest=5.0))

    def wait(self, failures: int, passed: float, wish: float | None) -> float | None:
        """Return how long to wait after so many failures, at least what the server wishes; None is to give up."""
        if failures >= self.tries:
            return None
        # What the server asks for is the least; those it told the same must not all come back at once.
        seconds = self.backoff.seconds(failures) + (wish or 0.0)
        return seconds if passed + seconds <= self.seconds else None


def after_answer(status: int, wish: float | None, *, repeatable: bool) -> bool:
    """Say whether a request may be repeated after this answer."""
    if status == 429 or (status == 503 and wish is not None):
        return True
    return repeatable and status in _SERVER_TROUBLE


def after_break(error: Broken, *, repeatable: bool) -> bool:
    """Say whether a request may be repeated after this broken connection."""
    return not error.sent or repeatable


def retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds a Retry-After header asks for, None if there is none that can be read."""
    if not text:
        return None
    if text.isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)
