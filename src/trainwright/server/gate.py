"""Who may ask this server, what they may do, and when what they did is safe: the `Gate` of `tw serve` and `tw run`.

A client of the unix socket is whoever the kernel says. A client of the TCP port is the server's own user, if it knows
the token, which only that user can read; and it must have asked for this machine by a name of its own, since a page
from elsewhere could otherwise ask through its reader's browser.

Everybody who is served may look at everything but other users' Secrets. Changing, deleting and entering is for the
owner, for root and for the server's own user.
"""

import hmac
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from trainwright.cluster.journal import Journal
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import Forbidden, NotStored, Unauthorized
from trainwright.core.objects import Object
from trainwright.core.resources import PRIORITY_CLASS, RESOURCE_QUOTA, SECRET, Resource
from trainwright.server.base import Caller
from trainwright.server.users import check_owners, name_of, owner_of, stamped
from trainwright.web.exchange import Request

_LOOKING = ("get", "log")
_FOR_ALL = (RESOURCE_QUOTA, PRIORITY_CLASS)
"""What one user sets and others have to keep to."""
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")


async def _at_once() -> None:
    """Return: nothing has to survive."""


@dataclass(frozen=True)
class LocalGate:
    """Lets in who may ask."""

    cluster: MemoryCluster
    token: str = ""
    """What clients of the TCP port must know; nothing: there are none."""
    everybody: bool = False
    """Whether other users of this machine are served; for root only, who can run their processes as theirs."""
    flushed: Callable[[], Awaitable[None]] = _at_once
    trouble: Callable[[], str] = lambda: ""
    """Why nothing can be kept at the moment, in words."""

    @classmethod
    def of(cls, cluster: MemoryCluster, journal: Journal, token: str, *, everybody: bool) -> "LocalGate":
        """Return the gate of a server that keeps its objects."""
        return cls(cluster, token, everybody, journal.flush, lambda: journal.trouble)

    def caller(self, request: Request) -> Caller:
        """Return who asks; Unauthorized when nobody knows, Forbidden when they may not ask at all."""
        if request.peer is None:
            return self._with_token(request)
        uid, own = request.peer.uid, os.getuid()
        if uid not in (0, own) and not self.everybody:
            raise Forbidden(
                f"this server runs as {name_of(own)} and serves only {name_of(own)}, not {name_of(uid)}; "
                "start your own with: tw serve, or ask root to start one with: tw serve --users all"
            )
        if self.everybody and name_of(uid) == str(uid):
            raise Forbidden(f"user id {uid} is in no user database of this machine, so nothing can run as it")
        return Caller(name_of(uid), uid)

    def admit(self, caller: Caller, resource: Resource, new: Object, old: Object | None) -> Object:
        """Return what a caller may store in place of `old`, stamped with who submitted it; Forbidden otherwise."""
        if old is None and (trouble := self.trouble()):
            raise NotStored(f"nothing new is accepted, because it could not be kept: {trouble}")
        if old is not None:
            self.allow(caller, "change", resource, old)
        if not self.everybody:
            return new
        if not self._all_powerful(caller):
            if resource in _FOR_ALL:
                raise Forbidden(
                    f"{resource} are for everybody who is served here; ask root, not {caller.name}, to set them"
                )
            check_owners(self.cluster, new, caller.uid)
        return new if old is not None else stamped(new, caller.uid)

    def allow(self, caller: Caller, verb: str, resource: Resource, obj: Object) -> None:
        """Raise Forbidden unless a caller may do this to an object."""
        if not self.everybody or self._all_powerful(caller) or owner_of(obj) == caller.uid:
            return
        if verb in _LOOKING and resource != SECRET:
            return
        whose, name = name_of(owner_of(obj)), obj["metadata"]["name"]
        raise Forbidden(f'{resource} "{name}" belongs to {whose}: {verb} is not for {caller.name}')

    async def durable(self) -> None:
        """Return when all that was written so far is on disk; NotStored when it cannot be."""
        await self.flushed()

    def _with_token(self, request: Request) -> Caller:
        _check_place(request)
        scheme, _, said = request.headers.get("authorization", "").partition(" ")
        if not self.token or scheme.lower() != "bearer" or not hmac.compare_digest(said.encode(), self.token.encode()):
            raise Unauthorized("Unauthorized: the token of this server's kubeconfig is needed (tw kubeconfig)")
        return Caller(name_of(os.getuid()), os.getuid())

    def _all_powerful(self, caller: Caller) -> bool:
        return caller.uid in (0, os.getuid())


def _check_place(request: Request) -> None:
    """Refuse what a page from elsewhere made a browser ask: by a foreign name, or with a foreign origin."""
    host = request.headers.get("host", "")
    if _name(f"//{host}") not in _OWN_NAMES:
        raise Forbidden(f"Host: {host or 'nothing'} is not a name of this server; ask for 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Forbidden(f"Origin: {origin} is another site; this server answers no pages of other sites")


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
