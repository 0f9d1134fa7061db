"""Sandboxes and processes as the agent holds them: the zygote is started here, its messages are understood here.

Shared by both isolations, which differ in what they ask the zygote for and in what an address means.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from errno import EMFILE, ENOENT
from pathlib import Path
from signal import SIGKILL

from trainwright.core.errors import HomeError
from trainwright.node import linux
from trainwright.node.base import Exit, Mount, ProcessSpec, SandboxSpec, SpawnError
from trainwright.node.channel import Channel, Message, Received, pack

_START = "import sys; sys.path.append(sys.argv.pop(1)); from trainwright.node.zygote import main; main(sys.argv[1])"
_PACKAGES = Path(__file__).parents[2]
_TREE_SECONDS = 0.1
"""How long one look at the process tree serves all sandboxes."""
_LOST = "the process that starts pods has ended"


def mount_rows(mounts: Sequence[Mount]) -> list[tuple[str, str, bool, bool]]:
    """Return mounts as the helpers read them."""
    return [(str(each.source.absolute()), each.target, each.read_only, each.optional) for each in mounts]


class Wire:
    """The agent's end of a channel: calls back for each message, and with None once when the other side has ended."""

    def __init__(self, heard: Callable[[Received | None], None]) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        if hasattr(socket, "SO_PASSCRED"):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._channel = Channel(ours)
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._readable)
        self._open = True

    async def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message, waiting for room if need be; ConnectionError if the other side has ended."""
        while True:
            if not self._open:
                raise ConnectionResetError
            try:
                self._channel.send(message, fds)
            except BlockingIOError:
                await self._room()
            else:
                return

    def send_now(self, message: Message) -> None:
        """Send a message to a helper that does nothing but wait for it; nothing happens if it has ended."""
        if self._open:
            try:
                self._channel.send(message)
            except (ConnectionError, BlockingIOError):
                return

    async def _room(self) -> None:
        room: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._channel.socket, _settle, room)
        try:
            await room
        finally:
            if self._open:
                self._loop.remove_writer(self._channel.socket)

    def _readable(self) -> None:
        try:
            received = self._channel.receive()
        except OSError:
            received = None
        if received is None:
            self.close()
            self._heard(None)
            return
        for item in received:
            self._heard(item)

    def close(self) -> None:
        """Close both ends; the helper on the other side then ends what it is responsible for."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._channel.socket)
            self._channel.close()
        self.theirs.close()


class PodProcess:
    """A running process and its descendants: `Process`."""

    def __init__(self) -> None:
        self.supervisor = 0
        self.pid = 0
        self.wire = Wire(self._heard)
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[Exit] = loop.create_future()

    @property
    def ended(self) -> bool:
        """Say whether it has ended."""
        return self._ended.done()

    async def started(self) -> None:
        """Wait until it runs; SpawnError says why it does not."""
        await self._started

    def signal(self, number: int) -> None:
        """Send a signal to the process; does nothing once it has ended."""
        self.wire.send_now({"signal": int(number)})

    async def wait(self) -> Exit:
        """Return how it ended."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """SIGKILL it and every descendant, also those that left its session; returns when they are gone."""
        self.wire.send_now({"kill": True})
        await self.wait()

    def _heard(self, item: Received | None) -> None:
        if item is None:
            # Ended together with its pod, or its supervisor was killed: then so was the process.
            self._fail("the pod has ended")
            self._end(Exit(128 + SIGKILL, SIGKILL))
            return
        match item.message:
            case {"pid": int(pid)}:
                self.pid = item.sender or pid
            case {"started": int()}:
                self.supervisor = item.sender
                if not self._started.done():
                    self._started.set_result(None)
            case {"error": str(problem)}:
                self._fail(problem)
            case {"code": int(code)}:
                self._end(Exit(code))
            case {"signal": int(number)}:
                self._end(Exit(128 + number, number))

    def _fail(self, problem: str) -> None:
        if not self._started.done():
            self._started.set_exception(SpawnError(problem))

    def _end(self, ended: Exit) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)
        self.wire.close()


class Orders:
    """Sockets that were asked of a helper and have not come yet."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[socket.socket]] = {}
        self._last = 0

    async def place(self, wire: Wire, message: Message) -> socket.socket:
        """Ask for a socket and wait for it; OSError if it cannot be made."""
        self._last += 1
        number = self._last
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await wire.send({**message, "id": number})
            return await self._waiting[number]
        finally:
            del self._waiting[number]

    def deliver(self, item: Received) -> None:
        """Hand over what has come, or the reason why it does not."""
        made = socket.socket(fileno=item.fds[0]) if item.fds else None
        order = self._waiting.get(item.message["reply"])
        if order is None or order.done():
            if made:
                made.close()
        elif made:
            order.set_result(made)
        else:
            # Without a reason the descriptor was lost on the way: this process may open no more.
            number = item.message.get("errno", EMFILE)
            order.set_exception(OSError(number, os.strerror(number)))

    def cancel(self, problem: str) -> None:
        """Tell everybody who waits that nothing will come."""
        for order in self._waiting.values():
            if not order.done():
                order.set_exception(ConnectionResetError(problem))


class PodSandbox:
    """A pod's own place: `Sandbox`."""

    def __init__(self, zygote: "Zygote", spec: SandboxSpec, address: str) -> None:
        self.address = address
        self._spec = spec
        self._zygote = zygote
        self._init = 0
        self._processes: set[PodProcess] = set()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._orders = Orders()
        self._wire = Wire(self._heard)

    async def open(self, payload: Message) -> None:
        """Have the zygote fork its init and wait until that is ready."""
        try:
            await self._zygote.fork(self._wire.theirs, payload, self._gone)
            await self._ready
        except BaseException:
            await self.close()
            raise

    async def start(self, spec: ProcessSpec) -> PodProcess:
        """Start a process inside; SpawnError says in words why it could not."""
        if not spec.argv:
            raise SpawnError("there is no command to start")
        payload = pack(self._payload(spec))
        try:
            return await self._start(payload, (spec.stdin, spec.stdout, spec.stderr, spec.note))
        finally:
            os.close(payload)

    async def _start(self, payload: int, files: Sequence[int | None]) -> PodProcess:
        process = PodProcess()
        try:
            fds = [process.wire.theirs.fileno(), payload, *(fd for fd in files if fd is not None)]
            await self._wire.send({"files": [fd is not None for fd in files]}, fds)
            process.wire.theirs.close()
            await process.started()
        except BaseException as error:
            process.wire.close()
            if isinstance(error, ConnectionError):
                raise SpawnError("the pod has ended") from None
            raise
        self._processes = {each for each in self._processes if not each.ended} | {process}
        return process

    def _payload(self, spec: ProcessSpec) -> Message:
        return {
            "argv": list(spec.argv),
            "env": dict(spec.env),
            "cwd": spec.cwd or str(Path.cwd()),
            "mounts": mount_rows(spec.mounts),
            "leave_children": spec.leave_children,
            "terminal": spec.terminal,
            "user": [spec.user.uid, spec.user.gid, spec.user.groups] if spec.user else None,
        }

    def pids(self) -> list[int]:
        """Return the host's process ids of everything that runs inside, our own helpers left out."""
        if not self._init:
            return []
        helpers = {process.supervisor for process in self._processes}
        return sorted(linux.descendants(self._init, self._zygote.tree()) - helpers)

    async def connect(self, port: int, host: str = "") -> socket.socket:
        """Return a non-blocking TCP socket connected to a port inside the pod; OSError if nobody listens."""
        target = self.find(host) if host else self.address
        if not target:
            raise OSError(ENOENT, f"no such host: {host!r} is not in the pod's /etc/hosts")
        # A socket stays in the network it was made in, so the pod's init makes it.
        made = await self._orders.place(self._wire, {"socket": 6 if ":" in target else 4})
        return await connected(made, (target, port))

    async def door(self, address: str) -> socket.socket:
        """Return a listening unix socket that only processes of this pod can reach."""
        return await self._orders.place(self._wire, {"door": address})

    def find(self, host: str) -> str | None:
        """Return the address of a host as this pod's own /etc/hosts has it."""
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                socket.inet_pton(family, host)
            except OSError:
                continue
            return host
        hosts = next((mount.source for mount in self._spec.mounts if mount.target == "/etc/hosts"), Path("/etc/hosts"))
        for line in hosts.read_text().splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            if host in names and ":" not in address:
                return address
        return None

    async def close(self) -> None:
        """SIGKILL everything inside; returns when nothing is left."""
        self._init = 0
        self._wire.close()
        await asyncio.shield(self._gone)

    def _heard(self, item: Received | None) -> None:
        if item is None:
            self._fail("the pod's first process has ended")
        elif "reply" in item.message:
            self._orders.deliver(item)
        elif "error" in item.message:
            self._fail(item.message["error"])
        elif not self._ready.done():
            self._init = item.sender or item.message["ready"]
            self._ready.set_result(None)

    def _fail(self, problem: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(SpawnError(problem))
        self._orders.cancel(problem)


class Zygote:
    """The helper process and all that hangs on it. An async context manager: leaving it ends every pod."""

    def __init__(self, *, namespaces: bool) -> None:
        self.neighbours: Sequence[int] | None = None
        """Processes whose network is joined, the first that can be, if the network is to be shared at all."""
        self.held: Sequence[int] = ()
        """Descriptors that stay open until the last of its processes has ended."""
        self._namespaces = namespaces
        self._gone: dict[int, asyncio.Future[None]] = {}
        self._opened = 0
        self._orders = Orders()
        self._tree: tuple[float, dict[int, int]] = (0.0, {})

    async def __aenter__(self) -> "Zygote":
        self._ready: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._wire = Wire(self._heard)
        self._process = launch(
            self._wire.theirs, namespaces=self._namespaces, neighbours=self.neighbours, held=self.held
        )
        self._wire.theirs.close()
        try:
            message = await self._ready
            if "error" in message:
                raise HomeError(f"pods cannot be set up: {message['error']}")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    @property
    def pid(self) -> int:
        """Return the process by which others find this one's network."""
        return self._process.pid

    async def __aexit__(self, *error: object) -> None:
        self._wire.close()
        while self._process.poll() is None:  # noqa: ASYNC110 - the launcher ends when nothing is left: no event says so
            await asyncio.sleep(0.002)
        self._lost()

    async def fork(self, end: socket.socket, payload: Message, gone: asyncio.Future[None]) -> None:
        """Fork the init of a pod, which keeps `end`; `gone` is set when nothing of it is left."""
        self._opened += 1
        number, fd = self._opened, pack(payload)
        self._gone[number] = gone
        try:
            await self._wire.send({"open": number}, [end.fileno(), fd])
        except BaseException as error:
            _settle(self._gone.pop(number, None))
            if isinstance(error, ConnectionError):
                raise SpawnError(_LOST) from None
            raise
        finally:
            os.close(fd)
            end.close()

    async def listen(self, port: int) -> socket.socket:
        """Return a listening socket in the cluster's network."""
        return await self._orders.place(self._wire, {"listen": port})

    def tree(self) -> dict[int, int]:
        """Return all processes with their parents; one look serves everybody who asks within a moment."""
        now = time.monotonic()
        if now - self._tree[0] > _TREE_SECONDS:
            self._tree = (now, linux.parents())
        return self._tree[1]

    def _heard(self, item: Received | None) -> None:
        if item is None:
            self._lost()
        elif "gone" in item.message:
            _settle(self._gone.pop(item.message["gone"], None))
        elif "reply" in item.message:
            self._orders.deliver(item)
        elif not self._ready.done():
            self._ready.set_result(item.message)

    def _lost(self) -> None:
        """Settle whatever anybody waits for: the helper has ended, and all pods with it."""
        if not self._ready.done():
            self._ready.set_result({"error": _LOST})
        for gone in self._gone.values():
            _settle(gone)
        self._gone.clear()
        self._orders.cancel(_LOST)


def launch(
    control: socket.socket,
    *,
    namespaces: bool,
    neighbours: Sequence[int] | None = None,
    held: Sequence[int] = (),
    trial: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start the helper process with its end of the control socket."""
    wishes = {"namespaces": namespaces, "neighbours": neighbours, "trial": trial}
    options = json.dumps({"control": control.fileno(), "held": [*held], **wishes})
    return subprocess.Popen(
        # Isolated and without site: it needs nothing but the standard library, and starts in half the time.
        [sys.executable, "-I", "-S", "-c", _START, str(_PACKAGES), options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[control.fileno(), *held],
        # A session of its own: Ctrl-C on the terminal is for the agent alone.
        start_new_session=True,
        cwd="/",
    )


async def connected(made: socket.socket, address: tuple[str, int]) -> socket.socket:
    """Connect a socket and return it; closes it if that fails."""
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _settle(future: asyncio.Future[None] | None) -> None:
    if future and not future.done():
        future.set_result(None)
