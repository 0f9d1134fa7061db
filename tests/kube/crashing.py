"""Lives of jobs with an operator that is killed and started again: how they are written, played and compared.

Whoever plays a life is administrator and kubelet at once: pods never run, it is only said of them that they do.
"""

import asyncio
import itertools
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.kube.cutting_proxy import Answer, CuttingProxy, Done
from tools.kube import ControlPlane

from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.actions import Create
from trainwright.core.errors import NotFound
from trainwright.core.names import VERSION_LABEL
from trainwright.core.objects import Object, at, controller_uid, nest, timestamp
from trainwright.core.resources import NAMESPACE, POD, SERVICE_ACCOUNT, Resource
from trainwright.kinds import kind_of
from trainwright.reconcile.kind import Kind

SOAK = os.environ.get("TRAINWRIGHT_SOAK") == "1"
SECONDS = 60.0
AT_ONCE = 3
"""So many lives are played beside each other."""
QUIET_SECONDS = 1.0
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Life:
    """A job and what happens to it: each line a deed, and how the job must be after it, so that calls come in order.

    `Running 2/3 1: worker-0 worker-1` is the phase, how many ranks are up, the restarts, and the pods there are.
    `nothing` in their place also means that nothing else is left, and `gone` that the job itself is no more.
    """

    says: str
    job: Object
    script: str

    @property
    def kind(self) -> Kind:
        """Return the kind of the job."""
        kind = kind_of(self.job)
        assert kind
        return kind

    def steps(self) -> Iterator[tuple[str, str]]:
        """Yield each deed with what is seen after it."""
        for line in self.script.strip().splitlines():
            deed, _, seen = line.partition("->")
            yield deed.strip(), seen.strip()


@dataclass(frozen=True)
class Ending:
    """How a life has ended."""

    outcome: Object
    created: Counter[str]
    done: Sequence[Done]
    cut: bool


async def ends_alike(
    undisturbed: Ending, live: Callable[[int, Answer], Awaitable[Ending]], moments: Iterable[tuple[int, Answer]]
) -> None:
    """Live again for each moment, with the operator killed then; everything must end as if nothing had happened."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def disturbed(last: int, answer: Answer) -> None:
        async with turns:
            ending = await live(last, answer)
        what = f"killed after call {last} of {len(undisturbed.done)}, {answer}"
        assert ending.cut or len(ending.done) < last, what
        assert ending.outcome == undisturbed.outcome, f"{what}: {ending.outcome} instead of {undisturbed.outcome}"
        assert ending.created == undisturbed.created, what

    async with asyncio.TaskGroup() as tasks:
        for last, answer in moments:
            tasks.create_task(disturbed(last, answer))


async def eventually(
    check: Callable[[], Awaitable[bool]], what: str, found: Callable[[], Awaitable[Any]] | None = None
) -> None:
    """Wait until something is so; fail with what was found instead."""
    try:
        async with asyncio.timeout(SECONDS):
            while not await check():  # noqa: ASYNC110 - only asking again can tell
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"after {SECONDS:g} s it is still not so that {what}; found {found and await found()}")


@asynccontextmanager
async def kept_operator(proxy: CuttingProxy, config: Path, log: Path, namespace: str) -> AsyncIterator[None]:
    """Run an operator behind the proxy, and another one whenever the proxy has killed it."""
    command = [sys.executable, "-m", "trainwright", "operator", "--no-autoscaler", "--no-leader-elect"]
    command += [f"--kubeconfig={config}", f"--namespace={namespace}"]

    async def keep() -> None:
        while True:
            with log.open("ab") as file:
                process = await asyncio.create_subprocess_exec(
                    *command, "--metrics-address=127.0.0.1:0", stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
            proxy.kill = process.kill
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise
            assert code == -signal.SIGKILL, f"the operator ended by itself with {code}; see {log}"

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


@dataclass
class Play:
    """One job in a namespace of its own, played by the administrator."""

    cluster: KubernetesCluster
    namespace: str
    life: Life

    async def begin(self) -> None:
        """Make the job."""
        await self.cluster.create(NAMESPACE, {"metadata": {"name": self.namespace}})
        # Until a controller has made it, pods are refused.
        await eventually(lambda: self._exists(SERVICE_ACCOUNT, "default"), "the namespace has its service account")
        resource = self.life.kind.resource
        stored = {"apiVersion": resource.api_version, "metadata": {"name": "j", "namespace": self.namespace}}
        await self.cluster.create(resource, {**self.life.job, **stored})

    async def go_through(self) -> None:
        """Do all that happens to it, and see each time what comes of it."""
        for deed, seen in self.life.steps():
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
        await self._change(nest(self.life.kind.size_path, int(replicas)))

    async def _suspend(self) -> None:
        await self._order("suspend")

    async def _resume(self) -> None:
        await self._order("resume")

    async def _order(self, wish: Literal["suspend", "resume"]) -> None:
        job, face = await self._job(), self.life.kind.face
        assert job
        order = face.orders[wish](job, "a test")
        if not isinstance(order, Create):
            await self._change(order.patch)
            return
        assert face.commands
        await self.cluster.create(face.commands, order.object)

    async def _change(self, patch: Object) -> None:
        await self.cluster.patch(self.life.kind.resource, self.namespace, "j", patch)

    async def _status(self, phase: str, state: Object, pod: str) -> None:
        """Say of a pod what a kubelet would say."""
        (found,) = [each for each in await self._children() if each["kind"] == "Pod" and _short(each) == pod]
        container = {
            "name": found["spec"]["containers"][0]["name"],
            "image": "i",
            "imageID": "i",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        ready = {"type": "Ready", "status": str(phase == "Running")}
        status = {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
        await self.cluster.patch(
            POD, self.namespace, found["metadata"]["name"], {"status": status}, subresource="status"
        )

    # What is there

    async def _is(self, seen: str) -> bool:
        return (await self.shown()).strip() == seen

    async def shown(self) -> str:
        """Return how the job is, in the words of a script; words that no script has while something is under way."""
        job, children = await self._job(), await self._children()
        if job is None:
            return "gone" if not children else "gone, but not all it had"
        status: Object = job.get("status") or {}
        record: Object = status.get("record") or {}
        pods = [each for each in children if each["kind"] == "Pod"]
        versions = {at(each, ("metadata", "labels", VERSION_LABEL), "") for each in pods}
        if record.get("retired") or versions - {str(record.get("version")), ""}:
            return f"changing: {status}"
        ranks = self.life.kind.face.ranks(job)
        counted = f"{ranks.ready - _done(status)}/{ranks.wanted} {ranks.restarts}"
        names = " ".join(sorted(map(_short, pods)))
        return f"{self.life.kind.face.standing(status).phase} {counted}: {names if children else 'nothing'}"

    async def outcome(self) -> Object:
        """Return all that must not depend on when the operator was killed: everything but uids, times and events."""
        job, children = await self._job(), await self._children()
        uid = job["metadata"]["uid"] if job else ""
        return {
            "status": _lasting(job["status"], self.namespace) if job else {},
            "children": sorted(
                (each["kind"], _short(each), controller_uid(each) == uid, str(_pod_phase(each))) for each in children
            ),
        }

    async def ends_as(self, expected: Object) -> bool:
        """Say whether the outcome is what is expected."""
        return await self.outcome() == expected

    async def _job(self) -> Object | None:
        try:
            return await self.cluster.get(self.life.kind.resource, self.namespace, "j")
        except NotFound:
            return None

    async def _children(self) -> list[Object]:
        """Return everything there is of the kinds a job may have, whoever it belongs to."""
        kinds = dict.fromkeys((*self.life.kind.owned("none"), POD))
        listings = [await self.cluster.list(row, self.namespace) for row in kinds]
        objects = [obj for listing in listings for obj in listing.items]
        return [obj for obj in objects if re.match(r"j(-|$)", obj["metadata"]["name"])]

    async def _exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.cluster.get(resource, self.namespace, name)
        except NotFound:
            return False
        return True


_LAUNCHER = re.compile(r"(launcher)-[a-z0-9]{5}\b")


def _short(obj: Object) -> str:
    """Return an object's name without the job's, and without what the controller of Jobs adds at random."""
    name: str = obj["metadata"]["name"]
    return _LAUNCHER.sub(r"\1", name.removeprefix("j-"))


def _done(status: Any) -> int:
    """Return how many replicas have succeeded: every kind has a count of that name somewhere."""
    if not isinstance(status, dict | list):
        return 0
    inside = status.values() if isinstance(status, dict) else status
    own = status.get("succeeded") if isinstance(status, dict) else 0
    return (own if isinstance(own, int) else 0) + sum(map(_done, inside))


def _pod_phase(obj: Object) -> str | None:
    return obj["status"].get("phase") if obj["kind"] == "Pod" else None


def _ended(code: int) -> Object:
    return {"terminated": {"exitCode": code, "finishedAt": timestamp(datetime.now(UTC))}}


_PASSING = re.compile(
    r"^\d{4}-\d\d-\d\dT\S+Z$|^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^\d+(\.\d+)?s$"
)


def _lasting(value: Any, namespace: str) -> Any:
    """Return a status with a word for every time, duration and uid, and without names that were made up."""
    if isinstance(value, dict):
        return {key: _lasting(each, namespace) for key, each in value.items()}
    if isinstance(value, list):
        return [_lasting(each, namespace) for each in value]
    if not isinstance(value, str):
        return value
    return "passing" if _PASSING.match(value) else _LAUNCHER.sub(r"\1", value.replace(namespace, "ns"))


async def live(
    life: Life,
    plane: ControlPlane,
    folder: Path,
    last: int = 0,
    answer: Answer = "answered",
    *,
    expected: Object | None = None,
) -> Ending:
    """Play a life, with the operator killed after its call number `last`; 0 is never.

    A script does not tell of Services and the like. So it is waited for the outcome that is expected, and if nobody
    knows it yet, until the operator has nothing more to do.
    """
    namespace = f"life-{next(_NUMBERS)}"
    proxy = CuttingProxy(plane.url, plane.ca, last, answer)
    async with proxy.serving(), KubernetesCluster.from_config(str(plane.kubeconfig)) as cluster:
        config = folder / f"{namespace}.kubeconfig"
        config.write_text(proxy.kubeconfig(plane.folder / "operator.kubeconfig"))
        play = Play(cluster, namespace, life)
        await play.begin()
        async with kept_operator(proxy, config, folder / f"{namespace}.log", namespace):
            await play.go_through()
            if expected is None:
                await _silence(proxy)
            else:
                await eventually(partial(play.ends_as, expected), f"it ends as {expected}", play.outcome)
            return Ending(await play.outcome(), proxy.created(), proxy.done, proxy.cut)


async def _silence(proxy: CuttingProxy) -> None:
    """Wait until the operator has changed nothing for a while."""
    heard = -1
    while len(proxy.done) > heard:
        heard = len(proxy.done)
        await asyncio.sleep(QUIET_SECONDS)
