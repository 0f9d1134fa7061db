"""What a node answers over HTTPS, to a client like the API server: real pods, a memory cluster behind them."""

import asyncio
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.node.asking import Asking, SpdyClient, asking, channels
from tests.node.world import pod

from trainwright.cluster.kubernetes.connection import Broken
from trainwright.core.errors import HomeError
from trainwright.core.resources import POD
from trainwright.node import port_forward
from trainwright.node.certificate import self_signed, server_context


@pytest.fixture
async def node(tmp_path):
    async with asking(tmp_path) as asked:
        yield asked


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not check():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


async def busy(node, name="p", script="sleep 300"):
    await node.world.cluster.create(POD, pod(name, script))
    await node.world.phase(name, "Running")


def shell(script: str, *flags: str) -> str:
    """Return where a script is executed."""
    words = "&".join(f"command={quote(word)}" for word in ("sh", "-c", script))
    return f"/exec/ns/p/main?{'&'.join((words, *flags))}"


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        pytest.param("/healthz", 200, "ok", id="it lives"),
        pytest.param("/nothing", 404, "this node does not serve /nothing", id="nothing of that name"),
        pytest.param("/exec/ns", 404, "this node does not serve /exec/ns", id="too few words"),
        pytest.param("/containerLogs/ns/p/main", 200, "one\ntwo\n", id="a log"),
        pytest.param("/containerLogs/ns/p/main?tailLines=1", 200, "two\n", id="its last line"),
        pytest.param("/containerLogs/ns/p/main?limitBytes=5", 200, "one\nt", id="its first bytes"),
        pytest.param("/containerLogs/ns/p/main?follow=true", 200, "one\ntwo\n", id="followed to its end"),
        pytest.param("/containerLogs/ns/p/main?tailLines=x", 400, "expected a number, found 'x'", id="no number"),
        pytest.param(
            "/containerLogs/ns/p/main?previous=true", 400, "previous terminated container", id="no run before"
        ),
        pytest.param("/containerLogs/ns/p/main?sinceTime=noon", 400, "expected a time such as", id="no time at all"),
        pytest.param("/containerLogs/ns/p/other", 400, "container 'other' is not in pod 'p'", id="no such container"),
        pytest.param("/containerLogs/ns/q/main", 400, "log of container 'main' in pod 'q'", id="no such pod"),
        pytest.param("/exec/ns/p/main", 400, "WebSocket is spoken here", id="no upgrade was asked for"),
    ],
)
async def test_get(node, target, code, words):
    await node.world.run(pod("p", "echo one; echo two"))

    answer = await node.get(target)

    assert answer[0] == code
    assert words in answer[1]


async def test_pods_are_listed(node):
    await busy(node)

    assert '"name":"p"' in (await node.get("/pods"))[1]


async def test_a_log_that_nobody_follows_any_more_is_not_followed(node):
    await busy(node)
    before = len(asyncio.all_tasks())
    wire = await node.connect()
    await wire.write(b"GET /containerLogs/ns/p/main?follow=true HTTP/1.1\r\n\r\n")
    await until(lambda: len(asyncio.all_tasks()) > before)
    wire.close()
    await until(lambda: len(asyncio.all_tasks()) == before)


@pytest.mark.parametrize(
    ("script", "out", "err", "code"),
    [
        pytest.param("echo a; echo b >&2", b"a\n", b"b\n", 0, id="both outputs"),
        pytest.param("exit 7", b"", b"", 7, id="an exit code"),
        pytest.param("kill -TERM $$", b"", b"", 143, id="a signal"),
        pytest.param("sleep 300 & echo x", b"x\n", b"", 0, id="what it leaves running does not hold it up"),
    ],
)
async def test_exec(node, script, out, err, code):
    await busy(node)

    websocket = await node.upgrade(shell(script))
    printed, said, status = await channels(websocket)

    assert (printed, said) == (out, err)
    causes = [{"reason": "ExitCode", "message": str(code)}]
    assert status["status"] == ("Failure" if code else "Success")
    assert status.get("details", {"causes": causes}) == {"causes": causes}


async def test_exec_with_input(node):
    await busy(node)
    websocket = await node.upgrade("/exec/ns/p/main?command=cat&input=1&output=1")

    await websocket.send(b"\x00hello ")
    await websocket.send(b"\x00world")
    await websocket.send(b"\xff\x00")

    assert (await channels(websocket))[0] == b"hello world"


async def test_exec_on_a_terminal(node):
    await busy(node)
    websocket = await node.upgrade(shell("read x; stty size; echo $x", "input=1", "tty=1"))

    await websocket.send(b'\x04{"Width":91,"Height":33}')
    await websocket.send(b"\x04not a size")
    await websocket.send(b"\x00word\n")
    printed, _, status = await channels(websocket)

    assert printed.replace(b"\r", b"") == b"word\n33 91\nword\n"
    assert status["status"] == "Success"


async def test_ctrl_c_on_a_terminal_interrupts(node):
    await busy(node)
    websocket = await node.upgrade(shell("echo up; exec sleep 300", "input=1", "tty=1"))
    assert await websocket.receive() == (2, b"\x01up\r\n")

    await websocket.send(b"\x00\x03")

    assert (await channels(websocket))[2]["details"]["causes"][0]["message"] == "130"


@pytest.mark.parametrize(
    ("target", "reason", "words"),
    [
        pytest.param("/exec/ns/p/main?command=nosuch", "BadRequest", "command not found: 'nosuch'", id="no command"),
        pytest.param("/exec/ns/p/main", "BadRequest", "there is no command to execute", id="none was given"),
        pytest.param("/exec/ns/q/main?command=ls", "NotFound", "does not run on node 'here'", id="no pod"),
        pytest.param("/attach/ns/p/main?input=1", "BadRequest", "no standard input to attach to", id="no input"),
    ],
)
async def test_what_cannot_be_started_is_said_in_the_status(node, target, reason, words):
    await busy(node)

    _, _, status = await channels(await node.upgrade(target))

    assert (status["status"], status["reason"]) == ("Failure", reason)
    assert words in status["message"]


async def test_a_client_that_goes_ends_its_command(node):
    await busy(node)
    websocket = await node.upgrade(shell("echo $$; exec sleep 300"))
    message = await websocket.receive()
    assert message
    pid = int(message[1][1:])

    await node.close()

    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_attach_shows_what_comes_from_now_on(node):
    await busy(node, script="echo before; read x < /dev/null; sleep 0.5; echo after")
    await node.world.says("p", "before")

    printed, _, status = await channels(await node.upgrade("/attach/ns/p/main"))

    assert printed == b"after\n"
    assert status["status"] == "Success"


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param("v1.channel.k8s.io", id="one that is too old"),
        pytest.param("SPDY/3.1", id="one that is another"),
    ],
)
async def test_a_protocol_that_is_not_spoken_is_refused(node, protocol):
    with pytest.raises(AssertionError, match="400 BadRequest"):
        await node.upgrade("/exec/ns/p/main?command=ls", protocol)


# Port-forward

ECHO = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    while data := client.recv(65536):
        client.sendall(data.upper())
    client.close()
"""


async def listening(node: Asking) -> str:
    """Run a pod that says in capitals what it is told, and return the port it listens on."""
    await node.world.cluster.create(POD, pod("p", container={"command": ["python3", "-c", ECHO]}))
    await node.world.says("p", "\n")
    return (await node.world.log("p")).strip()


async def forwarding(node) -> SpdyClient:
    return SpdyClient(await node.upgrade("/portForward/ns/p", port_forward.PROTOCOL))


async def pair(client: SpdyClient, port: str, request: str = "0") -> tuple[int, int]:
    error = await client.open(streamtype="error", port=port, requestid=request)
    return error, await client.open(streamtype="data", port=port, requestid=request)


async def test_port_forward_passes_connections_on_both_ways(node):
    port = await listening(node)
    client = await forwarding(node)

    error, data = await pair(client, port)
    await client.data(data, b"hello")
    await client.data(data, b" you", last=True)

    assert await client.received(error, data) == {error: b"", data: b"HELLO YOU"}


async def test_port_forward_passes_on_much(node):
    port = await listening(node)
    client = await forwarding(node)
    error, data = await pair(client, port)

    async def send() -> None:
        for _ in range(40):
            await client.data(data, b"x" * 50_000)
        await client.data(data, b"", last=True)

    sending = asyncio.create_task(send())

    assert (await client.received(error, data))[data] == b"X" * 2_000_000
    await sending


async def test_port_forward_serves_one_connection_after_the_other(node):
    port = await listening(node)
    client = await forwarding(node)

    for request in ("0", "1", "2"):
        error, data = await pair(client, port, request)
        await client.data(data, request.encode(), last=True)
        assert (await client.received(error, data))[data] == request.encode()


async def test_port_forward_says_that_nobody_listens(node):
    await busy(node)
    client = await forwarding(node)

    error, data = await pair(client, "9")

    assert b"port 9 of the pod cannot be reached" in (await client.received(error, data))[error]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(6, struct.pack("!I", 1), id="a ping is answered"),
        pytest.param(9, struct.pack("!II", 1, 5), id="a window is nothing here"),
        pytest.param(3, struct.pack("!II", 99, 5), id="a reset of nothing"),
        pytest.param(0x77, b"", id="what nobody knows"),
    ],
)
async def test_frames_beside_the_data_do_no_harm(node, kind, body):
    port = await listening(node)
    client = await forwarding(node)

    await client.frame(kind, body)

    error, data = await pair(client, port)
    await client.data(data, b"a", last=True)
    assert (await client.received(error, data))[data] == b"A"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(struct.pack("!IIH", 1, 0, 0) + b"no zlib", id="headers that are not packed"),
        pytest.param(b"", id="no headers at all"),
    ],
)
async def test_a_client_nobody_understands_is_left(node, body):
    await busy(node)
    client = await forwarding(node)

    await client.frame(1, body)

    assert await client.websocket.receive() is None


# Certificates


async def test_only_who_shows_the_right_certificate_may_ask(tmp_path):
    ours = tmp_path / "ours.pem"
    ours.write_bytes(self_signed("api-server", "127.0.0.1"))
    async with asking(tmp_path, clients=ours) as node:
        with pytest.raises((OSError, AssertionError, IndexError, Broken)):
            await node.get("/healthz")
        known = ssl.create_default_context()
        known.check_hostname, known.verify_mode = False, ssl.CERT_NONE
        known.load_cert_chain(ours)
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=known)
        writer.write(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await reader.read()
        writer.close()


def test_a_file_that_is_no_certificate_is_said(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("nothing")

    with pytest.raises(HomeError, match="is no certificate"):
        server_context("here", "127.0.0.1", file)
