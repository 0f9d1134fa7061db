"""Links, addresses and routes, by AF_NETLINK: no `ip` command is needed.

A socket works in the network namespace it was opened in, wherever its process goes afterwards. That is how a pod's
init, already in its own namespace, still reaches the cluster's bridge.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

_NEWLINK, _DELLINK, _GETLINK, _NEWADDR, _NEWROUTE = 16, 17, 18, 20, 24
_REQUEST, _ACK, _DUMP, _EXCL, _CREATE = 1, 4, 0x300, 0x200, 0x400
_ERROR, _DONE = 2, 3
_IFF_UP, _IFF_RUNNING = 1, 0x40
_ADDRESS, _IFNAME, _MTU, _MASTER, _LINKINFO, _NET_NS_PID, _AF_SPEC = 1, 3, 4, 10, 18, 19, 26

LOOPBACK = 1
"""The index of `lo` in every network namespace."""
MTU = 65515


def _attribute(kind: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack("=HH", len(body) + 4, kind) + body + b"\0" * (-len(body) % 4)


def _link(index: int = 0, *, up: bool = False) -> bytes:
    flags = _IFF_UP if up else 0
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _number(value: int) -> bytes:
    return struct.pack("=I", value)


class Netlink:
    """A route socket of the network namespace this process is in now."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        """Make a bridge."""
        kind = _attribute(_LINKINFO, _attribute(1, b"bridge\0"))
        self._change(_NEWLINK, _link(), _attribute(_IFNAME, name.encode() + b"\0"), kind)

    def add_pair(self, name: str, bridge: int, peer: str, mac: bytes, pid: int) -> None:
        """Make a veth pair: `name` on the bridge and up, `peer` in the network namespace of process `pid`."""
        mtu = _attribute(_MTU, _number(MTU))
        far = (_attribute(_IFNAME, peer.encode() + b"\0"), _attribute(_ADDRESS, mac), mtu)
        info = _attribute(1, _link(), *far, _attribute(_NET_NS_PID, _number(pid)))
        kind = _attribute(_LINKINFO, _attribute(1, b"veth\0"), _attribute(2, info))
        near = (_attribute(_IFNAME, name.encode() + b"\0"), _attribute(_MASTER, _number(bridge)), mtu)
        self._change(_NEWLINK, _link(up=True), *near, kind)

    def remove(self, name: str) -> None:
        """Remove a link, and with one end of a pair the other; one that has gone by itself is no matter."""
        try:
            self._request(_DELLINK, _link(), _attribute(_IFNAME, name.encode() + b"\0"))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise

    def no_link_local(self, index: int) -> None:
        """Give a link no IPv6 address of its own: frameworks would find it and publish it."""
        spec = _attribute(socket.AF_INET6, _attribute(8, b"\1"))
        self._request(_NEWLINK, _link(index), _attribute(_AF_SPEC, spec))

    def forward(self, index: int) -> None:
        """Answer "network is unreachable" for what comes in and goes nowhere, instead of dropping it."""
        spec = _attribute(socket.AF_INET, _attribute(1, _attribute(1, _number(1))))
        self._request(_NEWLINK, _link(index), _attribute(_AF_SPEC, spec))

    def up(self, index: int) -> None:
        """Bring a link up."""
        self._request(_NEWLINK, _link(index, up=True))

    def add_address(self, index: int, address: str, prefix: int) -> None:
        """Give a link an IPv4 address."""
        header = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, index)
        packed = socket.inet_aton(address)
        self._change(_NEWADDR, header, _attribute(2, packed), _attribute(1, packed))

    def add_default_route(self, index: int, gateway: str) -> None:
        """Send everything without a route of its own to `gateway`."""
        header = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 4, 0, 1, 0)
        self._change(_NEWROUTE, header, _attribute(5, socket.inet_aton(gateway)), _attribute(4, _number(index)))

    def is_running(self, name: str) -> bool:
        """Say whether a link carries packets: some time after it was brought up, when the kernel gets round to it."""
        answers = self._exchange(_GETLINK, _ACK, _link(), _attribute(_IFNAME, name.encode() + b"\0"))
        return any(struct.unpack_from("=I", body, 8)[0] & _IFF_RUNNING for body in answers)

    def links(self) -> list[str]:
        """Return the names of all links."""
        names = []
        for body in self._exchange(_GETLINK, _DUMP, _link()):
            rest = body[16:]
            while len(rest) >= 4:
                size, kind = struct.unpack_from("=HH", rest)
                if kind == _IFNAME:
                    names.append(rest[4:size].rstrip(b"\0").decode())
                rest = rest[(size + 3) & ~3 :]
        return names

    def _change(self, kind: int, *parts: bytes) -> None:
        self._exchange(kind, _ACK | _CREATE | _EXCL, *parts)

    def _request(self, kind: int, *parts: bytes) -> None:
        self._exchange(kind, _ACK, *parts)

    def _exchange(self, kind: int, flags: int, *parts: bytes) -> list[bytes]:
        body = b"".join(parts)
        self._socket.send(struct.pack("=IHHII", len(body) + 16, kind, _REQUEST | flags, 1, 0) + body)
        answers: list[bytes] = []
        while True:
            data = self._socket.recv(65536)
            while data:
                size, kind = struct.unpack_from("=IH", data)
                if kind == _DONE:
                    return answers
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", data, 16)[0]
                    if number:
                        raise OSError(number, os.strerror(number))
                    return answers
                answers.append(data[16:size])
                data = data[(size + 3) & ~3 :]
