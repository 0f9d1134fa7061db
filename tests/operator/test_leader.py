"""The election: who leads when, what the Lease says, and that never two lead at once.

Clocks are the test's. The clocks of two operators differ by hours, which nobody may notice.
"""

import asyncio
import random
import types
from collections.abc import Callable, Coroutine, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cluster.virtual import run

from trainwright.cluster.kubernetes import Unreachable
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import AlreadyExists, Conflict, HomeError, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import LEASE
from trainwright.operator.leader import LEASE_SECONDS, MARGIN_SECONDS, Elector, Leadership, lease_name

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = "abc"
FAILOVER_SECONDS = LEASE_SECONDS + 2.5
"""The whole lease, and one look."""


def store(now: Callable[[], datetime] = lambda: NOON) -> MemoryCluster:
    return MemoryCluster((LEASE,), now=now)


async def spec_of(cluster: MemoryCluster) -> Object:
    lease = await cluster.get(LEASE, "ns", "trainwright")
    found: Object = lease["spec"]
    return found


class World:
    """Several operators, and the time."""

    def __init__(self, cluster: Any = None) -> None:
        self.time = 0.0
        self.cluster = store()
        self.operators = {name: self._operator(name, cluster or self.cluster) for name in NAMES}

    def _operator(self, name: str, cluster: Any) -> Elector:
        ahead = 3600.0 * NAMES.index(name)
        return Elector(
            cluster,
            Leadership("ns", identity=name),
            clock=lambda: self.time + ahead,
            now=lambda: NOON + timedelta(seconds=self.time + ahead),
        )

    def leaders(self) -> str:
        return "".join(name for name, operator in self.operators.items() if operator.leads())

    async def play(self, script: str) -> None:
        for word in script.split():
            if word.startswith("+"):
                self.time += float(word)
            elif word == "deleted":
                await self.cluster.delete(LEASE, "ns", "trainwright")
            elif word == "labelled":
                await self.cluster.patch(LEASE, "ns", "trainwright", {"metadata": {"labels": {"by": "hand"}}})
            else:
                name, _, deed = word.partition(".")
                await getattr(self.operators[name], deed)()


@pytest.mark.parametrize(
    ("script", "leaders"),
    [
        pytest.param("a.take", "a", id="a lease nobody has is taken"),
        pytest.param("a.take b.take", "a", id="one that somebody has is waited for"),
        pytest.param("a.take b.take +9.9 b.take", "", id="as long as it may last"),
        pytest.param("a.take b.take +10 b.take", "b", id="one that was not renewed is taken over"),
        pytest.param("a.take +60 b.take", "", id="time counts from when it was first seen"),
        pytest.param("a.take +60 b.take +10 b.take", "b", id="and from nothing that the holder wrote"),
        pytest.param("a.take b.take +5 a.renew b.take +6 b.take", "a", id="one that was renewed is not over"),
        pytest.param("a.take b.take +5 labelled +5 b.take", "b", id="a label is no renewal"),
        pytest.param("a.take +5 labelled a.renew +5", "a", id="nor does it keep anybody from renewing"),
        pytest.param("a.take +6.9", "a", id="the holder acts until shortly before the end"),
        pytest.param("a.take +7", "", id="and not until the end"),
        pytest.param("a.take +7 a.renew", "", id="what has ended cannot be renewed"),
        pytest.param("a.take +8 a.take", "a", id="but taken again, if nobody else has"),
        pytest.param("a.take b.take +10 b.take a.renew", "b", id="who was followed does not renew"),
        pytest.param("a.take b.take +10 b.take a.take", "b", id="and waits like everybody else"),
        pytest.param("a.take b.take a.release b.take", "b", id="what was given up is taken at once"),
        pytest.param("a.take b.take +10 b.take a.release", "b", id="nobody gives up what is not his"),
        pytest.param("a.take b.take deleted b.take", "a", id="who waits for a lease that is deleted waits on"),
        pytest.param("a.take b.take deleted a.renew b.take +5", "a", id="the holder makes it again"),
        pytest.param("a.take b.take deleted +10 b.take", "b", id="or it is over in time"),
    ],
)
async def test_who_leads(script, leaders):
    world = World()

    await world.play(script)

    assert world.leaders() == leaders


@pytest.mark.parametrize(
    ("script", "spec"),
    [
        pytest.param(
            "a.take",
            {
                "holderIdentity": "a",
                "leaseDurationSeconds": 10,
                "acquireTime": "2026-03-01T12:00:00.000000Z",
                "renewTime": "2026-03-01T12:00:00.000000Z",
                "leaseTransitions": 0,
            },
            id="who holds it, since when, and for how long",
        ),
        pytest.param(
            "a.take +2.5 a.renew",
            {
                "holderIdentity": "a",
                "leaseDurationSeconds": 10,
                "acquireTime": "2026-03-01T12:00:00.000000Z",
                "renewTime": "2026-03-01T12:00:02.500000Z",
                "leaseTransitions": 0,
            },
            id="when it was renewed",
        ),
        pytest.param(
            "a.take b.take +10 b.take",
            {
                "holderIdentity": "b",
                "leaseDurationSeconds": 10,
                "acquireTime": "2026-03-01T13:00:10.000000Z",
                "renewTime": "2026-03-01T13:00:10.000000Z",
                "leaseTransitions": 1,
            },
            id="how often it has changed hands",
        ),
        pytest.param(
            "a.take +1 a.release",
            {
                "leaseDurationSeconds": 1,
                "acquireTime": "2026-03-01T12:00:01.000000Z",
                "renewTime": "2026-03-01T12:00:01.000000Z",
                "leaseTransitions": 0,
            },
            id="that nobody holds it",
        ),
    ],
)
async def test_what_the_lease_says(script, spec):
    world = World()

    await world.play(script)

    assert await spec_of(world.cluster) == spec


async def test_a_holder_that_asks_for_longer_is_given_longer():
    world = World()
    lease = {"metadata": {"name": "trainwright", "namespace": "ns"}}
    patient = {"holderIdentity": "somebody", "leaseDurationSeconds": 60, "renewTime": "2026-03-01T12:00:00.000000Z"}
    await world.cluster.create(LEASE, {**lease, "spec": patient})

    await world.play("a.take +59 a.take")
    assert world.leaders() == ""
    await world.play("+1 a.take")
    assert world.leaders() == "a"


async def test_what_one_term_left_undone_is_not_permitted_in_the_next():
    world = World()
    await world.play("a.take")
    before = world.operators["a"].permit()

    await world.play("+8 a.take")

    assert world.operators["a"].permit()()
    assert not before()


@pytest.mark.parametrize(
    ("namespaces", "name"),
    [
        pytest.param((), "trainwright", id="all namespaces"),
        pytest.param(("b", "a"), "trainwright.a.b", id="some, in whatever order"),
        pytest.param(("a-b",), "trainwright.a-b", id="no two sets share a name"),
    ],
)
def test_lease_name(namespaces, name):
    assert lease_name(namespaces) == name


def test_a_lease_of_many_namespaces_needs_a_name():
    with pytest.raises(HomeError, match="5 namespaces are too long for one Lease; set --lease-name"):
        lease_name(["x" * 63] * 5)


# Any interleaving


@types.coroutine
def _turn() -> Generator[None, None, None]:
    yield


class Slow:
    """A cluster whose answers, and whose questions before them, take until somebody lets them go on."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        async def call(*words: Any) -> Any:
            await _turn()
            try:
                return await getattr(self._cluster, name)(*words)
            finally:
                await _turn()

        return call


class Interleaved:
    """Operators that do one thing each at a time, a step at a time."""

    def __init__(self) -> None:
        cluster = store()
        self.world = World(Slow(cluster))
        self.world.cluster = cluster
        self.under_way: dict[str, Coroutine[Any, Any, None]] = {}
        self.led: dict[str, float] = {}
        """When each was last seen leading, of those that have not given up."""

    def play(self, word: str) -> None:
        """Let time pass, or an operator: a step ("a"), all it is at ("a!"), or give up if it leads ("a-")."""
        if word.startswith("+"):
            self.world.time += float(word)
            return
        name = word[0]
        operator = self.world.operators[name]
        if name not in self.under_way and word.endswith("-") and operator.leads():
            del self.led[name]
            self.under_way[name] = operator.release()
        elif name not in self.under_way:
            self.under_way[name] = operator.renew() if operator.leads() else operator.take()
        self._step(name)
        while word.endswith("!") and name in self.under_way:
            self._step(name)

    def _step(self, name: str) -> None:
        try:
            self.under_way[name].send(None)
        except (StopIteration, Conflict, AlreadyExists):  # it is done, or somebody was quicker
            del self.under_way[name]

    def check(self) -> None:
        leaders = self.world.leaders()
        assert len(leaders) <= 1
        for name in leaders:
            others = [moment for other, moment in self.led.items() if other != name]
            assert all(self.world.time - moment >= MARGIN_SECONDS for moment in others), "the last request may be late"
            self.led = {name: self.world.time}

    def close(self) -> None:
        for work in self.under_way.values():
            work.close()


WORDS = ("a", "b", "a!", "b!", "a-", "b-", "+3", "+6.9", "+10")


@pytest.mark.parametrize("seed", range(60))
def test_two_never_lead_at_once(seed):
    chosen = random.Random(seed)
    played = Interleaved()
    try:
        for _ in range(200):
            played.play(chosen.choice(WORDS))
            played.check()
    finally:
        played.close()


# Standing by, leading, standing by again; in virtual time


class Network:
    """A cluster that can be out of reach."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.out = False

    def __getattr__(self, name: str) -> Any:
        async def call(*words: Any) -> Any:
            if self.out:
                raise Unreachable("out of reach")
            return await getattr(self._cluster, name)(*words)

        return call


class Process:
    """One operator whose work is to wait until it is stopped."""

    def __init__(self, name: str, cluster: Any, *, over: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.elector = Elector(cluster, Leadership("ns", identity=name), clock=loop.time, chance=lambda: 1.0)
        self.stopping = asyncio.Event()
        self.terms: list[tuple[float, float]] = []
        """When each piece of work began and ended."""
        self._over = over
        self.task = asyncio.create_task(self.elector.lead(self._work, self.stopping))

    async def _work(self) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self.stopping.wait()
            return self._over
        finally:
            self.terms.append((began, loop.time()))

    async def stop(self) -> None:
        self.stopping.set()
        await self.task


def test_the_next_one_works_soon_after_the_first_was_killed():
    async def play() -> None:
        cluster = store()
        first = Process("a", cluster)
        await asyncio.sleep(1)
        second = Process("b", cluster)
        await asyncio.sleep(60)
        killed = asyncio.get_running_loop().time()
        first.task.cancel()
        await asyncio.sleep(FAILOVER_SECONDS)
        assert second.elector.leads()
        await second.stop()
        assert second.terms[0][0] - killed <= FAILOVER_SECONDS
        assert (await spec_of(cluster))["leaseTransitions"] == 1

    run(play())


def test_the_next_one_works_at_once_after_the_first_has_ended_well():
    async def play() -> None:
        cluster = store()
        first, second = Process("a", cluster), Process("b", cluster)
        await asyncio.sleep(30)
        await first.stop()
        ended = asyncio.get_running_loop().time()
        await asyncio.sleep(3)
        await second.stop()
        assert second.terms[0][0] - ended <= 2.5
        assert "holderIdentity" not in await spec_of(cluster)

    run(play())


def test_a_lease_is_kept_while_something_may_be_under_way():
    async def play() -> None:
        cluster = store()
        first = Process("a", cluster, over=False)
        await asyncio.sleep(1)
        await first.stop()
        assert (await spec_of(cluster))["holderIdentity"] == "a"

    run(play())


def test_who_cannot_renew_stops_working_and_begins_again():
    async def play() -> None:
        network = Network(store())
        alone = Process("a", network)
        await asyncio.sleep(4.5)
        network.out = True
        await asyncio.sleep(20)
        assert alone.elector.trouble == "out of reach"
        network.out = False
        await asyncio.sleep(5)
        assert alone.elector.trouble == ""
        await alone.stop()
        (_, lost), (again, _) = alone.terms
        assert lost <= 4.5 + LEASE_SECONDS - MARGIN_SECONDS
        assert 24.5 <= again <= 27

    run(play())


def test_a_few_failures_are_nothing():
    async def play() -> None:
        network = Network(store())
        alone = Process("a", network)
        await asyncio.sleep(4.9)
        network.out = True
        await asyncio.sleep(4)
        network.out = False
        await asyncio.sleep(30)
        await alone.stop()
        assert len(alone.terms) == 1

    run(play())


def test_who_stands_by_stops_at_once():
    async def play() -> None:
        cluster = store()
        first, second = Process("a", cluster), Process("b", cluster)
        await asyncio.sleep(30)
        before = asyncio.get_running_loop().time()
        await second.stop()
        assert asyncio.get_running_loop().time() == before
        assert second.terms == []
        await first.stop()

    run(play())


def test_a_namespace_that_is_not_there_is_said():
    class Bare(Network):
        async def create(self, *_: Any) -> Object:
            raise NotFound('namespaces "ns" not found')

    async def play() -> None:
        with pytest.raises(HomeError, match=r"there is no namespace ns for the Lease .* --lease-namespace"):
            await Process("a", Bare(store())).task

    run(play())


def test_work_that_fails_ends_the_election():
    async def play() -> None:
        elector = Elector(store(), Leadership("ns", identity="a"), clock=asyncio.get_running_loop().time)

        async def fail() -> bool:
            raise ValueError("broken")

        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            await elector.lead(fail, asyncio.Event())

    run(play())
