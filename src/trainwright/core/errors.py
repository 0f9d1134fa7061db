"""The error family, and how errors are worded.

    TrainwrightError
    ├── ManifestError     the user can fix it: every problem of a manifest, together
    ├── HomeError         this machine cannot do what was asked, and the sentence says what would help
    ├── OutOfTime         what was waited for did not come within the time that was given
    └── ClusterError      the API said no; code and reason are the API server's own
        ├── NotFound          404 NotFound
        ├── AlreadyExists     409 AlreadyExists
        ├── Conflict          409 Conflict: read again, then try again
        ├── Expired           410 Expired: the version is too old, list again
        ├── Invalid           422 Invalid: the object breaks a rule
        ├── BadRequest        400 BadRequest
        ├── TooLarge          413 RequestEntityTooLarge
        ├── Unauthorized      401 Unauthorized: nobody knows who asks
        ├── Forbidden         403 Forbidden; Ending: because the namespace is being deleted
        └── NotStored         507 InsufficientStorage: what was asked for cannot be kept at the moment

A sentence says the path, the problem, what was found and what would be right.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

Severity = Literal["error", "warning"]


class TrainwrightError(Exception):
    """Anything we raise on purpose."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong with a manifest: where, and in words what would be right."""

    path: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ManifestError(TrainwrightError):
    """A manifest that cannot be accepted, with all its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class HomeError(TrainwrightError):
    """This machine cannot do what was asked."""


class OutOfTime(TrainwrightError):  # noqa: N818 - nothing is wrong but the time
    """What was waited for did not come in time."""


class ClusterError(TrainwrightError):
    """The API refused a call, in the API server's own code and reason."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"


class NotFound(ClusterError):  # noqa: N818 - the API server's reason is the name
    """There is no such object."""

    code = 404
    reason = "NotFound"


class AlreadyExists(ClusterError):  # noqa: N818
    """An object of that name is there already."""

    code = 409
    reason = "AlreadyExists"


class Conflict(ClusterError):  # noqa: N818
    """The object has changed since it was read."""

    code = 409
    reason = "Conflict"


class Expired(ClusterError):  # noqa: N818
    """The version asked for is no longer kept; list again."""

    code = 410
    reason = "Expired"


class Invalid(ClusterError):  # noqa: N818
    """The object breaks a rule of its kind."""

    code = 422
    reason = "Invalid"

    def __init__(self, message: str, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        """Each rule that it breaks, where they are known apart."""


class BadRequest(ClusterError):  # noqa: N818
    """The call itself makes no sense."""

    code = 400
    reason = "BadRequest"


class TooLarge(ClusterError):  # noqa: N818
    """The call says more than anybody wants to keep."""

    code = 413
    reason = "RequestEntityTooLarge"


class Unauthorized(ClusterError):  # noqa: N818
    """The caller's credentials are not accepted."""

    code = 401
    reason = "Unauthorized"


class Forbidden(ClusterError):  # noqa: N818
    """The caller may not do this."""

    code = 403
    reason = "Forbidden"


class Ending(Forbidden):
    """Nothing is made any more in a namespace that is being deleted."""


class NotStored(ClusterError):  # noqa: N818
    """What was asked for cannot be put on disk at the moment."""

    code = 507
    reason = "InsufficientStorage"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" when one of `known` is close to `word`, else nothing."""
    known = list(known)
    folded = {name.lower(): name for name in known}
    if word.lower() in folded:
        return f"; did you mean {folded[word.lower()]!r}?"
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.7)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""
