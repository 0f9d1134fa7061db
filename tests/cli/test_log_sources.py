"""Where lines come from: files and the API, through restarts, and over streams that break."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from trainwright.cli.log_sources import Asked, from_api, from_files, learn
from trainwright.core.errors import BadRequest, ClusterError
from trainwright.core.objects import Object
from trainwright.node.logs import Growth, log_path

RUNNING: Object = {"running": {}}
CRASHED: Object = {"terminated": {"exitCode": 1}}


def pod(state: Object, *, restarts: int = 0, last: Object | None = None, phase="Running", policy="OnFailure") -> Object:
    status = {"name": "main", "restartCount": restarts, "state": state, "lastState": last or {}}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


@pytest.mark.parametrize(
    ("seen", "begun", "over", "ended"),
    [
        pytest.param({"metadata": {}, "status": {}}, -1, -1, False, id="a pod that has not begun"),
        pytest.param(pod({"waiting": {"reason": "ContainerCreating"}}, phase="Pending"), -1, -1, False, id="starting"),
        pytest.param(pod(RUNNING), 0, -1, False, id="running"),
        pytest.param(pod(CRASHED), 0, 0, False, id="crashed, and to be started again"),
        pytest.param(pod(CRASHED, policy="Never"), 0, 0, True, id="crashed, and may run once only"),
        pytest.param(pod({"waiting": {}}, last=CRASHED), 0, 0, False, id="waiting to be started again"),
        pytest.param(pod(RUNNING, restarts=2, last=CRASHED), 2, 1, False, id="running again"),
        pytest.param(pod(CRASHED, phase="Failed"), 0, 0, True, id="a pod that has ended"),
    ],
)
def test_what_a_pod_tells_of_its_runs(seen, begun, over, ended):
    growth = Growth()
    learn(growth, seen, "main")

    assert (growth.begun, growth.over, growth.ended) == (begun, over, ended)


def test_a_pod_that_has_gone_has_ended():
    growth = Growth()
    learn(growth, pod(RUNNING), "main", gone=True)

    assert growth.ended


async def text(pieces: AsyncIterator[bytes]) -> list[str]:
    """Return lines without their times."""
    said = b"".join([piece async for piece in pieces]).decode()
    assert said == "" or said.endswith("\n")
    return [line.partition(" ")[2] for line in said.splitlines()]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        pytest.param(Asked(), ["a", "b", "c", "d"], id="every run, each line whole"),
        pytest.param(Asked(previous=True), ["a", "b"], id="the run before the last"),
        pytest.param(Asked(tail=1), ["d"], id="the last line"),
        pytest.param(Asked(follow=True), ["a", "b", "c", "d"], id="followed to the end"),
        pytest.param(Asked(follow=True, tail=1), ["d"], id="followed from the last line"),
    ],
)
async def test_files(tmp_path, asked, lines):
    for run, said in enumerate(("a\nb", "c\nd\n")):
        path = log_path(tmp_path, "main", run)
        path.parent.mkdir(exist_ok=True)
        path.write_text(said)
    growth = Growth()
    learn(growth, pod(CRASHED, restarts=1, phase="Failed"), "main")

    assert await text(from_files(tmp_path, "main", growth, asked)) == lines


class Api:
    """An API whose streams break off after so many lines."""

    def __init__(self, *runs: list[str], breaks: int = 1000) -> None:
        self.runs = [[f"2026-01-31T12:00:{line[:2]}Z {line[3:]}\n" for line in run] for run in runs]
        self.breaks = breaks
        self.asked = 0

    async def logs(
        self, namespace, pod, *, container, follow, previous, tail, since, timestamps
    ) -> AsyncIterator[bytes]:
        self.asked += 1
        if previous and len(self.runs) < 2:
            raise BadRequest("previous terminated container not found")
        found = self.runs[-2 if previous else -1]
        if since:
            found = [line for line in found if line >= since.strftime("%Y-%m-%dT%H:%M:%S")]
        for line in found[-tail:][: self.breaks] if tail is not None else found[: self.breaks]:
            yield line.encode()
        if len(found) > self.breaks:
            raise ClusterError("the log broke off")


PAUSE = 0.002


@pytest.mark.parametrize(
    ("api", "restarts", "asked", "lines"),
    [
        pytest.param(Api(["01 a", "02 b"]), 0, Asked(), ["a", "b"], id="a run"),
        pytest.param(Api(["01 a"], ["02 b"]), 1, Asked(), ["a", "b"], id="the run before it, too"),
        pytest.param(Api(["02 b"]), 1, Asked(), ["b"], id="unless it is no more"),
        pytest.param(Api(["01 a"], ["02 b"]), 1, Asked(previous=True), ["a"], id="only the run before"),
        pytest.param(Api(["01 a", "02 b"]), 0, Asked(tail=1), ["b"], id="the last line"),
        pytest.param(Api(["01 a", "02 b"]), 0, Asked(follow=True), ["a", "b"], id="followed to its end"),
    ],
)
async def test_the_api(api, restarts, asked, lines):
    growth = Growth()
    seen = pod(CRASHED, restarts=restarts, phase="Failed")
    learn(growth, seen, "main")

    assert await text(from_api(api, seen, "main", growth, asked, PAUSE)) == lines


async def test_a_stream_that_breaks_is_taken_up_where_it_was():
    api: Any = Api(["01 a", "01 b", "01 c", "02 d", "03 e", "03 f"], breaks=4)
    growth = Growth()
    learn(growth, pod(RUNNING), "main")
    pieces = from_api(api, pod(RUNNING), "main", growth, Asked(follow=True), PAUSE)

    told: list[str] = []
    async for piece in pieces:
        told += [line.partition(" ")[2] for line in piece.decode().splitlines()]
        if told[-1] == "f":
            learn(growth, pod(CRASHED, phase="Failed"), "main")

    assert told == ["a", "b", "c", "d", "e", "f"]
    assert api.asked > 1


async def test_the_run_after_a_restart_is_followed_too():
    api: Any = Api(["01 a"])
    growth = Growth()
    learn(growth, pod(RUNNING), "main")
    pieces = from_api(api, pod(RUNNING), "main", growth, Asked(follow=True), PAUSE)
    first = await anext(pieces)
    api.runs.append(["2026-01-31T12:00:05Z b\n"])
    learn(growth, pod(RUNNING, restarts=1, last=CRASHED), "main")
    second = await anext(pieces)
    learn(growth, pod(CRASHED, restarts=1, phase="Failed"), "main")

    assert (first[-2:], second[-2:]) == (b"a\n", b"b\n")
    async with asyncio.timeout(5):
        assert [piece async for piece in pieces] == []
