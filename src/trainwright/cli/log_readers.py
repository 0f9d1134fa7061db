"""Which logs of a job are read, of which pods and containers; once, or also those of pods that are made meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trainwright.cli import homes, waiting
from trainwright.cli.gathered import files
from trainwright.cli.log_sources import Asked, from_api, from_files, learn
from trainwright.cli.seen import Seen, belongs, pod_of, pods_of
from trainwright.cli.time_order import Line, Order
from trainwright.cli.view import container_name
from trainwright.cluster.base import Change
from trainwright.cluster.informer import Informer
from trainwright.core.errors import ClusterError, HomeError, NotFound, did_you_mean
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, at, moment
from trainwright.core.resources import POD
from trainwright.node import logs
from trainwright.node.logs import Growth, pod_folder

_LINGER_SECONDS = 3.0
"""So long containers that outlive their job are followed."""

Sink = Callable[[list[Line]], None]
"""Takes lines in the order of time, many at once; it may block."""


@dataclass(frozen=True)
class Choice:
    """Which ranks and containers a user wants: nothing stands for all."""

    container: str = ""
    numbers: frozenset[int] | None = None


class Reader:
    """Reads what the ranks of a job have printed."""

    def __init__(self, seen: Seen, choice: Choice, asked: Asked) -> None:
        self._seen = seen
        self._choice = choice
        self._asked = asked
        self._folder = files(seen.home)
        _check_container(choice.container, seen.view.latest(seen.key))

    async def read(self, sink: Sink) -> None:
        """Hand on everything there is."""
        order = Order(settle=None)
        async with asyncio.TaskGroup() as group:
            for pod in self._wanted():
                for uid in self._uids(pod):
                    for container in self._containers(pod):
                        growth = Growth()
                        learn(growth, pod, container)
                        if pieces := self._pieces(pod, uid, container, growth):
                            group.create_task(order.bring(_name(pod, container), pieces))
            await asyncio.sleep(0)  # all of them are on their way
            order.close()
            async for lines in order.batches():
                sink(lines)

    @property
    def needs_names(self) -> bool:
        """Say whether lines need their rank in front: they come from more than one container."""
        found = {(pod["metadata"]["name"], name) for pod in self._wanted() for name in self._that_printed(pod)}
        return len(found) > 1

    def _wanted(self) -> list[Object]:
        """Return the newest pod of each rank that is wanted; NotFound if there is no such rank."""
        pods, rank = self._seen.view.latest(self._seen.key), self._seen.address.rank
        if rank:
            return [pod_of(rank, pods, self._seen.key.name)]
        numbers = self._choice.numbers
        return [pod for number, pod in enumerate(pods) if numbers is None or number in numbers]

    def _uids(self, pod: Object) -> list[str]:
        """Return a pod, and before it those that had its name since the job was made and left files."""
        meta = pod["metadata"]
        if self._folder is None:
            return [] if meta["uid"] in self._seen.view.gone else [meta["uid"]]
        born = moment(self._seen.job["metadata"].get("creationTimestamp"))
        folders = (self._folder / "logs" / meta.get("namespace", "")).glob(f"{meta['name']}_*")
        dated = sorted((path.stat().st_mtime, path.name.rpartition("_")) for path in folders)
        return [
            uid
            for time, (name, _, uid) in dated
            if name == meta["name"] and (uid == meta["uid"] or born is None or time >= born.timestamp())
        ]

    def _containers(self, pod: Object) -> list[str]:
        """Return the containers of a pod that are wanted: init steps unasked only where all ranks are."""
        steps, mains = _names(pod, "initContainers"), _names(pod, "containers")
        if self._choice.container:
            return [name for name in (*steps, *mains) if name == self._choice.container]
        return mains if self._seen.address.rank else [*steps, *mains]

    def _that_printed(self, pod: Object) -> Iterator[str]:
        """Yield the containers that have printed something, as far as that is known without asking."""
        for name in self._containers(pod):
            if self._folder is None:
                yield name
                continue
            folders = [self._place(self._folder, pod, uid) for uid in self._uids(pod)]
            if any(logs.log_path(each, name, run).stat().st_size for each in folders for run in logs.runs(each, name)):
                yield name

    def _pieces(self, pod: Object, uid: str, container: str, growth: Growth) -> AsyncIterator[bytes]:
        if self._folder is not None:
            return from_files(self._place(self._folder, pod, uid), container, growth, self._asked)
        return from_api(self._seen.home.cluster, pod, container, growth, self._asked)

    def _place(self, folder: Path, pod: Object, uid: str) -> Path:
        meta = pod["metadata"]
        return pod_folder(folder, meta.get("namespace", ""), meta["name"], uid)


class Follower(Reader):
    """Reads what the ranks of a job have printed and go on to print, also those made meanwhile, until it has ended."""

    def __init__(self, seen: Seen, choice: Choice, asked: Asked) -> None:
        super().__init__(seen, choice, asked)
        self._order = Order()
        self._growths: dict[tuple[str, str], Growth] = {}
        """What is known of each container that is followed, by pod and name."""
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def read(self, sink: Sink) -> None:
        """Hand on everything there is, and everything that comes."""
        meta = self._seen.job["metadata"]
        pods = Informer(self._seen.home.cluster, POD, meta["namespace"], labels=f"{JOB_LABEL}={meta['name']}")
        pods.subscribe(self._changed)
        watching = asyncio.create_task(pods.run())
        ending = asyncio.create_task(self._until_over())
        try:
            async for lines in self._order.batches():
                sink(lines)
            await ending
        finally:
            tasks = (watching, ending, *self._reading.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def needs_names(self) -> bool:
        """Say whether lines need their rank in front: only a single rank with a single container does not."""
        if not self._seen.address.rank:
            return True
        return any(len(self._containers(pod)) > 1 for pod in self._wanted())

    def _changed(self, change: Change) -> None:
        """Take note of a pod, and begin to read those that are wanted and were not read before."""
        if not belongs(change.object, self._seen.kind):
            return
        self._seen.view.pod_changed(change)
        meta = change.object["metadata"]
        for (uid, container), growth in self._growths.items():
            if uid == meta["uid"]:
                learn(growth, change.object, container, gone=change.type == "DELETED")
        with suppress(NotFound):  # the rank that is wanted is not there yet
            for pod in self._wanted():
                self._begin(pod)

    def _begin(self, pod: Object) -> None:
        for uid in self._uids(pod) or [pod["metadata"]["uid"]]:
            for container in self._containers(pod):
                if (uid, container) in self._growths:
                    continue
                growth = self._growths[uid, container] = Growth()
                gone = uid != pod["metadata"]["uid"] or uid in self._seen.view.gone
                learn(growth, pod, container, gone=gone)
                bringing = self._order.bring(_name(pod, container), self._pieces(pod, uid, container, growth))
                self._reading[uid, container] = asyncio.create_task(bringing)

    async def _until_over(self) -> None:
        """Return when the job has ended, its containers too or not much later, and all they printed is on its way."""
        home, kind, job = self._seen.home, self._seen.kind, self._seen.job
        with suppress(HomeError):  # a server that was stopped: what was printed until then is here
            async for now in waiting.states(home, kind.resource, job):
                if now is None or kind.face.standing(now.get("status") or {}).finished:
                    break
        with suppress(HomeError, ClusterError):
            last = home if homes.is_there(home) else homes.afterwards(home)
            for pod in await pods_of(last, kind, job):
                self._changed(Change("MODIFIED", pod))
        if self._reading and homes.is_there(home):
            await asyncio.wait(self._reading.values(), timeout=_LINGER_SECONDS)
        self._end()
        await asyncio.sleep(0)
        self._order.close()

    def _end(self) -> None:
        """Wait for no container any more; the API would go on with those that outlive their job."""
        for key, growth in self._growths.items():
            if not growth.ended and self._folder is None:
                self._reading[key].cancel()
            growth.end()


def reader(seen: Seen, choice: Choice, asked: Asked) -> Reader:
    """Return what reads the logs of a job; NotFound if what was chosen is not there."""
    finished = seen.kind.face.standing(seen.job.get("status") or {}).finished
    goes_on = asked.follow and seen.home.kind != "kept" and not finished
    return Follower(seen, choice, asked) if goes_on else Reader(seen, choice, replace(asked, follow=False))


def _check_container(container: str, pods: Iterable[Object]) -> None:
    known = list(dict.fromkeys(name for pod in pods for name in (*_names(pod, "initContainers"), *_names(pod))))
    if container and known and container not in known:
        raise NotFound(
            f"no rank has a container {container!r}{did_you_mean(container, known)} (there are: {', '.join(known)})"
        )


def _names(pod: Object, group: str = "containers") -> list[str]:
    return [str(each["name"]) for each in at(pod, ("spec", group)) or ()]


def _name(pod: Object, container: str) -> str:
    return container_name(pod, container, several_jobs=False)
