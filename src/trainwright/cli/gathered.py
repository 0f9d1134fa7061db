"""Gathers what `tw why` judges from: everything that a home can tell of a job and of what stands around it.

What a user may not see is left out, for a verdict from less is better than none. Last lines come from the files of the
ranks where those are on this machine, which also say when the last line was printed; elsewhere the API is asked.
"""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from trainwright.cli.homes import Home
from trainwright.cli.report import LAST_LINES, last_lines
from trainwright.cli.seen import belongs, past_pods
from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import ClusterError, Forbidden, NotFound
from trainwright.core.names import JOB_LABEL
from trainwright.core.objects import Object, at, moment
from trainwright.core.resources import EVENT, NODE, POD, VOLUME_CLAIM, Resource
from trainwright.kinds import KINDS, Kind
from trainwright.node.logs import log_path, pod_folder, runs
from trainwright.why import Facts, Output

_MOST_LOGS = 64
"""So many ranks are asked for their last lines over the API; those that ended or do not run go first."""
_AT_ONCE = 16


async def gather(home: Home, kind: Kind, job: Object, now: datetime, flags: str = "") -> Facts:
    """Return everything there is to judge a job from, as of now."""
    meta = job["metadata"]
    namespace = meta["namespace"]
    pods = [pod for pod in await _listed(home, POD, namespace, f"{JOB_LABEL}={meta['name']}") if belongs(pod, kind)]
    known = {pod["metadata"]["uid"] for pod in pods}
    past = past_pods(home, kind, job, pods)
    others, jobs = await _around(home, namespace) if _asks_for_room(kind, job, pods) else ([], [])
    return Facts(
        kind,
        job,
        now,
        pods=tuple(pods),
        past=tuple(past),
        events=_about(await _listed(home, EVENT, namespace), job),
        nodes=tuple(await _listed(home, NODE, "")),
        others=tuple(pod for pod in others if pod["metadata"]["uid"] not in known),
        jobs=tuple(each for each in jobs if each["metadata"]["uid"] != meta["uid"]),
        claims=tuple(await _listed(home, VOLUME_CLAIM, namespace)) if any(map(_claims, pods)) else (),
        output=await outputs(home, kind, [*past, *pods]),
        home=home.kind,
        flags=flags,
    )


async def _listed(home: Home, resource: Resource, namespace: str, labels: str = "") -> list[Object]:
    """Return objects; none where there is no such kind, or nobody may see them."""
    try:
        return (await home.cluster.list(resource, namespace, labels=labels)).items
    except (Forbidden, NotFound):
        return []


def _asks_for_room(kind: Kind, job: Object, pods: Iterable[Object]) -> bool:
    """Say whether it matters who else holds what: listing all pods of a large cluster takes its time."""
    return any(not at(pod, ("spec", "nodeName")) for pod in pods) or kind.read(job).elastic is not None


def _claims(pod: Object) -> bool:
    return any("persistentVolumeClaim" in volume for volume in at(pod, ("spec", "volumes")) or ())


async def _around(home: Home, namespace: str) -> tuple[list[Object], list[Object]]:
    """Return all pods and all jobs, of every namespace if those may be seen."""
    pods = await _everywhere(home, POD, namespace)
    return pods, [job for row in KINDS for job in await _everywhere(home, row.resource, namespace)]


async def _everywhere(home: Home, resource: Resource, namespace: str) -> list[Object]:
    return await _listed(home, resource, "") or await _listed(home, resource, namespace)


def _about(events: Iterable[Object], job: Object) -> tuple[Object, ...]:
    """Return the events of a job and of whatever has its name in front, oldest first."""
    name = job["metadata"]["name"]
    mine = (each for each in events if _is_about(each.get("involvedObject") or {}, name))
    return tuple(sorted(mine, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or "")))


def _is_about(place: Object, name: str) -> bool:
    told = str(place.get("name", ""))
    return told == name or told.startswith(f"{name}-")


# What ranks have printed


async def outputs(home: Home, kind: Kind, pods: list[Object]) -> dict[str, Output]:
    """Return what ranks printed last and when, by the uid of the pod."""
    if (folder := files(home)) is not None:
        return {pod["metadata"]["uid"]: _from_files(folder, kind, pod) for pod in pods}
    if not isinstance(home.cluster, KubernetesCluster):
        return {}
    turns = asyncio.Semaphore(_AT_ONCE)
    cluster = home.cluster

    async def asked(pod: Object) -> Output:
        async with turns:
            return await _from_api(cluster, kind, pod)

    begun = [pod for pod in pods if at(pod, ("status", "containerStatuses"))]
    chosen = sorted(begun, key=lambda pod: at(pod, ("status", "phase")) == "Running")[:_MOST_LOGS]
    said = await asyncio.gather(*map(asked, chosen))
    return {pod["metadata"]["uid"]: output for pod, output in zip(chosen, said, strict=True)}


def files(home: Home) -> Path | None:
    """Return the folder with the logs of a home on this machine; None where they cannot be read as files."""
    folder = home.folder
    return folder if folder is not None and os.access(folder / "logs", os.R_OK | os.X_OK) else None


def _from_files(folder: Path, kind: Kind, pod: Object) -> Output:
    meta, container = pod["metadata"], _telling(kind, pod)
    place = pod_folder(folder, meta.get("namespace", ""), meta["name"], meta["uid"])
    files = [log_path(place, container, run) for run in runs(place, container)]
    if not files:
        return Output()
    before = tuple(last_lines(files[-2])) if len(files) > 1 else ()
    with suppress(OSError):
        seen = files[-1].stat()
        when = datetime.fromtimestamp(seen.st_mtime).astimezone() if seen.st_size else None
        return Output(tuple(last_lines(files[-1])), when, before)
    return Output(before=before)


async def _from_api(cluster: KubernetesCluster, kind: Kind, pod: Object) -> Output:
    container = _telling(kind, pod)
    states = at(pod, ("status", "containerStatuses")) or ()
    again = any(each.get("restartCount") for each in states if each.get("name") == container)
    before = await _lines(cluster, pod, container, previous=True) if again else []
    stamped = [_stamped(line) for line in await _lines(cluster, pod, container, timestamps=True)]
    lines = [text for text, _ in stamped] or await _lines(cluster, pod, container)
    return Output(tuple(lines), stamped[-1][1] if stamped else None, tuple(before))


async def _lines(cluster: KubernetesCluster, pod: Object, container: str, **how: bool) -> list[str]:
    """Return the last lines of a container; none where there are none, or a node cannot tell them so."""
    meta = pod["metadata"]
    data = b""
    with suppress(ClusterError):
        async for chunk in cluster.logs(meta["namespace"], meta["name"], container=container, tail=LAST_LINES, **how):
            data += chunk
    return data.decode(errors="replace").splitlines()


def _stamped(line: str) -> tuple[str, datetime | None]:
    """Return a line and the time in front of it."""
    time, _, text = line.partition(" ")
    try:
        return text, moment(time)
    except ValueError:
        return line, None


def _telling(kind: Kind, pod: Object) -> str:
    """Return the container whose words tell most: an init step that runs or has failed, else the main one."""
    for each in at(pod, ("status", "initContainerStatuses")) or ():
        state = each.get("state") or {}
        if "running" in state or at(state, ("terminated", "exitCode")):
            return str(each["name"])
    names = [str(each["name"]) for each in at(pod, ("spec", "containers")) or ()]
    return kind.container if kind.container in names else names[0]
