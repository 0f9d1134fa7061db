"""Lives of jobs on a real API server, with the operator killed right after one of the calls it makes.

Another operator takes over, and everything must end as if nothing had happened: the same objects, the same status and
counts, nothing made twice. By default some calls of each life are tried; with TRAINWRIGHT_SOAK=1 every single one, and
each both ways: with the server's answer heard, and with the answer lost.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.desired.jobs import mpi_job, training_job
from tests.kube.crashing import SOAK, Life, ends_alike, live
from tests.kube.cutting_proxy import Answer, Done
from tests.kube.running import Kubectl, account, install, refused
from tests.reconcile import volcano
from tests.reconcile.making import manifest
from tools.kube import ControlPlane

from trainwright.core.objects import Object

STRETCH = {"minReplicas": 1, "maxReplicas": 4}

pytestmark = [pytest.mark.e2e, pytest.mark.fault, pytest.mark.timeout(3600 if SOAK else 180)]


def tolerant(trainers: int) -> Object:
    """Return a fault-tolerant TrainingJob with a parameter server."""
    job = training_job(trainers)
    elastic = {**job["spec"]["trainer"], "max-instance": trainers + 1}
    return {**job, "spec": {**job["spec"], "fault_tolerant": True, "trainer": elastic, "pserver": {"min-instance": 1}}}


def final(job: Object) -> Object:
    """Return an MPIJob whose launcher is not tried again."""
    return {**job, "spec": {**job["spec"], "backoffLimit": 0}}


LIVES = [
    Life(
        "a static job trains to its end and is cleaned up",
        manifest(master=1, workers=2, cleanPodPolicy="All"),
        """
        -> Created 0/3 0: master-0 worker-0 worker-1
        run master-0 -> Running 1/3 0: master-0 worker-0 worker-1
        run worker-0 -> Running 2/3 0: master-0 worker-0 worker-1
        run worker-1 -> Running 3/3 0: master-0 worker-0 worker-1
        succeed worker-0 -> Running 2/3 0: master-0 worker-0 worker-1
        succeed master-0 -> Succeeded 0/3 0: nothing
        """,
    ),
    Life(
        "a worker fails and is made again",
        manifest(workers=2, backoffLimit=3),
        """
        -> Created 0/2 0: worker-0 worker-1
        run worker-0 -> Running 1/2 0: worker-0 worker-1
        run worker-1 -> Running 2/2 0: worker-0 worker-1
        fail worker-1 -> Running 1/2 1: worker-0 worker-1
        run worker-1 -> Running 2/2 1: worker-0 worker-1
        succeed worker-0 -> Running 1/2 1: worker-0 worker-1
        succeed worker-1 -> Succeeded 0/2 1: worker-0 worker-1
        """,
    ),
    Life(
        "worker 0 of an elastic job is lost, and all start again",
        manifest(workers=3, elastic=STRETCH),
        """
        -> Created 0/3 0: worker-0 worker-1 worker-2
        run worker-0 -> Running 1/3 0: worker-0 worker-1 worker-2
        run worker-1 -> Running 2/3 0: worker-0 worker-1 worker-2
        run worker-2 -> Running 3/3 0: worker-0 worker-1 worker-2
        fail worker-0 -> Restarting 0/3 1: worker-0 worker-1 worker-2
        run worker-0 -> Running 1/3 1: worker-0 worker-1 worker-2
        """,
    ),
    Life(
        "a job is suspended and resumed",
        manifest(master=1, workers=1),
        """
        -> Created 0/2 0: master-0 worker-0
        run master-0 -> Running 1/2 0: master-0 worker-0
        run worker-0 -> Running 2/2 0: master-0 worker-0
        suspend -> Suspended 0/2 0: nothing
        resume -> Created 0/2 0: master-0 worker-0
        run master-0 -> Running 1/2 0: master-0 worker-0
        """,
    ),
    Life(
        "an elastic job is scaled down",
        manifest(workers=3, elastic=STRETCH),
        """
        -> Created 0/3 0: worker-0 worker-1 worker-2
        run worker-0 -> Running 1/3 0: worker-0 worker-1 worker-2
        run worker-1 -> Running 2/3 0: worker-0 worker-1 worker-2
        run worker-2 -> Running 3/3 0: worker-0 worker-1 worker-2
        scale 1 -> Running 1/1 0: worker-0
        """,
    ),
    Life(
        "a job that has ended is removed in time",
        manifest(workers=1, ttlSecondsAfterFinished=1),
        """
        -> Created 0/1 0: worker-0
        run worker-0 -> Running 1/1 0: worker-0
        succeed worker-0 -> gone
        """,
    ),
    Life(
        "a Volcano Job with names and keys starts again as a whole",
        volcano.manifest("main=2", "PodFailed:RestartJob", plugins={"svc": [], "ssh": []}),
        """
        -> Pending 0/2 0: main-0 main-1
        run main-0 -> Pending 1/2 0: main-0 main-1
        run main-1 -> Running 2/2 0: main-0 main-1
        fail main-1 -> Pending 0/2 1: main-0 main-1
        run main-0 -> Pending 1/2 1: main-0 main-1
        run main-1 -> Running 2/2 1: main-0 main-1
        succeed main-0 -> Running 1/2 1: main-0 main-1
        succeed main-1 -> Completed 0/2 1: main-0 main-1
        """,
    ),
    Life(
        "a Volcano Job is aborted and resumed by commands",
        volcano.manifest("main=2"),
        """
        -> Pending 0/2 0: main-0 main-1
        run main-0 -> Pending 1/2 0: main-0 main-1
        run main-1 -> Running 2/2 0: main-0 main-1
        suspend -> Aborted 0/2 0: nothing
        resume -> Pending 0/2 0: main-0 main-1
        run main-0 -> Pending 1/2 0: main-0 main-1
        """,
    ),
    Life(
        "the stages of a TrainingJob start one after the other, and a trainer that failed comes back",
        tolerant(trainers=2),
        """
        -> Creating 0/2 0: master-0
        run master-0 -> Creating 0/2 0: master-0 pserver-0
        run pserver-0 -> Creating 0/2 0: master-0 pserver-0 trainer-0 trainer-1
        run trainer-0 -> Creating 1/2 0: master-0 pserver-0 trainer-0 trainer-1
        run trainer-1 -> Running 2/2 0: master-0 pserver-0 trainer-0 trainer-1
        fail trainer-1 -> Running 1/2 1: master-0 pserver-0 trainer-0 trainer-1
        run trainer-1 -> Running 2/2 1: master-0 pserver-0 trainer-0 trainer-1
        succeed trainer-0 -> Running 1/2 1: master-0 pserver-0 trainer-0 trainer-1
        succeed trainer-1 -> Succeeded 0/2 1: trainer-0 trainer-1
        """,
    ),
    Life(
        "the launcher of an MPIJob is started once, and succeeds",
        mpi_job(2),
        """
        -> Created 0/3 0: worker-0 worker-1
        run worker-0 -> Created 1/3 0: worker-0 worker-1
        run worker-1 -> Created 2/3 0: launcher worker-0 worker-1
        run launcher -> Running 3/3 0: launcher worker-0 worker-1
        succeed launcher -> Succeeded 0/3 0: launcher
        """,
    ),
    Life(
        "the launcher of an MPIJob is started once, and fails",
        final(mpi_job(2)),
        """
        -> Created 0/3 0: worker-0 worker-1
        run worker-0 -> Created 1/3 0: worker-0 worker-1
        run worker-1 -> Created 2/3 0: launcher worker-0 worker-1
        run launcher -> Running 3/3 0: launcher worker-0 worker-1
        fail launcher -> Failed 0/3 1: launcher
        """,
    ),
    Life(
        "an MPIJob by ssh is suspended and resumed",
        mpi_job(2, modern=True),
        """
        -> Created 0/3 0: launcher worker-0 worker-1
        run worker-0 -> Created 1/3 0: launcher worker-0 worker-1
        run worker-1 -> Created 2/3 0: launcher worker-0 worker-1
        run launcher -> Running 3/3 0: launcher worker-0 worker-1
        suspend -> Suspended 0/3 0:
        resume -> Created 0/3 0: launcher worker-0 worker-1
        run worker-0 -> Created 1/3 0: launcher worker-0 worker-1
        """,
    ),
]


@pytest.fixture(scope="module")
def stage(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane without nodes, where nobody else's operator disturbs; nothing may be refused on it."""
    plane = ControlPlane(tmp_path_factory.mktemp("stage"), strict=True)
    try:
        plane.start(controllers=False)
        admin = Kubectl(plane.kubeconfig)
        install(admin)
        account(plane, admin)
        plane.run("kube-controller-manager")  # after the kind is there: garbage of kinds it learns of later waits 30 s
        yield plane
    finally:
        plane.stop()
    assert not refused(plane)


def moments(done: Sequence[Done]) -> Iterator[tuple[int, Answer]]:
    """Yield after which calls the operator dies, and whether it hears their answers.

    The sample is the status that is written before something is destroyed, or before a launcher is started, and that
    deed itself: there a record kept badly would count twice or not at all.
    """
    if SOAK:
        ways: tuple[Answer, ...] = ("unanswered", "answered")
        yield from itertools.product(range(1, len(done) + 1), ways)
        return
    turn = next(
        number
        for number, call in enumerate(done, 1)
        if call.method == "DELETE" or (call.name == "j-launcher" and call.path.endswith("/jobs"))
    )
    yield turn - 1, "unanswered"
    yield turn, "answered"


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_a_call(life: Life, stage: ControlPlane, tmp_path: Path):
    undisturbed = await live(life, stage, tmp_path)

    again = partial(live, life, stage, tmp_path, expected=undisturbed.outcome)
    await ends_alike(undisturbed, again, moments(undisturbed.done))
