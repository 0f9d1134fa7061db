"""A StatefulSet or a Job on whatever cluster is under test, and a player who says of its pods what a node would say."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.contract.home import PATIENCE, ClusterUnderTest

from trainwright.core.errors import NotFound
from trainwright.core.objects import Object, controller_uid, timestamp
from trainwright.core.resources import POD, Resource

LONG_AGO = "2026-01-01T00:00:00Z"
"""When a container ended that nobody shall be made to wait for: the pause after a failure is over by now."""


@dataclass
class Play:
    """One object, and the pods it controls."""

    under: ClusterUnderTest
    resource: Resource
    name: str
    uid: str

    async def get(self) -> Object:
        """Return the object."""
        return await self.under.cluster.get(self.resource, self.under.namespace, self.name)

    async def change(self, **spec: Any) -> None:
        """Change the spec."""
        await self.under.cluster.patch(self.resource, self.under.namespace, self.name, {"spec": spec})

    async def delete(self, **options: Any) -> None:
        """Delete the object."""
        await self.under.cluster.delete(self.resource, self.under.namespace, self.name, **options)

    async def pods(self) -> dict[str, Object]:
        """Return its pods by name, the ones that have ended included."""
        listing = await self.under.cluster.list(POD, self.under.namespace)
        return {pod["metadata"]["name"]: pod for pod in listing.items if controller_uid(pod) == self.uid}

    async def active(self) -> list[str]:
        """Return the names of pods that have not ended and are not asked to."""
        return [
            name
            for name, pod in (await self.pods()).items()
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]

    async def has(self, *names: str) -> None:
        """Wait until it has exactly these pods."""
        await self._until(self.pods, lambda pods: sorted(pods) == sorted(names), f"pods {names}")

    async def has_active(self, count: int) -> list[str]:
        """Wait until so many pods are active, and return their names."""
        found: list[str] = await self._until(self.active, lambda names: len(names) == count, f"{count} active pods")
        return sorted(found)

    async def says(self, **status: Any) -> Object:
        """Wait until the status says this; what is None is not there."""

        def is_so(obj: Object) -> bool:
            now = obj.get("status") or {}
            return all(now.get(name) == value for name, value in status.items())

        found: Object = await self._until(self.get, is_so, str(status))
        return found

    async def holds(self, condition: str, reason: str) -> Object:
        """Wait until a condition holds for this reason."""

        def is_so(obj: Object) -> bool:
            found = (obj.get("status") or {}).get("conditions") or ()
            return any((each["type"], each["status"], each["reason"]) == (condition, "True", reason) for each in found)

        found: Object = await self._until(self.get, is_so, f"{condition} because of {reason}")
        return found

    async def stays(self, *names: str) -> None:
        """See that the pods are these, also after the controllers had time to do something wrong."""
        await self.has(*names)
        await self.under.settle()
        assert sorted(await self.pods()) == sorted(names)

    async def ready(self, *names: str) -> None:
        """Say of pods that they run and are ready."""
        now = timestamp(datetime.now(UTC))
        for name in names:
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            await self._report(name, phase="Running", conditions=[condition])

    async def restarted(self, name: str, count: int) -> None:
        """Say of a pod that its container was restarted so often."""
        container = {**_container({"running": {}}), "restartCount": count}
        await self._report(name, phase="Running", containerStatuses=[container])

    async def ended(self, phase: str, *names: str) -> None:
        """Say of pods that they have ended, a while ago."""
        code = 0 if phase == "Succeeded" else 1
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": LONG_AGO}}
        for name in names:
            await self._report(name, phase=phase, conditions=[], containerStatuses=[_container(state)])

    async def remove(self, name: str, **options: Any) -> str:
        """Delete a pod, and return the uid it had."""
        uid = (await self.pods())[name]["metadata"]["uid"]
        await self.under.cluster.delete(POD, self.under.namespace, name, **options)
        return str(uid)

    async def is_replaced(self, name: str, uid: str) -> None:
        """Wait until another pod has that name."""
        await self._until(
            self.pods, lambda pods: name in pods and pods[name]["metadata"]["uid"] != uid, f"a new {name}"
        )

    async def is_gone(self) -> None:
        """Wait until neither the object nor any of its pods is left."""

        async def left() -> list[str]:
            with contextlib.suppress(NotFound):
                return [(await self.get())["metadata"]["name"]]
            return [*await self.pods()]

        await self._until(left, lambda names: not names, "nothing")

    async def _report(self, name: str, **status: Any) -> None:
        await self.under.cluster.patch(POD, self.under.namespace, name, {"status": status}, subresource="status")

    async def _until(self, ask: Callable[[], Any], is_so: Callable[[Any], bool], what: str) -> Any:
        found = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await ask()
                    if is_so(found):
                        return found
                    await asyncio.sleep(0.01)
        except TimeoutError:
            shown = found if not isinstance(found, dict) or "status" not in found else found["status"]
            raise AssertionError(f"expected {what}, found {shown}") from None


async def play(under: ClusterUnderTest, resource: Resource, name: str, **spec: Any) -> Play:
    """Create an object and return what plays with it."""
    obj = await under.create(resource, name, spec=spec)
    return Play(under, resource, name, obj["metadata"]["uid"])


def template(**spec: Any) -> Object:
    """Return a template for pods that nobody runs."""
    container = {"name": "main", "image": "none", "command": ["true"]}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}


def _container(state: Object) -> Object:
    return {"name": "main", "image": "none", "imageID": "none", "ready": False, "restartCount": 0, "state": state}
