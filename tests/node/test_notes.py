"""A kubelet that was killed is followed by one that knows what had begun and how it ended, and begins nothing twice."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.node.world import ended, new_cluster, pod, state, world

from trainwright.core.errors import NotStored
from trainwright.core.objects import Object
from trainwright.core.resources import POD
from trainwright.node import notes
from trainwright.node.base import Exit

LOST = "ContainerStatusUnknown"


def write_note(folder: Path, run: int, text: str) -> None:
    note = notes.begin(folder, "main", run)
    os.pwrite(note, text.encode(), 0)
    os.close(note)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", None, id="a run whose end nobody saw"),
        pytest.param("code 0\n", Exit(0), id="a good end"),
        pytest.param("code 3\n", Exit(3), id="a bad end"),
        pytest.param("signal 9\n", Exit(137, 9), id="an end by a signal"),
        pytest.param("co", None, id="half a line says nothing"),
    ],
)
def test_the_last_note_counts(tmp_path: Path, text: str, found: Exit | None):
    for run in (0, 9, 10):
        write_note(tmp_path, run, "code 1\n" if run < 10 else text)

    note = notes.last(tmp_path, "main")

    assert note
    assert (note.run, note.ended) == (10, found)
    assert notes.last(tmp_path, "other") is None


class Disk:
    """Stands for the store's: full until there is room."""

    def __init__(self) -> None:
        self.room = asyncio.Event()

    async def durable(self) -> None:
        if not self.room.is_set():
            raise NotStored("the disk is full")


async def test_nothing_begins_before_it_is_on_disk(tmp_path):
    disk = Disk()
    async with world(tmp_path, "net", durable=disk.durable) as here:
        await here.cluster.create(POD, pod(script="echo ran"))
        await here.told("p", "NotStored")
        waits = await here.until("p", lambda seen: "the disk is full" in str(seen["status"]))
        assert "waiting" in state(waits)["state"]
        assert not list((tmp_path / "pods").glob("*/runs/main/*"))

        disk.room.set()

        assert (await here.phase("p", "Succeeded", "Failed"))["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("isolation", ["net", "ports"])
async def test_how_a_process_ended_stays_noted_until_that_is_on_disk(tmp_path, isolation):
    disk = Disk()
    disk.room.set()
    async with world(tmp_path, isolation, durable=disk.durable) as here:
        await here.cluster.create(POD, pod(script="sleep 0.2; exit 3"))
        begun = await here.phase("p", "Running")
        folder = tmp_path / "pods" / begun["metadata"]["uid"]
        disk.room.clear()
        await here.phase("p", "Failed")
        note = notes.last(folder, "main")
    assert note
    assert note.ended == Exit(3)


BEFORE: Object = {"phase": "Pending", "podIP": "10.77.1.1", "startTime": "2024-01-01T00:00:00Z"}
RUNNING = {"name": "main", "image": "", "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}, "restartCount": 0}


@pytest.mark.parametrize(
    ("policy", "status", "noted", "phase", "restarts", "reason", "ran"),
    [
        pytest.param("Never", {}, {}, "Succeeded", 0, "Completed", 1, id="what never began begins"),
        pytest.param("Never", {}, {0: ""}, "Failed", 0, LOST, 0, id="what had begun does not begin again"),
        pytest.param("Never", {}, {0: "code 0\n"}, "Succeeded", 0, "Completed", 0, id="what had ended well is done"),
        pytest.param("Never", {}, {0: "code 3\n"}, "Failed", 0, "Error", 0, id="what had failed has failed"),
        pytest.param("OnFailure", {}, {0: "code 0\n"}, "Succeeded", 0, "Completed", 0, id="done is done"),
        pytest.param("OnFailure", {}, {0: ""}, "Succeeded", 1, "Completed", 1, id="what was lost runs again if it may"),
        pytest.param("OnFailure", {}, {0: "code 1\n", 1: "code 0\n"}, "Succeeded", 1, "Completed", 0, id="second run"),
        pytest.param("Never", RUNNING, {0: "code 0\n"}, "Succeeded", 0, "Completed", 0, id="an end not written yet"),
        pytest.param("Never", RUNNING, {}, "Failed", 0, LOST, 0, id="a run whose note is gone was lost"),
    ],
)
async def test_after_a_kill(tmp_path, policy, status, noted, phase, restarts, reason, ran):
    cluster = new_cluster()
    made = await cluster.create(POD, pod(script="echo ran", restartPolicy=policy))
    seen = {**BEFORE, **({"containerStatuses": [status]} if status else {})}
    await cluster.patch(POD, "ns", "p", {"status": seen}, subresource="status")
    for run, text in noted.items():
        write_note(tmp_path / "pods" / made["metadata"]["uid"], run, text)

    async with world(tmp_path, "net", cluster) as here:
        done = await here.phase("p", "Succeeded", "Failed")

    assert done["status"]["phase"] == phase
    assert (state(done)["restartCount"], ended(done)["reason"]) == (restarts, reason)
    logs = "".join(file.read_text() for file in tmp_path.glob("logs/ns/*/main/*.log"))
    assert logs.count("ran") == ran


async def test_after_the_machine_has_started_anew_what_may_have_begun_counts_as_lost(tmp_path):
    cluster = new_cluster()
    for name, status in (("begun", BEFORE), ("bound", {"phase": "Pending"})):
        await cluster.create(POD, pod(name, script="echo ran"))
        await cluster.patch(POD, "ns", name, {"status": status}, subresource="status")

    async with world(tmp_path, "net", cluster, rebooted=True) as here:
        assert ended(await here.phase("begun", "Succeeded", "Failed"))["reason"] == LOST
        assert (await here.phase("bound", "Succeeded", "Failed"))["status"]["phase"] == "Succeeded"


async def test_evicted_pods_are_ended_and_gone(tmp_path):
    async with world(tmp_path, "net") as here:
        await here.cluster.create(POD, pod(script="trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait"))
        await here.cluster.create(POD, pod("done"))
        await here.says("p", "up")
        await here.phase("done", "Succeeded")
        await here.kubelet.evict(10)
        left = [each["metadata"]["name"] for each in (await here.cluster.list(POD)).items]
        assert left == ["done"]
        assert "bye" in await here.log("p")


async def test_an_eviction_does_not_wait_for_those_who_hold_the_object(tmp_path):
    async with world(tmp_path, "net") as here:
        held = pod(script="sleep 60", meta={"finalizers": ["example.com/counts-pods"]})
        await here.cluster.create(POD, held)
        await here.phase("p", "Running")
        async with asyncio.timeout(10):
            await here.kubelet.evict(1)
        left = await here.cluster.get(POD, "ns", "p")
        assert (left["status"]["phase"], left["metadata"]["deletionGracePeriodSeconds"]) == ("Failed", 0)
