"""`tw operator`: the loops on a real cluster, with probes and metrics beside them, until a signal comes.

The first signal ends it in good order: no round begins any more, those under way are finished, but not for longer than
`SHUTDOWN_SECONDS`. What is cut short then is taken up by the next operator. A second signal ends it at once.
"""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from trainwright.cluster.base import Cluster
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.resources import NODE, POD
from trainwright.desired import KUBERNETES, Settings
from trainwright.kinds import KINDS
from trainwright.operator.crds import register
from trainwright.operator.health import Reply, Routes, serving
from trainwright.operator.log import logger
from trainwright.operator.loop import Operator
from trainwright.operator.measures import Measures
from trainwright.operator.metrics import CONTENT_TYPE
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.operator.views import NodeView, PodView

SHUTDOWN_SECONDS = 20.0
PATIENCE_SECONDS = 15.0
"""After so long without caches it is said what may be missing."""

VIEWS = {POD: PodView, NODE: NodeView}

log = logger(__name__)


@dataclass(frozen=True)
class Options:
    """Where the operator runs and how."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = ""
    """Look after the jobs of this namespace only; none: of all."""
    install_crds: bool = False
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 16
    settings: Settings = KUBERNETES
    scaling: Conduct | None = field(default_factory=Conduct)
    """How elastic jobs share what the nodes offer; None: they keep their sizes."""


async def serve(options: Options) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    _spare_the_collector()
    measures = Measures()
    async with KubernetesCluster.from_config(options.kubeconfig, options.context, shapes=VIEWS) as cluster:
        cluster.rest.heard = measures.called
        operator = Operator(
            cluster,
            KINDS,
            options.settings,
            workers=options.workers,
            namespace=options.namespace,
            measures=measures,
        )
        stopping = asyncio.Event()
        async with serving(options.host, options.port, _routes(operator, measures, stopping)) as (host, port):
            log.info("serving probes and metrics", host=host, port=port)
            with _signals(stopping):
                await until_stopped(_operate(cluster, operator, measures, options), operator, stopping)
    log.info("operator stopped")


def _spare_the_collector() -> None:
    """Have Python look for cycles less often: our caches are large and have none, and looking took 12 % of the CPU."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _operate(cluster: Cluster, operator: Operator, measures: Measures, options: Options) -> None:
    if options.install_crds:
        await register(cluster, KINDS)
    warning = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, _warn, operator)
    try:
        async with _scaling(cluster, measures, options):
            await operator.run()
    finally:
        warning.cancel()


@asynccontextmanager
async def _scaling(cluster: Cluster, measures: Measures, options: Options) -> AsyncIterator[None]:
    """Run the autoscaler beside the body, unless it is switched off."""
    if options.scaling is None:
        yield
        return
    scaler = Autoscaler(cluster, KINDS, conduct=options.scaling, namespace=options.namespace, measures=measures)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scaler.run())
        try:
            yield
        finally:
            task.cancel()


def _warn(operator: Operator) -> None:
    if missing := operator.unsynced():
        log.warning(
            "still waiting; are the kinds installed (tw install | kubectl apply -f -), and may this account list them?",
            resources=", ".join(map(str, missing)),
        )


async def until_stopped(
    operating: Coroutine[Any, Any, None], operator: Operator, stopping: asyncio.Event, seconds: float = SHUTDOWN_SECONDS
) -> None:
    """Run the operator until `stopping` is set; then let it finish what it is at, for so many seconds at most."""
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(operating)
        stop = tasks.create_task(stopping.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        if not operator.unsynced():
            operator.stop()
            _, late = await asyncio.wait((work,), timeout=seconds)
            if late:
                log.warning("rounds under way were cut short", seconds=seconds)
        work.cancel()
        stop.cancel()


def _routes(operator: Operator, measures: Measures, stopping: asyncio.Event) -> Routes:
    def ready() -> Reply:
        if stopping.is_set():
            return Reply("stopping\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if missing := operator.unsynced():
            return Reply(f"waiting for {', '.join(map(str, missing))}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Reply("ready\n")

    return {
        "/healthz": lambda: Reply("ok\n"),
        "/readyz": ready,
        "/metrics": lambda: Reply(measures.text(), content=CONTENT_TYPE),
    }


@contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """Set `stopping` at the first signal; the next one does what it does to any program."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def forget() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def stop(number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        stopping.set()
        forget()

    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        forget()
