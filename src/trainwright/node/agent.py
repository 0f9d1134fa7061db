"""A whole node on a real API server: isolation, kubelet, heartbeat and the HTTPS server, from start to SIGTERM.

On SIGTERM the node says that it takes no pods any more, ends its pods within their grace and leaves; a second signal
ends the waiting. Whatever way it ends, no process of a pod outlives it. What its pods were is then in their statuses:
lost ones are recorded as such when a node of the same name starts again.
"""

import asyncio
import contextlib
import fcntl
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainwright.cluster.base import Cluster
from trainwright.cluster.beside import beside
from trainwright.core.errors import HomeError
from trainwright.node import machine
from trainwright.node.api_server import WayIn, way_in
from trainwright.node.certificate import server_context
from trainwright.node.isolation import choose
from trainwright.node.kubelet import Kubelet, KubeletOptions
from trainwright.node.lease import Heartbeat
from trainwright.node.neighbours import Neighbourhood
from trainwright.node.net import NetIsolation
from trainwright.node.serving import NodeServer
from trainwright.node.signals import cancelled_by_signals
from trainwright.node.tokens import Issue
from trainwright.node.way_out import way_out

_NO_NAMES = "names of Services do not resolve in pods, so jobs of several pods cannot find each other"


@dataclass(frozen=True)
class AgentOptions:
    """What `tw node` was asked for."""

    name: str
    cluster: str
    """What tells the cluster from others: nodes of one cluster on one machine share a network."""
    root: Path
    """Where pods keep their files and logs."""
    cwd: Path
    environment: Mapping[str, str]
    """What commands find in the place of an image's environment."""
    isolation: Literal["auto", "net", "ports"] = "auto"
    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    """Where the API server reaches this node."""
    port: int = 0
    """Where it listens there; 0: on a free port."""
    clients: Path | None = None
    """The certificates of those who may ask for logs and exec."""
    anonymous: bool = False
    """Anybody who can connect may."""
    api_server: tuple[str, int] | None = None
    """Where pods are carried to that ask for the API server: host and port."""
    issue_token: Issue | None = None
    """Who gives pods the tokens by which it knows them."""
    heartbeat: float = 10.0
    grace: float = 30.0
    """So long pods may take to end when the node stops."""


async def run(cluster: Cluster, options: AgentOptions, on_notice: Callable[[str], None]) -> None:
    """Be a node until SIGTERM or SIGINT; `on_notice` is told in words how it is one."""
    with cancelled_by_signals(), contextlib.suppress(asyncio.CancelledError):
        async with node(cluster, options, on_notice) as kubelet:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                on_notice(f"stopping: pods have {options.grace:g} s to end; another signal ends them at once")
                await kubelet.drain(options.grace)


@asynccontextmanager
async def node(cluster: Cluster, options: AgentOptions, on_notice: Callable[[str], None]) -> AsyncIterator[Kubelet]:
    """Register a node and run its pods; leaving ends them all."""
    isolation, notice = choose(options.isolation)
    on_notice(notice if isolation.name == "net" else f"{notice}; {_NO_NAMES}")
    if isinstance(isolation, NetIsolation):
        isolation.neighbourhood = Neighbourhood(options.cluster)
    async with AsyncExitStack() as stack:
        stack.enter_context(_alone(options))
        listener = _listen(options, stack)
        if listener is None:
            on_notice(
                "logs, exec and port-forward are off, since nobody could be told from the API server; "
                "give its certificate with --client-ca, or let everybody in who can connect, with --anonymous"
            )
        await stack.enter_async_context(isolation)
        outside = await way_out(isolation, stack)
        inside = await way_in(isolation, *options.api_server, stack) if options.api_server else WayIn()
        environment = {**options.environment, **outside, **inside.environment}
        port = listener.getsockname()[1] if listener else 0
        made = _kubelet(options, environment, port, inside.address)
        kubelet = await stack.enter_async_context(Kubelet(cluster, isolation, made))
        if listener:
            context = server_context(options.name, options.address, options.clients)
            await stack.enter_async_context(NodeServer(kubelet, listener, context))
        heartbeat = Heartbeat(cluster, kubelet.registration, options.name, seconds=options.heartbeat)
        await stack.enter_async_context(beside(heartbeat.run()))
        on_notice(f"node {options.name} is ready")
        yield kubelet


def _kubelet(options: AgentOptions, environment: Mapping[str, str], port: int, api_server: str) -> KubeletOptions:
    return KubeletOptions(
        options.name,
        options.root,
        machine.offered(options.cpu, options.memory, options.gpu),
        environment=environment,
        cwd=options.cwd,
        address=options.address,
        port=port,
        labels=options.labels,
        issue_token=options.issue_token,
        api_server=api_server,
    )


@contextlib.contextmanager
def _alone(options: AgentOptions) -> Iterator[None]:
    """Hold the node's folder: two nodes of one name would both run every pod."""
    options.root.mkdir(parents=True, exist_ok=True)
    with (options.root / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeError(
                f"a node keeps its files in {options.root} already; stop it, or give this one "
                "another --name, and another --root if you gave one"
            ) from None
        yield


def _listen(options: AgentOptions, stack: AsyncExitStack) -> socket.socket | None:
    if options.clients is None and not options.anonymous:
        return None
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    try:
        return stack.enter_context(socket.create_server((options.address, options.port), family=family))
    except OSError as error:
        raise HomeError(
            f"the node cannot listen on {options.address} port {options.port}: {error.strerror or error}; "
            "give an address of this machine with --address, and a free port with --port"
        ) from error
