"""Isolation `net`: each pod in network, mount, UTS, IPC and pid namespaces of its own, on a private bridge.

The cluster's network is a namespace too, also for root: nothing appears among the host's links, no address range
clashes with a VPN, and nothing is left after a crash. There is no way out of it but the sockets passed to the agent
(`proxy.py`).
"""

import ipaddress
import socket
from collections.abc import Iterator

from trainwright.node.base import IsolationName, SandboxSpec
from trainwright.node.pod_init import GATEWAY, PREFIX
from trainwright.node.pods import PodSandbox, Zygote, mount_rows

POD_RANGE = ipaddress.ip_network(f"{GATEWAY}/{PREFIX}", strict=False)


class NetIsolation:
    """Pods on a bridge, each with its own address: `Isolation`."""

    name: IsolationName = "net"

    def __init__(self) -> None:
        self._zygote = Zygote(namespaces=True)
        self._addresses = _addresses()
        self._opened = 0
        self._used: set[str] = set()

    async def __aenter__(self) -> "NetIsolation":
        await self._zygote.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._zygote.__aexit__(*error)

    async def open(self, spec: SandboxSpec) -> "NetSandbox":
        """Make the place for one pod."""
        address = next(address for address in self._addresses if address not in self._used)
        self._used.add(address)
        self._opened += 1
        sandbox = NetSandbox(self._zygote, spec, address, self._used)
        await sandbox.open(
            {
                "address": address,
                "link": f"v{self._opened}",
                "hostname": spec.hostname,
                "mounts": mount_rows(spec.mounts),
                "mark": "",
            }
        )
        return sandbox

    async def connect(self, address: str, port: int) -> socket.socket:
        """Return a non-blocking TCP socket connected to an address of the pod network; OSError if nobody listens."""
        return await self._zygote.connect(address, port)

    async def listen(self, port: int) -> tuple[socket.socket, str]:
        """Return a listening socket on the bridge, and the bridge's address."""
        server = await self._zygote.listen(port)
        server.setblocking(False)
        return server, GATEWAY


class NetSandbox(PodSandbox):
    """A pod with an address of its own."""

    def __init__(self, zygote: Zygote, spec: SandboxSpec, address: str, used: set[str]) -> None:
        super().__init__(zygote, spec, address)
        self._used = used

    async def close(self) -> None:
        """SIGKILL everything inside and free the address; returns when nothing is left."""
        await super().close()
        self._used.discard(self.address)


def _addresses() -> Iterator[str]:
    """Yield the pods' addresses round and round: one that was just freed comes up again as late as possible."""
    first = int(POD_RANGE.network_address)
    while True:
        for number in range(256, POD_RANGE.num_addresses - 256):
            if number % 256 not in (0, 255):
                yield str(ipaddress.ip_address(first + number))
