"""`Cluster`: where objects live. One protocol, spoken by every controller, the process kubelet and the commands.

Semantics are the API server's: optimistic concurrency by resourceVersion, status apart from the rest, watches that
continue a list without a gap, deletion that waits for finalizers and for pods to stop. The contract tests say it all.
Errors are those of `core.errors`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from trainwright.core.objects import Object
from trainwright.core.resources import Resource

Propagation = Literal["Background", "Foreground", "Orphan"]
FOREGROUND = "foregroundDeletion"
"""The finalizer by which an object waits until its children are gone."""
ORPHAN = "orphan"
"""The finalizer by which an object waits until its children are let go of."""


@dataclass(frozen=True)
class Change:
    """One step of a watch. A BOOKMARK only carries a newer resourceVersion to resume from."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


@dataclass(frozen=True)
class Listing:
    """Objects as they were at one version; a watch from that version misses nothing."""

    items: list[Object]
    version: str


class Session(Protocol):
    """A command running inside a pod."""

    async def write(self, data: bytes) -> None:
        """Send bytes to its standard input."""

    async def close_input(self) -> None:
        """End its standard input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Make its terminal so large, if it has one."""

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Yield what it prints, until it has ended and everything was read."""

    async def wait(self) -> int:
        """Return its exit code, 128 + n after signal n."""

    async def kill(self) -> None:
        """End it and everything it started."""


class PodStreams(Protocol):
    """Logs and exec of pods: the part of a cluster that only a node can answer."""

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield a container's output in chunks, from the start; with `follow` until the container has ended.

        Less of it with `tail`, the last lines, and `since`; `timestamps` stand before each line. `previous` means the
        container before its last restart.
        """

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: list[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Session:
        """Start a command inside a running pod; with `tty` on a terminal of its own."""


class Cluster(PodStreams, Protocol):
    """The API: objects with versions, watches, and pods one can look into."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object; NotFound if there is none. `namespace` is "" for kinds without."""

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """Return all objects that match the selectors, in one namespace or ("") in all."""

    def watch(
        self, resource: Resource, namespace: str = "", *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Change]:
        """Yield every change after version `since`; Expired when that is too long ago. Ends only when closed."""

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Store a new object and return it as stored; metadata.generateName is honoured."""

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: Literal["", "status"] = ""
    ) -> Object:
        """Apply a JSON merge patch. With metadata.resourceVersion in it: Conflict unless it is the current one."""

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete, or mark for deletion while finalizers or a running pod hold it; Conflict if `uid` is another."""
