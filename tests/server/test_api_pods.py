"""Logs, exec, attach and port-forward through the API, of real pods."""

import contextlib

import pytest
from tests.node.asking import channels
from tests.node.world import pod, world
from tests.server.serving import TOKEN, Asking, serving
from tests.web.wire import Wire

from trainwright.cluster.kubernetes.websocket import WebSocket, handshake
from trainwright.core.errors import BadRequest
from trainwright.core.resources import POD

PODS = "/api/v1/namespaces/ns/pods"


class Stream:
    """A connection as a `ByteStream`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def read(self) -> bytes:
        return await self._wire.reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        self._wire.send(data)

    def close(self) -> None:
        self._wire.close()


@contextlib.asynccontextmanager
async def running(root):
    async with world(root, "ports") as seen, serving(seen.cluster, seen.kubelet) as api:
        yield seen, api


@pytest.fixture
async def here(tmp_path):
    async with running(tmp_path) as both:
        yield both


async def upgrade(api, target: str) -> tuple[str, WebSocket]:
    wire = await api.connect()
    headers, _ = handshake("v5.channel.k8s.io")
    wire.send(f"GET {target} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n")
    head = (await wire.reader.readuntil(b"\r\n\r\n")).decode()
    return head, WebSocket(Stream(wire))


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        pytest.param("", 200, "one\ntwo\n", id="a log"),
        pytest.param("?container=main&tailLines=1", 200, "two\n", id="its last line"),
        pytest.param("?follow=true", 200, "one\ntwo\n", id="to its end"),
        pytest.param("?limitBytes=2", 200, "on", id="its first bytes"),
        pytest.param("?container=x", 400, "container x is not valid for pod p", id="no such container"),
        pytest.param("?previous=true", 400, "previous terminated container", id="no run before"),
        pytest.param("?sinceSeconds=3600", 200, "one\ntwo\n", id="what was printed lately"),
        pytest.param("?timestamps=true&tailLines=1", 200, "Z two\n", id="when it was printed"),
        pytest.param("?sinceSeconds=5&sinceTime=2026-01-31T12:00:00Z", 400, "at most one of", id="two times"),
    ],
)
async def test_logs(here, query, code, words):
    seen, api = here
    await seen.run(pod("p", "echo one; echo two"))
    wire = await api.connect()

    answered, said = await Asking(wire)("GET", f"{PODS}/p/log{query}")

    assert answered == code
    assert words in (said if code == 200 else said["message"])
    wire.close()


async def test_several_containers_have_to_be_told_apart(here):
    seen, api = here
    both = [{"name": name, "image": "i", "command": ["true"]} for name in "ab"]
    await seen.run(pod("p", containers=both))
    wire = await api.connect()

    code, status = await Asking(wire)("GET", f"{PODS}/p/log")

    assert (code, "choose one of: [a b]" in status["message"]) == (400, True)
    wire.close()


async def test_exec(here):
    seen, api = here
    await seen.cluster.create(POD, pod("p", "sleep 300"))
    await seen.phase("p", "Running")

    head, websocket = await upgrade(api, f"{PODS}/p/exec?command=sh&command=-c&command=echo+a%3Bexit+4&stdout=true")
    out, _, status = await channels(websocket)

    assert "101 Switching Protocols" in head
    assert out == b"a\n"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


async def test_exec_through_our_own_client(here):
    seen, api = here
    await seen.cluster.create(POD, pod("p", "echo begun; sleep 300"))
    await seen.phase("p", "Running")
    async with api.client() as client:
        session = await client.exec("ns", "p", ["cat"], stdin=True)
        await session.write(b"hello")
        await session.close_input()
        assert [piece async for piece in session.output()] == [("stdout", b"hello")]
        assert await session.wait() == 0


async def test_who_may_not_look_inside(here):
    seen, api = here
    await seen.cluster.create(POD, pod("p", "sleep 300"))
    await seen.phase("p", "Running")
    api.gate.forbidden = {"exec", "log", "portforward"}

    for what in ("exec?command=ls", "portforward"):
        head, websocket = await upgrade(api, f"{PODS}/p/{what}")
        assert "403 Forbidden" in head
        await websocket.close()
    wire = await api.connect()
    assert (await Asking(wire)("GET", f"{PODS}/p/log"))[0] == 403
    wire.close()


async def test_no_pod_no_log(here):
    _, api = here
    async with api.client() as client:
        with pytest.raises(Exception, match='pods "none" not found') as refused:
            async for _ in client.logs("ns", "none"):
                pass
    assert not isinstance(refused.value, BadRequest)


METRICS = "/apis/metrics.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        pytest.param("/pods", ["busy", "idle"], id="of all namespaces"),
        pytest.param("/namespaces/ns/pods", ["busy", "idle"], id="of one namespace"),
        pytest.param("/namespaces/other/pods", [], id="of another namespace"),
        pytest.param("/pods?labelSelector=what%3Dbusy", ["busy"], id="by label"),
    ],
)
async def test_what_pods_use(here, path, names):
    seen, api = here
    for name, script in (("busy", "while :; do :; done"), ("idle", "sleep 300")):
        made = pod(name, script)
        made["metadata"]["labels"] = {"what": name}
        await seen.cluster.create(POD, made)
        await seen.phase(name, "Running")
    wire = await api.connect()

    code, told = await Asking(wire)("GET", f"{METRICS}{path}")
    used = {each["metadata"]["name"]: each["containers"][0]["usage"] for each in told["items"]}

    assert (code, sorted(used)) == (200, names)
    if "busy" in used:
        assert int(used["busy"]["cpu"].removesuffix("n")) > 1e7
        assert int(used["busy"]["memory"].removesuffix("Ki")) > 50
    if "idle" in used:
        assert int(used["idle"]["cpu"].removesuffix("n")) < 1e7
    wire.close()


async def test_what_one_pod_uses(here):
    seen, api = here
    await seen.cluster.create(POD, pod("p", "sleep 300"))
    await seen.phase("p", "Running")
    wire = await api.connect()

    code, told = await Asking(wire)("GET", f"{METRICS}/namespaces/ns/pods/p")
    missing, _ = await Asking(wire)("GET", f"{METRICS}/namespaces/ns/pods/absent")

    assert (code, told["kind"], told["containers"][0]["name"], missing) == (200, "PodMetrics", "main", 404)
    wire.close()
