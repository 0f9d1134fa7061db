"""Objects that kubectl writes as protobuf: bytes as the real one sent them, and bytes that nobody should send."""

import pytest

from trainwright.core.errors import BadRequest, ClusterError
from trainwright.server.api import protobuf


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def pair(key: str, value: str | bytes) -> bytes:
    return field(1, key) + field(2, value)


def envelope(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


TIME = field(8, b"")
META = field(1, "m") + field(3, "ns") + TIME + field(11, pair("a", "b")) + field(11, pair("c", "d" * 200))


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        pytest.param("Namespace", b"", {}, id="a namespace; its empty spec and status say nothing"),
        pytest.param(
            "ConfigMap",
            field(2, pair("x", "y")) + field(4, 1),
            {"data": {"x": "y"}, "immutable": True},
            id="a config map",
        ),
        pytest.param(
            "Secret",
            field(2, pair("x", b"\x00")) + field(3, "Opaque"),
            {"data": {"x": "AA=="}, "type": "Opaque"},
            id="a secret",
        ),
    ],
)
def test_objects(kind, raw, expected):
    read = protobuf.read(envelope("v1", kind, field(1, META) + raw))

    assert read == {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "m", "namespace": "ns", "labels": {"a": "b", "c": "d" * 200}},
        **expected,
    }


def test_a_question():
    spec = field(1, field(1, "ns") + field(2, "create") + field(5, "pods"))
    raw = field(1, TIME) + field(2, spec) + field(3, field(1, 0) + field(2, "") + field(4, 0))

    read = protobuf.read(envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", raw))

    assert read["spec"] == {"resourceAttributes": {"namespace": "ns", "verb": "create", "resource": "pods"}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"{}", "is not protobuf", id="JSON"),
        pytest.param(envelope("v1", "Pod", b""), "Pod is not read as protobuf", id="a kind that is not read"),
        pytest.param(envelope("v1", "ConfigMap", field(9, "x")), "field 9", id="a field that would be lost"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a\x7f"), "cut short", id="half a message"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a"), "cut short", id="a key without value"),
        pytest.param(envelope("v1", "ConfigMap", field(1, 3)), "a number stands where", id="a number for a message"),
        pytest.param(envelope("v1", "Secret", field(3, b"\xff")), "cut short or not", id="text that is none"),
    ],
)
def test_what_cannot_be_read_is_refused(data, words):
    with pytest.raises(ClusterError, match=words):
        protobuf.read(data)


def test_any_bytes_are_read_or_refused():
    whole = envelope("v1", "ConfigMap", field(1, META) + field(2, pair("x", "y")))
    for end in range(len(whole)):
        try:
            protobuf.read(whole[:end])
        except (BadRequest, ClusterError):
            continue
