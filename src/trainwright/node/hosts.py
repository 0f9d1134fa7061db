"""/etc/hosts of a pod: the names cluster DNS would answer, and no others.

A Service's name stands for the addresses of the pods it selects; a pod with `hostname` and `subdomain` has the name
`hostname.subdomain` if a Service of the subdomain's name selects it. From its own namespace a name may be written
`svc`, `svc.ns`, `svc.ns.svc` or in full, from another one in the last three forms: what the search domains of
resolv.conf do on a cluster. Pods that are not ready, have no address yet or have ended are left out, unless the Service
publishes unready ones. There is no virtual address here: a Service with a cluster IP behaves as one without (its name
gives the pods' own addresses, and its ports are the pods' ports). Services without selector and ExternalName ones
are left out; only the name of the API server is there, where pods can reach it. A search domain of the pod's own
(`dnsConfig.searches`) that names a Service of a namespace lets it write the host names of that Service's pods alone.

A file mounted over /etc/hosts is held by its inode, so a file is rewritten in place: a renamed one would never be seen.
Each address also gets a line `::ffff:<address>` with its first name, which is what a dual-stack socket looks up;
without it torch warns on every connection. What all pods of a namespace share is made once for all of them.
"""

import asyncio
import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.core.objects import Object, holds

log = logging.getLogger(__name__)

DOMAIN = "cluster.local"
_HEADER = """\
# Written by trainwright while the pod runs.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_API_SERVER = f"kubernetes.default.svc.{DOMAIN} kubernetes.default.svc kubernetes.default"
_UNREADY_ANNOTATION = "service.alpha.kubernetes.io/tolerate-unready-endpoints"
_SETTLE_SECONDS = 0.002
_RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class _Block:
    """The lines of one namespace: as its own pods see them, and as others do."""

    inside: str = ""
    outside: str = ""
    pods: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Per Service, the address and host name of each pod that has a name under it."""


def names(services: Iterable[Object], pods: Iterable[Object]) -> dict[str, _Block]:
    """Return the lines for the Services of each namespace; the shared part of every pod's file."""
    by_label: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if _has_address(pod):
            for label, value in (pod["metadata"].get("labels") or {}).items():
                by_label[pod["metadata"].get("namespace", ""), label, value].append(pod)
    records: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for service in sorted(services, key=lambda service: str(service["metadata"]["name"])):
        namespace = service["metadata"].get("namespace", "")
        for address, name in _records(service, by_label):
            known = records[namespace][address]
            if name not in known:
                known.append(name)
    return {namespace: _block(namespace, found) for namespace, found in records.items()}


def shared(blocks: Mapping[str, _Block], namespace: str, searches: Iterable[str] = ()) -> str:
    """Return what all pods of a namespace with the same search domains have in their files."""
    own = blocks.get(namespace, _Block()).inside
    others = "".join(blocks[other].outside for other in sorted(blocks) if other != namespace)
    return own + others + "".join(_short_names(blocks, search) for search in searches)


def _short_names(blocks: Mapping[str, _Block], search: str) -> str:
    """Return the lines that a search domain "service.namespace.svc.cluster.local" makes possible."""
    service, _, rest = search.removesuffix(".").removesuffix(f".svc.{DOMAIN}").partition(".")
    found = blocks.get(rest, _Block()).pods.get(service, ())
    return "".join(f"{address}\t{short}\n" for address, short in found)


def _searches(pod: Object) -> tuple[str, ...]:
    return tuple((pod["spec"].get("dnsConfig") or {}).get("searches") or ())


def text(pod: Object, address: str, common: str) -> str:
    """Return a pod's whole file: the usual lines, its own, its aliases, then what its namespace shares."""
    own = f"{address}\t{host_line(pod)}\n" if address else ""
    aliases = "".join(
        f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n" for alias in pod["spec"].get("hostAliases") or ()
    )
    added = f"\n# From spec.hostAliases.\n{aliases}" if aliases else ""
    return f"{_HEADER}{own}{added}{common}"


def hosts(services: Iterable[Object], pods: Iterable[Object], pod: Object) -> str:
    """Return the file of one pod."""
    address = str((pod.get("status") or {}).get("podIP") or "")
    common = shared(names(services, pods), pod["metadata"].get("namespace", ""), _searches(pod))
    return text(pod, address, common)


def hostname(pod: Object) -> str:
    """Return what `hostname` prints in a pod: spec.hostname or its name, cut as Kubernetes cuts it."""
    spec = pod["spec"]
    short = (spec.get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")
    full = _full_name(pod, short)
    return full if full and spec.get("setHostnameAsFQDN") else str(short)


def host_line(pod: Object) -> str:
    """Return a pod's names for its own address: the full one first if it has one."""
    short = (pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")
    full = _full_name(pod, short)
    return f"{full}\t{short}" if full else str(short)


def rewrite(path: Path, content: str) -> None:
    """Replace the contents of a file in place: whoever has it mounted sees the new ones."""
    data = content.encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(file, data, 0)
        os.ftruncate(file, len(data))
    finally:
        os.close(file)


@dataclass
class _File:
    pod: Object
    address: str
    path: Path
    content: str = ""


class HostsFiles:
    """Keeps the hosts files of this node's pods right while pods and Services come and go."""

    def __init__(
        self,
        services: Callable[[], Iterable[Object]],
        pods: Callable[[], Iterable[Object]],
        api_server: str = "",
    ) -> None:
        self._services = services
        self._api_server = f"{api_server}\t{_API_SERVER}\n" if api_server else ""
        self._pods = pods
        self._files: dict[str, _File] = {}
        self._dirty = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []

    def peers(self, namespace: str) -> list[str]:
        """Return the names and domains of pods that a pod of the namespace may dial: those of its Services."""
        names = sorted(
            each["metadata"]["name"] for each in self._services() if each["metadata"]["namespace"] == namespace
        )
        return [word for name in names for word in (name, f".{name}")]

    def changed(self) -> None:
        """Say that a pod or Service is not what it was."""
        self._dirty.set()

    async def add(self, pod: Object, address: str, path: Path) -> None:
        """Keep a pod's file from now on; returns once it and everybody else's say the new address."""
        self._files[pod["metadata"]["uid"]] = _File(pod, address, path)
        written = asyncio.get_running_loop().create_future()
        self._waiting.append(written)
        self._dirty.set()
        await written

    def remove(self, uid: str) -> None:
        """Leave a pod's file alone from now on."""
        self._files.pop(uid, None)
        self._dirty.set()

    async def run(self) -> None:
        """Write until cancelled; many changes at once are one round of writing."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._dirty.clear()
            waiting, self._waiting = self._waiting, []
            complete = self._write()
            for written in waiting:
                if not written.done():
                    written.set_result(None)
            if not complete:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._dirty.wait(), _RETRY_SECONDS)
                self._dirty.set()

    def _write(self) -> bool:
        blocks = names(self._services(), self._known_pods())
        common: dict[tuple[str, tuple[str, ...]], str] = {}
        complete = True
        for file in self._files.values():
            alike = file.pod["metadata"].get("namespace", ""), _searches(file.pod)
            if alike not in common:
                common[alike] = self._api_server + shared(blocks, *alike)
            content = text(file.pod, file.address, common[alike])
            if content == file.content:
                continue
            try:
                rewrite(file.path, content)
                file.content = content
            except OSError as error:
                log.warning("a hosts file cannot be written and is tried again: %s: %s", file.path, error)
                complete = False
        return complete

    def _known_pods(self) -> list[Object]:
        """All pods; those of ours with the address they really have, which the API may not show yet."""
        known = {pod["metadata"]["uid"]: pod for pod in self._pods()}
        for uid, file in self._files.items():
            pod = known.get(uid, file.pod)
            known[uid] = {**pod, "status": {**(pod.get("status") or {}), "podIP": file.address}}
        return list(known.values())


def _full_name(pod: Object, short: str) -> str:
    subdomain = pod["spec"].get("subdomain")
    return f"{short}.{subdomain}.{pod['metadata'].get('namespace', '')}.svc.{DOMAIN}" if subdomain else ""


def _records(service: Object, by_label: Mapping[tuple[str, str, str], list[Object]]) -> Iterable[tuple[str, str]]:
    """Yield (address, name) with the name as it is written inside the namespace; a pod's own name comes first."""
    meta, spec = service["metadata"], service.get("spec") or {}
    selector = spec.get("selector")
    if not selector or spec.get("type") == "ExternalName":
        return
    label, value = next(iter(selector.items()))
    unready = spec.get("publishNotReadyAddresses") or (meta.get("annotations") or {}).get(_UNREADY_ANNOTATION) == "true"
    for pod in by_label.get((meta.get("namespace", ""), label, value), ()):
        if selector.items() <= pod["metadata"]["labels"].items() and (unready or _ready(pod)):
            address = pod["status"]["podIP"]
            if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == meta["name"]:
                yield address, f"{pod['spec']['hostname']}.{meta['name']}"
            yield address, meta["name"]


def _block(namespace: str, records: Mapping[str, list[str]]) -> _Block:
    inside, outside = [], []
    pods: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for address, found in records.items():
        for name in found:
            short, dot, service = name.partition(".")
            if dot:
                pods[service].append((address, short))
            forms = f"{name}.{namespace}.svc.{DOMAIN} {name}.{namespace}.svc {name}.{namespace}"
            inside.append(f"{address}\t{forms} {name}\n")
            outside.append(f"{address}\t{forms}\n")
        mapped = f"::ffff:{address}\t{found[0]}.{namespace}.svc.{DOMAIN}\n"
        inside.append(mapped)
        outside.append(mapped)
    return _Block("".join(inside), "".join(outside), {service: tuple(each) for service, each in pods.items()})


def _has_address(pod: Object) -> bool:
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in ("Succeeded", "Failed")


def _ready(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and holds(pod, "Ready")
