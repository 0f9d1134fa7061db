"""`Api`: one request in, one answer out. Nothing is answered before the gate has said who asks."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainwright.admission import review
from trainwright.cluster.base import Listing
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.selectors import Test
from trainwright.core.errors import ClusterError, Forbidden, Invalid, Problem
from trainwright.core.objects import Object
from trainwright.core.resources import SECRET
from trainwright.kinds import Kind
from trainwright.node.pod_streams import Streams
from trainwright.server.api import metrics, pods
from trainwright.server.api.about import About
from trainwright.server.api.requests import Asked, Routes, decoded
from trainwright.server.api.reviews import REVIEWS, answered
from trainwright.server.api.served import served
from trainwright.server.api.statuses import failure
from trainwright.server.api.tables import Tables, partial
from trainwright.server.api.watching import Scope, Watching, included
from trainwright.server.api.writes import DEFAULT_NAMESPACE, Writes, scale
from trainwright.server.base import Caller, Gate
from trainwright.web.exchange import Exchange, Request

_PRIVATE = (SECRET,)
"""Not everybody may see these."""
_RESOURCE_DEPTH = {"api": 3, "apis": 4}
"""From so many words on a path names a resource; a shorter one asks what there is."""


class Api:
    """Serves a cluster to whoever the gate lets in."""

    def __init__(
        self,
        cluster: MemoryCluster,
        kinds: Iterable[Kind],
        gate: Gate,
        streams: Streams | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        rows = served(cluster.resources, tuple(kinds))
        self._cluster = cluster
        self._gate = gate
        self._streams = streams
        self._now = now
        self._routes = Routes(rows)
        self._about = About(rows)
        self._tables = {row.api_version + row.resource.plural: Tables(row) for row in rows}
        self._writes = Writes(cluster, gate)
        self._watching = Watching(cluster, now)

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        request = exchange.request
        asked: Asked | None = None
        try:
            caller = self._gate.caller(request)
            if len(request.path) < _RESOURCE_DEPTH.get(request.path[0], len(request.path) + 1):
                await self._about.answer(exchange)
            elif request.path[: len(metrics.PATH)] == metrics.PATH:
                await _say(exchange, metrics.answer(request, await self._streams.usage() if self._streams else []))
            elif request.path in REVIEWS:
                question = decoded(await exchange.body(), request)
                await _say(exchange, answered(question, caller, REVIEWS[request.path]), status="201 Created")
            else:
                asked = self._routes.asked(request)
                await self._serve(exchange, asked, caller)
        except ClusterError as error:
            details = asked.details if asked else None
            if asked and isinstance(error, Invalid):
                details = {**asked.details, "kind": asked.row.kind}
            await _say(exchange, failure(error, details), status=f"{error.code} {error.reason}")

    # Resources

    async def _serve(self, exchange: Exchange, asked: Asked, caller: Caller) -> None:
        await self._writes.ensure_namespace(DEFAULT_NAMESPACE)
        if asked.verb == "watch":
            await self._watch(exchange, asked, caller)
        elif asked.verb == "connect":
            pod = await self._writes.current(asked)
            self._gate.allow(caller, asked.subresource, asked.row.resource, pod)
            await pods.connect(exchange, self._streams, pod, asked.subresource)
        elif asked.verb == "list":
            await self._list(exchange, asked, caller)
        elif asked.verb == "get":
            obj = await self._writes.current(asked)
            if asked.row.resource in _PRIVATE:
                self._gate.allow(caller, "get", asked.row.resource, obj)
            await self._say_object(exchange, asked, scale(asked.row, obj) if asked.subresource == "scale" else obj)
        else:
            await self._write(exchange, asked, caller)

    async def _list(self, exchange: Exchange, asked: Asked, caller: Caller) -> None:
        labels, fields = _selectors(exchange.request, asked)
        listing = await self._cluster.list(asked.row.resource, asked.namespace, labels=labels, fields=fields)
        if visible := self._visible(asked, caller):
            listing = Listing([obj for obj in listing.items if visible(obj)], listing.version)
        await exchange.answer(msgspec.json.encode(self._listed(asked, listing, exchange.request)))

    async def _watch(self, exchange: Exchange, asked: Asked, caller: Caller) -> None:
        labels, fields = _selectors(exchange.request, asked)
        scope = Scope(asked, labels, fields, self._visible(asked, caller))
        await exchange.answer_pieces(self._watching.lines(exchange.request, scope, self._table(asked)))

    def _visible(self, asked: Asked, caller: Caller) -> Test | None:
        """Return what tells the objects a caller may see; None: all of them."""
        resource = asked.row.resource
        if resource not in _PRIVATE:
            return None

        def visible(obj: Object) -> bool:
            try:
                self._gate.allow(caller, "get", resource, obj)
            except Forbidden:
                return False
            return True

        return visible

    async def _write(self, exchange: Exchange, asked: Asked, caller: Caller) -> None:
        """Change something, and answer when it is safe."""
        request, body, status = exchange.request, await exchange.body(), "200 OK"
        if asked.verb == "create":
            obj, status = await self._writes.create(asked, caller, request, body), "201 Created"
        elif asked.verb == "update":
            obj = await self._writes.update(asked, caller, request, body)
        elif asked.verb == "patch":
            obj = await self._writes.patch(asked, caller, request, body)
        elif asked.verb == "delete":
            obj = await self._writes.delete(asked, caller, request, body)
        else:
            labels, fields = _selectors(request, asked)
            gone = await self._writes.delete_all(asked, caller, request, body, labels=labels, fields=fields)
            obj = self._listed(asked, Listing(gone, self._cluster.version), request)
        await self._gate.durable()
        await self._say_object(exchange, asked, obj, status, headers=self._warnings(asked, obj))

    def _warnings(self, asked: Asked, obj: Object) -> list[tuple[str, str]]:
        """Return what the author of an object should know, in headers that kubectl shows."""
        if not asked.row.custom or asked.subresource or obj.get("kind") != asked.row.kind:
            return []
        return [("Warning", f'299 - "{_quoted(problem)}"') for problem in review(obj) if problem.severity == "warning"]

    # Forms

    def _table(self, asked: Asked) -> Tables:
        return self._tables[asked.row.api_version + asked.row.resource.plural]

    def _listed(self, asked: Asked, listing: Listing, request: Request) -> Object:
        if asked.form == "table":
            return self._table(asked).table(
                listing.items, self._now(), version=listing.version, include=included(request)
            )
        if asked.form == "partial":
            items = [partial(obj) for obj in listing.items]
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        else:
            items = [asked.row.shown(obj) for obj in listing.items]
            kind, version = f"{asked.row.kind}List", asked.row.api_version
        return {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": listing.version}, "items": items}

    async def _say_object(
        self,
        exchange: Exchange,
        asked: Asked,
        obj: Object,
        status: str = "200 OK",
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        if obj.get("kind") == asked.row.kind:
            obj = asked.row.shown(obj)
            if asked.form == "table":
                version, include = obj["metadata"].get("resourceVersion", ""), included(exchange.request)
                obj = self._table(asked).table([obj], self._now(), version=version, include=include)
            elif asked.form == "partial":
                obj = partial(obj)
        await exchange.answer(msgspec.json.encode(obj), status=status, headers=headers)


def _quoted(problem: Problem) -> str:
    """Return a sentence as it can stand in a header, between quotes."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(problem))
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _selectors(request: Request, asked: Asked) -> tuple[str, str]:
    """Return what narrows a list: labels and fields; a watch of one object is one by its name."""
    fields = request.value("fieldSelector")
    if asked.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={asked.name}")))
    return request.value("labelSelector"), fields


async def _say(exchange: Exchange, document: Any, *, status: str = "200 OK") -> None:
    await exchange.answer(msgspec.json.encode(document), status=status)
