"""Watches over HTTP: one line of JSON for each change, bookmarks in between, an end in time.

An object is encoded once for all who watch it: its bytes are kept for a while, because a change reaches every watch in
the same moment.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from trainwright.cluster import selectors
from trainwright.cluster.base import Change
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import ClusterError
from trainwright.core.objects import Object
from trainwright.server.api.requests import Asked
from trainwright.server.api.statuses import failure
from trainwright.server.api.tables import Included, Tables, partial
from trainwright.web.exchange import Request

BOOKMARK_SECONDS = 60.0
_LONGEST_SECONDS = 3600.0
_KEPT = 256
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Encoded:
    """Objects as JSON, the last few of which are remembered."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Object, bytes]] = {}

    def bytes(self, obj: Object) -> bytes:
        """Return an object of the store as JSON."""
        key = id(obj)  # objects of the store never change, and one that is kept here keeps its id
        if key in self._kept:
            return self._kept[key][1]
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        data = msgspec.json.encode(obj)
        self._kept[key] = (obj, data)
        return data


@dataclass(frozen=True)
class Scope:
    """What a watch sees of a resource."""

    asked: Asked
    labels: str = ""
    fields: str = ""
    visible: selectors.Test | None = None
    """Which objects the caller may see; None: all of them."""


class Watching:
    """Answers watches of one cluster."""

    def __init__(
        self, cluster: MemoryCluster, now: Callable[[], datetime], bookmarks: float = BOOKMARK_SECONDS
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._bookmarks = bookmarks
        self._encoded = Encoded()

    async def lines(self, request: Request, scope: Scope, tables: Tables) -> AsyncGenerator[bytes, None]:
        """Yield what a watch shows until its time is up; what cannot be watched is refused before the first line."""
        asked, visible = scope.asked, scope.visible
        view = _View(asked, tables, self._encoded, self._now, request)
        loop = asyncio.get_running_loop()
        end = loop.time() + min(float(request.number("timeoutSeconds") or _LONGEST_SECONDS), _LONGEST_SECONDS)
        selectors.labels(scope.labels)
        selectors.fields(scope.fields, asked.row.resource)
        yield b""  # the client waits for a head, and the first change may be hours away
        since, narrowed = request.value("resourceVersion"), {"labels": scope.labels, "fields": scope.fields}
        if request.flag("sendInitialEvents"):
            listing = await self._cluster.list(asked.row.resource, asked.namespace, **narrowed)
            for obj in listing.items:
                if visible is None or visible(obj):
                    yield view.line("ADDED", obj)
            since = listing.version
            yield view.bookmark(since, _INITIAL_END)
        changes = self._cluster.watch(asked.row.resource, asked.namespace, since=since, **narrowed)
        try:
            while True:
                try:
                    async with asyncio.timeout_at(min(end, loop.time() + self._bookmarks)):
                        change: Change = await anext(changes)
                except TimeoutError:
                    if loop.time() >= end:
                        return
                    if request.flag("allowWatchBookmarks"):  # it has seen everything: it was waiting
                        yield view.bookmark(self._cluster.version)
                    continue
                if visible is None or visible(change.object):
                    yield view.line(change.type, change.object)
        except ClusterError as error:
            yield msgspec.json.encode({"type": "ERROR", "object": failure(error)}) + b"\n"
        finally:
            if close := getattr(changes, "aclose", None):
                await close()


class _View:
    """How one watch shows what it sees."""

    def __init__(
        self, asked: Asked, tables: Tables, encoded: Encoded, now: Callable[[], datetime], request: Request
    ) -> None:
        self._asked = asked
        self._tables = tables
        self._encoded = encoded
        self._now = now
        self._include = included(request)
        self._headed = False

    def line(self, kind: str, obj: Object) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._shown(obj))

    def bookmark(self, version: str, annotations: Object | None = None) -> bytes:
        row = self._asked.row
        meta: Object = {"resourceVersion": version, "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        mark = {"kind": row.kind, "apiVersion": row.api_version, "metadata": meta}
        return b'{"type":"BOOKMARK","object":%b}\n' % msgspec.json.encode(mark)

    def _shown(self, obj: Object) -> bytes:
        row = self._asked.row
        if self._asked.form == "table":
            table = self._tables.table([obj], self._now(), include=self._include, columns=not self._headed)
            self._headed = True
            return msgspec.json.encode(table)
        if self._asked.form == "partial":
            return msgspec.json.encode(partial(obj))
        shown = row.shown(obj)
        return self._encoded.bytes(obj) if shown is obj else msgspec.json.encode(shown)


def included(request: Request) -> Included:
    """Return how much of each object a table shall carry."""
    said = request.value("includeObject")
    return "None" if said == "None" else "Object" if said == "Object" else "Metadata"
