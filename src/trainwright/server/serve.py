"""`tw serve`: a home that lasts, asked over a unix socket and over 127.0.0.1, until SIGTERM.

Whatever was accepted is on disk before the answer says so. Stopping ends the pods as draining a node does, and their
jobs go on at the next start; after `kill -9` they end as the loss of a node ends them. The lock of the folder is held
until nothing of any pod is left, so the next server never meets what the last one started.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from trainwright.cluster.beside import beside
from trainwright.cluster.journal import Journal
from trainwright.cluster.unix import SHARED
from trainwright.core.errors import HomeError
from trainwright.kinds import KINDS
from trainwright.node.signals import cancelled_by_signals
from trainwright.operator.home import HomeOptions, Lasting, LocalHome, local_home
from trainwright.server import sockets
from trainwright.server.api import Api
from trainwright.server.gate import LocalGate
from trainwright.server.retention import Keep, Retention
from trainwright.server.state import State
from trainwright.server.transfer import bring_in
from trainwright.server.users import inheritance, user_of
from trainwright.web.server import Server

PORT = 7447
_BOOT = "boot"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ServeOptions:
    """What `tw serve` was asked for."""

    state: Path
    port: int = PORT
    """Where it listens on 127.0.0.1; a free one instead of the usual one if that is taken."""
    users: Literal["own", "all"] = "own"
    shared_socket: Path = SHARED
    """Where everybody asks, if all users are served."""
    isolation: Literal["auto", "net", "ports"] = "auto"
    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    lenient: bool = False
    autoscale: bool = True
    grace: float = 30.0
    keep: Keep = field(default_factory=Keep)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    bring_in: Path | None = None
    """A file of exported objects to begin with."""


async def serve(options: ServeOptions, on_notice: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_notice` is told in words how, and what is unusual."""
    if options.users == "all" and os.getuid():
        raise HomeError("--users all needs root: nobody else can run jobs as the users who submit them")
    with cancelled_by_signals(), contextlib.suppress(asyncio.CancelledError):
        async with serving(options, on_notice):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                on_notice(f"stopping: pods have {options.grace:g} s to end; their jobs go on at the next start")


@asynccontextmanager
async def serving(options: ServeOptions, on_notice: Callable[[str], None]) -> AsyncIterator[LocalHome]:
    """Serve while the body runs."""
    state = State(options.state)
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(state.held())
        journal = stack.enter_context(Journal.open(state.store, insist=True, on_error=on_notice))
        if options.bring_in:
            on_notice(f"{bring_in(options.bring_in, journal)} objects were brought in from {options.bring_in}")
        listeners = [*_listeners(options, state, stack)]
        home = await stack.enter_async_context(local_home(_home(options, state, journal, lock, on_notice)))
        journal.note(_BOOT, _boot())  # not before the kubelet has noted what an earlier start of the machine has lost
        everybody = options.users == "all"
        gate = LocalGate.of(home.cluster, journal, state.token(), everybody=everybody)
        api = Api(home.cluster, KINDS, gate, home.kubelet)
        encrypted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        encrypted.load_cert_chain(state.certificate())
        for listener in listeners:
            context = encrypted if listener.family == socket.AF_INET else None
            await stack.enter_async_context(Server(listener, api.handle, context=context))
        await stack.enter_async_context(beside(Retention(home.cluster, state.folder, options.keep, _now).run()))
        port = next(each.getsockname()[1] for each in listeners if each.family == socket.AF_INET)
        state.write_kubeconfig(port)
        on_notice(home.notice)
        who = f"everybody on {options.shared_socket}, and this user" if everybody else "this user"
        on_notice(f"serving {who} on {state.socket} and https://127.0.0.1:{port}; kubectl: {state.kubeconfig}")
        yield home


def _home(
    options: ServeOptions, state: State, journal: Journal, lock: int, on_notice: Callable[[str], None]
) -> HomeOptions:
    rebooted = journal.fact(_BOOT) not in (None, _boot())
    lasting = Lasting(journal, lock, rebooted=rebooted, grace=options.grace)
    if options.users == "all":
        lasting = replace(lasting, user_of=user_of, inherit=inheritance)
    return HomeOptions(
        state.folder,
        options.isolation,
        cpu=options.cpu,
        memory=options.memory,
        gpu=options.gpu,
        environment=options.environment,
        cwd=options.cwd,
        lenient=options.lenient,
        autoscale=options.autoscale,
        on_notice=on_notice,
        lasting=lasting,
    )


def _boot() -> str:
    """Return what tells this start of the machine from others; nothing where nobody tells."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _listeners(options: ServeOptions, state: State, stack: AsyncExitStack) -> Iterator[socket.socket]:
    """Yield the sockets to be asked on."""
    yield stack.enter_context(sockets.listen(state.socket, 0o600))
    if options.users == "all":
        options.shared_socket.parent.mkdir(parents=True, exist_ok=True)
        yield stack.enter_context(sockets.listen(options.shared_socket, 0o666))
    yield stack.enter_context(_listen(options.port))


def _listen(port: int) -> socket.socket:
    for candidate in (port, 0) if port == PORT else (port,):
        try:
            return socket.create_server(("127.0.0.1", candidate), backlog=128)
        except OSError as error:
            problem = error
    raise HomeError(f"127.0.0.1 port {port}: {problem.strerror or problem}; give a free one with --port") from problem


def _now() -> datetime:
    return datetime.now(UTC)
