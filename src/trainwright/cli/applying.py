"""What `tw apply` does to one object: the change from what is there to what a manifest wants.

As `kubectl apply` has it: what the manifest says is set, what an earlier manifest said and this one no longer says is
removed, and everything else (defaults, the status, what others have added) is left alone. The earlier manifest is kept
in an annotation that kubectl keeps, too, so both may take turns.
"""

import json
from typing import Any

from trainwright.api.envelope import without_nulls
from trainwright.core.objects import Object, at

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def to_create(manifest: Object) -> Object:
    """Return a manifest as a new object that remembers what was asked for."""
    meta = manifest["metadata"]
    annotations = {**(meta.get("annotations") or {}), LAST_APPLIED: _written(manifest)}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def patch(live: Object, manifest: Object) -> Object:
    """Return the JSON merge patch that makes of `live` what the manifest wants; empty if it is that already."""
    changes = _changes(live, _content(manifest), _content(last_applied(live) or {"metadata": {}}))
    if not changes and at(live, ("metadata", "annotations", LAST_APPLIED)) == _written(manifest):
        return {}
    metadata = changes.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), LAST_APPLIED: _written(manifest)}
    return {**changes, "metadata": {**metadata, "annotations": annotations}}


def last_applied(obj: Object) -> Object | None:
    """Return the manifest that was last applied to an object; None if there is none that can be read."""
    text = at(obj, ("metadata", "annotations", LAST_APPLIED))
    try:
        manifest = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return manifest if isinstance(at(manifest, ("metadata",)), dict) else None


def _content(manifest: Object) -> Object:
    """Return what of a manifest is applied; others may have labels and annotations beside those it names."""
    named = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "status")}
    return {**named, "metadata": {"labels": {}, "annotations": {}, **without_nulls(manifest["metadata"])}}


def _changes(live: Any, wanted: Object, before: Any) -> Object:
    """Return what to set and, as null, what to remove."""
    live, before = (each if isinstance(each, dict) else {} for each in (live, before))
    found: Object = {name: None for name, said in before.items() if said is not None and name in live.keys() - wanted}
    for name, value in wanted.items():
        if isinstance(value, dict) and isinstance(live.get(name), dict):
            if inner := _changes(live[name], value, before.get(name)):
                found[name] = inner
        elif not _holds(live.get(name), value) or _shorter(value, before.get(name)):
            found[name] = value
    return found


def _shorter(wanted: Any, before: Any) -> bool:
    """Say whether a list has changed: what an item no longer says cannot be told from what the server has filled in."""
    return isinstance(wanted, list) and before is not None and before != wanted


def _holds(live: Any, wanted: Any) -> bool:
    """Say whether all of `wanted` is there; servers fill in defaults beside it, also inside lists."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(_holds(live.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(live) == len(wanted) and all(map(_holds, live, wanted))
    return bool(live == wanted) or (live is None and wanted in ({}, [], None))


def _written(manifest: Object) -> str:
    """Return a manifest as kubectl writes it into the annotation: keys sorted, one line."""
    meta = manifest["metadata"]
    annotations = {name: text for name, text in (meta.get("annotations") or {}).items() if name != LAST_APPLIED}
    plain = {**manifest, "metadata": {**meta, "annotations": annotations}}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
