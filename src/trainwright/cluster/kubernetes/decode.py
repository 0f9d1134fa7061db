"""From the server's JSON to the dicts everything here works on, without what nobody reads.

`managedFields` is a third of an object and of no use to us: it is dropped at once. Of a resource that somebody caches
by the thousand a `Shape` may name the few fields to keep: the rest is then never built (a third of the time, a sixth
of the memory; see docs/design/004-our-own-kubernetes-client.md).
"""

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any

import msgspec

from trainwright.core.objects import Object
from trainwright.core.resources import Resource

Shape = type[msgspec.Struct]
"""A msgspec Struct with the fields to keep, all with defaults and `omit_defaults=True`.

Of `metadata` it keeps at least name, namespace, uid and resourceVersion: no cache can do without.
"""


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: _ListMeta
    items: list[Any] | None = None


Event = tuple[str, Object]
DecodeError = msgspec.DecodeError

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_EVENT = msgspec.json.Decoder(_Event)
_PAGE = msgspec.json.Decoder(Page)


def decode_object(data: bytes) -> Object:
    """Return one object."""
    return _bare(_OBJECT.decode(data))


def decode_page(data: bytes, resource: Resource, shape: Shape | None = None) -> tuple[list[Object], str, str]:
    """Return the objects of a page, its version, and how to ask for the next page, or nothing."""
    page = (_PAGE if shape is None else _page_decoder(shape)).decode(data)
    kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    if shape is None:
        items = [_bare({**kind, **item}) for item in page.items or ()]
    else:
        items = [{**kind, **msgspec.to_builtins(item)} for item in page.items or ()]
    return items, page.metadata.resource_version, page.metadata.continue_


def event_decoder(shape: Shape | None = None) -> Callable[[bytes], Event]:
    """Return what reads one line of a watch."""
    if shape is None:
        return _whole_event
    shaped = _event_decoder(shape)

    def decode(line: bytes) -> Event:
        try:
            event = shaped.decode(line)
        except msgspec.ValidationError:
            return _whole_event(line)  # an ERROR carries a Status, which has another shape
        if event.type in ("ERROR", "BOOKMARK"):
            return _whole_event(line)
        return event.type, msgspec.to_builtins(event.object)

    return decode


def _whole_event(line: bytes) -> Event:
    event = _EVENT.decode(line)
    return event.type, _bare(event.object)


def _bare(obj: Object) -> Object:
    meta = obj.get("metadata")
    if meta is not None:
        meta.pop("managedFields", None)
    return obj


_decoders: dict[tuple[Shape, str], msgspec.json.Decoder[Any]] = {}


def _page_decoder(shape: Shape) -> msgspec.json.Decoder[Any]:
    items = GenericAlias(list, (shape,))
    return _made(shape, "Page", [("metadata", _ListMeta), ("items", items | None, None)])


def _event_decoder(shape: Shape) -> msgspec.json.Decoder[Any]:
    return _made(shape, "Event", [("type", str), ("object", shape)])


def _made(shape: Shape, what: str, fields: Sequence[Any]) -> msgspec.json.Decoder[Any]:
    """Return the decoder for a shape; building one takes a millisecond, so each is built once."""
    if (shape, what) not in _decoders:
        _decoders[shape, what] = msgspec.json.Decoder(msgspec.defstruct(what, fields))
    return _decoders[shape, what]
