"""The way from pods to the API server: bytes are carried as they are, both ways, to the end."""

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest

from trainwright.node.api_server import WayIn, way_in
from trainwright.node.base import IsolationName
from trainwright.node.ports import PortsIsolation


class Bridge(PortsIsolation):
    """What pods would have in common, on this machine's own localhost."""

    name: IsolationName = "net"


@pytest.fixture
async def stack():
    async with AsyncExitStack() as opened:
        yield opened


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say everything back once the other side has said all it had to say."""
    writer.write((await reader.read())[::-1])
    writer.write_eof()
    await writer.drain()
    writer.close()


async def dialled(way: WayIn) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(way.address, int(way.environment["KUBERNETES_SERVICE_PORT"]))


async def test_what_a_pod_says_is_carried_and_so_is_the_answer(stack):
    server = await stack.enter_async_context(await asyncio.start_server(answer, "127.0.0.1", 0))
    way = await way_in(Bridge(), "127.0.0.1", server.sockets[0].getsockname()[1], stack)
    reader, writer = await dialled(way)

    writer.write(b"hello" * 100_000)
    writer.write_eof()

    assert await reader.read() == b"olleh" * 100_000
    writer.close()


async def test_a_connection_ends_when_the_api_server_is_not_there(stack):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    way = await way_in(Bridge(), "127.0.0.1", port, stack)
    reader, writer = await dialled(way)

    assert await reader.read() == b""
    writer.close()


async def test_the_name_is_one_that_certificates_are_for(stack):
    way = await way_in(Bridge(), "192.0.2.1", 6443, stack)

    assert way.environment["KUBERNETES_SERVICE_HOST"] == "kubernetes.default.svc"
    assert way.environment["KUBERNETES_SERVICE_PORT_HTTPS"] == way.environment["KUBERNETES_SERVICE_PORT"] != "6443"


async def test_pods_without_files_of_their_own_have_no_use_for_it(stack):
    assert await way_in(PortsIsolation(), "127.0.0.1", 6443, stack) == WayIn()
