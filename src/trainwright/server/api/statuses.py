"""`Status` objects: how the API says that something went well, or why it did not."""

from typing import Any

from trainwright.core.errors import ClusterError, Invalid
from trainwright.core.objects import Object

_STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


def failure(error: ClusterError, details: Object | None = None) -> Object:
    """Return what a refusal looks like; `details` name what was asked for."""
    told: Object = {**_STATUS, "status": "Failure", "message": str(error), "reason": error.reason}
    causes = [_cause(problem) for problem in error.problems] if isinstance(error, Invalid) else []
    if causes:
        told["details"] = {**(details or {}), "causes": causes}
    elif details and not isinstance(error, Invalid):  # it is not the object that is wrong, but the request
        told["details"] = details
    return {**told, "code": error.code}


def success(details: Object) -> Object:
    """Return what is said about something that is no more."""
    return {**_STATUS, "status": "Success", "details": details}


def _cause(problem: str) -> dict[str, Any]:
    field, colon, message = problem.partition(": ")
    said = {"reason": "FieldValueInvalid", "message": message if colon else problem}
    return {**said, "field": field} if colon else said
