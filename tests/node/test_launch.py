"""The agent in a launcher's pod starts commands in other pods of the local home, and ends them."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.node.launching import ALL_REDUCE, launcher, prepare
from tests.node.world import ASLEEP, ENVIRONMENT, PATIENCE, World, ended, pod, sleepers, world

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.resources import BUILT_IN, POD, SUPPORTING
from trainwright.node.isolation import try_net

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not try_net().works, reason="this machine allows no namespaces"),
]
KUBEXEC = "/etc/mpi/kubexec.sh"
RUNS = int(os.environ.get("MPI_RUNS", "2"))


@asynccontextmanager
async def launching(root: Path, *, workers: int = 2, **given: str) -> AsyncIterator[World]:
    """Yield a node with the workers of a job."""
    cluster = MemoryCluster((*BUILT_IN, *SUPPORTING), now=lambda: datetime.now(UTC))
    environment = {**ENVIRONMENT, "HOME": str(root), "TMPDIR": "/dev/shm", **given}
    async with world(root, "net", cluster, answers_pods=True, environment=environment) as here:
        await prepare(here, workers)
        yield here


@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        pytest.param(f"{KUBEXEC} job-worker-0 hostname", 0, "job-worker-0\n", id="a host is a pod's name"),
        pytest.param(f"{KUBEXEC} job-worker-1.job.ns.svc hostname", 0, "job-worker-1\n", id="its domain is cut off"),
        pytest.param(f"{KUBEXEC} -x -o A=b job-worker-0 hostname", 0, "job-worker-0\n", id="options come first"),
        pytest.param(f"{KUBEXEC} job-worker-0 'exit 7'", 7, "", id="the exit code is the command's"),
        pytest.param(f"{KUBEXEC} job-worker-0 'exit 1'", 1, "", id="also the one that kubectl uses"),
        pytest.param(
            f"{KUBEXEC} job-worker-0 'kill -9 $$$$' 2>/dev/null", 137, "", id="a signal is 128 more than its number"
        ),
        pytest.param(f"{KUBEXEC} job-worker-0 ' echo' a '\"b  c\"' ';echo' d", 0, "a b  c\nd\n", id="words are joined"),
        pytest.param(f"echo in | {KUBEXEC} job-worker-0 cat", 0, "in\n", id="input is carried, to its end"),
        pytest.param(f"{KUBEXEC} job-worker-0 'echo no >&2' 2>/dev/null", 0, "", id="errors are not output"),
        pytest.param(f"{KUBEXEC} job-launcher hostname", 0, "job-launcher\n", id="the launcher is a host like others"),
        pytest.param(
            f"for i in 0 1 0 1; do {KUBEXEC} job-worker-$i hostname & done | sort; wait",
            0,
            "job-worker-0\n" * 2 + "job-worker-1\n" * 2,
            id="several at once",
        ),
    ],
)
async def test_the_agent_runs_a_command_in_a_pod(tmp_path, script, code, printed):
    async with launching(tmp_path) as here:
        done = await here.run(launcher(script))

        assert (ended(done)["exitCode"], await here.log("job-launcher", "main")) == (code, printed)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        pytest.param("job-worker-9", "is forbidden", id="a pod that is not of the job"),
        pytest.param("stranger", 'cannot get resource "pods"', id="a pod that runs, but is not of the job"),
        pytest.param("job-worker-1", "pod job-worker-1 is not running but Succeeded", id="a pod that has ended"),
    ],
)
async def test_a_pod_that_cannot_be_reached_is_said_at_once(tmp_path, host, words):
    async with launching(tmp_path) as here:
        await here.cluster.create(POD, pod("stranger", "sleep 1000"))
        await here.phase("stranger", "Running")
        await here.cluster.delete(POD, "ns", "job-worker-1", grace=0)
        await here.gone("job-worker-1")
        await here.run(pod("job-worker-1"))

        done = await here.run(launcher(f"{KUBEXEC} {host} hostname"))

        assert ended(done)["exitCode"] == 255
        assert words in await here.log("job-launcher", "main")


async def test_a_pod_without_an_account_has_nobody_to_ask(tmp_path):
    async with launching(tmp_path) as here:
        done = await here.run(launcher(f"{KUBEXEC} job-worker-0 hostname", account=""))

        assert ended(done)["exitCode"] == 255
        assert "only pods with a service account may ask" in await here.log("job-launcher", "main")


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param("kill -9 $agent", id="the agent is killed"),
        pytest.param("kill $agent", id="the agent is asked to end"),
        pytest.param("kill -9 $(pgrep -f 'kubectl.py exec')", id="kubectl is killed"),
        pytest.param("kill -9 $$$$", id="the launcher is killed"),
    ],
)
async def test_nothing_is_left_when_the_agent_is_cut_off(tmp_path, kill):
    asleep = f"setsid sleep {ASLEEP} & sh -c 'sleep {ASLEEP}; true' & sleep {ASLEEP}"
    async with launching(tmp_path) as here:
        begin = f'{KUBEXEC} job-worker-0 "{asleep}" & agent=$!; while [ ! -e go ]; do sleep 0.05; done'
        await here.cluster.create(POD, launcher(f"{begin}; {kill}; sleep 1000"))
        await until(lambda: sleepers() == 3)

        (tmp_path / "go").touch()

        await until(lambda: sleepers() == 0)
        assert (await here.cluster.get(POD, "ns", "job-worker-0"))["status"]["phase"] == "Running"


async def test_a_worker_that_is_killed_ends_its_agent(tmp_path):
    async with launching(tmp_path) as here:
        await here.cluster.create(POD, launcher(f"{KUBEXEC} job-worker-0 sleep {ASLEEP}"))
        await until(lambda: sleepers() == 1)

        await here.cluster.delete(POD, "ns", "job-worker-0", grace=0)

        done = await here.phase("job-launcher", "Failed")
        assert ended(done)["exitCode"] == 137
        assert sleepers() == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mpi", ["openmpi5", "openmpi4", "mpich"])
async def test_mpirun_starts_every_rank_on_its_host(tmp_path, framework, mpi):
    python = framework(mpi)
    (tmp_path / "rank.py").write_text(ALL_REDUCE)
    async with launching(tmp_path, workers=3, **installed(python)) as here:
        for run in range(RUNS):
            script = f"mpirun {python} {tmp_path}/rank.py"
            done = await here.run(launcher(script, f"launcher-{run}"))

            log = await here.log(f"launcher-{run}", "main")
            assert ended(done)["exitCode"] == 0, log
            ranks = re.findall(r"rank=(\d) of=6 host=([a-z0-9-]+) sum=21;", log)
            assert sorted(int(rank) for rank, _ in ranks) == [*range(6)], log
            assert Counter(host for _, host in ranks) == {f"job-worker-{index}": 2 for index in range(3)}


def installed(python: Path) -> dict[str, str]:
    """Return what an image would bring: the way to an MPI, and that it lies elsewhere than where it was built."""
    return {"PATH": f"{python.parent}:{ENVIRONMENT['PATH']}", "OPAL_PREFIX": str(python.parent.parent)}


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():  # noqa: ASYNC110 - processes are looked for, nobody tells
            await asyncio.sleep(0.02)
