"""How a job came to its size: the entries of `status.scaleHistory`, which are the same for every kind.

Size and status are written apart, so the entry of a change travels in an annotation that is written together with the
size. Whoever finds one there that the history lacks adds it: a change is never left without its reason, whenever the
one who made it is killed.
"""

import json
from dataclasses import dataclass
from typing import Any

from trainwright.api.reader import build, entry
from trainwright.core.names import SCALED_ANNOTATION
from trainwright.core.objects import Object, at, moment

HISTORY = "scaleHistory"
LONGEST = 20
"""So many entries are kept, the newest last."""


@dataclass(frozen=True)
class Scaling:
    """One change of a job's size."""

    time: str | None = entry("When it was changed.", required=True)
    before: int | None = entry("The size it had.", name="from", required=True)
    after: int | None = entry("The size it got.", name="to", required=True)
    reason: str | None = entry("Why, in a sentence.")


def history(status: Object | None) -> list[Scaling]:
    """Return the changes that a status tells, the newest last."""
    told = (status or {}).get(HISTORY)
    return [build(Scaling, each) for each in told] if isinstance(told, list) else []


def written(scaling: Scaling) -> Object:
    """Return a change as JSON."""
    return {"time": scaling.time, "from": scaling.before, "to": scaling.after, "reason": scaling.reason}


def lengthened(status: Object | None, scaling: Scaling) -> list[Object]:
    """Return the history with one more change, without what is too old to be kept."""
    return [written(each) for each in (*history(status), scaling)][-LONGEST:]


def annotation(scaling: Scaling) -> str:
    """Return the annotation that is written together with the size."""
    return json.dumps(written(scaling))


def last(job: Object) -> Scaling | None:
    """Return the last change by the autoscaler; None if there was none, or if it was that of a job this one copies."""
    text = at(job, ("metadata", "annotations", SCALED_ANNOTATION))
    scaling = build(Scaling, _parsed(text))
    try:
        time, created = moment(scaling.time), moment(job["metadata"].get("creationTimestamp"))
    except ValueError:
        return None
    if time is None or scaling.before is None or scaling.after is None or (created and time < created):
        return None
    return scaling


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
