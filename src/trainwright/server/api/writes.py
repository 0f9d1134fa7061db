"""Everything that changes objects: create, update, patch, delete, on an object or its status and scale.

Each is done at once, between two awaits that really wait, so what was read is what is replaced. The gate sees every
object before it is stored.
"""

from dataclasses import replace as changed
from functools import partial
from typing import Any, Literal, cast, get_args

from trainwright.cluster.base import Propagation
from trainwright.cluster.kubernetes.errors import Refused
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.metadata import merge
from trainwright.core.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound
from trainwright.core.objects import Object, at, nest
from trainwright.core.resources import NAMESPACE
from trainwright.server.api import patches
from trainwright.server.api.requests import Asked, decoded
from trainwright.server.api.served import Served
from trainwright.server.api.statuses import success
from trainwright.server.base import Caller, Gate
from trainwright.web.exchange import Request

DEFAULT_NAMESPACE = "default"
_NO_APPLY = (
    "server-side apply is not served here, because nobody keeps account of whose fields are whose; "
    "use kubectl apply without --server-side"
)


class Writes:
    """Changes the objects of one cluster."""

    def __init__(self, cluster: MemoryCluster, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate

    async def create(self, asked: Asked, caller: Caller, request: Request, body: bytes) -> Object:
        """Store a new object; its namespace springs up with it."""
        resource = asked.row.resource
        obj = asked.row.stored(decoded(body, request))
        meta = obj.get("metadata") or {}
        if meta.get("namespace") not in (None, "", asked.namespace):
            raise BadRequest(
                f"the namespace of the provided object ({meta['namespace']}) does not match the namespace sent on the "
                f"request ({asked.namespace})"
            )
        if asked.namespace:
            obj = {**obj, "metadata": {**meta, "namespace": asked.namespace}}
        obj = self._gate.admit(caller, resource, obj, None)
        created = await self._cluster.create(resource, obj, dry_run=asked.dry_run)
        if asked.namespace and not asked.dry_run:
            await self.ensure_namespace(asked.namespace)
        return asked.row.shown(created)

    async def update(self, asked: Asked, caller: Caller, request: Request, body: bytes) -> Object:
        """Put an object in the place of the one that is there."""
        obj = decoded(body, request)
        if asked.subresource == "scale":
            return await self._scaled(asked, caller, obj)
        if asked.row.custom and not at(obj, ("metadata", "resourceVersion")):
            problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            raise Invalid(f'{asked.row.resource} "{asked.name}" is invalid: {problem}', [problem])
        return await self._replaced(asked, caller, asked.row.stored(obj))

    async def patch(self, asked: Asked, caller: Caller, request: Request, body: bytes) -> Object:
        """Change the object that is there."""
        form = request.headers.get("content-type", "").partition(";")[0].strip()
        if form == patches.APPLY:
            raise Refused(_NO_APPLY, 415, "UnsupportedMediaType")
        taken = (patches.JSON, patches.MERGE, *(() if asked.row.custom else (patches.STRATEGIC,)))
        if form not in taken:
            words = (
                f"the body of the request was in an unknown format - accepted media types include: {', '.join(taken)}"
            )
            raise Refused(words, 415, "UnsupportedMediaType")
        old = await self.current(asked)
        if asked.subresource == "scale":
            return await self._scaled(asked, caller, patches.patched("Scale", scale(asked.row, old), body, form))
        new = patches.patched(asked.row.kind, asked.row.shown(old), body, form)
        return await self._replaced(asked, caller, asked.row.stored(new))

    async def delete(self, asked: Asked, caller: Caller, request: Request, body: bytes) -> Object:
        """Delete an object; return what is left of it, or that it is gone."""
        options = decoded(body, request, "the options") if body.strip() else {}
        asked = changed(asked, dry_run=asked.dry_run or "All" in (options.get("dryRun") or ()))
        old = await self.current(asked)
        resource, meta = asked.row.resource, old["metadata"]
        self._gate.allow(caller, "delete", resource, old)
        conditions = options.get("preconditions") or {}
        if conditions.get("resourceVersion") not in (None, meta["resourceVersion"]):
            raise Conflict(
                f'Operation cannot be fulfilled on {resource} "{asked.name}": Precondition failed: ResourceVersion in '
                f"precondition: {conditions['resourceVersion']}, ResourceVersion in object meta: "
                f"{meta['resourceVersion']}"
            )
        go = partial(
            self._cluster.delete,
            resource,
            asked.namespace,
            asked.name,
            uid=conditions.get("uid") or "",
            grace=_grace(options, request),
            propagation=_propagation(options, request),
        )
        await go(dry_run=True)  # what may not go is refused before anything that goes with it does
        if not asked.dry_run:
            await self._empty(asked, caller)
            await go()
        try:
            return asked.row.shown(await self.current(asked))
        except NotFound:
            return success({**asked.details, "uid": meta["uid"]})

    async def delete_all(
        self, asked: Asked, caller: Caller, request: Request, body: bytes, *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """Delete every object that the selectors match, and return them as they were; none if one may not go."""
        listing = await self._cluster.list(asked.row.resource, asked.namespace, labels=labels, fields=fields)
        for obj in listing.items:
            self._gate.allow(caller, "delete", asked.row.resource, obj)
        for obj in listing.items:
            one = changed(asked, name=obj["metadata"]["name"], namespace=obj["metadata"].get("namespace", ""))
            await self.delete(one, caller, request, body)
        return listing.items

    async def current(self, asked: Asked) -> Object:
        """Return the object that is meant, as it is stored."""
        return await self._cluster.get(asked.row.resource, asked.namespace, asked.name)

    async def ensure_namespace(self, name: str) -> None:
        """Make a namespace that is not there."""
        try:
            await self._cluster.get(NAMESPACE, "", name)
        except NotFound:
            labels = {"kubernetes.io/metadata.name": name}
            try:
                await self._cluster.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
            except AlreadyExists:
                return

    async def _empty(self, asked: Asked, caller: Caller) -> None:
        """Delete all that is in a namespace, which goes with it; nothing if one of it may not go."""
        if asked.row.resource != NAMESPACE:
            return
        if asked.name == DEFAULT_NAMESPACE:
            raise Forbidden(f'namespaces "{asked.name}" is forbidden: this namespace may not be deleted')
        inside = [
            (resource, obj)
            for resource in self._cluster.resources
            if resource.namespaced
            for obj in (await self._cluster.list(resource, asked.name)).items
        ]
        for resource, obj in inside:
            self._gate.allow(caller, "delete", resource, obj)
        for resource, obj in inside:
            await self._cluster.delete(resource, asked.name, obj["metadata"]["name"])

    async def _replaced(self, asked: Asked, caller: Caller, new: Object) -> Object:
        resource = asked.row.resource
        old = await self.current(asked)
        subresource: Literal["", "status"] = "status" if asked.subresource == "status" else ""
        new = _named(asked, new)
        if not subresource:
            new = self._gate.admit(caller, resource, new, old)
        stored = await self._cluster.replace(resource, new, subresource=subresource, dry_run=asked.dry_run)
        return asked.row.shown(stored)

    async def _scaled(self, asked: Asked, caller: Caller, wanted: Object) -> Object:
        """Write the size that a Scale asks for."""
        row, old = asked.row, await self.current(asked)
        scale(row, old)
        assert row.scale
        version = at(wanted, ("metadata", "resourceVersion"))
        if version not in (None, "", old["metadata"]["resourceVersion"]):
            raise Conflict(
                f'Operation cannot be fulfilled on {row.resource} "{asked.name}": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
        replicas: Any = at(wanted, ("spec", "replicas"), 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            problem = f"spec.replicas: Invalid value: {replicas!r}: must be greater than or equal to 0"
            raise Invalid(f'Scale.autoscaling "{asked.name}" is invalid: {problem}', [problem])
        stored = await self._replaced(
            changed(asked, subresource=""), caller, merge(old, nest(row.scale.size, replicas))
        )
        return scale(row, stored)


def _named(asked: Asked, obj: Object) -> Object:
    """Return an object with the name and namespace of the request; BadRequest if it has others."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise BadRequest("metadata: expected an object")
    named = {"name": asked.name, **({"namespace": asked.namespace} if asked.namespace else {})}
    for field, value in named.items():
        if meta.get(field) not in (None, "", value):
            raise BadRequest(
                f"the {field} of the object ({meta[field]}) does not match the {field} on the URL ({value})"
            )
    return {**obj, "metadata": {**meta, **named}}


def scale(row: Served, obj: Object) -> Object:
    """Return the scale of an object: how many replicas it shall have and has."""
    if row.scale is None:
        raise NotFound("the server could not find the requested resource")
    wanted = at(obj, row.scale.size)
    if wanted is None:
        path = "".join(f".{step}" for step in row.scale.size)
        raise Refused(f'Internal error occurred: the spec replicas field "{path}" does not exist', 500, "InternalError")
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = row.scale.selected(obj)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": wanted},
        "status": {"replicas": at(obj, row.scale.active) or 0, **({"selector": selector} if selector else {})},
    }


def _grace(options: Object, request: Request) -> int | None:
    said = options.get("gracePeriodSeconds")
    if said is None:
        return request.number("gracePeriodSeconds")
    if not isinstance(said, int):
        raise BadRequest(f"gracePeriodSeconds: expected a number, found {said!r}")
    return said


def _propagation(options: Object, request: Request) -> Propagation:
    said = options.get("propagationPolicy") or request.value("propagationPolicy") or "Background"
    if said not in get_args(Propagation):
        raise BadRequest(f"propagationPolicy: expected Background, Foreground or Orphan, found {said!r}")
    return cast("Propagation", said)
