"""Everything of a store as one file that people and kubectl can read, and back again.

The file is a `List` of objects in JSON, with uids, versions and statuses, so that jobs that have finished stay so.
Only an empty store takes one in: two histories cannot be merged.
"""

import os
from pathlib import Path

import msgspec

from trainwright.api.faces import RESOURCES
from trainwright.cluster.journal import Journal, read
from trainwright.core.errors import HomeError
from trainwright.core.objects import Object, ref
from trainwright.core.resources import resource_of


def export(store: Path, target: Path) -> int:
    """Write everything a store holds to a file that only its owner may read; return how many objects that are."""
    kept = read(store)
    items = sorted(kept.objects, key=ref)
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": str(kept.version)}, "items": items}
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(listed), indent=1) + b"\n")
    return len(items)


def bring_in(source: Path, journal: Journal) -> int:
    """Put everything an exported file holds into an empty store; return how many objects that are."""
    if journal.load().objects:
        raise HomeError(f"{journal.path}: is not empty; move it away first, or give another --state")
    try:
        listed = msgspec.json.decode(source.read_bytes())
        items, version = _items(listed), int(listed["metadata"]["resourceVersion"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise HomeError(f"{source}: is not what tw serve --export writes ({error})") from error
    for obj in items:
        meta = obj["metadata"]
        journal.record(resource_of(obj, RESOURCES), (meta.get("namespace", ""), meta["name"]), version, obj)
    return len(items)


def _items(listed: Object) -> list[Object]:
    items: list[Object] = listed["items"]
    for obj in items:
        resource_of(obj, RESOURCES)
        if not obj["metadata"]["uid"]:
            raise ValueError(f"{ref(obj)} has no uid")
    return items
