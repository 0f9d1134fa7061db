"""Watches over HTTP: what is shown, in which form, and how they end."""

import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec
import pytest
from tests.server.serving import MAPS, PARTIAL, TABLE, TOKEN, Asking, memory_cluster, serving
from tests.web.wire import Wire

from trainwright.core.resources import CONFIG_MAP, SECRET
from trainwright.kinds import KINDS
from trainwright.server.api import watching
from trainwright.server.api.requests import Routes
from trainwright.server.api.served import served
from trainwright.server.api.tables import Tables
from trainwright.web.exchange import Request


class Watch:
    """Reads a watch line by line."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def head(self) -> str:
        return (await self.wire.reader.readuntil(b"\r\n\r\n")).decode()

    async def next(self):
        """Return type and object of the next line; None at the end."""
        async with asyncio.timeout(5):
            size = int(await self.wire.reader.readuntil(b"\r\n"), 16)
            data = (await self.wire.reader.readexactly(size + 2))[:-2]
        if not data:
            return None
        event = msgspec.json.decode(data)
        return event["type"], event["object"]


@pytest.fixture
async def api():
    async with serving(memory_cluster(history=20)) as served:
        yield served


@pytest.fixture
async def watch(api):
    wires = []

    async def begin(query="", *, target=MAPS, accept="application/json"):
        wire = await api.connect()
        wires.append(wire)
        head = f"GET {target}?watch=true{query} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nAccept: {accept}\r\n\r\n"
        wire.send(head)
        watch = Watch(wire)
        assert "200 OK" in await watch.head(), "the head comes before anything has changed"
        return watch

    yield begin
    for wire in wires:
        wire.close()


async def make(api, name="a", **data):
    meta = {"name": name, "namespace": "ns", "labels": {"app": name}}
    return await api.cluster.create(CONFIG_MAP, {"metadata": meta, "data": data})


async def change(api, name="a", **data):
    return await api.cluster.patch(CONFIG_MAP, "ns", name, {"data": data})


async def test_every_change_is_shown(api, watch):
    seen = await watch(f"&resourceVersion={api.cluster.version}")

    made = await make(api)
    changed = await change(api, x="1")
    await api.cluster.delete(CONFIG_MAP, "ns", "a")

    assert await seen.next() == ("ADDED", made)
    assert await seen.next() == ("MODIFIED", changed)
    assert (await seen.next())[0] == "DELETED"


async def test_without_a_version_it_begins_with_what_is_there(api, watch):
    made = await make(api)

    assert await (await watch()).next() == ("ADDED", made)


async def test_initial_events_end_with_a_bookmark(api, watch):
    await make(api)
    seen = await watch("&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")

    assert (await seen.next())[0] == "ADDED"
    kind, mark = await seen.next()
    assert (kind, mark["kind"], mark["metadata"]["resourceVersion"]) == ("BOOKMARK", "ConfigMap", api.cluster.version)
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await change(api, x="1")
    assert (await seen.next())[0] == "MODIFIED"


async def test_selectors_narrow_it(api, watch):
    seen = await watch(f"&resourceVersion={api.cluster.version}&labelSelector=app%3Db")

    await make(api, "a")
    await make(api, "b")

    assert (await seen.next())[1]["metadata"]["name"] == "b"


async def test_one_object_by_name(api, watch):
    seen = await watch(target=f"{MAPS}/b")

    await make(api, "a")
    await make(api, "b")

    assert (await seen.next())[1]["metadata"]["name"] == "b"


@pytest.mark.parametrize("query", ["labelSelector=((", "fieldSelector=x", "timeoutSeconds=soon"])
async def test_what_cannot_be_watched_is_refused_at_once(api, query):
    wire = await api.connect()

    code, status = await Asking(wire)("GET", f"{MAPS}?watch=true&{query}")

    assert (code, status["reason"]) == (400, "BadRequest")
    wire.close()


async def test_it_ends_in_time(watch):
    assert await (await watch("&timeoutSeconds=1")).next() is None


async def test_a_version_that_is_forgotten(api, watch):
    since = (await make(api))["metadata"]["resourceVersion"]
    for number in range(30):
        await change(api, x=str(number))

    kind, status = await (await watch(f"&resourceVersion={since}")).next()

    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


async def test_bookmarks_come_when_nothing_does(api):
    await make(api)
    cluster = api.cluster
    query = {"watch": ["true"], "allowWatchBookmarks": ["true"], "resourceVersion": [cluster.version]}
    request = Request("GET", tuple(MAPS.strip("/").split("/")), query, {})
    asked = Routes(served(cluster.resources, KINDS)).asked(request)
    watches = watching.Watching(cluster, lambda: datetime.now(UTC), bookmarks=0.01)

    async with contextlib.aclosing(watches.lines(request, watching.Scope(asked), Tables(asked.row))) as lines:
        assert await anext(lines) == b""
        mark = msgspec.json.decode(await anext(lines))

    assert (mark["type"], mark["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", cluster.version)


async def test_rows_of_a_table(api, watch):
    await make(api)
    seen = await watch(accept=TABLE)

    _, first = await seen.next()
    await change(api, x="1")
    _, second = await seen.next()

    assert [each["name"] for each in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert (first["rows"][0]["cells"][:2], second["rows"][0]["cells"][:2]) == (["a", 0], ["a", 1])
    assert second["columnDefinitions"] == [], "columns are told once"


async def test_metadata_alone(api, watch):
    await make(api, x="1")

    _, shown = await (await watch(accept=PARTIAL)).next()

    assert shown.keys() == {"kind", "apiVersion", "metadata"}


async def test_secrets_of_others_are_not_shown(api, watch):
    api.gate.forbidden = {"get"}
    seen = await watch("&timeoutSeconds=1", target="/api/v1/secrets")

    await api.cluster.create(SECRET, {"metadata": {"name": "s", "namespace": "ns"}})

    assert await seen.next() is None


async def test_many_watch_one_thing(api, watch):
    watches = [await watch() for _ in range(20)]

    made = await make(api)

    assert [await each.next() for each in watches] == [("ADDED", made)] * 20


def test_an_object_is_encoded_once():
    encoded = watching.Encoded()
    obj = {"a": 1}
    first = encoded.bytes(obj)

    assert encoded.bytes(obj) is first
    for number in range(1000):
        encoded.bytes({"n": number})
    assert encoded.bytes(obj) == first
