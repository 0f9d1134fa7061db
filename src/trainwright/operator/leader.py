"""Which of several operators acts: all share one Lease, and only its holder does anything to jobs.

Nothing here compares the clocks of two machines. Who waits takes a lease that has not changed for its whole duration,
counted from when he saw it last change; who holds it stops `MARGIN_SECONDS` earlier, counted from before he sent what
was the last renewal. So the holder has always stopped first, and what he sent last has had time to arrive.

That the holder stops is not left to a task that must be run in time. `leads` is a comparison with a deadline, and the
client asks it right before anything is written (`Rest.permitted`). A process that was stopped, or a machine that
slept, finds the deadline passed when it wakes, because its clock counted on meanwhile.

The Lease is written as Kubernetes' own components write theirs: one person looking at it need not know who did.
"""

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from trainwright.cluster.base import Cluster
from trainwright.core.errors import AlreadyExists, ClusterError, Conflict, HomeError, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import LEASE
from trainwright.operator.log import logger

LEASE_SECONDS: Final = 10
"""Whoever waits takes over at most so long, and one look, after the last renewal. With the time that new caches take
this stays well below the 20 s in which jobs shall be looked after again."""
MARGIN_SECONDS: Final = 3.0
"""So much earlier the holder stops: a request that is under way then has arrived before the next one begins."""
RENEW_SECONDS: Final = 2.0
"""How often it is renewed, or looked at: three renewals in a row may fail before the holder stops."""
CALL_SECONDS: Final = 3.0
"""How long one try may take."""
NAMESPACE: Final = "trainwright-system"
"""Where operators live, and with them their Lease, unless somebody says otherwise."""
_JITTER = 0.2
_NEVER = float("-inf")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NAME_LENGTH = 253

Work = Callable[[], Coroutine[Any, Any, bool]]

log = logger(__name__)


def lease_name(namespaces: Sequence[str] = ()) -> str:
    """Return the name of the Lease of operators that look after these namespaces; none: all.

    Operators for different namespaces do not wait for each other. No namespace has a dot in its name, so no two sets
    share a Lease.
    """
    name = ".".join(("trainwright", *sorted(namespaces)))
    if len(name) > _NAME_LENGTH:
        raise HomeError(f"the names of {len(namespaces)} namespaces are too long for one Lease; set --lease-name")
    return name


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True)
class Leadership:
    """Which Lease is shared, and as whom it is held."""

    namespace: str = ""
    """None: where operators like this one are expected."""
    name: str = "trainwright"
    identity: str = field(default_factory=_identity)
    """Never the same for two processes."""


def uptime() -> float:
    """Return the seconds since this machine was started, those it slept included."""
    return time.clock_gettime(_CLOCK)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class _Shared:
    """The Lease, as this process has seen it and writes it."""

    def __init__(self, cluster: Cluster, leadership: Leadership, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._leadership = leadership
        self._clock = clock
        self.spec: Object = {}
        """As it was last seen."""
        self._since = _NEVER
        """When it was first seen like that."""

    @property
    def holder(self) -> str:
        """Return who holds it; nothing if nobody does."""
        return self.spec.get("holderIdentity") or ""

    @property
    def is_ours(self) -> bool:
        """Say whether it is we who hold it."""
        return self.holder == self._leadership.identity

    @property
    def expiry(self) -> float:
        """Return when it is over unless it changes, by our own clock."""
        return self._since + float(self.spec.get("leaseDurationSeconds") or LEASE_SECONDS)

    async def look(self) -> str:
        """Return its version. If somebody has deleted it there is none, but the last one counts on.

        Its holder may not know yet, and goes on until he notices.
        """
        try:
            lease = await self._cluster.get(LEASE, self._leadership.namespace, self._leadership.name)
        except NotFound:
            return ""
        self._saw(lease)
        version: str = lease["metadata"]["resourceVersion"]
        return version

    async def write(self, version: str, spec: Object) -> None:
        """Write it over the version that was seen; Conflict or AlreadyExists if somebody was quicker."""
        namespace, name = self._leadership.namespace, self._leadership.name
        if version:
            patch = {"metadata": {"resourceVersion": version}, "spec": spec}
            self._saw(await self._cluster.patch(LEASE, namespace, name, patch))
            return
        metadata = {"name": name, "namespace": namespace}
        made = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        try:
            self._saw(await self._cluster.create(LEASE, made))
        except NotFound:
            raise HomeError(
                f"there is no namespace {namespace} for the Lease that operators share; make it (kubectl create "
                f"namespace {namespace}), name another with --lease-namespace, or be the only one: --no-leader-elect"
            ) from None

    def _saw(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        if spec != self.spec:
            self.spec, self._since = spec, self._clock()


class Elector:
    """One operator's part in the election."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        *,
        clock: Callable[[], float] = uptime,
        now: Callable[[], datetime] = _utc_now,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.trouble = ""
        """Why the last try failed, in words; nothing if it did not."""
        self._identity = leadership.identity
        self._lease = _Shared(cluster, leadership, clock)
        self._clock = clock
        self._now = now
        self._chance = chance
        self._term = 0
        self._until = _NEVER
        """Until when we lead, unless the lease is renewed."""
        self._write_until = _NEVER
        """Until when what is about to be written to the lease may be sent."""
        self._waits_for: str | None = None
        """Whom we said to be waiting for."""
        self._log = log.bind(lease=f"{leadership.namespace}/{leadership.name}", identity=leadership.identity)

    def leads(self) -> bool:
        """Say whether we may act, right now."""
        return self._clock() < self._until

    def may_write(self) -> bool:
        """Say whether what was begun for the lease may still be sent."""
        return self._clock() < self._write_until

    def permit(self) -> Callable[[], bool]:
        """Return what says whether we may act, for this term only: what it left undone never counts for a later one."""
        term = self._term
        return lambda: term == self._term and self.leads()

    async def lead(self, work: Work, stopping: asyncio.Event) -> None:
        """Stand by, do `work` while we lead, and stand by again if the lease is lost; until `stopping` is set.

        Work that is under way when the lease is lost is cancelled. Work that ends says whether all of it is over: only
        then the lease is given up at once, since what is not may reach the API server after the next leader has begun.
        """
        while await self._stand_by(stopping):
            over = await self._while_leading(work)
            if over is None:
                continue
            if over:
                await self._try(self.release)
            return

    # What is done to the lease

    async def take(self) -> None:
        """Begin a term, unless somebody else has the lease."""
        version = await self._lease.look()
        before = self._lease.holder
        if before and not self._lease.is_ours and self._clock() < self._lease.expiry:
            return
        passed_on = bool(self._lease.spec) and not self._lease.is_ours
        transitions = int(self._lease.spec.get("leaseTransitions") or 0) + int(passed_on)
        spec = {**self._ours(), "acquireTime": self._timestamp(), "leaseTransitions": transitions}
        await self._claim(version, spec, self._clock() + CALL_SECONDS)
        self._term += 1
        self._waits_for = None
        self._log.info("lease taken", before=before)

    async def renew(self) -> None:
        """Prolong the term, unless it is over."""
        version = await self._lease.look()
        if not self._lease.is_ours:
            self._until = _NEVER
        if self.leads():
            await self._claim(version, {**self._lease.spec, **self._ours()}, self._until)

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait."""
        if not self.leads():
            return
        self._write_until, self._until = self._until, _NEVER
        version = await self._lease.look()
        if not version or not self._lease.is_ours:
            return
        moment = self._timestamp()
        nobody = {"holderIdentity": None, "leaseDurationSeconds": 1, "acquireTime": moment, "renewTime": moment}
        await self._lease.write(version, nobody)
        self._log.info("lease given up")

    async def _claim(self, version: str, spec: Object, write_until: float) -> None:
        """Write a lease that is ours, and lead from when that was sent."""
        sent, self._write_until = self._clock(), write_until
        await self._lease.write(version, spec)
        self._until = sent + LEASE_SECONDS - MARGIN_SECONDS

    def _ours(self) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": self._timestamp(),
        }

    def _timestamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    # Standing by, and leading

    async def _stand_by(self, stopping: asyncio.Event) -> bool:
        """Wait until we lead; False if we shall stop before."""
        while not stopping.is_set():
            await self._try(self.take)
            if self.leads():
                return True
            self._tell_holder()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._next_look()):
                    await stopping.wait()
        return False

    async def _while_leading(self, work: Work) -> bool | None:
        """Do work to its end and return what it says, or None if the lease was lost first."""
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(work())
            holding = tasks.create_task(self._hold())
            await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self._log.warning("lease lost", reason=self._reason())
            working.cancel()
            holding.cancel()
        return None if working.cancelled() else working.result()

    async def _hold(self) -> None:
        """Renew the lease until it is lost."""
        while True:
            await asyncio.sleep(max(0.0, min(self._pause(), self._until - self._clock())))
            if not self.leads():
                return
            await self._try(self.renew)

    async def _try(self, deed: Callable[[], Awaitable[None]]) -> None:
        """Do something to the lease, and take note of what went wrong."""
        left = self._until - self._clock()
        try:
            async with asyncio.timeout(min(CALL_SECONDS, left) if left > 0 else CALL_SECONDS):
                await deed()
        except (Conflict, AlreadyExists) as error:  # somebody was quicker: the next look tells who
            self._log.debug("lease changed meanwhile", error=error)
        except (ClusterError, OSError) as error:
            before, self.trouble = self.trouble, str(error) or "no answer in time"
            if not before:
                self._log.warning("cannot read or write the lease, trying again", error=self.trouble)
            return
        self.trouble = ""

    def _tell_holder(self) -> None:
        """Say for whom we wait, once for each."""
        holder = self._lease.holder
        if holder != self._waits_for and not self.trouble:
            self._waits_for = holder
            self._log.info("standing by", holder=holder)

    def _reason(self) -> str:
        if not self._lease.is_ours:
            return f"{self._lease.holder or 'nobody'} holds it"
        return self.trouble or "it was not renewed in time"

    def _pause(self) -> float:
        """Return the seconds until the next look; not the same for all."""
        return RENEW_SECONDS * (1 + _JITTER * self._chance())

    def _next_look(self) -> float:
        """Return the seconds until the next look of one who waits: at the latest when the lease is over."""
        rest = self._lease.expiry - self._clock()
        return min(self._pause(), rest) if rest > 0 else self._pause()
