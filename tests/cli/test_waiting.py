"""Waiting for a job whose home ends meanwhile."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.reconcile.making import manifest

from trainwright.cli.homes import Home
from trainwright.cli.waiting import until
from trainwright.cluster.journal import JOURNAL, Journal
from trainwright.cluster.kubernetes import Unreachable
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import HomeError
from trainwright.core.objects import Object
from trainwright.kinds import PYTORCH_JOB

JOBS = PYTORCH_JOB.resource


class Gone:
    """A cluster that no longer answers."""

    async def get(self, *_: Any) -> Object:
        raise Unreachable("nobody is there")


def fail(sentence: str) -> None:
    raise AssertionError(sentence)


@pytest.fixture
async def job(tmp_path: Path) -> Object:
    """Keep the end of a job as a run does, and return the job."""
    with Journal.open(tmp_path / JOURNAL, on_error=fail) as journal:
        cluster = MemoryCluster([JOBS], now=lambda: datetime.now(UTC), journal=journal)
        await cluster.create(JOBS, manifest(workers=1))
        return await cluster.patch(JOBS, "ns", "j", {"status": {"active": "0/1"}}, subresource="status")


@pytest.fixture
def wait(tmp_path: Path, job: Object) -> Callable[[Any], Awaitable[Object | None]]:
    """Return what waits in a home of that kind for the end of the job."""

    async def waits(kind: Any) -> Object | None:
        home = Home(Gone(), "the home", "ns", kind, tmp_path)  # type: ignore[arg-type]
        return await until(home, JOBS, job, lambda now: bool(now and now.get("status")), 5, "it has not ended")

    return waits


async def test_a_run_that_is_over_before_it_is_asked_tells_its_end_by_what_was_kept(wait):
    ended = await wait("run")

    assert ended["status"] == {"active": "0/1"}


async def test_a_server_that_has_stopped_is_said_to_have(wait):
    with pytest.raises(HomeError, match="the home has stopped"):
        await wait("serve")


async def test_a_cluster_that_does_not_answer_is_no_end(wait):
    with pytest.raises(Unreachable):
        await wait("cluster")
