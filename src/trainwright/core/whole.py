"""The whole status of a job whose definition, brought by somebody else, keeps only a part of it.

The whole one is written down in an annotation, for the very job that is named there: whoever copies a job copies its
annotations too. Where there is such an annotation it tells how the job is; its `status` is what users may read of it.
"""

import json
from collections.abc import Iterator

from trainwright.core.errors import TooLarge
from trainwright.core.names import RECORD_ANNOTATION
from trainwright.core.objects import Object, at, key

LONGEST = 200_000
"""So many bytes an annotation may have; API servers take 256 KiB of all annotations together."""

Path = tuple[str, ...]


def is_apart(job: Object) -> bool:
    """Say whether a job's whole status stands in its annotation."""
    return _kept(job) is not None


def whole(job: Object) -> Object:
    """Return a job with its whole status, wherever that is kept."""
    kept = _kept(job)
    return job if kept is None else {**job, "status": kept}


def annotation(job: Object, status: Object) -> str:
    """Return a status as the annotation of this very job."""
    text = json.dumps({"uid": job["metadata"].get("uid", ""), "status": status}, separators=(",", ":"))
    if len(text) > LONGEST:
        raise TooLarge(
            f"what must be remembered of {key(job)} takes {len(text)} bytes, and an annotation has room for {LONGEST}; "
            "with our own definitions it stands in the status: tw install --adopt-crds | kubectl apply -f -"
        )
    return text


def dropped(wanted: Object, stored: Object) -> Iterator[Path]:
    """Yield the paths of fields that were written and are not there."""
    for name, value in wanted.items():
        if name not in stored:
            yield (name,)
        elif isinstance(value, dict) and isinstance(stored[name], dict):
            yield from ((name, *path) for path in dropped(value, stored[name]))


def without(status: Object, paths: frozenset[Path]) -> Object:
    """Return a status without the fields at some paths."""
    firsts = {path[0] for path in paths}
    return {
        name: without(value, frozenset(path[1:] for path in paths if path[0] == name)) if name in firsts else value
        for name, value in status.items()
        if (name,) not in paths
    }


def _kept(job: Object) -> Object | None:
    text = at(job, ("metadata", "annotations", RECORD_ANNOTATION))
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    mine = isinstance(found, dict) and found.get("uid") == job["metadata"].get("uid")
    status = found.get("status") if mine else None
    return status if isinstance(status, dict) else None
