"""Properties of the store: whatever is done to it, a watch that applies changes ends with what a list shows."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from trainwright.cluster.base import Change
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import AlreadyExists, Conflict, Expired, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, POD, Resource

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["one", "two"])
LABELS = st.sampled_from(["x", "y", ""])
RESOURCES = st.sampled_from([CONFIG_MAP, POD])
SELECTORS = st.sampled_from(["", "l=x", "l!=x", "l in (x,y)", "!l"])
FIELDS = st.sampled_from(["", "metadata.name=a", "metadata.name!=b"])


class Mirror:
    """Somebody who listed once and since then only applies what a watch says."""

    def __init__(self, store: MemoryCluster, resource: Resource, namespace: str, labels: str, fields: str) -> None:
        self.store = store
        self.scope: tuple[Any, ...] = (resource, namespace)
        self.selectors: Any = {"labels": labels, "fields": fields}
        self.objects: dict[tuple[str, str], Object] = {}
        self.version = ""
        self.watch: Any = None

    async def begin(self) -> None:
        listing = await self.store.list(*self.scope, **self.selectors)
        self.objects = {key(obj): obj for obj in listing.items}
        self.version = listing.version
        self.watch = self.store.watch(*self.scope, since=listing.version, **self.selectors)

    async def read(self, most: int) -> None:
        """Apply up to `most` changes; list again if it was too long ago."""
        for _ in range(most):
            try:
                change = await next_or_none(self.watch)
            except Expired:
                await self.begin()
                return
            if change is None:
                return
            self.apply(change)

    async def check(self) -> None:
        """Catch up, and compare with a list."""
        await self.read(10_000)
        listing = await self.store.list(*self.scope, **self.selectors)
        assert [self.objects[where] for where in sorted(self.objects)] == listing.items

    def apply(self, change: Change) -> None:
        where, version = key(change.object), change.object["metadata"]["resourceVersion"]
        assert int(version) > int(self.version), "versions grow"
        self.version = version
        assert (where in self.objects) == (change.type != "ADDED"), f"{change.type} {where}"
        if change.type == "DELETED":
            assert self.objects.pop(where)["metadata"]["uid"] == change.object["metadata"]["uid"]
        else:
            self.objects[where] = change.object


def key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


async def next_or_none(watch: Any) -> Change | None:
    """Return a change that is there already."""

    async def read() -> Change:
        change: Change = await anext(watch)
        return change

    task = asyncio.create_task(read())
    for _ in range(3):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(result, asyncio.CancelledError):
        return None
    if isinstance(result, BaseException):
        raise result
    return result


class Store(RuleBasedStateMachine):
    """Writers, deleters and watchers in any order."""

    mirrors = Bundle("mirrors")

    @initialize(history=st.sampled_from([1, 5, 1000]))
    def start(self, history: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = MemoryCluster([CONFIG_MAP, POD], now=lambda: NOON, history=history)
        self.last = 0
        self.frozen: list[tuple[Object, str]] = []
        self.all: list[Mirror] = []

    def do(self, work: Any) -> Any:
        """Run a call; what the API may refuse is fine."""
        try:
            result = self.loop.run_until_complete(work)
        except (NotFound, AlreadyExists, Conflict):
            return None
        if isinstance(result, dict):
            self.frozen.append((result, repr(result)))
        return result

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, label=LABELS, held=st.booleans(), node=LABELS)
    def create(self, resource: Resource, namespace: str, name: str, label: str, held: bool, node: str) -> None:
        meta: Object = {"name": name, "namespace": namespace, "labels": {"l": label} if label else {}}
        if held:
            meta["finalizers"] = ["example.com/hold"]
        self.do(self.store.create(resource, {"metadata": meta, "spec": {"nodeName": node}}))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, label=LABELS)
    def relabel(self, resource: Resource, namespace: str, name: str, label: str) -> None:
        self.do(self.store.patch(resource, namespace, name, {"metadata": {"labels": {"l": label or None}}}))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, value=st.integers(0, 3))
    def change(self, resource: Resource, namespace: str, name: str, value: int) -> None:
        before = self.do(self.store.get(resource, namespace, name))
        after = self.do(self.store.patch(resource, namespace, name, {"spec": {"value": value}}))
        if before and after and resource.status:
            grew = after["metadata"]["generation"] - before["metadata"]["generation"]
            assert grew == (before.get("spec") != after.get("spec"))

    @rule(namespace=NAMESPACES, name=NAMES, phase=st.sampled_from(["Running", "Failed"]))
    def report(self, namespace: str, name: str, phase: str) -> None:
        self.do(self.store.patch(POD, namespace, name, {"status": {"phase": phase}}, subresource="status"))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, grace=st.sampled_from([None, 0, 5]))
    def delete(self, resource: Resource, namespace: str, name: str, grace: int | None) -> None:
        self.do(self.store.delete(resource, namespace, name, grace=grace))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES)
    def let_go(self, resource: Resource, namespace: str, name: str) -> None:
        self.do(self.store.patch(resource, namespace, name, {"metadata": {"finalizers": None}}))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES)
    def conflict(self, resource: Resource, namespace: str, name: str) -> None:
        obj = self.do(self.store.get(resource, namespace, name))
        if obj is None:
            return
        stale = {"resourceVersion": str(int(obj["metadata"]["resourceVersion"]) - 1)}
        try:
            self.loop.run_until_complete(self.store.patch(resource, namespace, name, {"metadata": stale, "spec": {}}))
        except Conflict:
            return
        raise AssertionError("a stale version was accepted")

    @rule(
        target=mirrors,
        resource=RESOURCES,
        namespace=st.sampled_from(["", "one"]),
        labels=SELECTORS,
        fields=FIELDS,
    )
    def mirror(self, resource: Resource, namespace: str, labels: str, fields: str) -> Mirror:
        mirror = Mirror(self.store, resource, namespace, labels, fields)
        self.loop.run_until_complete(mirror.begin())
        self.all.append(mirror)
        return mirror

    @rule(mirror=mirrors, most=st.integers(1, 5))
    def read(self, mirror: Mirror, most: int) -> None:
        self.loop.run_until_complete(mirror.read(most))

    @rule(mirror=mirrors)
    def resume(self, mirror: Mirror) -> None:
        """Lose the connection: go on from the version seen last."""
        mirror.watch = self.store.watch(*mirror.scope, since=mirror.version, **mirror.selectors)

    @rule(mirror=consumes(mirrors))
    def catch_up(self, mirror: Mirror) -> None:
        self.loop.run_until_complete(mirror.check())

    @invariant()
    def versions_never_go_back(self) -> None:
        if not hasattr(self, "store"):
            return
        version = int(self.loop.run_until_complete(self.store.list(POD)).version)
        assert version >= self.last
        self.last = version

    @invariant()
    def nothing_handed_out_has_changed(self) -> None:
        for obj, text in getattr(self, "frozen", [])[-10:]:
            assert repr(obj) == text

    def teardown(self) -> None:
        for mirror in getattr(self, "all", ()):
            self.loop.run_until_complete(mirror.check())
        if hasattr(self, "loop"):
            self.loop.close()


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
