"""The helper that forks pods. Started by the agent, single-threaded, standard library only.

    agent ─▶ launcher ─▶ zygote (pid 1 of the cluster) ─▶ pod init (pid 1 of the pod) ─▶ supervisor ─▶ command

The launcher enters a user namespace if the caller is no administrator, makes the cluster's network, mount and pid
namespaces, forks the zygote into them and waits. The zygote has the bridge and does nothing but fork. It ends when the
agent closes its socket or dies, and with it, by the kernel's own rule for process 1, everything in the cluster.
It is never exec'ed again: that is what keeps the capabilities of the user namespace alive here, while each
command loses them at its own exec.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from trainwright.node import linux, pod_init
from trainwright.node.channel import Channel, Received, pack
from trainwright.node.netlink import LOOPBACK, Netlink
from trainwright.node.pod_init import Failure, Place
from trainwright.node.trees import Children, end_all, forget_signals, fork, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainwright.node.channel import Message

_BRIDGE = "br0"
_PROC = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
_RESOLVER = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"


def main(arguments: str) -> None:
    """Launch a zygote; `arguments` is JSON: the control socket, and what kind of isolation is wanted."""
    options = json.loads(arguments)
    linux.rename("trainwright")
    forget_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # who closes a socket is noticed by the error, not by dying of it
    control = socket.socket(fileno=options["control"])
    for fd in (control.fileno(), *options["held"]):
        os.set_inheritable(fd, False)  # those it forks have them, the commands they start do not
    channel = Channel(control)
    place = Place()
    try:
        if options["namespaces"]:
            place.pids = _enter_cluster(options["neighbours"])
        linux.adopt_orphans()
        zygote = fork(lambda: _be_zygote(place, channel, namespaces=options["namespaces"], trial=options["trial"]))
    except Failure as failure:
        channel.send(failure.message())
        return
    channel.close()
    Children()
    os.waitpid(zygote, 0)
    if not place.pids:  # in a pid namespace the kernel has done it, and /proc is no longer ours to read
        end_all()


def _be_zygote(place: Place, channel: Channel, *, namespaces: bool, trial: bool) -> None:
    linux.die_with_parent()
    linux.adopt_orphans()
    try:
        if namespaces:
            place.bridge = _make_bridge()
            _mount(place)
        if trial:
            channel.send(_try_pod(place, channel))
        else:
            channel.send({"ready": os.getpid(), "pids": place.pids})
            _serve(place, channel)
    except Failure as failure:
        channel.send(failure.message())
    finally:
        if not place.pids:
            end_all()


def _enter_cluster(neighbours: list[int] | None) -> bool:
    """Make the namespaces of the cluster, or join a neighbour's network; return whether pids can be private too."""
    step = "user namespace"
    try:
        if not any(_joined(pid) for pid in neighbours or ()):
            if not linux.may_administer():
                linux.enter_user_namespace()
            step = "network namespace"
            linux.unshare(linux.NEWNET)
        if neighbours is not None:
            linux.may_be_joined()
        step = "mount namespace"
        linux.unshare(linux.NEWNS)
        step = "mount"
        linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    except OSError as error:
        raise Failure(step, error) from error
    if not _proc_can_be_fresh():
        return False
    linux.unshare(linux.NEWPID)
    return True


def _joined(neighbour: int) -> bool:
    try:
        linux.join_network(neighbour)
    except OSError:  # it has ended meanwhile
        return False
    return True


def _proc_can_be_fresh() -> bool:
    """Find out by trying whether a pid namespace with its own /proc is allowed: masked paths in /proc forbid it."""
    outer = os.fork()
    if not outer:
        try:
            linux.unshare(linux.NEWPID | linux.NEWNS)
            inner = os.fork()
            if not inner:
                try:
                    linux.mount("proc", "/proc", "proc", _PROC)
                    os._exit(0)
                finally:
                    os._exit(1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
        finally:
            os._exit(1)
    return os.waitpid(outer, 0)[1] == 0


def _make_bridge() -> int:
    """Return the bridge of the cluster's network; one that was joined has it already."""
    try:
        return socket.if_nametoindex(_BRIDGE)
    except OSError:
        pass
    try:
        netlink = Netlink()
        netlink.up(LOOPBACK)
        netlink.add_bridge(_BRIDGE)
        index = socket.if_nametoindex(_BRIDGE)
        netlink.add_address(index, pod_init.GATEWAY, pod_init.PREFIX)
        netlink.up(index)
        netlink.forward(index)
        netlink.close()
    except OSError as error:
        raise Failure("bridge", error) from error
    return index


def _mount(place: Place) -> None:
    try:
        if place.pids:
            linux.mount("proc", "/proc", "proc", _PROC)
        _name_lookup_by_file_only()
    except OSError as error:
        raise Failure("mount", error) from error
    try:
        os.mkdir("/tmp/ray", 0o777)  # a place to mount each pod's own on
        os.chmod("/tmp/ray", 0o777)  # noqa: S103 - as ray itself makes it
    except OSError:
        return


def _name_lookup_by_file_only() -> None:
    """Make name lookups end at /etc/hosts, as there is no name server to wait 10 s for."""
    files = {"/etc/resolv.conf": _RESOLVER}
    try:
        with open("/etc/nsswitch.conf") as file:
            lines = [line for line in file.read().splitlines() if not line.lstrip().startswith("hosts:")]
        files["/etc/nsswitch.conf"] = "\n".join([*lines, "hosts: files", ""])
    except OSError:
        pass
    scratch = next(path for path in ("/mnt", "/tmp", "/usr") if os.path.isdir(path))
    linux.mount("tmpfs", scratch, "tmpfs", data="mode=755")
    for number, (path, text) in enumerate(files.items()):
        if os.path.isfile(path):
            with open(f"{scratch}/{number}", "w") as file:
                file.write(text)
            linux.mount(f"{scratch}/{number}", path, flags=linux.MS_BIND)
    linux.unmount(scratch)


def _try_pod(place: Place, channel: Channel) -> Message:
    """Make one pod for real and return what its init says."""
    ours, theirs = socket.socketpair()
    payload = pack({"address": "10.77.0.2", "link": "trial", "hostname": "trial", "mounts": [], "mark": ""})
    _fork_pod(place, [theirs.detach(), payload], [channel, Channel(ours)])
    received = Channel(ours).receive()
    if not received:
        return {"error": "the trial pod ended without a word", "step": "pod", "errno": 0}
    return received[0].message | {"pids": place.pids}


def _serve(place: Place, channel: Channel) -> None:
    gc.freeze()  # what is never looked at again is never copied by a fork
    children = Children()
    pods: dict[int, int] = {}
    while True:
        readable = children.wait(channel.socket)
        _bury(place, pods, channel)
        if not readable:
            continue
        received = channel.receive()
        if received is None:
            return
        for item in received:
            if "listen" in item.message:
                _listen(item, channel)
            else:
                number = item.message["open"]
                child = _fork_pod(place, item.fds, [channel])
                if child:
                    pods[child] = number
                else:
                    channel.send({"gone": number})


def _bury(place: Place, pods: dict[int, int], channel: Channel) -> None:
    """Tell the agent of pods that have ended, once nothing of them is left."""
    ended = reap()
    if ended and not place.pids:
        # Orphans of an init that was killed have come to us: nobody else will end them.
        ended |= end_all(spare=[pid for pid in pods if pid not in ended])
    for pid in ended:
        if pid in pods:
            channel.send({"gone": pods.pop(pid)})


def _fork_pod(place: Place, fds: list[int], inherited: list[Channel]) -> int:
    """Fork the init of a pod, process 1 of its own pid namespace if there can be one; 0 if it was refused."""
    end, payload = fds

    def be_init() -> None:
        for channel in inherited:
            channel.close()
        pod_init.run(place, socket.socket(fileno=end), payload)

    try:
        if place.pids:
            linux.unshare(linux.NEWPID)
        return fork(be_init)
    except OSError as error:
        pod_init.refuse(end, f"cannot start a pod: {error.strerror}")
        return 0
    finally:
        if place.pids:
            # Back to our own for the next fork; allowed because the cluster's pid namespace is ours.
            own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            linux.setns(own, linux.NEWPID)
            os.close(own)
        os.close(end)
        os.close(payload)


def _listen(item: Received, channel: Channel) -> None:
    try:
        with socket.create_server((pod_init.GATEWAY, item.message["listen"]), backlog=128) as server:
            channel.send({"reply": item.message["id"]}, [server.fileno()])
    except OSError as error:
        channel.send({"reply": item.message["id"], "errno": error.errno})


if __name__ == "__main__":
    main(sys.argv[1])
