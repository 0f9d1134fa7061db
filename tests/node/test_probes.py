"""Probes: reading them, asking once, counting answers."""

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import cast

import pytest

from trainwright.node.base import Sandbox
from trainwright.node.probes import Action, Answer, Probe, Tally, ask, read, watch
from trainwright.node.refusals import Refused

PORTS = [{"name": "web", "containerPort": 8080}]


class Loopback:
    """A sandbox that is this very machine."""

    address = "127.0.0.1"

    async def connect(self, port: int, host: str = "") -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(made, (host or self.address, port))
        except BaseException:
            made.close()
            raise
        return made


HERE = cast("Sandbox", Loopback())


async def run(command):
    return Answer(command == ("yes",), "said")


@asynccontextmanager
async def server(answer: bytes):
    """Something that listens, and answers everybody alike. Yields its port and what it was asked."""
    heard: list[bytes] = []
    served = asyncio.Event()

    async def serve(reader, writer):
        if answer:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        else:
            await reader.read()
        writer.close()
        await writer.wait_closed()
        served.set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], heard
        await asyncio.wait_for(served.wait(), 5)


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        pytest.param({"exec": {"command": ["a", "b"]}}, Action("exec", command=("a", "b")), id="a command"),
        pytest.param({"tcpSocket": {"port": 80}}, Action("tcpSocket", port=80), id="a port"),
        pytest.param(
            {"tcpSocket": {"port": "web", "host": "h"}}, Action("tcpSocket", port=8080, host="h"), id="by name"
        ),
        pytest.param({"httpGet": {"port": "81"}}, Action("httpGet", port=81), id="a request"),
        pytest.param(
            {"httpGet": {"port": 81, "path": "x", "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}},
            Action("httpGet", port=81, path="/x", tls=True, headers=(("A", "b"),)),
            id="with everything",
        ),
    ],
)
def test_read_action(spec, action):
    probe = read({"livenessProbe": spec, "ports": PORTS}, "livenessProbe", "spec.containers[0]")

    assert probe == Probe(action, delay=0, period=10, timeout=1, successes=1, failures=3)


def test_read_numbers():
    spec = {
        "exec": {"command": ["x"]},
        "initialDelaySeconds": 1,
        "periodSeconds": 2,
        "timeoutSeconds": 3,
        "successThreshold": 4,
        "failureThreshold": 5,
        "terminationGracePeriodSeconds": 6,
    }

    assert read({"startupProbe": spec}, "startupProbe", "") == Probe(Action("exec", command=("x",)), 1, 2, 3, 4, 5, 6)
    assert read({}, "startupProbe", "") is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"grpc": {"port": 1}}, r"c\.livenessProbe\.grpc: gRPC probes are not asked here", id="grpc"),
        pytest.param({"periodSeconds": 1}, "it says nothing to do", id="nothing"),
        pytest.param({"tcpSocket": {"port": "no"}}, r"there is no port 'no' \(there are: web\)", id="no such port"),
    ],
)
def test_what_cannot_be_asked_is_refused(spec, words):
    with pytest.raises(Refused, match=words):
        read({"livenessProbe": spec, "ports": PORTS}, "livenessProbe", "c")


@pytest.mark.parametrize(
    ("successes", "failures", "answers", "verdicts"),
    [
        pytest.param(1, 3, "+", "+", id="one good answer is enough"),
        pytest.param(1, 3, "--", "..", id="two bad ones are not"),
        pytest.param(1, 3, "---", "..-", id="three are"),
        pytest.param(1, 3, "--+--", "..+..", id="a good one starts the count again"),
        pytest.param(2, 1, "+-++", ".-.+", id="good ones are counted, too"),
        pytest.param(1, 3, "----", "..--", id="it stays bad"),
    ],
)
def test_tally(successes, failures, answers, verdicts):
    tally = Tally(Probe(Action("exec"), 0, 1, 1, successes, failures))

    found = [tally.count(answer == "+") for answer in answers]

    assert "".join({None: ".", True: "+", False: "-"}[each] for each in found) == verdicts


@pytest.mark.parametrize(
    ("status", "good"),
    [
        pytest.param(b"HTTP/1.1 200 OK", True, id="200"),
        pytest.param(b"HTTP/1.0 204", True, id="without words"),
        pytest.param(b"HTTP/1.1 302 Found", True, id="a redirect"),
        pytest.param(b"HTTP/1.1 404 Not Found", False, id="404"),
        pytest.param(b"HTTP/1.1 500 Oh", False, id="500"),
        pytest.param(b"SSH-2.0-x", False, id="something else"),
    ],
)
async def test_http(status, good):
    async with server(status + b"\r\n\r\n") as (port, heard):
        answer = await ask(Action("httpGet", port=port, path="/x", headers=(("A", "b"),)), HERE, run, 5)

    assert answer.good is good
    assert heard[0].startswith(b"GET /x HTTP/1.1\r\n")
    assert b"A: b\r\n" in heard[0]


async def test_tcp_and_exec_and_nobody_there():
    async with server(b"") as (port, _):
        assert (await ask(Action("tcpSocket", port=port), HERE, run, 5)).good
    refused = await ask(Action("tcpSocket", port=port), HERE, run, 5)
    assert not refused.good
    assert "refused" in refused.message
    assert (await ask(Action("exec", command=("yes",)), HERE, run, 5)).good
    assert not (await ask(Action("exec", command=("no",)), HERE, run, 5)).good


async def test_a_late_answer_is_a_bad_one():
    async with server(b"") as (port, _):
        answer = await ask(Action("httpGet", port=port), HERE, run, 0.05)

    assert answer == Answer(False, f"GET / at port {port}: no answer within 0.05 s")


async def test_watch_asks_until_the_verdict_is_enough():
    answers = iter([False, False, True])
    bad: list[str] = []

    async def command(words):
        return Answer(next(answers), "no")

    verdicts: list[bool] = []

    def verdict(good: bool) -> bool:
        verdicts.append(good)
        return good

    probe = Probe(Action("exec", command=("x",)), 0, 0.01, 1, 1, 2)
    await asyncio.wait_for(watch(probe, HERE, command, verdict, bad.append), 5)

    assert verdicts == [False, True]
    assert bad == ["no", "no"]
