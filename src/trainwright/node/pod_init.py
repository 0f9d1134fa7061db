"""The first process of a pod: makes the pod's namespaces, then forks a supervisor for each process asked for.

In a pid namespace it is process 1: when it ends, the kernel ends everything in the pod. It ends when the agent closes
its socket, or dies, or the zygote dies.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

from trainwright.node import linux, mounts
from trainwright.node.channel import Channel, Received, unpack
from trainwright.node.netlink import LOOPBACK, Netlink
from trainwright.node.supervisor import supervise
from trainwright.node.trees import Children, end_all, fork, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainwright.node.channel import Message

GATEWAY = "10.77.0.1"
PREFIX = 16

_LINK_SECONDS = 2.0
_FIRST_PORT_OF_ALL = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
_PROC = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
_PRIVATE = ("/dev/shm", "/tmp/ray")
"""Every pod has its own: ranks of one job would find each other's files here, which on a cluster they never do."""


_NOT_FOR_PODS = ("loop", "ram", "ttyS", "vcs", *(f"tty{digit}" for digit in range(10)))
"""Devices that are many and no container ever sees: mounting them again would be most of a pod's start."""


class Failure(Exception):  # noqa: N818 - it is a value that travels
    """A step of a set-up that the kernel refused."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(f"{step}: {error.strerror or error}")
        self.step, self.errno = step, error.errno or 0

    def message(self) -> Message:
        """Return what is told to the agent."""
        return {"error": str(self), "step": self.step, "errno": self.errno}


class Place:
    """What the zygote knows and its pods need: the bridge (0: no namespaces at all), and whether pids are private."""

    def __init__(self, bridge: int = 0, *, pids: bool = False) -> None:
        self.bridge, self.pids = bridge, pids


def run(place: Place, end: socket.socket, payload: int) -> None:
    """Be the init of a pod until the agent closes the socket."""
    linux.die_with_parent()
    linux.adopt_orphans()
    channel = Channel(end)
    children = Children()
    spec = unpack(payload)
    try:
        if place.bridge:
            enter(place, spec)
    except mounts.MountError as error:
        channel.send({"error": str(error)})
        return
    except Failure as failure:
        channel.send(failure.message())
        return
    try:
        channel.send({"ready": os.getpid()})
        _serve(channel, children, place)
    finally:
        if not place.pids:
            end_all(mark=spec["mark"])


def _serve(channel: Channel, children: Children, place: Place) -> None:
    while True:
        readable = children.wait(channel.socket)
        reap()
        if not readable:
            continue
        received = channel.receive()
        if received is None:
            return
        for item in received:
            if "socket" in item.message:
                _make_socket(item, channel)
            elif "door" in item.message:
                _make_door(item, channel)
            else:
                _start(item, channel, place)


def enter(place: Place, spec: Message) -> None:
    """Move this process into namespaces of its own, with address, host name and mounts."""
    step = "network namespace"
    try:
        cluster = Netlink()
        linux.unshare(linux.NEWNET | linux.NEWNS | linux.NEWUTS | linux.NEWIPC)
        step = "veth pair"
        _join(cluster, place.bridge, spec["link"], spec["address"])
        step = "pod network"
        _configure(spec["address"])
        step = "host name"
        socket.sethostname(spec["hostname"])
        step = "mount"
        _mount(place)
        mounts.apply(spec["mounts"])
        step = "link"
        _wait_for_link(cluster, spec["link"])
        cluster.close()
    except OSError as error:
        raise Failure(step, error) from error


def _join(cluster: Netlink, bridge: int, link: str, address: str) -> None:
    """Make the pod's link to the bridge."""
    pair = link, bridge, "eth0", b"\x02\x00" + socket.inet_aton(address), os.getpid()
    try:
        cluster.add_pair(*pair)
    except FileExistsError:
        # The node that had this place before is gone, and the kernel takes its pods' links away when it gets round to.
        cluster.remove(link)
        cluster.add_pair(*pair)


def _wait_for_link(cluster: Netlink, link: str) -> None:
    """Wait until the bridge takes the pod's packets: a first one that is lost comes again only after a second."""
    end = time.monotonic() + _LINK_SECONDS
    while not cluster.is_running(link) and time.monotonic() < end:
        time.sleep(0.0005)


def _configure(address: str) -> None:
    pod = Netlink()
    pod.up(LOOPBACK)
    index = socket.if_nametoindex("eth0")
    with suppress(OSError):  # a kernel without IPv6 has none to take away
        pod.no_link_local(index)
    pod.add_address(index, address, PREFIX)
    pod.up(index)
    # Leads nowhere, but lets programs find their own address the usual way: connect a UDP socket, ask for its name.
    pod.add_default_route(index, GATEWAY)
    pod.close()
    # As container runtimes do: the ports below 1024 are the pod's own too, whoever runs in it.
    with suppress(OSError), open(_FIRST_PORT_OF_ALL, "w") as setting:
        setting.write("0")


def _mount(place: Place) -> None:
    if place.pids:
        linux.mount("proc", "/proc", "proc", _PROC)
    try:
        # A small /dev with a place for the termination message, once per pod: every container mounts a file there.
        mounts.cover("/dev", wanted=lambda name: not name.startswith(_NOT_FOR_PODS))
        os.close(os.open("/dev/termination-log", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    except OSError:  # the host's own will do
        pass
    for folder in _PRIVATE:
        if os.path.isdir(folder):
            linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")
    try:
        # A fresh /sys lists the pod's own links; cgroups are kept in sight for programs that read their limits there.
        groups = os.open("/sys/fs/cgroup", os.O_PATH | os.O_CLOEXEC)
        linux.mount("sysfs", "/sys", "sysfs", _PROC | linux.MS_RDONLY)
        linux.mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", flags=linux.MS_BIND | linux.MS_REC)
        os.close(groups)
    except OSError:  # masked in some containers: the host's own view then stays
        return


def _make_socket(item: Received, channel: Channel) -> None:
    family = socket.AF_INET6 if item.message["socket"] == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as made:
        channel.send({"reply": item.message["id"]}, [made.fileno()])


def _make_door(item: Received, channel: Channel) -> None:
    """Make a socket without a file, which belongs to the pod's network: nobody outside the pod can reach it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(item.message["door"])
        made.listen(128)
        channel.send({"reply": item.message["id"]}, [made.fileno()])


def _start(item: Received, channel: Channel, place: Place) -> None:
    """Fork a supervisor for a process."""
    end, payload, *files = item.fds
    given = iter(files)
    *stdio, note = (next(given) if wanted else None for wanted in item.message["files"])

    def be_supervisor() -> None:
        channel.close()
        supervise(socket.socket(fileno=end), payload, stdio, note, namespaces=bool(place.bridge))

    try:
        fork(be_supervisor)
    except OSError as error:
        refuse(end, f"cannot start a process: {error.strerror}")
    for fd in item.fds:
        os.close(fd)


def refuse(end: int, problem: str) -> None:
    """Tell the agent over a socket that was to become a helper's why there is none."""
    with socket.socket(fileno=os.dup(end)) as refused:
        Channel(refused).send({"error": problem})
