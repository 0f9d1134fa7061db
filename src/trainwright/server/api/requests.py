"""Reading a request: which resource it is about, what shall happen to it, and in which form the answer is wanted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import msgspec

from trainwright.cluster.kubernetes.errors import Refused
from trainwright.core.errors import BadRequest, NotFound
from trainwright.core.objects import Object
from trainwright.server.api import protobuf
from trainwright.server.api.served import Served
from trainwright.web.exchange import Request

Form = Literal["object", "table", "partial"]
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "connect"]

_JSON = ("application/json", "application/*", "*/*")
_SHAPES: Final = {"Table": "table", "PartialObjectMetadata": "partial", "PartialObjectMetadataList": "partial"}
_VERBS: dict[tuple[str, bool], Verb] = {
    ("GET", True): "get",
    ("HEAD", True): "get",
    ("GET", False): "list",
    ("HEAD", False): "list",
    ("POST", False): "create",
    ("PUT", True): "update",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}
"""By method, and whether one object is named."""
_OBJECTS = ("metadata", "spec", "status", "data", "preconditions")
"""What is an object wherever it stands at the top of one."""
_CONNECTED = ("log", "exec", "attach", "portforward")


@dataclass(frozen=True)
class Asked:
    """What a request wants done."""

    row: Served
    verb: Verb
    namespace: str
    name: str
    subresource: str
    form: Form
    dry_run: bool

    @property
    def details(self) -> Object:
        """Return what a Status says about it."""
        named = {"name": self.name} if self.name else {}
        group = {"group": self.row.group} if self.row.group else {}
        return {**named, **group, "kind": self.row.resource.plural}


class Routes:
    """Finds what a path stands for."""

    def __init__(self, rows: Iterable[Served]) -> None:
        self._rows = {(row.group, row.version, row.resource.plural): row for row in rows}

    def asked(self, request: Request) -> Asked:
        """Return what a request below /api or /apis wants; NotFound if there is nothing of the kind."""
        if request.path[0] == "api":
            group, (version, *rest) = "", request.path[1:]
        else:
            group, version, *rest = request.path[1:]
        namespace = ""
        if rest[0] == "namespaces" and (group, version, *rest[2:3]) in self._rows:
            _, namespace, *rest = rest
        plural, name, subresource, *beyond = (*rest, "", "")
        row = self._rows.get((group, version, plural))
        if row is None or any(beyond) or (subresource and subresource not in row.subresources):
            raise NotFound("the server could not find the requested resource")
        if row.resource.namespaced and name and not namespace:
            raise NotFound("the server could not find the requested resource")
        verb = _verb(request, row, name, namespace, subresource)
        return Asked(row, verb, namespace, name, subresource, form(request), _dry_run(request))


def _verb(request: Request, row: Served, name: str, namespace: str, subresource: str) -> Verb:
    if subresource in _CONNECTED:
        return "connect"
    verb = _VERBS.get((request.method, bool(name)))
    whole = row.resource.namespaced and not namespace and verb in ("create", "deletecollection")
    if verb is None or whole or (subresource and verb == "delete"):
        raise Refused("the server does not allow this method on the requested resource", 405, "MethodNotAllowed")
    return "watch" if verb in ("get", "list") and not subresource and request.flag("watch") else verb


def _dry_run(request: Request) -> bool:
    said = request.value("dryRun")
    if said not in ("", "All"):
        raise BadRequest(f"dryRun: expected All, found {said!r}")
    return said == "All"


def form(request: Request) -> Form:
    """Return the first form of those a client accepts that we can give."""
    wanted = request.headers.get("accept") or "*/*"
    for each in wanted.split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        if media not in _JSON:
            continue
        shape = next((value for name, _, value in (part.partition("=") for part in parameters) if name == "as"), "")
        if not shape:
            return "object"
        if shape in _SHAPES:
            return cast("Form", _SHAPES[shape])
    raise Refused(
        "only the following media types are accepted: application/json, application/json;as=Table", 406, "NotAcceptable"
    )


def decoded(data: bytes, request: Request, what: str = "the object") -> Object:
    """Return the object that a body holds."""
    if request.headers.get("content-type", "").startswith(protobuf.CONTENT_TYPE):
        return protobuf.read(data)
    try:
        obj: Any = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{what} provided is not JSON: {error}") from error
    if not isinstance(obj, dict):
        raise BadRequest(f"{what} provided is not an object, found {type(obj).__name__}")
    for name in _OBJECTS:
        if not isinstance(obj.get(name, {}), dict | None):
            raise BadRequest(f"{what} provided cannot be read: {name}: expected an object, found {obj[name]!r}")
    return obj
