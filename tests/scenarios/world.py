"""A memory cluster with a clock that stands still, a player who moves pods, and an operator that can be killed.

A script is lines such as `run worker-0 worker-1`, `fail worker-1 137`, `wait 30`, `scale 3`. After each line the
operator runs rounds until nothing changes any more. Killed after a call, it is started anew and knows nothing but what
the cluster says.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from trainwright.admission import admit
from trainwright.cluster.events import Recorder
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.actions import Emit, Patch
from trainwright.core.errors import NotFound
from trainwright.core.names import VERSION_LABEL
from trainwright.core.objects import Object, timestamp
from trainwright.core.resources import BUILT_IN, POD, SUPPORTING, Resource
from trainwright.core.whole import whole
from trainwright.desired import KUBERNETES
from trainwright.kinds import COMMANDS, KINDS, kind_of
from trainwright.operator.keeping import Keeping
from trainwright.operator.round import Trace, observe, reconcile_once

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RESOURCES = (
    *BUILT_IN,
    *SUPPORTING,
    *(kind.resource for kind in KINDS),
    *COMMANDS,
)


class Crash(Exception):
    """The operator was killed."""


class Mortal:
    """The cluster as one operator sees it: after the call that is its last, nothing gets through any more."""

    def __init__(self, cluster: "MemoryCluster | Pruning", is_last: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._is_last = is_last
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        if name not in ("create", "patch", "delete"):
            return call

        async def mortal(*args: Any, **kwargs: Any) -> Any:
            if self._dead:
                raise Crash
            try:
                return await call(*args, **kwargs)
            finally:
                if self._is_last():
                    self._dead = True
                    raise Crash

        return mortal


class Pruning:
    """The cluster where the definitions of the kinds are somebody else's: what they do not know is dropped."""

    LOST = ("record", "active", "restarts", "elasticReplicas", "elasticSelector", "scaleHistory")

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Object, **kwargs: Any) -> Object:
        if kwargs.get("subresource") == "status" and resource in {kind.resource for kind in KINDS}:
            kept = {field: value for field, value in patch["status"].items() if field not in self.LOST}
            patch = {**patch, "status": kept}
        return await self._cluster.patch(resource, namespace, name, patch, **kwargs)


@dataclass
class World:
    """One job, its cluster and its operator."""

    manifest: Object
    dies: Callable[[int], bool] = lambda call: False
    """Whether the operator dies after its n-th call, counted over all its lives."""
    prunes: bool = False
    """Whether the definitions drop what must be remembered."""
    now: datetime = NOON
    calls: int = 0
    deaths: int = 0
    uids: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.cluster = MemoryCluster(
            RESOURCES, admit=self._admit, now=lambda: self.now, uid=lambda: f"uid-{next(self.uids)}"
        )
        kind = kind_of(self.manifest)
        assert kind
        self.kind = kind
        self._opened = False
        self._unsaid: tuple[Emit, ...] = ()
        self.namespace, self.name = self.manifest["metadata"]["namespace"], self.manifest["metadata"]["name"]

    def _admit(self, resource: Resource, obj: Object, old: Object | None) -> Object:
        return admit(obj, old).object if resource in {kind.resource for kind in KINDS} else obj

    async def play(self, script: str) -> None:
        """Go through a script, and let the operator come to rest after every line."""
        await self.cluster.create(self.kind.resource, self.manifest)
        await self.rest()
        for line in script.strip().splitlines():
            verb, *words = line.split()
            await getattr(self, f"_{verb}")(*words)
            await self.rest()

    async def rest(self) -> None:
        """Run rounds, and let pods that were told to go go, until nothing changes."""
        for _ in range(200):
            before = (await self.cluster.list(POD)).version
            await self._bury()
            if await self._round() and (await self.cluster.list(POD)).version == before:
                return
        raise AssertionError("the operator does not come to rest")

    async def _round(self) -> bool:
        """Run one round; return whether the operator has survived it."""
        mortal: Any = Mortal(Pruning(self.cluster) if self.prunes else self.cluster, self._is_last)
        trace = Trace()
        try:
            job, seen = await observe(mortal, self.kind, self.namespace, self.name)
            opening, self._opened = not self._opened and not whole(job).get("status"), True
            await reconcile_once(
                mortal,
                self.kind,
                job,
                seen,
                settings=KUBERNETES,
                now=self.now,
                events=Recorder(mortal, lambda: self.now),
                keeping=Keeping(mortal),
                opening=opening,
                unsaid=self._unsaid,
                trace=trace,
            )
        except NotFound:
            return True
        except Crash:
            self.deaths += 1
            self._opened, self._unsaid = False, ()  # the next one knows nothing of this one
            return False
        self._unsaid = trace.unsaid
        return not opening

    def _is_last(self) -> bool:
        self.calls += 1
        return self.dies(self.calls)

    async def _bury(self) -> None:
        for pod in (await self.cluster.list(POD)).items:
            if "deletionTimestamp" in pod["metadata"]:
                await self.cluster.delete(POD, self.namespace, pod["metadata"]["name"], grace=0)

    # What a script may say

    async def _run(self, *pods: str) -> None:
        for pod in pods:
            await self.cluster.patch(POD, self.namespace, f"{self.name}-{pod}", {"spec": {"nodeName": "n"}})
            await self._status(pod, "Running", {"state": {"running": {}}, "restartCount": 0})

    async def _fail(self, pod: str, code: str) -> None:
        await self._status(pod, "Failed", {"state": {"terminated": self._ended(int(code))}})

    async def _succeed(self, *pods: str) -> None:
        for pod in pods:
            await self._status(pod, "Succeeded", {"state": {"terminated": self._ended(0)}})

    async def _restart(self, pod: str, code: str = "1") -> None:
        """Let a container fail and be restarted in its pod, as a kubelet does."""
        there = await self.cluster.get(POD, self.namespace, f"{self.name}-{pod}")
        count = there["status"]["containerStatuses"][0].get("restartCount", 0) + 1
        again = {"state": {"running": {}}, "lastState": {"terminated": self._ended(int(code))}, "restartCount": count}
        await self._status(pod, "Running", again)

    async def _evict(self, pod: str) -> None:
        status = {"phase": "Failed", "reason": "Evicted", "message": "low on memory", "containerStatuses": None}
        await self.cluster.patch(POD, self.namespace, f"{self.name}-{pod}", {"status": status}, subresource="status")

    async def _remove(self, pod: str) -> None:
        """Delete a pod as a user would."""
        await self.cluster.delete(POD, self.namespace, f"{self.name}-{pod}")

    async def _lose(self, *pods: str) -> None:
        """Let pods vanish with their node."""
        for pod in pods:
            await self.cluster.delete(POD, self.namespace, f"{self.name}-{pod}", grace=0)

    async def _wait(self, seconds: str) -> None:
        self.now += timedelta(seconds=int(seconds))

    async def _scale(self, replicas: str) -> None:
        patch: Any = int(replicas)
        for step in reversed(self.kind.size_path):
            patch = {step: patch}
        await self.cluster.patch(self.kind.resource, self.namespace, self.name, patch)

    async def _suspend(self) -> None:
        await self._set_suspend(True)

    async def _resume(self) -> None:
        await self._set_suspend(False)

    async def _set_suspend(self, value: bool) -> None:
        patch = {"spec": {"runPolicy": {"suspend": value}}}
        await self.cluster.patch(self.kind.resource, self.namespace, self.name, patch)

    async def _cancel(self) -> None:
        job = await self.cluster.get(self.kind.resource, self.namespace, self.name)
        order = self.kind.face.orders["cancel"](job, "ann")
        assert isinstance(order, Patch)
        await self.cluster.patch(self.kind.resource, self.namespace, self.name, order.patch)

    async def _command(self, action: str) -> None:
        """Tell the job what to do, as `vcctl` does."""
        assert self.kind.commands
        row = self.kind.commands
        number = len((await self.cluster.list(row)).items)
        target = {"apiVersion": self.kind.resource.api_version, "kind": self.kind.name, "name": self.name}
        order = {
            "apiVersion": row.api_version,
            "kind": row.kind,
            "metadata": {"name": f"{action.lower()}-{number}", "namespace": self.namespace},
            "action": action,
            "target": target,
        }
        await self.cluster.create(row, order)

    async def _resize(self, task: str, replicas: str, minimum: str) -> None:
        """Change the replicas and the minimum of one task of a Volcano Job, and its own minimum with them."""
        spec = (await self.cluster.get(self.kind.resource, self.namespace, self.name))["spec"]
        new = {"replicas": int(replicas), "minAvailable": int(minimum)}
        tasks = [{**each, **new} if each["name"] == task else each for each in spec["tasks"]]
        patch = {"spec": {"tasks": tasks, "minAvailable": sum(each["minAvailable"] for each in tasks)}}
        await self.cluster.patch(self.kind.resource, self.namespace, self.name, patch)

    async def _status(self, pod: str, phase: str, container: Object) -> None:
        name = f"{self.name}-{pod}"
        there = (await self.cluster.get(POD, self.namespace, name))["status"].get("containerStatuses") or [{}]
        kept = {
            "name": "pytorch",
            "restartCount": there[0].get("restartCount", 0),
            "ready": phase == "Running",
        }
        status = {"phase": phase, "containerStatuses": [{**kept, **container}]}
        await self.cluster.patch(POD, self.namespace, name, {"status": status}, subresource="status")

    def _ended(self, code: int) -> Object:
        return {"exitCode": code, "finishedAt": timestamp(self.now)}

    # How it ended

    async def outcome(self) -> Object:
        """Return all that must not depend on when the operator was killed: everything but uids and events."""
        try:
            job = whole(await self.cluster.get(self.kind.resource, self.namespace, self.name))
        except NotFound:
            return {"job": "gone"}
        children = [obj for row in self.kind.owns for obj in (await self.cluster.list(row)).items]
        status = {name: value for name, value in job["status"].items() if name != "record"}
        record = job["status"]["record"]
        roles = record.get("roles", {})
        return {
            "status": status,
            "version": record["version"],
            "restarts": {name: role.get("restarts", 0) for name, role in roles.items()},
            "seen": {name: sorted(role.get("seen", {})) for name, role in roles.items()},
            "done": {name: role.get("done", []) for name, role in roles.items()},
            "failed": {name: sorted(role.get("failed", {})) for name, role in roles.items()},
            "timers": [
                {name: value for name, value in each.items() if name != "uid"} for each in record.get("timers", [])
            ],
            "cause": record.get("cause"),
            "culprit": record.get("culprit"),
            "children": sorted(
                (
                    obj["kind"],
                    obj["metadata"]["name"],
                    obj["metadata"]["labels"].get(VERSION_LABEL),
                    (obj.get("status") or {}).get("phase"),
                )
                for obj in children
            ),
        }
