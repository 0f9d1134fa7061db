"""Events in the words of events.k8s.io/v1: the same events, whose fields have other names there."""

from trainwright.core.objects import Object

GROUP = "events.k8s.io"
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {there: here for here, there in _NAMES.items()}


def outward(event: Object) -> Object:
    """Return an event as events.k8s.io shows it."""
    return {_NAMES.get(name, name): value for name, value in event.items()}


def inward(event: Object) -> Object:
    """Return an event of events.k8s.io as it is stored."""
    return {_BACK.get(name, name): value for name, value in event.items()}
