"""What a server forgets, and what it keeps."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.faces import RESOURCES
from trainwright.cluster.base import Listing
from trainwright.cluster.beside import beside
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import NotStored
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import EVENT, POD, SERVICE
from trainwright.kinds import KINDS
from trainwright.server.retention import Keep, Retention

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
JOBS = next(kind.resource for kind in KINDS if kind.name == "PyTorchJob")
ENDED = {"conditions": [{"type": "Succeeded", "status": "True"}]}


class World:
    """A cluster with jobs that were made one minute after the other."""

    def __init__(self, root: Path) -> None:
        self.now = NOON
        self.root = root
        self.cluster = MemoryCluster(RESOURCES, now=lambda: self.now)

    async def job(self, name: str, *, ended: bool = True) -> None:
        self.now += timedelta(minutes=1)
        meta = {"name": name, "namespace": "default"}
        await self.cluster.create(JOBS, {"metadata": meta, "spec": {}})
        if ended:
            await self.cluster.patch(JOBS, "default", name, {"status": ENDED}, subresource="status")
        child: Object = {"metadata": {**meta, "labels": {JOB_LABEL: name}}, "spec": {}}
        await self.cluster.create(SERVICE, child)
        pod = await self.cluster.create(POD, child)
        phase = "Succeeded" if ended else "Running"
        await self.cluster.patch(POD, "default", name, {"status": {"phase": phase}}, subresource="status")
        log = self.root / "logs" / "default" / f"{name}_{pod['metadata']['uid']}"
        log.mkdir(parents=True)

    async def names(self) -> dict[str, list[str]]:
        found = {row.plural: (await self.cluster.list(row)).items for row in (JOBS, POD, SERVICE)}
        return {plural: [obj["metadata"]["name"] for obj in objects] for plural, objects in found.items()}

    def logs(self) -> list[str]:
        return sorted(folder.name.partition("_")[0] for folder in self.root.glob("logs/*/*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Failing:
    """A cluster that cannot be asked the first times."""

    def __init__(self, cluster: MemoryCluster, failures: Iterable[Exception]) -> None:
        self._cluster = cluster
        self._failures = iter(failures)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def list(self, *args: Any, **kwargs: Any) -> Listing:
        for failure in self._failures:
            raise failure
        return await self._cluster.list(*args, **kwargs)


async def test_what_could_not_be_forgotten_is_forgotten_the_next_time(world: World, caplog: pytest.LogCaptureFixture):
    await world.job("a")
    version = (await world.cluster.list(JOBS)).version
    failing: Any = Failing(world.cluster, [NotStored("the disk is full"), FileNotFoundError("a folder is gone")])
    retention = Retention(failing, world.root, Keep(finished=0), lambda: world.now)

    async with asyncio.timeout(10), beside(retention.run(every=0)):
        await anext(world.cluster.watch(JOBS, since=version))

    assert (await world.names())["pytorchjobs"] == []
    assert ["the disk is full" in caplog.text, "a folder is gone" in caplog.text] == [True, True]


async def test_the_newest_finished_jobs_stay_whole_and_the_next_ones_alone(world: World):
    await world.job("old-but-running", ended=False)
    for name in ("a", "b", "c", "d"):
        await world.job(name)

    await Retention(world.cluster, world.root, Keep(finished=3, whole=1), lambda: world.now).forget()

    assert await world.names() == {
        "pytorchjobs": ["b", "c", "d", "old-but-running"],
        "pods": ["d", "old-but-running"],
        "services": ["d", "old-but-running"],
    }
    assert world.logs() == ["d", "old-but-running"]


async def test_events_go_after_an_hour_or_when_there_are_too_many(world: World):
    for minute in range(0, 120, 10):
        when = timestamp(NOON + timedelta(minutes=minute))
        event = {"metadata": {"name": f"e-{minute}", "namespace": "default"}, "lastTimestamp": when}
        await world.cluster.create(EVENT, event)
    world.now = NOON + timedelta(minutes=120)

    await Retention(world.cluster, world.root, Keep(events=4), lambda: world.now).forget()

    left = [event["metadata"]["name"] for event in (await world.cluster.list(EVENT)).items]
    assert sorted(left) == ["e-100", "e-110", "e-80", "e-90"]
