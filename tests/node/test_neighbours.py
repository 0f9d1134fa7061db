"""Nodes of one machine that share a network: places that are taken and given back, and pods that reach each other."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from trainwright.core.errors import HomeError
from trainwright.node import neighbours
from trainwright.node.base import SandboxSpec
from trainwright.node.isolation import try_net
from trainwright.node.neighbours import Neighbourhood
from trainwright.node.net import NetIsolation

needs_net = pytest.mark.skipif(not try_net().works, reason=f"isolation net: {try_net().reason}")


def moved_in(folder, cluster="c", pid=1) -> tuple[Neighbourhood, int, tuple[int, ...]]:
    neighbourhood = Neighbourhood(cluster, folder)
    with neighbourhood.moving_in() as place:
        place.settle(pid)
    return neighbourhood, place.number, place.neighbours


def test_each_node_has_its_place_and_finds_the_others(tmp_path):
    first, *found = moved_in(tmp_path, pid=11)
    assert found == [1, ()]
    second, *found = moved_in(tmp_path, pid=22)
    assert found == [2, (11,)]
    third, *found = moved_in(tmp_path, pid=33)
    assert found == [3, (11, 22)]

    second.leave()

    fourth, *found = moved_in(tmp_path, pid=44)
    assert found == [2, (11, 33)], "a place that was given back is taken first, and nobody behind it is forgotten"
    for each in (first, third, fourth):
        each.leave()


def test_other_clusters_have_places_of_their_own(tmp_path):
    first, *_ = moved_in(tmp_path, "one")
    second, *found = moved_in(tmp_path, "two")

    assert found == [1, ()]
    first.leave()
    second.leave()


def test_a_place_whose_node_did_not_come_up_is_free_again(tmp_path):
    with pytest.raises(ZeroDivisionError), Neighbourhood("c", tmp_path).moving_in():
        raise ZeroDivisionError

    neighbourhood, *found = moved_in(tmp_path)
    assert found == [1, ()]
    neighbourhood.leave()


def test_too_many_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "PLACES", range(1, 2))
    neighbourhood, *_ = moved_in(tmp_path)

    with pytest.raises(HomeError, match="1 nodes of this cluster run on this machine already"):
        moved_in(tmp_path)
    neighbourhood.leave()


async def shared(stack: AsyncExitStack, folder) -> NetIsolation:
    isolation = NetIsolation()
    isolation.neighbourhood = Neighbourhood("c", folder)
    return await stack.enter_async_context(isolation)


@needs_net
async def test_pods_of_two_nodes_reach_each_other_and_outlive_the_first(tmp_path):
    async with AsyncExitStack() as stack:
        first = await shared(AsyncExitStack(), tmp_path)
        second = await shared(stack, tmp_path)
        early = await first.open(SandboxSpec("a", "a"))
        late = await second.open(SandboxSpec("b", "b"))
        assert (early.address, late.address) == ("10.77.1.1", "10.77.2.1")
        await refused(late, early.address)
        await first.__aexit__()
        third = await shared(stack, tmp_path)
        newest = await third.open(SandboxSpec("c", "c"))
        assert newest.address == "10.77.1.1"
        await refused(late, newest.address)
        await refused(newest, late.address)


async def refused(sandbox, address) -> None:
    """Nobody listens there, but somebody is there to say so: where there is no way, nothing would be said."""
    with pytest.raises(ConnectionRefusedError):
        async with asyncio.timeout(5):
            await sandbox.connect(9, address)
