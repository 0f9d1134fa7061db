"""MPIJobs that really run, with the operator killed right after one of the calls it makes: the launcher starts once.

Each start of a launcher is a line in a file, so a second run cannot hide. By default some calls are tried; with
TRAINWRIGHT_SOAK=1 every single one, and each both ways: with the server's answer heard, and with the answer lost.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.kube.crashing import SOAK, Ending, ends_alike, eventually, kept_operator
from tests.kube.cutting_proxy import Answer, CuttingProxy, Done
from tests.kube.nodes import ACCOUNT as NODE_ACCOUNT
from tests.kube.nodes import Nodes, node_account
from tests.kube.running import Kubectl, account, install, refused
from tools.kube import ControlPlane

from trainwright.api.faces import MPI_JOB as FACE
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.objects import Object, at, controller_uid
from trainwright.core.resources import (
    BATCH_JOB,
    CONFIG_MAP,
    NAMESPACE,
    POD,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
from trainwright.kinds import MPI_JOB

OWNED = (CONFIG_MAP, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SERVICE, STATEFUL_SET, BATCH_JOB, POD)
_NUMBERS = itertools.count(1)

pytestmark = [pytest.mark.e2e, pytest.mark.fault, pytest.mark.timeout(3600 if SOAK else 240)]


@pytest.fixture(scope="module")
def stage(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane with a node and without an operator; nothing may be refused on it."""
    plane = ControlPlane(tmp_path_factory.mktemp("stage"), strict=True)
    try:
        plane.start(controllers=False)
        admin = Kubectl(plane.kubeconfig)
        install(admin)
        account(plane, admin)
        for program in ("kube-controller-manager", "kube-scheduler"):
            plane.run(program)
        nodes = Nodes(plane, node_account(plane, admin), tmp_path_factory.mktemp("nodes"))
        with nodes.running("stage"):
            yield plane
    finally:
        plane.stop()
    assert not refused(plane)
    assert not refused(plane, NODE_ACCOUNT)


@dataclass
class Play:
    """One job in a namespace of its own."""

    cluster: KubernetesCluster
    namespace: str
    starts: Path

    async def begin(self, ending: str) -> None:
        """Make a job whose launcher counts its start, looks at a worker, and ends when it is told to."""
        await self.cluster.create(NAMESPACE, {"metadata": {"name": self.namespace}})
        waits = f"until [ -e {self.starts}.go ]; do sleep 0.1; done"
        script = f"echo started >>{self.starts}; /etc/mpi/kubexec.sh j-worker-1 true && {waits}; {ending}"
        container = {"name": "mpi", "image": "any", "command": ["sh", "-c", script]}
        template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
        spec = {"replicas": 2, "slotsPerWorker": 1, "backoffLimit": 0, "template": template}
        job = {"metadata": {"name": "j", "namespace": self.namespace}, "spec": spec}
        await self.cluster.create(MPI_JOB.resource, job)

    async def go_through(self) -> None:
        """Wait until the job is known to run, let it end, and wait until that is known, too."""
        await eventually(self._runs, "the job runs", self.job)
        self.starts.with_suffix(".starts.go").touch()
        await eventually(self._is_over, "the job has ended and its workers are gone", self.job)

    async def _runs(self) -> bool:
        return FACE.standing((await self.job()).get("status") or {}).phase == "Running"

    async def _is_over(self) -> bool:
        """Say whether the job has ended and its workers are gone."""
        job, workers = await self.job(), await self.cluster.list(POD, self.namespace, labels="mpi_role_type=worker")
        return FACE.standing(job.get("status") or {}).phase in ("Succeeded", "Failed") and not workers.items

    async def job(self) -> Object:
        return await self.cluster.get(MPI_JOB.resource, self.namespace, "j")

    async def outcome(self) -> Object:
        """Return all that must not depend on when the operator was killed: everything but uids, times and events."""
        job = await self.job()
        status, uid = job["status"], job["metadata"]["uid"]
        listings = [await self.cluster.list(row, self.namespace) for row in OWNED]
        objects = [obj for listing in listings for obj in listing.items if obj["metadata"]["name"].startswith("j-")]
        return {
            "starts": self.starts.read_text().split(),
            "conditions": [
                f"{each['type']}={each['status']} {each['reason']}: {each['message'].replace(self.namespace, 'ns')}"
                for each in status["conditions"]
            ],
            "times": sorted(name for name in status if name.endswith("Time")),
            "counts": [status.get(name) for name in ("launcherStatus", "workerReplicas", "active", "restarts")],
            "objects": sorted(
                (each["kind"], _lasting(each), each["kind"] == "Pod" or controller_uid(each) == uid, _size(each))
                for each in objects
            ),
        }


def _lasting(obj: Object) -> str:
    """Return an object's name, without what the Job's controller adds at random."""
    name: str = obj["metadata"]["name"]
    return name.rpartition("-")[0] if obj["kind"] == "Pod" else name


def _size(obj: Object) -> str:
    return str(at(obj, ("spec", "replicas"), ""))


async def live(ending: str, plane: ControlPlane, folder: Path, last: int = 0, answer: Answer = "answered") -> Ending:
    """Play a life, with the operator killed after its call number `last`; 0 is never."""
    namespace = f"mpi-{next(_NUMBERS)}"
    proxy = CuttingProxy(plane.url, plane.ca, last, answer)
    async with proxy.serving(), KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
        config = folder / f"{namespace}.kubeconfig"
        config.write_text(proxy.kubeconfig(plane.folder / "operator.kubeconfig"))
        play = Play(cluster, namespace, folder / f"{namespace}.starts")
        await play.begin(ending)
        async with kept_operator(proxy, config, folder / f"{namespace}.log", namespace):
            await play.go_through()
            return Ending(await play.outcome(), proxy.created(), proxy.done, proxy.cut)


def moments(done: Sequence[Done]) -> Iterator[tuple[int, Answer]]:
    """Yield after which calls the operator dies, and whether it hears their answers.

    The sample has a call before the workers, the creation of the launcher, what is written next, and the last call but
    one: there a launcher that is not remembered would be started again.
    """
    ways: tuple[Answer, ...] = ("unanswered", "answered")
    if SOAK:
        yield from itertools.product(range(1, len(done) + 1), ways)
        return
    launch = next(number for number, call in enumerate(done, 1) if call.name == "j-launcher" and "/jobs" in call.path)
    yield from zip((3, launch, launch + 1, len(done) - 1), itertools.cycle(ways), strict=False)


@pytest.mark.parametrize(
    ("ending", "phase"),
    [
        pytest.param("exit 0", "Succeeded", id="the launcher succeeds"),
        pytest.param("exit 3", "Failed", id="the launcher fails"),
    ],
)
async def test_killed_after_a_call(ending: str, phase: str, stage: ControlPlane, tmp_path: Path):
    undisturbed = await live(ending, stage, tmp_path)
    assert undisturbed.outcome["starts"] == ["started"]
    assert undisturbed.outcome["counts"][0] == phase

    await ends_alike(undisturbed, partial(live, ending, stage, tmp_path), moments(undisturbed.done))
