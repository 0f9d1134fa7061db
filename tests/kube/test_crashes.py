"""Lives of jobs on a real API server, with the operator killed right after one of the calls it makes.

Another operator takes over, and everything must end as if nothing had happened: the same objects, the same status and
counts, nothing made twice. By default some calls of each life are tried; with TRAINWRIGHT_SOAK=1 every single one, and
each both ways: with the server's answer heard, and with the answer lost.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from tests.kube.crashing import SOAK, Ending, ends_alike, eventually, kept_operator
from tests.kube.cutting_proxy import Answer, CuttingProxy, Done
from tests.kube.running import Kubectl, account, install, refused
from tests.reconcile.making import manifest
from tools.kube import ControlPlane

from trainwright.api.faces import PYTORCH_JOB as FACE
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import NotFound
from trainwright.core.names import VERSION_LABEL
from trainwright.core.objects import Object, controller_uid, nest, timestamp
from trainwright.core.resources import AUTOSCALER, NAMESPACE, POD, SERVICE, Resource
from trainwright.kinds import PYTORCH_JOB

SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)
STRETCH = {"minReplicas": 1, "maxReplicas": 4}
_NUMBERS = itertools.count(1)

pytestmark = [pytest.mark.e2e, pytest.mark.fault, pytest.mark.timeout(3600 if SOAK else 180)]


@dataclass(frozen=True)
class Life:
    """A job and what happens to it: each line a deed, and how the job must be after it, so that calls come in order.

    `Running 2/3 1: worker-0 worker-1` is the state, how many are active, the restarts, and the pods there are.
    `nothing` in their place also means no Services, and `gone` that the job itself is no more.
    """

    says: str
    job: Object
    script: str

    def steps(self) -> Iterator[tuple[str, str]]:
        for line in self.script.strip().splitlines():
            deed, _, seen = line.partition("->")
            yield deed.strip(), seen.strip()


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


@dataclass
class Play:
    """One job in a namespace of its own, played by the administrator."""

    cluster: KubernetesCluster
    namespace: str

    async def begin(self, job: Object) -> None:
        await self.cluster.create(NAMESPACE, {"metadata": {"name": self.namespace}})
        # Until a controller has made it, pods are refused.
        await eventually(lambda: self._exists(SERVICE_ACCOUNT, "default"), "the namespace has its service account")
        metadata = {"name": "j", "namespace": self.namespace}
        await self.cluster.create(PYTORCH_JOB.resource, {**job, "metadata": metadata})

    async def go_through(self, life: Life) -> None:
        for deed, seen in life.steps():
            if deed:
                verb, *words = deed.split()
                await getattr(self, f"_{verb}")(*words)
            await eventually(partial(self._is, seen), f"after {deed!r} it is {seen!r}", self.shown)

    async def _run(self, pod: str) -> None:
        await self._status("Running", {"running": {}}, pod)

    async def _fail(self, pod: str) -> None:
        await self._status("Failed", _ended(137), pod)

    async def _succeed(self, pod: str) -> None:
        await self._status("Succeeded", _ended(0), pod)

    async def _scale(self, replicas: str) -> None:
        await self._change(nest(PYTORCH_JOB.size_path, int(replicas)))

    async def _suspend(self) -> None:
        await self._change({"spec": {"runPolicy": {"suspend": True}}})

    async def _resume(self) -> None:
        await self._change({"spec": {"runPolicy": {"suspend": False}}})

    async def _change(self, patch: Object) -> None:
        await self.cluster.patch(PYTORCH_JOB.resource, self.namespace, "j", patch)

    async def _status(self, phase: str, state: Object, pod: str) -> None:
        """Say of a pod what a kubelet would say."""
        container = {"name": "pytorch", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}
        patch = {"status": {"phase": phase, "containerStatuses": [container]}}
        await self.cluster.patch(POD, self.namespace, f"j-{pod}", patch, subresource="status")

    # What is there

    async def _is(self, seen: str) -> bool:
        return await self.shown() == seen

    async def shown(self) -> str:
        """Return how the job is, in the words of a script; words that no script has while something is under way."""
        job, children = await self._job(), await self._children()
        if job is None:
            return "gone" if not children else "gone, but not all it had"
        status: Object = job.get("status") or {}
        record: Object = status.get("record") or {}
        pods = [each for each in children if each["kind"] == "Pod"]
        versions = {each["metadata"]["labels"][VERSION_LABEL] for each in pods}
        if record.get("retired") or versions - {str(record.get("version"))}:
            return f"changing: {status}"
        names = " ".join(sorted(each["metadata"]["name"].removeprefix("j-") for each in pods))
        counted = f"{status.get('active')} {status.get('restarts')}"
        return f"{FACE.standing(status).phase} {counted}: {names if children else 'nothing'}"

    async def outcome(self) -> Object:
        """Return all that must not depend on when the operator was killed: everything but uids, times and events."""
        job, children = await self._job(), await self._children()
        uid = job["metadata"]["uid"] if job else ""
        status = job["status"] if job else {}
        record = status.get("record") or {}
        roles = record.get("roles") or {}
        return {
            "conditions": [
                f"{each['type']}={each['status']} {each['reason']}: {each['message'].replace(self.namespace, 'ns')}"
                for each in status.get("conditions") or ()
            ],
            "times": sorted(name for name in status if name.endswith("Time")),
            "replicas": status.get("replicaStatuses"),
            "counts": [status.get("active"), status.get("restarts"), record.get("version"), record.get("cause")],
            "retired": record.get("retired"),
            "roles": {
                name: {**role, "seen": sorted(role.get("seen") or {}), "counted": role.get("counted")}
                for name, role in roles.items()
            },
            "children": sorted(
                (each["kind"], each["metadata"]["name"], controller_uid(each) == uid, str(_pod_phase(each)))
                for each in children
            ),
        }

    async def _job(self) -> Object | None:
        try:
            return await self.cluster.get(PYTORCH_JOB.resource, self.namespace, "j")
        except NotFound:
            return None

    async def _children(self) -> list[Object]:
        """Return everything there is, whoever it belongs to."""
        listings = [await self.cluster.list(row, self.namespace) for row in (POD, SERVICE, AUTOSCALER)]
        return [obj for listing in listings for obj in listing.items]

    async def _exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.cluster.get(resource, self.namespace, name)
        except NotFound:
            return False
        return True


def _pod_phase(obj: Object) -> str | None:
    return obj["status"].get("phase") if obj["kind"] == "Pod" else None


def _ended(code: int) -> Object:
    return {"terminated": {"exitCode": code, "finishedAt": timestamp(datetime.now(UTC))}}


async def live(life: Life, plane: ControlPlane, folder: Path, last: int = 0, answer: Answer = "answered") -> Ending:
    """Play a life, with the operator killed after its call number `last`; 0 is never."""
    namespace = f"life-{next(_NUMBERS)}"
    proxy = CuttingProxy(plane.url, plane.ca, last, answer)
    async with proxy.serving(), KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
        config = folder / f"{namespace}.kubeconfig"
        config.write_text(proxy.kubeconfig(plane.folder / "operator.kubeconfig"))
        play = Play(cluster, namespace)
        await play.begin(life.job)
        async with kept_operator(proxy, config, folder / f"{namespace}.log", namespace):
            await play.go_through(life)
            return Ending(await play.outcome(), proxy.created(), proxy.done, proxy.cut)


def moments(done: Sequence[Done]) -> Iterator[tuple[int, Answer]]:
    """Yield after which calls the operator dies, and whether it hears their answers.

    The sample has the first call, the status that is written before something is destroyed, the destruction, and a late
    call: that is where a record kept badly would count twice or not at all.
    """
    ways: tuple[Answer, ...] = ("unanswered", "answered")
    if SOAK:
        yield from itertools.product(range(1, len(done) + 1), ways)
        return
    destruction = next(number for number, call in enumerate(done, 1) if call.method == "DELETE")
    yield from zip((1, destruction - 1, destruction, len(done) * 5 // 6), itertools.cycle(ways), strict=False)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.says)
async def test_killed_after_a_call(life: Life, stage: ControlPlane, tmp_path: Path):
    undisturbed = await live(life, stage, tmp_path)

    await ends_alike(undisturbed, partial(live, life, stage, tmp_path), moments(undisturbed.done))
