"""Whole lives of Volcano Jobs on the memory cluster, each also with the operator killed after every single call."""

from dataclasses import dataclass

import pytest
from tests.reconcile.volcano import manifest
from tests.scenarios.world import World

from trainwright.api.volcano_job import COMMAND
from trainwright.core.objects import Object
from trainwright.core.resources import POD


@dataclass(frozen=True)
class Life:
    """A job, what happens to it, and how it ends."""

    says: str
    job: Object
    script: str
    phases: str
    """Every phase there was, in the order in which they were last entered."""
    retries: int = 0
    version: int = 0
    pods: str = ""


RUN = "run worker-0 worker-1\n"
LIVES = [
    Life(
        "a job runs and completes",
        manifest("worker=2"),
        RUN + "succeed worker-0\nsucceed worker-1",
        "Pending Running Completed",
        pods="worker-0 worker-1",
    ),
    Life(
        "without policies a failed pod stays, and the job fails when all have ended",
        manifest("worker=2"),
        RUN + "fail worker-0 3\nwait 60\nsucceed worker-1",
        "Pending Running Failed",
        pods="worker-0 worker-1",
    ),
    Life(
        "PodFailed restarts the job, which then completes",
        manifest("worker=2", "PodFailed:RestartJob"),
        RUN + "fail worker-0 3\n" + RUN + "succeed worker-0 worker-1",
        "Restarting Pending Running Completed",
        retries=1,
        version=1,
        pods="worker-0 worker-1",
    ),
    Life(
        "the last of maxRetry runs keeps its failed pod",
        manifest("worker=2", "PodFailed:RestartJob", maxRetry=2),
        RUN + "fail worker-0 3\n" + RUN + "fail worker-1 4",
        "Pending Running Restarting Failed",
        retries=2,
        version=2,
        pods="worker-1",
    ),
    Life(
        "a pod that failed is restarted alone",
        manifest("worker=2", "PodFailed:RestartPod"),
        RUN + "fail worker-1 3\nrun worker-1\nsucceed worker-0 worker-1",
        "Restarting Pending Running Completed",
        retries=1,
        pods="worker-0 worker-1",
    ),
    Life(
        "the last restart of a pod keeps it as it failed",
        manifest("worker=2", "PodFailed:RestartPod", maxRetry=1),
        RUN + "fail worker-1 3",
        "Pending Running Restarting Failed",
        retries=1,
        pods="worker-1",
    ),
    Life(
        "a task is restarted with its pods that had succeeded",
        manifest("ps=1 worker=2", "PodFailed:RestartTask"),
        "run ps-0\n" + RUN + "succeed worker-0\nfail worker-1 3\n" + RUN + "succeed worker-0 worker-1 ps-0",
        "Restarting Pending Running Completed",
        retries=1,
        pods="ps-0 worker-0 worker-1",
    ),
    Life(
        "a partition is restarted, its neighbours are not",
        manifest(
            "worker=4",
            "PodFailed:RestartPartition",
            task_fields={"worker": {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}},
        ),
        RUN
        + "run worker-2 worker-3\nfail worker-3 1\nrun worker-2 worker-3\nsucceed worker-0 worker-1 worker-2 worker-3",
        "Restarting Pending Running Completed",
        retries=1,
        pods="worker-0 worker-1 worker-2 worker-3",
    ),
    Life(
        "a pod that vanishes is evicted: the job is terminated",
        manifest("worker=2", "PodEvicted:TerminateJob"),
        RUN + "lose worker-1",
        "Pending Running Terminating Terminated",
        version=1,
    ),
    Life(
        "a pod that is deleted by hand is evicted: the job is aborted, and resumed without counting",
        manifest("worker=2", "PodEvicted:AbortJob", maxRetry=1),
        RUN + "remove worker-1\nwait 60\ncommand ResumeJob\n" + RUN + "succeed worker-0 worker-1",
        "Aborting Aborted Restarting Pending Running Completed",
        version=2,
        pods="worker-0 worker-1",
    ),
    Life(
        "without a policy a pod that vanishes is made again",
        manifest("worker=2"),
        RUN + "lose worker-1\nrun worker-1\nsucceed worker-0 worker-1",
        "Pending Running Completed",
        pods="worker-0 worker-1",
    ),
    Life(
        "a pod that has succeeded and vanishes is not run again",
        manifest("worker=2", "PodEvicted:RestartJob"),
        RUN + "succeed worker-0\nlose worker-0\nsucceed worker-1",
        "Pending Running Completed",
        pods="worker-1",
    ),
    Life(
        "the end of the lead task completes the job",
        manifest("master=1 worker=2", task_policies={"master": "TaskCompleted:CompleteJob"}),
        "run master-0\n" + RUN + "succeed master-0",
        "Pending Running Completing Completed",
        version=1,
        pods="master-0",
    ),
    Life(
        "container restarts up to the task's maxRetry are a failure of the task",
        manifest("worker=2", "TaskFailed:AbortJob", task_fields={"worker": {"maxRetry": 3}}),
        RUN + "restart worker-0\nrestart worker-1\nrestart worker-0",
        "Pending Running Aborting Aborted",
        version=1,
    ),
    Life(
        "an exit code calls for another action than other failures",
        manifest("worker=2", "=3:RestartPod PodFailed:AbortJob"),
        RUN + "fail worker-0 3\nrun worker-0\nfail worker-1 4",
        "Restarting Pending Running Aborting Aborted",
        retries=1,
        version=1,
        pods="worker-1",
    ),
    Life(
        "a pod that does not start in time has the job aborted",
        manifest("worker=2", "PodPending:AbortJob@60"),
        "run worker-0\nwait 59\nwait 1",
        "Pending Aborting Aborted",
        version=1,
    ),
    Life(
        "a pod that starts in time ends the wait",
        manifest("worker=2", "PodPending:AbortJob@60"),
        "run worker-0\nwait 59\nrun worker-1\nwait 10",
        "Pending Running",
        pods="worker-0 worker-1",
    ),
    Life(
        "an eviction that is not made good in time restarts the job",
        manifest("worker=2", "PodEvicted:RestartJob@600"),
        RUN + "lose worker-1\nwait 599\nwait 1\n" + RUN,
        "Restarting Pending Running",
        retries=1,
        version=1,
        pods="worker-0 worker-1",
    ),
    Life(
        "an eviction that is made good in time is forgotten",
        manifest("worker=2", "PodEvicted:RestartJob@600"),
        RUN + "lose worker-1\nwait 599\nrun worker-1\nwait 100",
        "Pending Running",
        pods="worker-0 worker-1",
    ),
    Life(
        "minSuccess completes the job while others run",
        manifest("worker=3", minSuccess=1),
        RUN + "run worker-2\nsucceed worker-1",
        "Pending Running Completed",
        pods="worker-1",
    ),
    Life(
        "a task starts when the one before it is ready, also after a restart",
        manifest("ps=1 worker=2", "PodFailed:RestartJob", after={"worker": {"name": ["ps"]}}),
        "run ps-0\n" + RUN + "fail worker-0 1\nrun ps-0\n" + RUN,
        "Restarting Pending Running",
        retries=1,
        version=1,
        pods="ps-0 worker-0 worker-1",
    ),
    Life(
        "tasks are scaled up and down, and nobody was evicted",
        manifest("worker=2", "PodEvicted:AbortJob"),
        RUN + "resize worker 4 2\nrun worker-2 worker-3\nresize worker 1 1\nresize worker 2 2\nrun worker-1",
        "Pending Running",
        pods="worker-0 worker-1",
    ),
    Life(
        "the elastic task follows elasticReplicas",
        manifest("head=1 worker=3/1", "PodEvicted:AbortJob", annotations={"trainwright.dev/elastic": "worker"}),
        "run head-0\n" + RUN + "run worker-2\nscale 1\nscale 2\nrun worker-1",
        "Pending Running",
        pods="head-0 worker-0 worker-1",
    ),
    Life(
        "a job is aborted and resumed by commands more often than maxRetry",
        manifest("worker=2", maxRetry=1),
        (RUN + "command AbortJob\nwait 5\ncommand ResumeJob\n") * 3 + RUN,
        "Aborting Aborted Restarting Pending Running",
        version=6,
        pods="worker-0 worker-1",
    ),
    Life(
        "a command restarts the job",
        manifest("worker=2"),
        RUN + "command RestartJob\n" + RUN,
        "Restarting Pending Running",
        retries=1,
        version=1,
        pods="worker-0 worker-1",
    ),
    Life(
        "a command terminates the job for good",
        manifest("worker=2"),
        RUN + "succeed worker-0\ncommand TerminateJob\ncommand ResumeJob\ncommand RestartJob",
        "Pending Running Terminating Terminated",
        version=1,
        pods="worker-0",
    ),
    Life(
        "a command completes the job",
        manifest("worker=2"),
        RUN + "command CompleteJob",
        "Pending Running Completing Completed",
        version=1,
    ),
]


async def _told(world: World) -> tuple[str, int, int, str]:
    status = (await world.outcome())["status"]
    there = (await world.cluster.list(POD)).items
    pods = " ".join(sorted(pod["metadata"]["name"].removeprefix("j-") for pod in there))
    return " ".join(each["status"] for each in status["conditions"]), status["retryCount"], status["version"], pods


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_life(life: Life, prunes: bool):
    world = World(life.job, prunes=prunes)

    await world.play(life.script)

    assert await _told(world) == (life.phases, life.retries, life.version, life.pods)
    assert (await world.cluster.list(COMMAND)).items == []


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_every_single_call(life: Life, prunes: bool):
    undisturbed = World(life.job, prunes=prunes)
    await undisturbed.play(life.script)
    expected = await undisturbed.outcome()
    assert undisturbed.calls > 3

    for last in range(1, undisturbed.calls + 1):
        world = World(life.job, prunes=prunes, dies=lambda call, last=last: call == last)  # type: ignore[misc]
        await world.play(life.script)

        assert world.deaths == 1
        assert await world.outcome() == expected, f"killed after call {last}"


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_each_call_again_and_again(life: Life, prunes: bool):
    undisturbed, world = World(life.job, prunes=prunes), World(life.job, prunes=prunes, dies=lambda call: True)

    await undisturbed.play(life.script)
    await world.play(life.script)

    assert world.deaths > 3
    assert await world.outcome() == await undisturbed.outcome()


@pytest.mark.parametrize(
    ("script", "gone"),
    [
        pytest.param("run worker-0\nsucceed worker-0\nwait 30", True, id="a completed job is removed in time"),
        pytest.param("run worker-0\nfail worker-0 1\nwait 30", True, id="so is a failed one"),
        pytest.param("run worker-0\ncommand TerminateJob\nwait 30", True, id="and a terminated one"),
        pytest.param("run worker-0\nsucceed worker-0\nwait 29", False, id="but not before"),
        pytest.param("run worker-0\ncommand AbortJob\nwait 3000", False, id="an aborted job is not finished"),
    ],
)
async def test_what_is_finished_is_removed_when_its_time_has_come(script, gone):
    for last in range(12):
        world = World(manifest("worker=1", ttlSecondsAfterFinished=30), dies=lambda call, last=last: call == last)  # type: ignore[misc]
        await world.play(script)

        assert (await world.outcome() == {"job": "gone"}) is gone
