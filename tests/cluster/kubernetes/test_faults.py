"""The client on bad days: no event is lost, nothing is done twice, nobody is asked in a hot loop, nothing leaks.

The same tests run against the stub and against a real API server.
"""

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cluster.kubernetes.faults import Day, between
from tests.cluster.kubernetes.server import Api, serve

from trainwright.cluster.base import Change, Cluster
from trainwright.cluster.informer import Informer
from trainwright.cluster.kubernetes import Access, KubernetesCluster, OutcomeUnknown, Patience, Server
from trainwright.cluster.kubernetes.auth import Auth
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import AlreadyExists, ClusterError, Conflict, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, NAMESPACE

pytestmark = pytest.mark.fault

SHORT = Backoff(first=0.002, longest=0.02)
PATIENT = Patience(tries=30, seconds=20.0, backoff=SHORT)
ROWS = (CONFIG_MAP, NAMESPACE)

EVERYTHING = {"429": 0.05, "500": 0.05, "503": 0.05, "drop": 0.1, "lose": 0.1, "stall": 0.05, "cut": 1.0}
ONE_IN_THREE = {"drop": 1 / 3, "cut": 1.0}
ENOUGH = 12
"""So many faults make a bad day."""


@dataclass
class Bad:
    """A server, the good way to it, and how to make a bad one."""

    direct: Cluster
    namespace: str
    through: Callable[[Day], "contextlib.AbstractAsyncContextManager[KubernetesCluster]"]


@pytest.fixture(params=["stub", pytest.param("real", marks=pytest.mark.e2e)])
async def bad(request: pytest.FixtureRequest) -> AsyncIterator[Bad]:
    homes = {"stub": stub, "real": lambda: real(request.getfixturevalue("kubeconfig"))}
    async with homes[request.param]() as it:
        before = resources()
        yield it
        await same_again(before)


@contextlib.asynccontextmanager
async def stub() -> AsyncIterator[Bad]:
    store = MemoryCluster(ROWS, now=lambda: datetime.now(UTC))
    async with serve(Api(store, ROWS)) as serving:

        @contextlib.asynccontextmanager
        async def through(day: Day) -> AsyncIterator[KubernetesCluster]:
            async with between(serving.port, day) as url, client(Access(Server(url))) as cluster:
                yield cluster

        yield Bad(store, "bad-day", through)


@contextlib.asynccontextmanager
async def real(kubeconfig: Path) -> AsyncIterator[Bad]:
    async with KubernetesCluster.from_config(str(kubeconfig)) as direct:
        access = direct.access
        context = await Auth(access).context()
        namespace = f"bad-day-{uuid.uuid4().hex[:10]}"

        @contextlib.asynccontextmanager
        async def through(day: Day) -> AsyncIterator[KubernetesCluster]:
            port = access.server.parts.port or 443
            async with (
                between(port, day, context) as url,
                client(replace(access, server=Server(url))) as cluster,
            ):
                yield cluster

        async def is_furnished() -> bool:
            return bool((await direct.list(CONFIG_MAP, namespace)).items)

        await direct.create(NAMESPACE, {"metadata": {"name": namespace}})
        try:
            # What the control plane puts there is larger than any piece between two cuts: it must not come meanwhile.
            await no_sooner_than(is_furnished)
            yield Bad(direct, namespace, through)
        finally:
            await direct.delete(NAMESPACE, "", namespace)


def client(access: Access) -> KubernetesCluster:
    return KubernetesCluster(access, patience=PATIENT, timeout=2.0, backoff=SHORT, page=7, silence=1.0)


def resources() -> tuple[int, int]:
    """Return how many tasks and sockets there are."""
    files = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return len(asyncio.all_tasks()), sum(file.startswith("socket:") for file in files)


async def same_again(before: tuple[int, int]) -> None:
    """Wait until what a test used is gone again; only its good connections may have become more."""
    async with asyncio.timeout(5):
        while resources()[0] > before[0] or resources()[1] > before[1] + 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def thing(bad: Bad, name: str) -> Object:
    return {"metadata": {"name": name, "namespace": bad.namespace}, "data": {"step": "0"}}


async def lives(bad: Bad, day: Day) -> list[str]:
    """Create, change and delete objects until enough went wrong.

    Return every version there was, in order, and deletions by name.
    """
    versions: list[str] = []
    for number in itertools.count():
        if sum(day.happened.values()) >= ENOUGH:
            break
        await asyncio.sleep(0.001)  # the others' turn
        obj = await bad.direct.create(CONFIG_MAP, thing(bad, f"c{number}"))
        versions.append(f"ADDED {obj['metadata']['resourceVersion']}")
        for step in ("1", "2"):
            obj = await bad.direct.patch(CONFIG_MAP, bad.namespace, f"c{number}", {"data": {"step": step}})
            versions.append(f"MODIFIED {obj['metadata']['resourceVersion']}")
        if number % 3 == 0:
            await bad.direct.delete(CONFIG_MAP, bad.namespace, f"c{number}")
            versions.append(f"DELETED c{number}")
    return versions


def word(change: Change) -> str:
    meta = change.object["metadata"]
    return f"{change.type} {meta['name'] if change.type == 'DELETED' else meta['resourceVersion']}"


def ours(change: Change) -> bool:
    """Say whether a change is of this test: a real namespace is given a ConfigMap of its own."""
    return change.type != "BOOKMARK" and change.object["metadata"]["name"] != "kube-root-ca.crt"


async def no_sooner_than(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "odds", [pytest.param(EVERYTHING, id="everything"), pytest.param(ONE_IN_THREE, id="one in three is dropped")]
)
async def test_a_watch_sees_every_step_once_and_in_order(bad: Bad, odds, seed):
    since = (await bad.direct.list(CONFIG_MAP, bad.namespace)).version
    day = Day(odds, seed)
    seen: list[str] = []

    async def look(watch: AsyncIterator[Change]) -> None:
        async for change in watch:
            if ours(change):
                seen.append(word(change))  # noqa: PERF401 - each as it comes

    async with (
        bad.through(day) as cluster,
        contextlib.aclosing(cluster.watch(CONFIG_MAP, bad.namespace, since=since)) as watch,  # type: ignore[type-var]
    ):
        looking = asyncio.create_task(look(watch))
        written = await lives(bad, day)

        async def all_seen() -> bool:
            return len(seen) >= len(written)

        await no_sooner_than(all_seen)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert seen == written


@pytest.mark.parametrize("seed", [1, 2])
async def test_an_informer_ends_with_the_truth_and_told_every_deletion(bad: Bad, seed):
    day = Day({**EVERYTHING, "410": 0.2}, seed)
    async with bad.through(day) as cluster:
        informer = Informer(cluster, CONFIG_MAP, bad.namespace, backoff=SHORT)
        alive: dict[str, str] = {}

        def told(change: Change) -> None:
            meta = change.object["metadata"]
            if change.type == "DELETED":
                del alive[meta["name"]]
            else:
                assert (meta["name"] in alive) is (change.type == "MODIFIED")
                alive[meta["name"]] = meta["resourceVersion"]

        informer.subscribe(told)
        running = asyncio.create_task(informer.run())
        await lives(bad, day)
        day.calm()
        listing = await bad.direct.list(CONFIG_MAP, bad.namespace)
        truth = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in listing.items}

        async def agrees() -> bool:
            return alive == truth

        await no_sooner_than(agrees)
        assert {obj["metadata"]["name"] for obj in informer.items()} == set(truth)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_created_or_deleted_twice(bad: Bad, seed):
    """A caller who looks before repeating what may have been done ends with each object once, as itself."""
    since = (await bad.direct.list(CONFIG_MAP, bad.namespace)).version
    day = Day(EVERYTHING, seed)
    unknown = 0

    async def live(cluster: KubernetesCluster, name: str) -> None:
        nonlocal unknown
        while True:
            try:
                await cluster.create(CONFIG_MAP, thing(bad, name))
                break
            except AlreadyExists:
                break
            except ClusterError as error:
                unknown += isinstance(error, OutcomeUnknown)
        obj = await cluster.patch(CONFIG_MAP, bad.namespace, name, {"data": {"step": "9"}})
        await cluster.delete(CONFIG_MAP, bad.namespace, name, uid=obj["metadata"]["uid"])

    names = [f"once-{number}" for number in range(30)]
    async with bad.through(day) as cluster:
        await asyncio.gather(*(live(cluster, name) for name in names))
    changes: list[str] = []
    async with contextlib.aclosing(bad.direct.watch(CONFIG_MAP, bad.namespace, since=since)) as watch:  # type: ignore[type-var]
        async with asyncio.timeout(20):
            while len(changes) < 3 * len(names):
                change = await anext(watch)
                if ours(change):
                    changes.append(f"{change.type} {change.object['metadata']['name']}")
    assert sorted(changes) == sorted(f"{kind} {name}" for kind in ("ADDED", "MODIFIED", "DELETED") for name in names)
    assert unknown


@pytest.mark.parametrize("what", ["410", "429", "500", "503", "drop", "stall"])
async def test_a_server_that_only_fails_is_not_asked_in_a_hot_loop(bad: Bad, what):
    day = Day({what: 1.0}, stall=0.01)
    async with bad.through(day) as cluster:
        cluster.rest.patience = Patience()
        informer = Informer(cluster, CONFIG_MAP, bad.namespace)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await informer.run()
    assert 1 <= sum(day.requests.values()) <= 12
    assert not informer.synced.is_set()


async def test_versions_that_expire_again_and_again_do_not_make_a_hot_loop(bad: Bad):
    """Each watch is told 410 at once, each list succeeds: the informer comes back ever more slowly."""
    day = Day({})
    day.fate = lambda request: "410" if "watch" in request.query else ""  # type: ignore[method-assign]
    async with bad.through(day) as cluster:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await Informer(cluster, CONFIG_MAP, bad.namespace).run()
    assert 1 <= day.requests["WATCH"] <= 6


@pytest.mark.parametrize(("what", "error"), [("409", Conflict), ("410", ClusterError)])
async def test_a_refusal_is_not_repeated(bad: Bad, what, error):
    day = Day({what: 1.0})
    async with bad.through(day) as cluster:
        with pytest.raises(error, match=f"the proxy says {what}"):
            await cluster.patch(CONFIG_MAP, bad.namespace, "x", {"data": {}})
    assert day.requests == {"PATCH": 1}


async def test_many_cancelled_requests_leave_nothing(bad: Bad):
    day = Day({"stall": 0.5}, stall=1.0)
    async with bad.through(day) as cluster:
        for _ in range(5):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.03), asyncio.TaskGroup() as group:
                    for number in range(20):
                        group.create_task(absent(cluster, bad.namespace, f"x{number}"))
        day.calm()
        await asyncio.gather(*(absent(cluster, bad.namespace, f"y{number}") for number in range(40)))
        everything, idle = cluster.rest.connections()
        assert everything == idle <= 32


async def absent(cluster: KubernetesCluster, namespace: str, name: str) -> None:
    """Get what is not there: the answer must be the one to this very question."""
    with pytest.raises(NotFound, match=f'"{name}"'):
        await cluster.get(CONFIG_MAP, namespace, name)
