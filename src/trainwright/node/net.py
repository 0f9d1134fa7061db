"""Isolation `net`: each pod in network, mount, UTS, IPC and pid namespaces of its own, on a private bridge.

The cluster's network is a namespace too, also for root: nothing appears among the host's links, no address range
clashes with a VPN, and nothing is left after a crash. There is no way out of it but the sockets passed to the agent
(`proxy.py`).
"""

import ipaddress
import socket
from collections.abc import Iterator

from trainwright.node.base import IsolationName, SandboxSpec
from trainwright.node.neighbours import Neighbourhood
from trainwright.node.pod_init import GATEWAY, PREFIX
from trainwright.node.pods import PodSandbox, Zygote, mount_rows

POD_RANGE = ipaddress.ip_network(f"{GATEWAY}/{PREFIX}", strict=False)


class NetIsolation:
    """Pods on a bridge, each with its own address: `Isolation`."""

    name: IsolationName = "net"

    def __init__(self) -> None:
        self.neighbourhood: Neighbourhood | None = None
        """Whose network is shared; None: it is this process's own."""
        self._zygote = Zygote(namespaces=True)
        self._opened = 0
        self._pods: dict[str, NetSandbox] = {}

    async def __aenter__(self) -> "NetIsolation":
        if self.neighbourhood is None:
            self._addresses, self._links = _addresses(), "v"
            await self._zygote.__aenter__()
            return self
        with self.neighbourhood.moving_in() as place:
            self._addresses, self._links = _addresses(place.number), f"v{place.number}-"
            self._zygote.neighbours = place.neighbours
            await self._zygote.__aenter__()
            place.settle(self._zygote.pid)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._zygote.__aexit__(*error)
        if self.neighbourhood:
            self.neighbourhood.leave()

    async def open(self, spec: SandboxSpec) -> "NetSandbox":
        """Make the place for one pod."""
        address = next(address for address in self._addresses if address not in self._pods)
        self._opened += 1
        sandbox = self._pods[address] = NetSandbox(self._zygote, spec, address, self._pods)
        await sandbox.open(
            {
                "address": address,
                "link": f"{self._links}{self._opened}",
                "hostname": spec.hostname,
                "mounts": mount_rows(spec.mounts),
                "mark": "",
            }
        )
        return sandbox

    def hold(self, descriptor: int) -> None:
        """Have a descriptor kept open until nothing of any pod is left."""
        self._zygote.held = (descriptor,)

    async def listen(self, port: int) -> tuple[socket.socket, str]:
        """Return a listening socket on the bridge, and the bridge's address."""
        server = await self._zygote.listen(port)
        server.setblocking(False)
        return server, GATEWAY

    async def inside(self, source: str, host: str, port: int) -> socket.socket | None:
        """Connect the pod at `source` to a host it knows: another pod, or itself; None if it knows no such host."""
        pod = self._pods.get(source)
        address = pod.find(host) if pod else None
        if not pod or not address:
            return None
        number = ipaddress.ip_address(address)
        return await pod.connect(port, address) if number in POD_RANGE or number.is_loopback else None


class NetSandbox(PodSandbox):
    """A pod with an address of its own."""

    def __init__(self, zygote: Zygote, spec: SandboxSpec, address: str, pods: "dict[str, NetSandbox]") -> None:
        super().__init__(zygote, spec, address)
        self._pods = pods

    async def close(self) -> None:
        """SIGKILL everything inside and free the address; returns when nothing is left."""
        await super().close()
        self._pods.pop(self.address, None)


def _addresses(place: int | None = None) -> Iterator[str]:
    """Yield the pods' addresses round and round: one that was just freed comes up again as late as possible.

    Where the network is shared, those of one place in it.
    """
    first = int(POD_RANGE.network_address)
    numbers = range(256, POD_RANGE.num_addresses - 256) if place is None else range(256 * place, 256 * (place + 1))
    while True:
        for number in numbers:
            if number % 256 not in (0, 255):
                yield str(ipaddress.ip_address(first + number))
