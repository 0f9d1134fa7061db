"""The operator as a program: probes, and an end in good order."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import click
import pytest
from tests.reconcile.making import manifest
from tests.scenarios.test_loop import start
from tests.scenarios.world import RESOURCES

from trainwright.cli.operator import command
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import HomeError
from trainwright.core.objects import Object
from trainwright.core.resources import POD
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS
from trainwright.operator.health import Reply, serving
from trainwright.operator.loop import Operator
from trainwright.operator.serve import until_stopped

ROUTES = {
    "/healthz": lambda: Reply("ok\n"),
    "/readyz": lambda: Reply("waiting for pods\n", HTTPStatus.SERVICE_UNAVAILABLE),
}


async def asked(request: str) -> str:
    """Return what comes back for the bytes of a request, until the connection ends."""
    async with serving("127.0.0.1", 0, ROUTES) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request.encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        pytest.param("GET /healthz HTTP/1.1", "200 OK", "ok\n", id="a path that is there answers"),
        pytest.param("GET /healthz?verbose HTTP/1.1", "200 OK", "ok\n", id="a query is no part of the path"),
        pytest.param("GET /readyz HTTP/1.0", "503 Service Unavailable", "waiting for pods\n", id="it may say no"),
        pytest.param("HEAD /healthz HTTP/1.1", "200 OK", "", id="HEAD gets no body"),
        pytest.param(
            "GET /x HTTP/1.1",
            "404 Not Found",
            "there is no /x here (there are: /healthz, /readyz)\n",
            id="others do not",
        ),
        pytest.param(
            "POST /healthz HTTP/1.1", "405 Method Not Allowed", "POST is not answered here; use GET\n", id="only reads"
        ),
        pytest.param("", "400 BadRequest", "this is not an HTTP/1.1 request\n", id="not a request"),
    ],
)
async def test_an_answer(request_line, status, body):
    head, _, text = (await asked(f"{request_line}\r\nConnection: close\r\n\r\n")).partition("\r\n\r\n")

    assert head.splitlines()[0] == f"HTTP/1.1 {status}"
    assert text == body


async def test_a_port_that_is_taken_is_said():
    async with serving("127.0.0.1", 0, ROUTES) as (host, port):
        with pytest.raises(HomeError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use; name another"):
            await serving(host, port, ROUTES).__aenter__()


class Held:
    """A cluster whose creations of pods wait until they are let go."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, resource: Any, obj: Object) -> Object:
        if obj["kind"] == "Pod":
            self.reached.set()
            await self.let_go.wait()
        return await self._cluster.create(resource, obj)


class Unreachable(Held):
    """A cluster that never answers a list."""

    async def list(self, *_: Any, **__: Any) -> Any:
        self.reached.set()
        await self.let_go.wait()


def world() -> tuple[MemoryCluster, Held]:
    cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))
    return cluster, Held(cluster)


async def test_the_round_under_way_is_finished():
    cluster, held = world()
    await start(cluster, manifest(workers=2))
    operator, stopping = Operator(held, KINDS, KUBERNETES), asyncio.Event()
    task = asyncio.create_task(until_stopped(operator.run(), operator, stopping))
    await held.reached.wait()

    stopping.set()
    await asyncio.sleep(0)
    assert not task.done()
    held.let_go.set()
    await task

    assert len((await cluster.list(POD)).items) == 2


async def test_but_not_for_ever():
    cluster, held = world()
    await start(cluster, manifest(workers=1))
    operator, stopping = Operator(held, KINDS, KUBERNETES), asyncio.Event()
    task = asyncio.create_task(until_stopped(operator.run(), operator, stopping, seconds=0.05))
    await held.reached.wait()

    stopping.set()
    await asyncio.wait_for(task, 2)

    assert (await cluster.list(POD)).items == []


async def test_an_operator_that_waits_for_its_caches_ends_at_once():
    held = Unreachable(world()[0])
    operator, stopping = Operator(held, KINDS, KUBERNETES), asyncio.Event()
    task = asyncio.create_task(until_stopped(operator.run(), operator, stopping))
    await held.reached.wait()

    assert {str(each) for each in operator.unsynced()} >= {"pods", "pytorchjobs.kubeflow.org"}
    stopping.set()
    await asyncio.wait_for(task, 2)


async def test_an_operator_that_fails_ends_the_program():
    operator = Operator(world()[1], KINDS, KUBERNETES)

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await asyncio.wait_for(until_stopped(fail(), operator, asyncio.Event()), 2)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param(":8080", ("", 8080), id="every address"),
        pytest.param("127.0.0.1:0", ("127.0.0.1", 0), id="a free port"),
        pytest.param("[::1]:8080", ("::1", 8080), id="an IPv6 address"),
        pytest.param("8080", None, id="a port needs its colon"),
        pytest.param(":80800", None, id="there is no such port"),
        pytest.param("::1:8080", None, id="an IPv6 address needs its brackets"),
    ],
)
def test_metrics_address(text, address):
    if address is None:
        with pytest.raises(click.BadParameter, match="expected an address and a port such as :8080"):
            command.make_context("operator", ["--metrics-address", text])
    else:
        assert command.make_context("operator", ["--metrics-address", text]).params["address"] == address
