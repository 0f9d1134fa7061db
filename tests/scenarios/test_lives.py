"""Whole lives of jobs on the memory cluster, each also with the operator killed after every single call it makes."""

from dataclasses import dataclass

import pytest
from tests.reconcile.making import conditions, manifest
from tests.scenarios.world import World

from trainwright.core.objects import Object

METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
STRETCH = {"minReplicas": 1, "maxReplicas": 4}


@dataclass(frozen=True)
class Life:
    """A job, what happens to it, and how it ends."""

    says: str
    job: Object
    script: str
    ends: str
    restarts: int = 0
    version: int = 0
    pods: str = ""


LIVES = [
    Life(
        "a static job trains to its end and is cleaned up",
        manifest(master=1, workers=2, cleanPodPolicy="All"),
        """
        run master-0 worker-0 worker-1
        wait 60
        succeed worker-0
        succeed master-0
        """,
        "Created -Running Succeeded",
    ),
    Life(
        "an evicted worker is made again, twice, and the job succeeds",
        manifest(master=1, workers=2, backoffLimit=3),
        """
        run master-0 worker-0 worker-1
        evict worker-1
        run worker-1
        wait 10
        evict worker-1
        run worker-1
        succeed master-0
        """,
        "Created -Running Succeeded",
        restarts=2,
        pods="j-master-0 j-worker-0 j-worker-1",
    ),
    Life(
        "exit codes from 128 on are retried up to the limit",
        manifest(workers=2, policy="ExitCode", backoffLimit=3),
        """
        run worker-0 worker-1
        fail worker-1 137
        run worker-1
        fail worker-0 139
        run worker-0
        wait 5
        fail worker-1 137
        """,
        "Created -Running Failed",
        restarts=3,
        pods="j-worker-1",
    ),
    Life(
        "restarts in place and pods made again add up to the limit",
        manifest(workers=2, backoffLimit=4),
        """
        run worker-0 worker-1
        restart worker-0
        restart worker-1
        evict worker-1
        run worker-1
        restart worker-1 137
        """,
        "Created -Running Failed",
        restarts=4,
        pods="",
    ),
    Life(
        "under Never one failure ends the job, and what runs is cleaned up",
        manifest(master=1, workers=2, policy="Never", cleanPodPolicy="Running"),
        """
        run master-0 worker-0 worker-1
        fail worker-1 3
        """,
        "Created -Running Failed",
        pods="j-worker-1",
    ),
    Life(
        "worker 0 of an elastic job is lost in place and with its pod; all start again each time",
        manifest(workers=3, elastic=STRETCH, backoffLimit=3),
        """
        run worker-0 worker-1 worker-2
        wait 60
        restart worker-0 137
        run worker-0 worker-1 worker-2
        wait 60
        fail worker-1 1
        lose worker-0
        run worker-0 worker-1 worker-2
        succeed worker-0 worker-1 worker-2
        """,
        "Created -Running Succeeded",
        restarts=2,
        version=2,
        pods="j-worker-0 j-worker-1 j-worker-2",
    ),
    Life(
        "a survivor is seen to fail before worker 0 is",
        manifest(workers=3, policy="ExitCode", elastic=STRETCH, backoffLimit=2),
        """
        run worker-0 worker-1 worker-2
        wait 60
        fail worker-1 1
        wait 1
        fail worker-2 1
        fail worker-0 137
        run worker-0 worker-1 worker-2
        """,
        "Created Running",
        restarts=1,
        version=1,
        pods="j-worker-0 j-worker-1 j-worker-2",
    ),
    Life(
        "another worker of an elastic job fails for a reason of its own",
        manifest(workers=3, policy="ExitCode", elastic=STRETCH),
        """
        run worker-0 worker-1 worker-2
        wait 60
        fail worker-2 137
        wait 4
        wait 1
        run worker-2
        """,
        "Created Running",
        restarts=1,
        pods="j-worker-0 j-worker-1 j-worker-2",
    ),
    Life(
        "a worker whose pods fail again and again is made again later and later",
        manifest(workers=2),
        """
        run worker-0 worker-1
        fail worker-1 1
        fail worker-1 1
        fail worker-1 1
        fail worker-1 1
        wait 9
        """,
        "Created Restarting",
        restarts=4,
        pods="j-worker-0",
    ),
    Life(
        "and when its time has come it is made again",
        manifest(workers=2),
        """
        run worker-0 worker-1
        fail worker-1 1
        fail worker-1 1
        fail worker-1 1
        fail worker-1 1
        wait 10
        run worker-1
        """,
        "Created Running",
        restarts=4,
        pods="j-worker-0 j-worker-1",
    ),
    Life(
        "all wait for a worker 0 that fails again and again, for without it none can work",
        manifest(workers=2, elastic=STRETCH),
        """
        fail worker-0 1
        fail worker-0 1
        fail worker-0 1
        fail worker-0 1
        """,
        "Created Restarting",
        restarts=4,
        version=4,
    ),
    Life(
        "who resumes a job does not wait for what failed before",
        manifest(workers=1),
        """
        fail worker-0 1
        fail worker-0 1
        fail worker-0 1
        fail worker-0 1
        suspend
        resume
        run worker-0
        """,
        "Created -Suspended Running",
        restarts=4,
        pods="j-worker-0",
        version=1,
    ),
    Life(
        "an elastic job is scaled up, down and up again",
        manifest(workers=2, elastic=STRETCH),
        """
        run worker-0 worker-1
        scale 4
        run worker-2 worker-3
        scale 1
        scale 3
        run worker-1 worker-2
        """,
        "Created Running",
        pods="j-worker-0 j-worker-1 j-worker-2",
    ),
    Life(
        "a job is suspended and resumed, after a restart",
        manifest(master=1, workers=1),
        """
        run master-0 worker-0
        restart worker-0
        suspend
        wait 100
        resume
        run master-0 worker-0
        """,
        "Created -Suspended Running",
        restarts=1,
        version=1,
        pods="j-master-0 j-worker-0",
    ),
    Life(
        "a job is created suspended and then resumed",
        manifest(workers=1, suspend=True),
        """
        wait 10
        resume
        run worker-0
        """,
        "Created -Suspended Running",
        pods="j-worker-0",
    ),
    Life(
        "a job is stopped at its deadline",
        manifest(workers=2, activeDeadlineSeconds=60),
        """
        run worker-0 worker-1
        succeed worker-1
        wait 59
        wait 1
        """,
        "Created -Running Failed",
        pods="j-worker-1",
    ),
    Life(
        "a cancelled job stops what works, and what has ended stays",
        manifest(workers=2),
        """
        run worker-0 worker-1
        succeed worker-1
        cancel
        wait 60
        """,
        "Created -Running Failed",
        pods="j-worker-1",
    ),
    Life(
        "a suspended job that is cancelled does not come back",
        manifest(workers=1),
        """
        run worker-0
        suspend
        cancel
        resume
        """,
        "Created -Running Suspended Failed",
        version=1,
        pods="",
    ),
    Life(
        "an autoscaled job succeeds and its autoscaler goes",
        manifest(workers=1, elastic={**STRETCH, "metrics": [METRIC]}),
        """
        run worker-0
        succeed worker-0
        """,
        "Created -Running Succeeded",
        pods="j-worker-0",
    ),
    Life(
        "pods vanish, are deleted by hand, and come back",
        manifest(master=1, workers=2),
        """
        run master-0 worker-0 worker-1
        lose worker-1
        run worker-1
        remove worker-0
        run worker-0
        """,
        "Created Running",
        restarts=2,
        pods="j-master-0 j-worker-0 j-worker-1",
    ),
    Life(
        "workers that have succeeded are never run again",
        manifest(workers=3),
        """
        run worker-0 worker-1 worker-2
        succeed worker-0
        lose worker-0
        evict worker-1
        run worker-1
        succeed worker-1 worker-2
        """,
        "Created -Running Succeeded",
        restarts=1,
        pods="j-worker-1 j-worker-2",
    ),
]


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_life(life: Life, prunes: bool):
    world = World(life.job, prunes=prunes)

    await world.play(life.script)

    outcome = await world.outcome()
    assert conditions(outcome["status"]) == life.ends
    assert sum(outcome["restarts"].values()) == life.restarts
    assert outcome["version"] == life.version
    pods = " ".join(name for kind, name, *_ in outcome["children"] if kind == "Pod")
    assert pods == life.pods


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


async def test_a_finished_job_is_removed_when_its_time_has_come():
    job = manifest(workers=1, ttlSecondsAfterFinished=30)
    script = "run worker-0\nsucceed worker-0\nwait 29\nwait 1"

    for last in range(12):
        world = World(job, dies=lambda call, last=last: call == last)  # type: ignore[misc]
        await world.play(script)

        assert await world.outcome() == {"job": "gone"}
