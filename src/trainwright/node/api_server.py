"""The API server as pods find it: a port on their bridge, whose connections are carried on as they are.

Pods have no route to the outside, and an address such as 127.0.0.1 means another machine to them. So they are told the
name that every API server's certificate is for, which `hosts` leads to the bridge. Encryption is between the pod and
the API server: nothing is read here, and nobody is let in who has no token. Under `ports` pods have no files of their
own, hence no token, and need no way.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from trainwright.node.base import Isolation
from trainwright.node.proxy import relay
from trainwright.web.connections import Connection, Connections

log = logging.getLogger(__name__)

HOST = "kubernetes.default.svc"
_BUFFER = 1 << 16


@dataclass(frozen=True)
class WayIn:
    """What pods must know to reach the API server."""

    environment: dict[str, str] = field(default_factory=dict)
    address: str = ""
    """Of the host in the environment; none: there is no way."""


async def way_in(isolation: Isolation, host: str, port: int, stack: AsyncExitStack) -> WayIn:
    """Carry connections of pods to the API server at `host` until `stack` is left."""
    if isolation.name != "net":
        return WayIn()
    listener, address = await isolation.listen(0)
    await stack.enter_async_context(Connections(listener, partial(_carry, host, port), limit=_BUFFER))
    told = str(listener.getsockname()[1])
    names = ("KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS")
    return WayIn({"KUBERNETES_SERVICE_HOST": HOST, **dict.fromkeys(names, told)}, address)


async def _carry(host: str, port: int, connection: Connection) -> None:
    try:
        far = await asyncio.open_connection(host, port)
    except OSError as error:
        log.debug("a pod was not connected to the API server: %s", error)
        return
    try:
        await relay((connection.reader, connection.writer), far)
    finally:
        far[1].close()
