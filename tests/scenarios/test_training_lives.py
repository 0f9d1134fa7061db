"""Whole lives of TrainingJobs on the memory cluster, each also with the operator killed after every call it makes.

What must hold above all: stages start in their order, a plain job is never run with a trainer that was lost, and at the
end nothing is left but pods that have ended.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.scenarios.world import World

from trainwright.core.names import GANG_MIN_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import EVENT, POD, SERVICE


def plain(trainers: int = 2, pservers: int = 0, **spec: Any) -> Object:
    parts: Object = {
        "trainer": {"entrypoint": "python train.py", "min-instance": trainers, "max-instance": trainers},
        **({"pserver": {"min-instance": pservers}} if pservers else {}),
    }
    metadata = {"name": "j", "namespace": "ns"}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": metadata, "spec": {**parts, **spec}}


def tolerant(fewest: int, most: int | None = None) -> Object:
    trainer = {"entrypoint": "python train.py", "min-instance": fewest, "max-instance": most or fewest}
    return plain(fault_tolerant=True, trainer=trainer)


@dataclass(frozen=True)
class Life:
    """A job, what happens to it, and how it ends."""

    says: str
    job: Object
    script: str
    ends: str
    """Its phase and reason, and which pods there are then."""


ALL_DONE = "succeeded: all trainer have succeeded!"
LIVES = [
    Life(
        "a job without servers starts its trainers at once",
        plain(2),
        "wait 1",
        "creating: waiting for trainer (0 of 2 up); trainer-0:Pending trainer-1:Pending",
    ),
    Life(
        "servers wait for the master, trainers for both",
        plain(1, pservers=2, master={}),
        "wait 600",
        "creating: waiting for master (0 of 1 up), pserver (0 of 2 up), trainer (0 of 1 up); master-0:Pending",
    ),
    Life(
        "servers start when the master is ready",
        plain(1, pservers=2, master={}),
        "run master-0",
        "creating: waiting for pserver (0 of 2 up), trainer (0 of 1 up); "
        "master-0:Running pserver-0:Pending pserver-1:Pending",
    ),
    Life(
        "trainers do not start while one server is missing",
        plain(1, pservers=2),
        "run pserver-0\nwait 600",
        "creating: waiting for pserver (1 of 2 up), trainer (0 of 1 up); pserver-0:Running pserver-1:Pending",
    ),
    Life(
        "a job runs when all that it needs is up",
        plain(1, pservers=1, master={}),
        "run master-0\nrun pserver-0\nrun trainer-0",
        "running: all pods are running; master-0:Running pserver-0:Running trainer-0:Running",
    ),
    Life(
        "a plain job succeeds when all its trainers have, and lets master and servers go",
        plain(2, pservers=1, master={}),
        "run master-0\nrun pserver-0\nrun trainer-0 trainer-1\nsucceed trainer-0\nwait 5\nsucceed trainer-1",
        f"{ALL_DONE}; trainer-0:Succeeded trainer-1:Succeeded",
    ),
    Life(
        "a plain job goes on until its last trainer has succeeded",
        plain(2),
        "run trainer-0 trainer-1\nsucceed trainer-1\nwait 600",
        "running: all pods are running; trainer-0:Running trainer-1:Succeeded",
    ),
    Life(
        "a cancelled job lets go of everything",
        plain(2, pservers=1),
        "run pserver-0\nrun trainer-0 trainer-1\ncancel\nwait 60",
        "failed: TrainingJob j was cancelled by ann.; ",
    ),
    Life(
        "a plain job fails with its first trainer, whose pod stays",
        plain(2, pservers=1),
        "run pserver-0\nrun trainer-0 trainer-1\nfail trainer-1 7",
        "failed: at least one trainer failed! j-trainer-1 exited with code 7.; trainer-1:Failed",
    ),
    Life(
        "a plain job fails when a trainer is lost with its node",
        plain(2),
        "run trainer-0 trainer-1\nlose trainer-0",
        "failed: at least one trainer failed! It was deleted, or lost with its node.; ",
    ),
    Life(
        "a plain job fails when a trainer is evicted",
        plain(2),
        "run trainer-0 trainer-1\nevict trainer-0",
        "failed: at least one trainer failed! j-trainer-0 failed (Evicted: low on memory).; trainer-0:Failed",
    ),
    Life(
        "a trainer that is deleted before it ran is made again",
        plain(2),
        "remove trainer-0\nrun trainer-0 trainer-1",
        "running: all pods are running; trainer-0:Running trainer-1:Running",
    ),
    Life(
        "a server that is lost comes back while the trainers go on",
        plain(1, pservers=1),
        "run pserver-0\nrun trainer-0\nlose pserver-0\nrun pserver-0\nsucceed trainer-0",
        f"{ALL_DONE}; trainer-0:Succeeded",
    ),
    Life(
        "a server that has done its work is not needed again",
        plain(1, pservers=1),
        "run pserver-0\nsucceed pserver-0\nrun trainer-0\nsucceed trainer-0",
        f"{ALL_DONE}; pserver-0:Succeeded trainer-0:Succeeded",
    ),
    Life(
        "a server that cannot start fails the job in the end",
        plain(1, pservers=1),
        "run pserver-0" + 7 * "\nrestart pserver-0 1",
        "failed: master and parameter servers have restarted 7 times. j-pserver-0 exited with code 1.; ",
    ),
    Life(
        "a fault-tolerant job has a master, and makes a failed trainer again",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1\nfail trainer-1 137",
        "running: waiting for trainer (1 of 2 up); master-0:Running trainer-0:Running trainer-1:Pending",
    ),
    Life(
        "a trainer that is made again finishes the work with the others",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1\nfail trainer-1 137\nrun trainer-1\nsucceed trainer-0 trainer-1",
        "succeeded: Success!; trainer-0:Succeeded trainer-1:Succeeded",
    ),
    Life(
        "a lost trainer of a fault-tolerant job is made again",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1\nlose trainer-0\nrun trainer-0",
        "running: all pods are running; master-0:Running trainer-0:Running trainer-1:Running",
    ),
    Life(
        "a fault-tolerant job goes on while somebody works",
        tolerant(3),
        "run master-0\nrun trainer-0 trainer-1 trainer-2\nsucceed trainer-0\nfail trainer-1 1\nwait 600",
        "running: waiting for trainer (2 of 3 up); master-0:Running trainer-0:Succeeded trainer-1:Failed "
        "trainer-2:Running",
    ),
    Life(
        "a fault-tolerant job has succeeded when one trainer has and nobody works any more",
        tolerant(3),
        "run master-0\nrun trainer-0 trainer-1 trainer-2\nsucceed trainer-0\nfail trainer-1 1\nfail trainer-2 1",
        "succeeded: Success!; trainer-0:Succeeded trainer-1:Failed trainer-2:Failed",
    ),
    Life(
        "a fault-tolerant job fails when all trainers have failed and none runs again",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1\nfail trainer-0 1\nfail trainer-1 3",
        "failed: all trainer have failed! j-trainer-1 exited with code 3.; trainer-1:Failed",
    ),
    Life(
        "a single trainer is a fault-tolerant job's only chance",
        tolerant(1),
        "run master-0\nrun trainer-0\nfail trainer-0 1",
        "failed: all trainer have failed! j-trainer-0 exited with code 1.; trainer-0:Failed",
    ),
    Life(
        "a fault-tolerant job grows and shrinks, the highest index first",
        tolerant(1, 4),
        "run master-0\nrun trainer-0\nscale 4\nrun trainer-1 trainer-2 trainer-3\nscale 2",
        "running: all pods are running; master-0:Running trainer-0:Running trainer-1:Running",
    ),
    Life(
        "a job that was made smaller fails when the trainers that are left have",
        tolerant(1, 3),
        "run master-0\nrun trainer-0\nscale 3\nrun trainer-1 trainer-2\nscale 1\nfail trainer-0 1",
        "failed: all trainer have failed! j-trainer-0 exited with code 1.; trainer-0:Failed",
    ),
    Life(
        "a job that is made smaller does not forget that a trainer has succeeded",
        tolerant(1, 3),
        "run master-0\nrun trainer-0\nscale 3\nrun trainer-1 trainer-2\nsucceed trainer-2\nscale 1\nfail trainer-0 1",
        "succeeded: Success!; trainer-0:Failed",
    ),
    Life(
        "a job that has ended stays ended",
        plain(1, pservers=1),
        "run pserver-0\nrun trainer-0\nsucceed trainer-0\nlose trainer-0\nwait 600",
        f"{ALL_DONE}; ",
    ),
]

OF_MANY_DAYS = [
    Life(
        "losses do not count as failures, however many there are",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1" + 12 * "\nlose trainer-0\nrun trainer-0",
        "running: all pods are running; master-0:Running trainer-0:Running trainer-1:Running",
    ),
    Life(
        "trainers that keep failing in turn fail the job in the end",
        tolerant(2),
        "run master-0\nrun trainer-0 trainer-1"
        + 8 * "\nfail trainer-0 1\nwait 300\nrun trainer-0"
        + "\nfail trainer-0 1",
        "failed: trainers have failed 9 times. j-trainer-0 exited with code 1.; trainer-0:Failed",
    ),
]
"""Too long to be killed after every call: what happens in them happens in the others too, once."""


async def ends(world: World) -> str:
    status = (await world.outcome())["status"]
    pods = {
        pod["metadata"]["name"]: pod["status"].get("phase", "Pending") for pod in (await world.cluster.list(POD)).items
    }
    there = " ".join(f"{name.removeprefix('j-')}:{phase}" for name, phase in sorted(pods.items()))
    services = len((await world.cluster.list(SERVICE)).items)
    assert services == (0 if status["phase"] in ("succeeded", "failed") else 1)
    return f"{status['phase']}: {status['reason']}; {there}"


@pytest.mark.parametrize("life", [*LIVES, *OF_MANY_DAYS], ids=lambda life: life.says)
async def test_life(life, prunes):
    world = World(life.job, prunes=prunes)

    await world.play(life.script)

    assert await ends(world) == life.ends


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_every_call_it_comes_to_the_same_end(life, prunes):
    undisturbed = World(life.job, prunes=prunes)
    await undisturbed.play(life.script)
    wanted = await undisturbed.outcome()
    for last in range(1, undisturbed.calls + 1):
        killed = World(life.job, prunes=prunes, dies=lambda call, last=last: call == last)  # type: ignore[misc]

        await killed.play(life.script)

        assert await ends(killed) == life.ends, f"killed after call {last}"
        assert await killed.outcome() == wanted, f"killed after call {last}"


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_each_call_again_and_again(life, prunes):
    undisturbed, world = World(life.job, prunes=prunes), World(life.job, prunes=prunes, dies=lambda call: True)

    await undisturbed.play(life.script)
    await world.play(life.script)

    assert await world.outcome() == await undisturbed.outcome()


async def test_each_stage_is_a_gang_of_what_can_be_there_together():
    world = World(plain(2, pservers=2, master={}))

    await world.play("run master-0\nrun pserver-0 pserver-1")

    pods = (await world.cluster.list(POD)).items
    gangs = {pod["metadata"]["name"]: pod["metadata"]["annotations"][GANG_MIN_ANNOTATION] for pod in pods}
    assert gangs == {"j-master-0": "1", "j-pserver-0": "3", "j-pserver-1": "3", "j-trainer-0": "5", "j-trainer-1": "5"}


async def test_status_is_spelled_as_its_users_know_it():
    trainer = {"entrypoint": "python train.py", "min-instance": 2, "max-instance": 6}
    world = World(plain(pservers=1, trainer=trainer))

    await world.play("run pserver-0\nrun trainer-0")

    status = (await world.outcome())["status"]
    why = "2 trainers are started and never 6: only a fault-tolerant job can lose and gain trainers"
    assert status == {
        "phase": "creating",
        "reason": "waiting for trainer (1 of 2 up)",
        "replica_statuses": [
            {"training_resource_type": "PSERVER", "state": "running", "resource_states": {"running": 1}},
            {
                "training_resource_type": "TRAINER",
                "state": "starting",
                "resource_states": {"running": 1, "starting": 1},
            },
        ],
        "scale_status": {
            "elastic": False,
            "min_instance": 2,
            "max_instance": 6,
            "wanted": 2,
            "running": 1,
            "reason": why,
        },
        "startTime": "2026-03-01T12:00:00Z",
        "elasticReplicas": 1,
        "elasticSelector": "paddle-job=j",
    }
    told = [event["message"] for event in (await world.cluster.list(EVENT)).items]
    assert f"TrainingJob j is created. {why}." in told


async def test_every_change_of_the_size_is_recorded():
    world = World(tolerant(1, 4))

    await world.play("run master-0\nrun trainer-0\nscale 4\nwait 60\nscale 2")

    records = (await world.outcome())["status"]["scale_records"]["ScaleRecords"]
    assert [(each["scaleTimestamp"], each["additional"]) for each in records] == [
        ("2026-03-01T12:00:00Z", 3),
        ("2026-03-01T12:01:00Z", -2),
    ]
