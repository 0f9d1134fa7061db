"""Where a command finds its jobs: a cluster, a running `tw serve`, a running `tw run`, or a run that was kept.

Every command over jobs opens a `Home` and then speaks to nothing but its `Cluster`, so the same words do the same
everywhere. Which home is meant is decided here, once: what the user names (`--context`, `--kubeconfig`, KUBECONFIG),
else this user's `tw serve`, else the newest `tw run` that has the job, else the cluster of `~/.kube/config`. A job that
the first of them does not have is looked for in the runs of this machine, unless a flag has named the cluster.
"""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from trainwright.api.faces import FACES, Face
from trainwright.cli import address, runs
from trainwright.cli.address import Address
from trainwright.cli.words import listed
from trainwright.cluster.unix import SHARED, is_answered
from trainwright.core.errors import ClusterError, HomeError, NotFound, TrainwrightError, did_you_mean
from trainwright.core.objects import Object

if TYPE_CHECKING:
    from trainwright.cluster.base import Cluster
    from trainwright.cluster.kubernetes import Access
    from trainwright.kinds import Kind

HomeKind = Literal["serve", "run", "kept", "cluster"]
SOCKET = "api.sock"
"""In the folder of a `tw serve` and of a running `tw run`: where its API listens."""
_DEFAULT_NAMESPACE = "default"
_SHOWN = 10
"""So many names stand in a sentence about what there is."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Where:
    """Which home and which namespace a user has named."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False

    @property
    def names_a_cluster(self) -> bool:
        """Say whether the user wants a cluster, whatever runs on this machine."""
        return bool(self.kubeconfig or self.context or os.environ.get("KUBECONFIG"))


@dataclass(frozen=True)
class Home:
    """Where jobs live, opened."""

    cluster: "Cluster"
    name: str
    """How it is called in sentences."""
    namespace: str
    """The namespace commands are about; nothing stands for all of them."""
    kind: HomeKind
    folder: Path | None = None
    """Where its files are, if that is on this machine."""
    ended: str = ""
    """Of a run that is over: how it ended, such as "Interrupted"; nothing if it did not come to that."""

    @property
    def place(self) -> str:
        """Return where commands look, in words."""
        return f"namespace {self.namespace!r} of {self.name}" if self.namespace else self.name


def where_options(command: _Command) -> _Command:
    """Add the options that say which home is meant; the command is called with a `where`."""

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        all_namespaces: bool,
        **options: Any,
    ) -> Any:
        if namespace and all_namespaces:
            raise click.UsageError("-n names one namespace and -A means all of them; leave one out")
        return command(*args, where=Where(kubeconfig, context, namespace, all_namespaces), **options)

    for option in (
        click.option("--kubeconfig", metavar="FILE", help="Ask the cluster of this kubeconfig."),
        click.option("--context", metavar="NAME", help="Ask the cluster of this context of the kubeconfig."),
        click.option("-A", "--all-namespaces", is_flag=True, help="Look in every namespace."),
        click.option("-n", "--namespace", metavar="NS", help="Look in this namespace only."),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


@asynccontextmanager
async def opened(where: Where, job: str | None = None) -> AsyncIterator[Home]:
    """Open the home a user means: the first in question that has the job, or the first of all."""
    wanted = None if job is None else address.parse(job)
    candidates = list(_candidates(where, wanted))
    if not candidates:
        raise _nowhere(wanted, where.namespace)
    async with AsyncExitStack() as stack:
        if wanted is None or len(candidates) == 1:
            yield await stack.enter_async_context(candidates[0])
            return
        homes = [await stack.enter_async_context(each) for each in candidates]
        for home in homes:
            if await _has(home, wanted):
                yield home
                return
        yield homes[0]


def _candidates(where: Where, wanted: Address | None) -> Iterator[AbstractAsyncContextManager[Home]]:
    """Yield the homes in question, in the order in which they are asked."""
    run = None if wanted is None or where.kubeconfig or where.context else _newest(wanted, where)
    if where.names_a_cluster:
        yield _cluster(where)
    elif socket := server():
        yield _serving(where, socket)
    elif run is None and _has_default_cluster():
        yield _cluster(where)
    if run is not None:
        yield of_run(run, where)


async def _has(home: Home, wanted: Address) -> bool:
    """Say whether a home has a job; one that does not answer has none."""
    try:
        return bool(await _matching(home, wanted))
    except ClusterError:
        return False


@asynccontextmanager
async def everywhere(where: Where, *, kept: bool = False) -> AsyncIterator[list[Home]]:
    """Open every home a user may mean who names no job: one cluster or server, and the runs on this machine.

    With `kept` also the runs that are over.
    """
    async with AsyncExitStack() as stack:
        if where.names_a_cluster:
            yield [await stack.enter_async_context(_cluster(where))]
            return
        found: list[Home] = []
        if socket := server():
            found.append(await stack.enter_async_context(_serving(where, socket)))
        elif _has_default_cluster():
            found.append(await stack.enter_async_context(_cluster(where)))
        meant = [run for run in runs.kept(runs.state()) if kept or run.running]
        yield [*found, *[await stack.enter_async_context(of_run(run, where)) for run in meant]]


async def find(home: Home, text: str) -> tuple["Kind", Object]:
    """Return the job a user names, with everything that is known of its kind; NotFound says what there is instead."""
    from trainwright.kinds import kind_of

    _, job = await look_up(home, text)
    kind = kind_of(job)
    assert kind is not None, "every face is that of a kind"
    return kind, job


async def look_up(home: Home, text: str) -> tuple[Face, Object]:
    """Return the job a user names, as JOB or KIND/JOB, and its face; NotFound says what there is instead."""
    wanted = address.parse(text)
    found = await _matching(home, wanted)
    if len(found) > 1:
        choices = listed(f"{face.name.lower()}/{wanted.job} -n {obj['metadata']['namespace']}" for face, obj in found)
        raise NotFound(f"{wanted} is the name of several jobs in {home.name}; write one of {choices}")
    if found:
        return found[0]
    known = [obj["metadata"]["name"] for _, obj in await listing(home)]
    raise NotFound(f"there is no {_described(wanted, home.place, known)}")


async def listing(
    home: Home, *, labels: str = "", name: str = "", kind: str = "", going: bool = False
) -> list[tuple[Face, Object]]:
    """Return the jobs of every kind, or of one; with `going` only those that have not ended for good."""
    faces = [face for face in FACES if kind in ("", face.name)]
    found = await asyncio.gather(*(_listed(home, face, labels, name, going=going) for face in faces))
    return [(face, obj) for face, objects in zip(faces, found, strict=True) for obj in objects]


async def _listed(home: Home, face: Face, labels: str, name: str, *, going: bool) -> list[Object]:
    """Return the jobs of one kind; a kind that the cluster does not know has none."""
    fields = f"metadata.name={name}" if name else ""
    if going and home.kind == "serve":  # other API servers choose by name only
        fields = face.going
    try:
        found = (await home.cluster.list(face.resource, home.namespace, labels=labels, fields=fields)).items
    except NotFound:
        return []
    return [obj for obj in found if not going or not is_over(face, obj)]


def is_over(face: Face, job: Object) -> bool:
    """Say whether a job has ended and cannot be told to go on."""
    standing = face.standing(job.get("status") or {})
    return standing.finished and not standing.resumable


def serve_folder() -> Path:
    """Return where this user's `tw serve` keeps everything."""
    return runs.state().parent / "serve"


def server() -> Path | None:
    """Return the socket of the `tw serve` there is: this user's, else one that serves everybody on this machine."""
    folder = serve_folder()
    if (folder / "kubeconfig").exists() and runs.is_locked(folder):
        return folder / SOCKET
    return SHARED if SHARED.exists() and is_answered(SHARED) else None


def runs_with(wanted: Address, namespace: str | None) -> Iterator[runs.Kept]:
    """Yield the runs that have a job, newest first."""
    return (run for run in runs.kept(runs.state()) if any(is_meant(job, wanted, namespace) for job in run.jobs))


@asynccontextmanager
async def of_run(run: runs.Kept, where: Where) -> AsyncIterator[Home]:
    """Open a `tw run`: by its socket while it runs, from what was kept of it afterwards."""
    name = f"the run {run.path.name}"
    if run.running and (run.path / SOCKET).exists():
        async with _connected(_at(run.path / SOCKET), name, "it may just have ended, so try again") as cluster:
            yield Home(cluster, name, _namespace(where, ""), "run", run.path)
        return
    from trainwright.cli.kept import KeptCluster

    ended = "" if run.running else str(run.meta.get("outcome") or "Killed")
    yield Home(KeptCluster(run.path), name, _namespace(where, ""), "kept", run.path, ended)


def is_there(home: Home) -> bool:
    """Say whether a home still answers, as far as that can be seen on this machine."""
    if home.kind not in ("serve", "run") or home.folder is None:
        return True
    return is_answered(home.folder / SOCKET)


def afterwards(home: Home) -> Home:
    """Return where to look after a home has ended: a run is kept, and of others HomeError says that they are gone."""
    if home.kind != "run" or home.folder is None:
        raise HomeError(f"{home.name} has stopped")
    from trainwright.cli.kept import KeptCluster

    return replace(home, cluster=KeptCluster(home.folder), kind="kept")


def file_of(home: Home) -> str:
    """Return the file that a `tw run` was given, as far as that is known."""
    run = next((run for run in runs.kept(runs.state()) if run.path == home.folder), None)
    return str(run.meta.get("file", "FILE")) if run else "FILE"


@asynccontextmanager
async def _serving(where: Where, socket: Path) -> AsyncIterator[Home]:
    name, advice = "tw serve", "it may be starting or stopping, so try again, or look at what it logs"
    async with _connected(_at(socket), name, advice) as cluster:
        yield Home(cluster, name, _namespace(where, _DEFAULT_NAMESPACE), "serve", socket.parent)


@asynccontextmanager
async def _cluster(where: Where) -> AsyncIterator[Home]:
    from trainwright.cluster.kubernetes import load

    access = load(where.kubeconfig, where.context)
    name, advice = f"cluster {access.context!r}", "look at server in its kubeconfig, or name another one by --context"
    async with _connected(access, name, advice) as cluster:
        yield Home(cluster, name, _namespace(where, access.namespace), "cluster")


def _nowhere(wanted: Address | None, namespace: str | None) -> TrainwrightError:
    """Say that there is no home to ask, and what would be one."""
    nobody = "no tw serve is running and there is no kubeconfig"
    advice = "run a job with: tw run FILE, start a server with: tw serve, or name a cluster with --kubeconfig"
    if wanted is None:
        return HomeError(f"{nobody}; {advice}")
    jobs = [job for run in runs.kept(runs.state()) for job in run.jobs]
    place = f"namespace {namespace!r} of any run that is kept" if namespace else "any run that is kept"
    if elsewhere := sorted({job["namespace"] for job in jobs if is_meant(job, wanted, None)}):
        return NotFound(f"there is no job {wanted.job!r} in {place}, but there is one in {listed(elsewhere)}")
    known = list(dict.fromkeys(job["name"] for job in jobs))
    return NotFound(f"there is no {_described(wanted, place, known)}, and {nobody}; {advice}")


def _described(wanted: Address, place: str, known: list[str]) -> str:
    there = f" (there are: {', '.join(known[:_SHOWN])})" if known else "; there are no jobs"
    return f"{wanted.kind or 'job'} {wanted.job!r} in {place}{did_you_mean(wanted.job, known)}{there}"


@asynccontextmanager
async def _connected(access: "Access", name: str, advice: str) -> AsyncIterator["Cluster"]:
    """Connect to an API server; one that does not answer is called by its name, with what to do about it."""
    from trainwright.cluster.kubernetes import Unreachable
    from trainwright.cluster.kubernetes.whole import WholeCluster

    try:
        async with WholeCluster(access) as cluster:
            yield cluster
    except Unreachable as error:
        raise HomeError(f"{name} does not answer: {error}; {advice}") from error


def _at(socket: Path) -> "Access":
    from urllib.parse import quote

    from trainwright.cluster.kubernetes import Access, Server

    return Access(Server(f"unix://{quote(str(socket))}"), namespace=_DEFAULT_NAMESPACE)


def _has_default_cluster() -> bool:
    return (Path.home() / ".kube" / "config").is_file() or "KUBERNETES_SERVICE_HOST" in os.environ


def _namespace(where: Where, default: str) -> str:
    return "" if where.all_namespaces else where.namespace or default


def _newest(wanted: Address, where: Where) -> runs.Kept | None:
    return next(runs_with(wanted, where.namespace), None)


def is_meant(job: runs.JobFacts, wanted: Address, namespace: str | None) -> bool:
    """Say whether a user who names this means that job of a run."""
    return (
        job["name"] == wanted.job
        and (not wanted.kind or job["kind"] == wanted.kind)
        and (namespace is None or job["namespace"] == namespace)
    )


async def _matching(home: Home, wanted: Address) -> list[tuple[Face, Object]]:
    return await listing(home, name=wanted.job, kind=wanted.kind)
