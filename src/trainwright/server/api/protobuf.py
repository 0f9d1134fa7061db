"""The few objects kubectl writes as protobuf, read: what `kubectl create` makes from flags, and `kubectl auth` asks.

Everything else it writes as JSON. The envelope is four bytes and a message with the type and the object's bytes; a
message is a row of numbered fields, whose names stand in the tables here. A field that is in no table and says
something is refused, so that nothing is lost in silence.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

from trainwright.cluster.kubernetes.errors import Refused
from trainwright.core.errors import BadRequest
from trainwright.core.objects import Object

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Read = Callable[[bytes | int, Any], Any]
"""From a field's value and what was read of that field before to what the object says."""
Fields = dict[int, tuple[str, Read]]


def _string(value: bytes | int, _: Any) -> str:
    return _data(value).decode()


def _strings(value: bytes | int, before: Any) -> list[str]:
    return [*(before or ()), _string(value, None)]


def _boolean(value: bytes | int, _: Any) -> bool:
    return bool(value)


def _message(fields: Fields) -> Read:
    return lambda value, _: _object(_data(value), fields)


def _mapping(read: Read) -> Read:
    """Return what reads one more entry of a mapping, which is a message with a key and a value."""

    def entry(value: bytes | int, before: Any) -> Object:
        pair = _object(_data(value), {1: ("key", _string), 2: ("value", read)})
        return {**(before or {}), pair.get("key", ""): pair.get("value", "")}

    return entry


def _answer(value: bytes | int, _: Any) -> Object:  # noqa: ARG001
    """Return nothing: the place of the answer to a question is filled here."""
    return {}


def _encoded(value: bytes | int, _: Any) -> str:
    return base64.b64encode(_data(value)).decode()


_META: Fields = {
    1: ("name", _string),
    2: ("generateName", _string),
    3: ("namespace", _string),
    11: ("labels", _mapping(_string)),
    12: ("annotations", _mapping(_string)),
    14: ("finalizers", _strings),
}
_KEPT: Fields = {1: ("metadata", _message(_META))}
_ATTRIBUTES: Fields = {
    number: (name, _string)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
}
_ACCESS: Fields = {
    1: ("resourceAttributes", _message(_ATTRIBUTES)),
    2: ("nonResourceAttributes", _message({1: ("path", _string), 2: ("verb", _string)})),
}
_KINDS: dict[tuple[str, str], Fields] = {
    ("v1", "Namespace"): _KEPT,
    ("v1", "ServiceAccount"): _KEPT,
    ("v1", "ConfigMap"): {
        **_KEPT,
        2: ("data", _mapping(_string)),
        3: ("binaryData", _mapping(_encoded)),
        4: ("immutable", _boolean),
    },
    ("v1", "Secret"): {
        **_KEPT,
        2: ("data", _mapping(_encoded)),
        3: ("type", _string),
        4: ("stringData", _mapping(_string)),
        5: ("immutable", _boolean),
    },
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        **_KEPT,
        2: ("spec", _message(_ACCESS)),
        3: ("status", _answer),
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        **_KEPT,
        2: ("spec", _message({1: ("namespace", _string)})),
        3: ("status", _answer),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {**_KEPT, 2: ("status", _answer)},
}


def read(data: bytes) -> Object:
    """Return the object that a body in protobuf holds."""
    if not data.startswith(_MAGIC):
        raise BadRequest("the object provided is not protobuf as Kubernetes writes it")
    try:
        whole = _object(
            data[len(_MAGIC) :],
            {
                1: ("type", _message({1: ("apiVersion", _string), 2: ("kind", _string)})),
                2: ("raw", lambda value, _: value),
                3: ("contentEncoding", _string),
                4: ("contentType", _string),
            },
        )
        kind = whole.get("type") or {}
        fields = _KINDS.get((kind.get("apiVersion", ""), kind.get("kind", "")))
        if fields is None:
            raise Refused(
                f"{kind.get('kind', 'an object')} is not read as protobuf here; send application/json",
                415,
                "UnsupportedMediaType",
            )
        return {**kind, **_object(whole.get("raw", b""), fields)}
    except (IndexError, UnicodeDecodeError) as error:
        raise BadRequest(f"the object provided is cut short or not protobuf: {error}") from error


def _object(data: bytes, fields: Fields) -> Object:
    """Return what a message says."""
    obj: Object = {}
    for number, value in _numbered(data):
        if number in fields:
            name, reader = fields[number]
            obj[name] = reader(value, obj.get(name))
        elif value and value != b"\x0a\x00":  # a status, a spec or a time that says nothing
            raise Refused(
                f"field {number} is not read as protobuf here; send application/json", 415, "UnsupportedMediaType"
            )
    return obj


def _numbered(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        form = key & 7
        if form == _VARINT:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(form, -1)
        if form == _BYTES:
            size, place = _varint(data, place)
        if size < 0 or place + size > len(data):
            raise IndexError(f"field {key >> 3} at byte {place}")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _data(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise BadRequest("the object provided is not of the kind it says: a number stands where text belongs")
    return value
