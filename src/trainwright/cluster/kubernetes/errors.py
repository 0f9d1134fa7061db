"""What an API server's refusal, or its silence, becomes in `core.errors`.

    ClusterError
    ├── NotFound, Conflict, …   of `core.errors`: refusals a caller may want to tell apart
    ├── Refused                 any other refusal, with the server's own code and reason
    └── Unreachable             no answer: nothing was carried out
        ├── OutcomeUnknown          no answer to what was sent: it may have been carried out, or not
        └── Withheld                not sent: whoever asked may not act any more

The message is always the server's own sentence where it gave one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainwright.core.errors import (
    AlreadyExists,
    BadRequest,
    ClusterError,
    Conflict,
    Ending,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotStored,
    TooLarge,
    Unauthorized,
)

_KNOWN: dict[int, Mapping[str, type[ClusterError]]] = {
    400: {"": BadRequest},
    401: {"": Unauthorized},
    403: {"": Forbidden},
    404: {"": NotFound},
    409: {"": Conflict, "AlreadyExists": AlreadyExists},
    410: {"": Expired},
    413: {"": TooLarge},
    422: {"": Invalid},
    507: {"": NotStored},
}
_NAMESPACE_GOING = "NamespaceTerminating"
_TEXT_LENGTH = 500


class Refused(ClusterError):  # noqa: N818 - as the rest of the family
    """The server refused for a reason nobody needs to tell apart; `code` and `reason` are its own."""

    def __init__(self, message: str, code: int, reason: str) -> None:
        super().__init__(message)
        vars(self).update(code=code, reason=reason)  # the class variables of the family, said for this one


class Unreachable(ClusterError):  # noqa: N818
    """The server did not answer, and nothing was carried out."""

    code = 503
    reason = "ServiceUnavailable"


class OutcomeUnknown(Unreachable):
    """The server got the request but no answer came back: look before trying again."""

    code = 504
    reason = "Timeout"


class Withheld(Unreachable):
    """The request was not sent, because this client may change nothing any more."""


def refusal(code: int, body: bytes) -> ClusterError:
    """Return the error that an answer with this code and body stands for."""
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body[:_TEXT_LENGTH].decode(errors="replace").strip()
        return _error(code, "", text or f"the server answered {code} without a word")
    return status_error(status, code)


def status_error(status: Mapping[str, Any], code: int = 500) -> ClusterError:
    """Return the error a `Status` object stands for."""
    code = int(status.get("code") or code)
    reason = str(status.get("reason") or "")
    if code == Ending.code and any(each.get("reason") == _NAMESPACE_GOING for each in _causes(status)):
        return Ending(str(status.get("message") or reason))
    return _error(code, reason, str(status.get("message") or reason or f"the server answered {code}"))


def _causes(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (status.get("details") or {}).get("causes") or ()


def _error(code: int, reason: str, message: str) -> ClusterError:
    if known := _KNOWN.get(code):
        return known.get(reason, known[""])(message)
    return Refused(message, code, reason or "Unknown")
