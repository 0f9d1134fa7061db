"""Webhooks as they are served: over HTTPS, under a certificate that several replicas keep together."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from tests.api.examples import STATIC
from tests.operator.test_reviews import WRONG, asked
from tests.scenarios.world import NOON, RESOURCES
from tests.web.wire import Wire

from trainwright.cli.operator import command
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Conflict
from trainwright.core.objects import Object
from trainwright.core.resources import SECRET
from trainwright.kinds import KINDS
from trainwright.operator import certificates
from trainwright.operator.certificates import Pair, Terms
from trainwright.operator.configurations import MUTATING, NAME, VALIDATING, Webhooks, configurations
from trainwright.operator.measures import Measures
from trainwright.operator.trust import Trust
from trainwright.operator.webhooks import Serving, serving
from trainwright.web.listener import listener

SYSTEM = "trainwright-system"
TERMS = Terms(timedelta(days=90))
HOOKS = Webhooks("127.0.0.1", 0, terms=TERMS)


async def installed(now: Callable[[], datetime] = lambda: NOON, webhooks: Webhooks = HOOKS) -> MemoryCluster:
    """Return a cluster with what is installed for webhooks: a Secret without content, configurations without trust."""
    cluster = MemoryCluster((*RESOURCES, MUTATING, VALIDATING), now=now)
    await cluster.create(SECRET, {"metadata": {"name": webhooks.secret, "namespace": SYSTEM}, "data": {}})
    for obj, row in zip(configurations(webhooks), (MUTATING, VALIDATING), strict=True):
        await cluster.create(row, obj)
    return cluster


async def bundles(cluster: MemoryCluster) -> list[bytes]:
    """Return whom an API server trusts, for each webhook."""
    found = [await cluster.get(row, "", NAME) for row in (MUTATING, VALIDATING)]
    hooks = [hook for each in found for hook in each["webhooks"]]
    return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]


async def until(read: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Wait until what others do is seen."""
    async with asyncio.timeout(5):
        while await read() != expected:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0)


@dataclass
class Replica:
    """One operator's part in keeping the certificate, and what it shows."""

    trust: Trust
    shown: list[Pair]


class World:
    """A cluster, a clock that is moved by hand, and replicas that keep a certificate together."""

    def __init__(self) -> None:
        self.now = NOON
        self.replicas: list[Replica] = []

    def pass_days(self, days: float) -> None:
        """Move the clock, and have everybody look."""
        self.now += timedelta(days=days)
        for replica in self.replicas:
            replica.trust.wake()

    async def trusted(self) -> int:
        """Return how many authorities every webhook trusts; 0 while they differ."""
        found = await bundles(self.cluster)
        return found[0].count(b"BEGIN") if len(set(found)) == 1 else 0

    async def versions(self) -> list[str]:
        """Return the versions of everything that is kept in line."""
        found = [await self.cluster.get(row, "", NAME) for row in (MUTATING, VALIDATING)]
        found.append(await self.cluster.get(SECRET, SYSTEM, HOOKS.secret))
        return [each["metadata"]["resourceVersion"] for each in found]

    async def shown(self) -> list[int]:
        """Return how many certificates each replica has shown."""
        return [len(each.shown) for each in self.replicas]

    @asynccontextmanager
    async def keeping(self, replicas: int) -> AsyncIterator[None]:
        self.cluster = await installed(lambda: self.now)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(replicas):
                shown: list[Pair] = []
                self.replicas.append(Replica(Trust(self.cluster, HOOKS, shown.append, lambda: self.now), shown))
            running = [tasks.create_task(each.trust.run()) for each in self.replicas]
            await until(self.shown, [1] * replicas)
            yield
            for task in running:
                task.cancel()


@pytest.mark.parametrize("replicas", [1, 3])
async def test_replicas_follow_from_one_certificate_to_the_next_together(replicas):
    world = World()
    async with world.keeping(replicas):
        await until(world.trusted, 1)

        world.pass_days(61)
        await until(world.trusted, 2)
        assert await world.shown() == [1] * replicas

        world.pass_days(0.1)
        await until(world.shown, [2] * replicas)

    first, *others = (each.shown for each in world.replicas)
    assert all(other == first for other in others)
    trusted = await bundles(world.cluster)
    assert all(pair.authority in bundle for pair in first for bundle in trusted)


async def test_who_looks_again_and_finds_all_in_line_writes_nothing():
    world = World()
    async with world.keeping(1):
        await until(world.trusted, 1)
        before = await world.versions()
        for _ in range(20):
            world.pass_days(1)
            await asyncio.sleep(0)

    assert await world.versions() == before


async def test_trust_that_somebody_takes_away_comes_back():
    world = World()
    foreign = {"name": "other.example.com", "clientConfig": {"caBundle": "", "url": "https://example.com"}}
    async with world.keeping(1):
        await until(world.trusted, 1)
        before = await bundles(world.cluster)
        hooks = (await world.cluster.get(VALIDATING, "", NAME))["webhooks"]
        changed = [{**hook, "clientConfig": {"url": "https://wrong.example.com"}} for hook in hooks]
        await world.cluster.patch(VALIDATING, "", NAME, {"webhooks": [*changed, foreign]})

        await until(lambda: bundles(world.cluster), [*before, b""])

    *ours, last = (await world.cluster.get(VALIDATING, "", NAME))["webhooks"]
    assert [hook["clientConfig"]["service"]["path"] for hook in ours] == ["/validate", "/validate"]
    assert last == foreign, "what is not ours is left alone"


async def test_a_secret_that_comes_late_is_waited_for():
    cluster = MemoryCluster((*RESOURCES, MUTATING, VALIDATING), now=lambda: NOON)
    shown: asyncio.Queue[Pair] = asyncio.Queue()
    task = asyncio.create_task(Trust(cluster, HOOKS, shown.put_nowait, lambda: NOON).run())

    await cluster.create(SECRET, {"metadata": {"name": HOOKS.secret, "namespace": SYSTEM}})
    pair = await asyncio.wait_for(shown.get(), 5)

    task.cancel()
    assert certificates.read(await cluster.get(SECRET, SYSTEM, HOOKS.secret)).current == pair


class Hasty:
    """A cluster in which somebody else is always quicker, for the first so many writes."""

    def __init__(self, cluster: MemoryCluster, times: int) -> None:
        self._cluster = cluster
        self.left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *words: Any) -> Object:
        if self.left:
            self.left -= 1
            raise Conflict("somebody was quicker")
        return await self._cluster.patch(*words)


async def test_who_is_too_late_shows_nothing_and_tries_again():
    hasty = Hasty(await installed(), 2)
    shown: asyncio.Queue[Pair] = asyncio.Queue()
    task = asyncio.create_task(Trust(hasty, HOOKS, shown.put_nowait, lambda: NOON).run())  # type: ignore[arg-type]

    pair = await asyncio.wait_for(shown.get(), 5)

    task.cancel()
    assert hasty.left == 0
    assert certificates.read(await hasty.get(SECRET, SYSTEM, HOOKS.secret)).current == pair


# Served


class Caller:
    """An API server, as far as webhooks see it: one that goes by what the configurations say."""

    def __init__(self, cluster: MemoryCluster, port: int) -> None:
        self._cluster = cluster
        self._port = port

    async def connect(self) -> Wire:
        bundle = (await bundles(self._cluster))[0].decode()
        context = ssl.create_default_context(cadata=bundle)
        return Wire(*await asyncio.open_connection("127.0.0.1", self._port, ssl=context))


async def asks(wire: Wire, line: str, body: bytes = b"") -> tuple[str, bytes]:
    wire.send(f"{line} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    status, _, answer = await wire.answer()
    return status, answer


def review_of(obj: Object) -> bytes:
    asking = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked(obj)}
    return json.dumps(asking).encode()


@asynccontextmanager
async def calling(measures: Measures) -> AsyncIterator[Caller]:
    """Serve webhooks, and yield who calls them."""
    with listener("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    webhooks = replace(HOOKS, port=port, url=f"https://127.0.0.1:{port}")
    cluster = await installed(lambda: datetime.now(UTC), webhooks)
    async with serving(cluster, webhooks, measures) as served:
        assert served.missing() == "the webhooks' certificate in Secret trainwright-system/trainwright-webhook"
        await until(lambda: _is_served(served, cluster), expected=True)
        yield Caller(cluster, port)


async def _is_served(served: Serving, cluster: MemoryCluster) -> bool:
    return not served.missing() and all(await bundles(cluster))


async def test_one_connection_carries_many_reviews():
    measures = Measures()
    async with calling(measures) as caller:
        wire = await caller.connect()
        answers = [await asks(wire, "POST /validate?timeout=5s", review_of(obj)) for obj in (STATIC, WRONG)]
        wire.close()

    assert [status for status, _ in answers] == ["200 OK", "200 OK"]
    assert [json.loads(answer)["response"]["allowed"] for _, answer in answers] == [True, False]
    assert 'trainwright_review_seconds_count{webhook="validate",result="refused"} 1' in measures.text()
    assert "trainwright_webhook_certificate_end_seconds 1" in measures.text()


@pytest.mark.parametrize(
    ("line", "body", "status", "said"),
    [
        pytest.param("POST /mutate", b"{", "400 BadRequest", "expected an AdmissionReview as JSON", id="no review"),
        pytest.param(
            "POST /x", b"", "404 NotFound", "there is no /x here (there are: /mutate, /validate)", id="no path"
        ),
        pytest.param("GET /validate", b"", "405 Method Not Allowed", "POST an AdmissionReview", id="only posts"),
    ],
)
async def test_what_is_not_asked_well_is_refused(line, body, status, said):
    async with calling(Measures()) as caller:
        wire = await caller.connect()
        answered, text = await asks(wire, line, body)
        wire.close()

    assert answered == status
    assert said in text.decode()


# Configurations


def hooks_of(webhooks: Webhooks) -> dict[str, Object]:
    return {hook["name"]: hook for each in configurations(webhooks) for hook in each["webhooks"]}


def test_every_version_of_every_kind_is_asked_about_and_nothing_else():
    hooks = hooks_of(HOOKS)
    asked_about = {
        f"{group}/{version}/{resource}"
        for rule in hooks["jobs.trainwright.dev"]["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }

    assert asked_about == {f"{version}/{kind.resource.plural}" for kind in KINDS for version in kind.api_versions}
    assert hooks["defaults.trainwright.dev"]["rules"] == hooks["jobs.trainwright.dev"]["rules"]
    assert {rule["resources"][0] for rule in hooks["commands.trainwright.dev"]["rules"]} == {"commands"}
    assert {tuple(rule["operations"]) for hook in hooks.values() for rule in hook["rules"]} == {("CREATE", "UPDATE")}


def test_what_nobody_may_wait_for_is_not_asked_about():
    for hook in hooks_of(replace(HOOKS, namespace="ours", excluded=("kube-system", "istio"))).values():
        assert hook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "istio", "ours"]
        assert hook["sideEffects"] == "None"
        assert hook["timeoutSeconds"] <= 5


@pytest.mark.parametrize(
    ("webhooks", "client", "hosts"),
    [
        pytest.param(
            HOOKS,
            {"service": {"namespace": SYSTEM, "name": "trainwright", "path": "/mutate", "port": 443}},
            ("trainwright.trainwright-system.svc",),
            id="by a Service",
        ),
        pytest.param(
            replace(HOOKS, url="https://10.0.0.7:9443/"),
            {"url": "https://10.0.0.7:9443/mutate"},
            ("10.0.0.7",),
            id="by an address",
        ),
        pytest.param(
            replace(HOOKS, url="https://[::1]:9443"), {"url": "https://[::1]:9443/mutate"}, ("::1",), id="of IPv6"
        ),
    ],
)
def test_where_an_api_server_finds_us(webhooks, client, hosts):
    assert hooks_of(webhooks)["defaults.trainwright.dev"]["clientConfig"] == client
    assert webhooks.hosts[:1] == hosts


@pytest.mark.parametrize(
    ("url", "right"),
    [
        pytest.param("https://10.0.0.7:9443", True, id="an address and a port"),
        pytest.param("https://tw.example.com/hooks", True, id="a name and a path"),
        pytest.param("http://10.0.0.7:9443", False, id="only https"),
        pytest.param("10.0.0.7:9443", False, id="https must be written"),
        pytest.param("https://me@10.0.0.7", False, id="an API server takes no user here"),
        pytest.param("https://10.0.0.7?a=b", False, id="nor a query"),
    ],
)
def test_webhook_url(url, right):
    if right:
        assert command.make_context("operator", ["--webhook-url", url]).params["webhook_url"] == url
    else:
        with pytest.raises(click.BadParameter, match=r"expected a URL such as https://10.0.0.7:9443, found"):
            command.make_context("operator", ["--webhook-url", url])
