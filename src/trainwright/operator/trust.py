"""Keeps the webhooks' certificate in its Secret, and has API servers trust it: watched, followed in time, put back.

Every replica runs this, leading or not. They agree because what is written to the Secret holds for the version it was
decided from: who is too late reads what the other wrote.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from trainwright.cluster.base import Cluster
from trainwright.cluster.informer import Informer
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import ClusterError, Conflict
from trainwright.core.objects import Object
from trainwright.core.resources import SECRET
from trainwright.operator import certificates
from trainwright.operator.certificates import Kept, Pair
from trainwright.operator.configurations import MUTATING, NAME, VALIDATING, Webhooks, trusting, trusts
from trainwright.operator.log import logger

_LOOK_SECONDS = 3600.0
"""So often it is looked at least: a clock may be set, and a machine that sleeps counts no seconds."""

log = logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Trust:
    """The certificate of one operator's webhooks, while `run` runs."""

    def __init__(
        self,
        cluster: Cluster,
        webhooks: Webhooks,
        show: Callable[[Pair], None],
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """Have `show` told of every pair that is to be shown from then on."""
        self._cluster = cluster
        self._webhooks = webhooks
        self._show = show
        self._now = now
        self._shown: Pair | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(first=0.1, longest=30.0)
        name = f"metadata.name={webhooks.secret}"
        self._secrets = Informer(cluster, SECRET, webhooks.namespace, fields=name)
        self._configurations = [
            Informer(cluster, row, fields=f"metadata.name={NAME}") for row in (MUTATING, VALIDATING)
        ]

    @property
    def shown(self) -> Pair | None:
        """Return the pair that is shown; None while there is none."""
        return self._shown

    def wake(self) -> None:
        """Look again now."""
        self._wake.set()

    async def run(self) -> None:
        """Keep everything in line until cancelled."""
        informers = (self._secrets, *self._configurations)
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                informer.subscribe(lambda _: self.wake())
                tasks.create_task(informer.run())
            await self._secrets.synced.wait()
            await self._keep()

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                seconds = await self._settle()
                failures = 0
            except ClusterError as error:
                failures += 1
                seconds = self._backoff.seconds(failures)
                if not isinstance(error, Conflict):  # else somebody was quicker, and we hear of it
                    log.warning("webhooks are not in line yet, trying again", seconds=round(seconds, 2), error=error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _settle(self) -> float | None:
        """Do what there is to do, and return after how many seconds there is something again."""
        secret = self._secrets.get(self._webhooks.namespace, self._webhooks.secret)
        if secret is None:
            place = f"{self._webhooks.namespace}/{self._webhooks.secret}"
            log.warning("webhooks wait for their Secret; apply what tw install prints", secret=place)
            return None
        kept = await self._kept(secret)
        if kept.current and kept.current != self._shown:
            self._show(kept.current)
            self._shown = kept.current
        for informer in self._configurations:
            for configuration in informer.items():
                await self._have_trusted(informer, configuration, kept)
        now = self._now()
        again = certificates.look_again(kept, self._webhooks.terms, now)
        return min((again - now).total_seconds(), _LOOK_SECONDS) if again else None

    async def _kept(self, secret: Object) -> Kept:
        """Return what the Secret holds, after what is due was written to it."""
        before = certificates.read(secret)
        webhooks, announced = self._webhooks, self._announced(before.following)
        after = certificates.turn(before, webhooks.hosts, webhooks.terms, self._now(), announced=announced)
        if after == before:
            return before
        change = certificates.change(after)
        change["metadata"] = {"resourceVersion": secret["metadata"]["resourceVersion"]}
        await self._cluster.patch(SECRET, webhooks.namespace, webhooks.secret, change)
        if after.current != before.current and after.current:
            log.info("webhooks have another certificate", ends=after.current.ends)
        elif after.following:
            log.info("webhooks will have another certificate", ends=after.following.ends)
        return after

    def _announced(self, pair: Pair | None) -> bool:
        """Say whether every configuration tells to trust a pair."""
        if pair is None or not all(each.synced.is_set() for each in self._configurations):
            return False
        return all(trusts(each, pair.authority) for informer in self._configurations for each in informer.items())

    async def _have_trusted(self, informer: Informer, configuration: Object, kept: Kept) -> None:
        hooks = trusting(configuration, self._webhooks, kept.bundle)
        if hooks == configuration.get("webhooks"):
            return
        version = {"resourceVersion": configuration["metadata"]["resourceVersion"]}
        await self._cluster.patch(informer.resource, "", NAME, {"metadata": version, "webhooks": hooks})
        log.info("webhooks are trusted", configuration=informer.resource.kind)
