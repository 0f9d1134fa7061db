"""A whole node, from its start to its end, on a memory cluster."""

import asyncio
import os
import signal
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.node.world import pod

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import ClusterError, HomeError
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, LEASE, NODE, POD
from trainwright.node import agent
from trainwright.node.agent import AgentOptions
from trainwright.node.lease import NAMESPACE


class World:
    """A node that runs, and what it says."""

    def __init__(self, root, **options) -> None:
        self.cluster = MemoryCluster((*BUILT_IN, LEASE), now=lambda: datetime.now(UTC))
        environment = {"PATH": os.environ["PATH"]}
        given = {"isolation": "ports", "anonymous": True, "grace": 5.0, **options}
        self.options = AgentOptions("here", "test", root / "node", root, environment, **given)
        self.notices: list[str] = []

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(agent.run(self.cluster, self.options, self.notices.append))

    async def until_said(self, words: str) -> None:
        async with asyncio.timeout(10):
            while not any(words in notice for notice in self.notices):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)

    async def ready(self) -> Any:
        conditions = (await self.cluster.get(NODE, "", "here"))["status"]["conditions"]
        return next(each["status"] for each in conditions if each["type"] == "Ready")

    async def phase(self, name: str, *phases: str) -> Object:
        async with asyncio.timeout(10):
            while True:
                seen = await self.cluster.get(POD, "ns", name)
                if seen["status"].get("phase") in phases:
                    return seen
                await asyncio.sleep(0.005)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


async def test_a_node_lives_until_it_is_told_to_end(world):
    running = world.start()
    await world.until_said("node here is ready")
    await world.cluster.create(POD, pod("p", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    await world.phase("p", "Running")
    assert await world.ready() == "True"
    assert (await world.cluster.get(LEASE, NAMESPACE, "here"))["spec"]["holderIdentity"] == "here"

    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)

    assert await world.ready() == "False"
    ended = (await world.phase("p", "Failed"))["status"]
    assert ended["reason"] == "Terminated"
    assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


async def test_a_second_signal_ends_what_would_take_longer(world):
    running = world.start()
    await world.until_said("node here is ready")
    await world.cluster.create(POD, pod("p", "trap '' TERM; echo up; while :; do sleep 0.05; done"))
    await world.phase("p", "Running")

    os.kill(os.getpid(), signal.SIGTERM)
    await world.until_said("another signal ends them at once")
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 4)

    assert (await world.phase("p", "Failed"))["status"]["reason"] == "Terminated"


async def test_a_node_that_cannot_register_yet_can_be_told_to_end(world, monkeypatch):
    asked = asyncio.Event()

    async def unreachable(*_: object) -> None:
        asked.set()
        raise ClusterError("there is no API server")

    monkeypatch.setattr(world.cluster, "create", unreachable)
    running = world.start()
    await asyncio.wait_for(asked.wait(), 10)

    os.kill(os.getpid(), signal.SIGTERM)

    await asyncio.wait_for(running, 10)


async def test_two_nodes_of_one_name_are_one_too_many(world):
    async with agent.node(world.cluster, world.options, world.notices.append):
        with pytest.raises(HomeError, match=r"a node keeps its files in .*; stop it, or give this one another --name"):
            async with agent.node(world.cluster, world.options, world.notices.append):
                pass


async def test_without_knowing_the_api_server_nothing_is_served(tmp_path):
    world = World(tmp_path, anonymous=False)

    async with agent.node(world.cluster, world.options, world.notices.append):
        assert "daemonEndpoints" not in (await world.cluster.get(NODE, "", "here"))["status"]

    assert any("logs, exec and port-forward are off" in notice for notice in world.notices)


async def test_an_address_that_is_not_ours_is_said(tmp_path):
    world = World(tmp_path, address="192.0.2.1")

    with pytest.raises(HomeError, match=r"cannot listen on 192\.0\.2\.1 port 0: .*; give an address of this machine"):
        async with agent.node(world.cluster, world.options, world.notices.append):
            pass
