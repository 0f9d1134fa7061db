"""What a pod of the local home may ask its node for: to look at a pod, and to run a command in one.

On a cluster a pod asks the API server, with the token of its service account. Here it asks over a socket that only its
own processes can reach (`inpod/kubectl.py` is what asks), and the Roles of its account decide as they would there. The
command gets the asking process's own input, output and errors. It ends when that process does, with everything it has
started; a quiet one is left alone for as long as it likes.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from trainwright.cluster.base import Cluster
from trainwright.core.errors import BadRequest, ClusterError
from trainwright.core.objects import Object
from trainwright.core.resources import POD, ROLE, ROLE_BINDING
from trainwright.inpod.kubectl import ADDRESS
from trainwright.node.base import Process, Sandbox, User
from trainwright.node.channel import Channel, Received
from trainwright.node.rbac import Account, Call, allowed

log = logging.getLogger(__name__)


class Executor(Protocol):
    """Starts a command in a pod of this node, on descriptors of the caller's."""

    async def __call__(
        self, namespace: str, pod: str, command: list[str], container: str, stdio: tuple[int | None, int, int]
    ) -> Process:
        """Return the process; ClusterError says why there is none."""


Gone = Callable[[], Coroutine[Any, Any, None]]
"""Waits until the asking process has ended."""
Visitor = Callable[[Received, Gone], Awaitable[Object]]
"""Answers one request."""


class Requests:
    """Answers what pods ask, as far as their accounts allow it."""

    def __init__(self, cluster: Cluster, execute: Executor, user_of: Callable[[Object], User | None]) -> None:
        self._cluster = cluster
        self._execute = execute
        self._user_of = user_of

    async def answer(self, pod: Object, item: Received, gone: Gone) -> Object:
        """Do what a process of `pod` asks for and return the answer; ClusterError is one, too."""
        asked, meta = item.message, pod["metadata"]
        account = Account(meta["namespace"], pod["spec"]["serviceAccountName"])
        namespace, name = str(asked["namespace"] or meta["namespace"]), str(asked["pod"])
        await self._check(account, Call("get", "pods", namespace, name))
        if asked["verb"] == "get":
            return {"value": _field(await self._cluster.get(POD, namespace, name), asked["path"])}
        await self._check(account, Call("create", "pods/exec", namespace, name))
        if self._user_of(pod) != self._user_of(await self._cluster.get(POD, namespace, name)):
            raise BadRequest(f"Forbidden: pod {name!r} belongs to another user")
        if len(item.fds) != 3:
            raise BadRequest("a command needs an input, an output and a place for errors")
        stdin, stdout, stderr = item.fds
        stdio = (stdin if asked["stdin"] else None, stdout, stderr)
        process = await self._execute(namespace, name, asked["command"], str(asked["container"]), stdio)
        return {"code": await _until_ended(process, gone)}

    async def _check(self, account: Account, call: Call) -> None:
        roles = await self._cluster.list(ROLE, call.namespace)
        bindings = await self._cluster.list(ROLE_BINDING, call.namespace)
        if not allowed(account, call, roles.items, bindings.items):
            raise BadRequest(f"Forbidden: {call.refusal(account)}")


async def _until_ended(process: Process, gone: Gone) -> int:
    """Return a process's exit code; who asked for it and has gone does not want it any more."""
    ended, left = asyncio.create_task(process.wait()), asyncio.create_task(gone())
    try:
        await asyncio.wait((ended, left), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await process.kill()
        return (await ended).code
    except asyncio.CancelledError:
        await process.kill()
        raise
    finally:
        left.cancel()


def _field(obj: Object, path: list[str]) -> str:
    found: object = obj
    for key in path:
        found = found.get(key, "") if isinstance(found, dict) else ""
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


class Door:
    """Where the processes of one pod ask. Closing it ends what they have asked for."""

    def __init__(self, listener: socket.socket, visitor: Visitor) -> None:
        self._listener = listener
        self._visitor = visitor
        self._visits: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    @classmethod
    async def open(cls, sandbox: Sandbox, visitor: Visitor) -> "Door":
        """Listen inside a pod; OSError where a pod has nothing of its own to listen in."""
        listener = await sandbox.door(ADDRESS)
        listener.setblocking(False)
        return cls(listener, visitor)

    async def close(self) -> None:
        """Answer nobody any more, and end what is under way."""
        tasks = [self._accepting, *self._visits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            visitor, _ = await loop.sock_accept(self._listener)
            visit = asyncio.create_task(self._serve(visitor))
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)

    async def _serve(self, visitor: socket.socket) -> None:
        visitor.setblocking(False)
        channel, item = Channel(visitor), None
        try:
            item = await _request(channel)
            if item is not None:
                answer = await self._answered(item, channel)
                await asyncio.get_running_loop().sock_sendall(visitor, msgspec.json.encode(answer))
        except OSError as error:
            log.debug("a process has gone before it was answered: %s", error)
        except Exception:
            log.exception("a request of a pod broke")
        finally:
            _close_all(item)
            channel.close()

    async def _answered(self, item: Received, channel: Channel) -> Object:
        try:
            return await self._visitor(item, partial(_gone, channel))
        except ClusterError as error:
            return {"error": str(error)}
        except (KeyError, TypeError) as error:
            return {"error": f"this is no request: {error!r}"}


def _close_all(item: Received | None) -> None:
    for fd in item.fds if item else ():
        os.close(fd)


async def _request(channel: Channel) -> Received | None:
    """Return the one request a process makes; None if it leaves without a word."""
    while True:
        await _readable(channel.socket)
        received = channel.receive()
        if received is None:
            return None
        if received:
            return received[0]


async def _gone(channel: Channel) -> None:
    """Return when the process on the other side has ended; what it still says is of no interest."""
    with contextlib.suppress(ValueError):
        while channel.receive() is not None:
            await _readable(channel.socket)


async def _readable(file: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)
