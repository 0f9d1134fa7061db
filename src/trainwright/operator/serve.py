"""`tw operator`: the loops on a real cluster, with probes and metrics beside them, until a signal comes.

Probes and webhooks are answered all the time; jobs are looked after only while leading. Each time this process comes
to lead it gets a client and loops of its own for that, and they go with it: a client that has lost its permission
never gets it back, and caches are built anew. So standing by again is as safe as starting again, and webhooks go on.

The first signal ends it in good order: no round begins any more, those under way are finished, but not for longer than
`SHUTDOWN_SECONDS`. What is cut short then is taken up by the next operator. A second signal ends it at once.
"""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import msgspec

from trainwright.cluster.base import Cluster
from trainwright.cluster.kubernetes import KubernetesCluster, Patience
from trainwright.cluster.kubernetes.kubeconfig import IN_CLUSTER, Access, load
from trainwright.core.errors import ClusterError, Forbidden, NotFound
from trainwright.core.resources import NAMESPACE, NODE, POD, Resource
from trainwright.desired import KUBERNETES, Gang, Settings
from trainwright.kinds import KINDS, Kind
from trainwright.operator import gangs, leader, webhooks
from trainwright.operator.adoption import adopt
from trainwright.operator.crds import register, understood
from trainwright.operator.duties import Duties, Loop
from trainwright.operator.gangs import Choice
from trainwright.operator.gates import Gates, left_behind
from trainwright.operator.health import Reply, Routes, serving
from trainwright.operator.leader import Elector, Leadership
from trainwright.operator.log import logger
from trainwright.operator.loop import Operator
from trainwright.operator.measures import Measures
from trainwright.operator.metrics import CONTENT_TYPE
from trainwright.operator.scaling import Autoscaler, Conduct
from trainwright.operator.views import NodeView, PodView
from trainwright.operator.webhooks import Serving, Webhooks
from trainwright.placement import Amounts

SHUTDOWN_SECONDS = 20.0
PATIENCE_SECONDS = 15.0
"""After so long without caches it is said what may be missing."""

RETRY_SECONDS = 2.0

VIEWS: Mapping[Resource, type[msgspec.Struct]] = {POD: PodView, NODE: NodeView}

log = logger(__name__)


@dataclass(frozen=True)
class Options:
    """Where the operator runs and how."""

    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    """Look after the jobs of these namespaces only, and look into no other; none: of all."""
    leader: Leadership | None = None
    """The Lease by which one of several operators acts; None: this one always does."""
    install_crds: bool = False
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 16
    settings: Settings = KUBERNETES
    scaling: Conduct | None = field(default_factory=Conduct)
    """How elastic jobs share what the nodes offer; None: they keep their sizes."""
    gang: Choice = "auto"
    """How pods that start together are kept together; the settings follow it."""
    capacity: Amounts | None = None
    """What there is for gangs of `namespaces`, from where nodes cannot be seen; None: nobody knows."""
    webhooks: Webhooks | None = None
    """Where jobs are judged before they are stored; None: only the loop judges them. No namespace: our own."""


async def serve(options: Options) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    _spare_the_collector()
    post = Post(feasible(options), load(options.kubeconfig, options.context))
    async with serving(options.host, options.port, post.routes()) as (host, port):
        log.info("serving probes and metrics", host=host, port=port)
        with _signals(post.stopping):
            async with post.judging():
                await post.keep()
    log.info("operator stopped")


def _spare_the_collector() -> None:
    """Have Python look for cycles less often: our caches are large and have none, and looking took 12 % of the CPU."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def feasible(options: Options) -> Options:
    """Return the options without what cannot work, and say so: who looks into some namespaces only sees no nodes."""
    if not options.namespaces or options.scaling is None or options.capacity is not None:
        return options
    log.warning(
        "the autoscaler is off: nodes cannot be seen from some namespaces only; say --capacity cpu=16,memory=64Gi"
    )
    return replace(options, scaling=None)


class Post:
    """What this process does and stands by for, and what it tells those who probe it."""

    def __init__(self, options: Options, access: Access) -> None:
        self.stopping = asyncio.Event()
        self._options = options
        self._access = access
        self.measures = Measures()
        self._elector: Elector | None = None
        self._duties: Duties | None = None
        self._judges: Serving | None = None
        self.measures.leader.read = lambda: {(): float(self._leads())}

    @asynccontextmanager
    async def judging(self) -> AsyncIterator[None]:
        """Serve webhooks while the body runs, leading or not, with a client that may always write."""
        if self._options.webhooks is None:
            yield
            return
        hooks = self._options.webhooks
        hooks = replace(hooks, namespace=hooks.namespace or _own_namespace(self._access))
        async with KubernetesCluster(self._access) as cluster:
            cluster.rest.heard = self.measures.called
            async with webhooks.serving(cluster, hooks, self.measures) as self._judges:
                yield

    async def keep(self) -> None:
        """Look after jobs, whenever that is ours to do, until told to stop."""
        if self._options.leader is None:
            await self._work(lambda: True)
            return
        async with KubernetesCluster(self._access, patience=Patience(tries=1), timeout=leader.CALL_SECONDS) as cluster:
            elector = self._elector = Elector(cluster, await _placed(self._options, cluster))
            cluster.rest.heard = self.measures.called
            cluster.rest.permitted = elector.may_write
            await elector.lead(lambda: self._work(elector.permit()), self.stopping)

    async def _work(self, permitted: Callable[[], bool]) -> bool:
        """Do what a leader does until told to stop; return whether nothing of it is under way any more."""
        async with KubernetesCluster(self._access, shapes=VIEWS) as cluster:
            cluster.rest.heard = self.measures.called
            cluster.rest.permitted = permitted
            found = await self._found(cluster)
            if found is None:
                return True
            gang, kinds = found
            options = replace(self._options, settings=replace(self._options.settings, gang=gang))
            duties = self._duties = _duties(cluster, kinds, options, self.measures)
            try:
                return await until_stopped(_operate(cluster, kinds, duties, options), duties.operator, self.stopping)
            finally:
                self._duties = None
                self.measures.queue_depth.read = self.measures.jobs.read = dict  # others count them from now on

    async def _found(self, cluster: KubernetesCluster) -> tuple[Gang, tuple[Kind, ...]] | None:
        """Return how gangs are kept together and which kinds can be looked after, as soon as the API server says it.

        None if told to stop.
        """
        while not self.stopping.is_set():
            try:
                return await gangs.chosen(cluster, self._options.gang), await understood(cluster, KINDS)
            except ClusterError as error:
                log.warning("cannot see what the API server offers, trying again", error=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self.stopping.wait()
        return None

    def routes(self) -> Routes:
        """Return what is answered to a kubelet and to Prometheus."""
        return {
            "/healthz": lambda: Reply("ok\n"),
            "/readyz": self._ready,
            "/metrics": lambda: Reply(self.measures.text(), content=CONTENT_TYPE),
        }

    def _ready(self) -> Reply:
        if self.stopping.is_set():
            return Reply("stopping\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if self._judges is not None and (wanting := self._judges.missing()):
            return Reply(f"waiting for {wanting}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if self._duties is None:
            return self._standing_by()
        if missing := self._duties.unsynced():
            return Reply(f"waiting for {', '.join(map(str, missing))}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Reply("ready\n")

    def _leads(self) -> bool:
        return self._elector.leads() if self._elector else self._options.leader is None

    def _standing_by(self) -> Reply:
        if self._elector is None or self._elector.leads():
            return Reply("starting\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if self._elector.trouble:
            return Reply(f"cannot read or write the lease: {self._elector.trouble}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Reply("standing by\n")


async def _placed(options: Options, cluster: KubernetesCluster) -> Leadership:
    """Return which Lease to share, its namespace included: where operators with the same task look for it too."""
    assert options.leader is not None
    if options.leader.namespace:
        return options.leader
    namespace = await lease_namespace(cluster, cluster.access, options.namespaces)
    return replace(options.leader, namespace=namespace)


def _own_namespace(access: Access) -> str:
    """Return where our own objects are: where this pod is, or would be."""
    return access.namespace if access.context == IN_CLUSTER else leader.NAMESPACE


async def lease_namespace(cluster: Cluster, access: Access, namespaces: Sequence[str]) -> str:
    """Return where the Lease is if nobody says it."""
    if access.context == IN_CLUSTER:
        return access.namespace
    if namespaces:
        return min(namespaces)  # whoever may look in there only has a right to a Lease nowhere else
    try:
        await cluster.get(NAMESPACE, "", leader.NAMESPACE)
    except (NotFound, Forbidden):
        return access.namespace
    return leader.NAMESPACE


def _duties(cluster: Cluster, kinds: Sequence[Kind], options: Options, measures: Measures) -> Duties:
    """Return what a leader does, with caches that know nothing yet."""
    operator = Operator(
        cluster,
        kinds,
        options.settings,
        workers=options.workers,
        namespaces=options.namespaces,
        measures=measures,
    )
    beside: list[Loop] = []
    if options.settings.gang == "gates":
        capacity = options.capacity if options.namespaces else None
        beside.append(Gates(cluster, kinds, namespaces=options.namespaces, capacity=capacity, measures=measures))
    if options.scaling is not None:
        conduct = replace(options.scaling, capacity=options.capacity)
        beside.append(Autoscaler(cluster, kinds, conduct=conduct, namespaces=options.namespaces, measures=measures))
    return Duties(operator, beside)


async def _operate(cluster: Cluster, kinds: Sequence[Kind], duties: Duties, options: Options) -> None:
    if options.install_crds:
        await register(cluster, KINDS)
    await _take_over(cluster, kinds, options.namespaces)
    warning = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, _warn, duties)
    try:
        if options.settings.gang != "gates":
            await _warn_of_gates(cluster, options.namespaces)
        await duties.run()
    finally:
        warning.cancel()


def _warn(duties: Duties) -> None:
    if missing := duties.unsynced():
        log.warning(
            "still waiting; are the kinds installed (tw install | kubectl apply -f -), and may this account list them?",
            resources=", ".join(map(str, missing)),
        )


async def _take_over(cluster: Cluster, kinds: Sequence[Kind], namespaces: tuple[str, ...]) -> None:
    """Label what other operators have begun. What is not labelled here is, one by one, when it would be made again."""
    try:
        await adopt(cluster, kinds, namespaces)
    except ClusterError as error:
        log.warning("it was not looked for jobs of other operators", error=error)


async def _warn_of_gates(cluster: Cluster, namespaces: tuple[str, ...]) -> None:
    """Say which pods an operator with gates has left: one without them never opens one."""
    try:
        held = await left_behind(cluster, namespaces)
    except ClusterError as error:
        log.debug("it was not looked for pods behind gates", error=error)
        return
    if held:
        log.warning("pods wait behind gates that nobody opens now; run with --gang gates, or delete them", pods=held)


async def until_stopped(
    operating: Coroutine[Any, Any, None], operator: Operator, stopping: asyncio.Event, seconds: float = SHUTDOWN_SECONDS
) -> bool:
    """Run the operator until `stopping` is set; then let it finish what it is at, for so many seconds at most.

    Return whether it has finished everything.
    """
    late: set[asyncio.Task[None]] = set()
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
    return not late


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
