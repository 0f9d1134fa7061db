"""Admission webhooks, served over HTTPS: an API server posts an AdmissionReview to `/mutate` or `/validate`.

What is answered is in `reviews`, who asks and when in `configurations`, under which certificate in `certificates` and
`trust`. Every replica serves, leading or not: a review needs no state.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trainwright.cluster.base import Cluster
from trainwright.cluster.beside import beside
from trainwright.core.errors import NotFound
from trainwright.operator.certificates import Pair
from trainwright.operator.configurations import Webhooks, configurations
from trainwright.operator.log import logger
from trainwright.operator.measures import Measures
from trainwright.operator.reviews import DOORS, answered
from trainwright.operator.trust import Trust
from trainwright.web.exchange import BODY_BYTES, Exchange
from trainwright.web.listener import listener
from trainwright.web.server import TEXT, Server
from trainwright.web.tls import server_context

__all__ = ["Serving", "Webhooks", "configurations", "serving"]

REVIEW_BYTES = 2 * BODY_BYTES + 65536
"""The object, the one it replaces, and what is asked about them."""
LINGER_SECONDS = 5.0

log = logger(__name__)


class Serving:
    """Webhooks that are served as soon as there is a certificate for them."""

    def __init__(self, listening: socket.socket, cluster: Cluster, webhooks: Webhooks, measures: Measures) -> None:
        self._server = Server(listening, self._answer)
        self._trust = Trust(cluster, webhooks, self._show)
        self._webhooks = webhooks
        self._measures = measures
        self._shown = asyncio.Event()
        measures.certificate_end.read = self._end

    def missing(self) -> str:
        """Say what they wait for; nothing once they are served."""
        if self._shown.is_set():
            return ""
        return f"the webhooks' certificate in Secret {self._webhooks.namespace}/{self._webhooks.secret}"

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._trust.run())
            await self._shown.wait()
            async with self._server:
                log.info("serving webhooks", host=self._webhooks.host, port=self._webhooks.port)
                await asyncio.Event().wait()

    def _show(self, pair: Pair) -> None:
        self._server.context = server_context(pair.pem)
        self._shown.set()

    def _end(self) -> dict[tuple[str, ...], float]:
        pair = self._trust.shown
        return {(): pair.ends.timestamp()} if pair else {}

    async def _answer(self, exchange: Exchange) -> None:
        request = exchange.request
        name = "/".join(request.path)
        if name not in DOORS:
            there_are = ", ".join(f"/{each}" for each in DOORS)
            raise NotFound(f"there is no /{name} here (there are: {there_are})")
        if request.method != "POST":
            said = f"{request.method} is not answered here; POST an AdmissionReview\n".encode()
            await exchange.answer(said, status="405 Method Not Allowed", kind=TEXT, headers=(("Allow", "POST"),))
            return
        body = await exchange.body(REVIEW_BYTES)
        began = time.perf_counter()
        reply, allowed = answered(body, DOORS[name])
        self._measures.review_seconds.observe(time.perf_counter() - began, name, "allowed" if allowed else "refused")
        await exchange.answer(reply)


@asynccontextmanager
async def serving(cluster: Cluster, webhooks: Webhooks, measures: Measures) -> AsyncIterator[Serving]:
    """Serve webhooks while the body runs, and keep their certificate.

    After it those who come by a Service are answered for a while: they hear late that others are to be asked now.
    """
    with listener(webhooks.host, webhooks.port) as listening:
        served = Serving(listening, cluster, webhooks, measures)
        async with beside(served.run()):
            yield served
            await asyncio.sleep(0 if webhooks.url else LINGER_SECONDS)
