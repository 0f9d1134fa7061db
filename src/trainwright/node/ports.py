"""Isolation `ports`: plain processes of the host, all on 127.0.0.1, kept apart by the ports they are given.

For machines where namespaces are refused. The process trees are the same as under `net` and end as surely, but pods
share the host's network, names and files: nothing can be mounted.
"""

import asyncio
import os
import socket
from errno import EOPNOTSUPP
from pathlib import Path

from trainwright.node.base import IsolationName, Mount, ProcessSpec, SandboxSpec, SpawnError
from trainwright.node.channel import Message
from trainwright.node.pods import PodProcess, PodSandbox, Zygote, connected

ADDRESS = "127.0.0.1"
MARK = "TW_POD_UID"
"""The variable every process of a pod carries; what has slipped out of the process tree is found by it."""

_NAMING = frozenset(("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/nsswitch.conf"))
"""Pods have no names of their own here, so these are not missed."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


class PortsIsolation:
    """Pods as plain processes: `Isolation`."""

    name: IsolationName = "ports"

    def __init__(self) -> None:
        self._zygote = Zygote(namespaces=False)

    async def __aenter__(self) -> "PortsIsolation":
        await self._zygote.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._zygote.__aexit__(*error)

    async def open(self, spec: SandboxSpec) -> "PortsSandbox":
        """Make the place for one pod."""
        _refuse(tuple(mount for mount in spec.mounts if mount.target not in _NAMING))
        sandbox = PortsSandbox(self._zygote, spec, ADDRESS)
        await sandbox.open({"mark": f"{MARK}={spec.uid}"})
        return sandbox

    def hold(self, descriptor: int) -> None:
        """Have a descriptor kept open until nothing of any pod is left."""
        self._zygote.held = (descriptor,)

    async def listen(self, port: int) -> tuple[socket.socket, str]:
        """Return a listening socket on 127.0.0.1."""
        server = socket.create_server((ADDRESS, port), backlog=128)
        server.setblocking(False)
        return server, ADDRESS


class PortsSandbox(PodSandbox):
    """A pod that is nothing but its processes."""

    async def start(self, spec: ProcessSpec) -> PodProcess:
        """Start a process; SpawnError says in words why it could not."""
        _refuse(spec.mounts)
        return await super().start(spec)

    def _payload(self, spec: ProcessSpec) -> Message:
        payload = super()._payload(spec)
        return {**payload, "mounts": [], "env": {**spec.env, MARK: self._spec.uid}}

    async def door(self, address: str) -> socket.socket:
        """Refuse: whatever listens here is in everybody's reach."""
        raise OSError(EOPNOTSUPP, f"{address}: without namespaces a pod has nothing of its own to listen in")

    async def connect(self, port: int, host: str = "") -> socket.socket:
        """Return a non-blocking TCP socket connected to a port of this machine; OSError if nobody listens."""
        found = await asyncio.get_running_loop().getaddrinfo(host or ADDRESS, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        return await connected(socket.socket(family, kind, protocol), (str(address[0]), port))


def _refuse(mounts: tuple[Mount, ...]) -> None:
    """Raise SpawnError for a mount that would be missed."""
    for mount in mounts:
        if not mount.optional and not _there_already(mount):
            raise SpawnError(
                f"volume at {mount.target!r}: without namespaces nothing can be mounted; "
                "use --isolation net, or a hostPath volume that is mounted at its own path"
            )


def _there_already(mount: Mount) -> bool:
    """Say whether a process finds there, unmounted, what it would find mounted."""
    if os.path.normpath(mount.target) == _SHARED_MEMORY:
        return True
    source = Path(mount.source)
    return not mount.read_only and source.exists() and source.resolve() == Path(mount.target).resolve()
