"""What the Kubernetes client costs: decoding, requests, lists, watches. Prints tables; docs/design/004 quotes them.

    python benchmarks/client.py            # everything, a few minutes
    python benchmarks/client.py --quick    # a tenth of it and less, to see that it works

CPU is that of the client alone: a stub that answers every request alike is a process of its own, a real API server is
another, and whoever watches is a third, so that nobody's events are counted as another's requests. Without controllers
nothing but our own requests changes the pods.
"""

import argparse
import asyncio
import contextlib
import gc
import multiprocessing
import os
import platform
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the control plane and the certificates

from tests.cluster.kubernetes import certificates  # noqa: E402
from tools.kube import ControlPlane, build  # noqa: E402

from trainwright.cluster.kubernetes import Access, KubernetesCluster, Material, Server, User  # noqa: E402
from trainwright.core.objects import Object  # noqa: E402
from trainwright.core.resources import NAMESPACE, POD, Resource  # noqa: E402

SPACE = "measure"
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)
TOKEN_LENGTH = 900
"""As long as the tokens that service accounts have."""
LONGEST_SECONDS = 600.0


@dataclass(frozen=True)
class Size:
    """How much is done of everything."""

    decoded: int
    kept: int
    requests: int
    rounds: int
    pods: int


FULL = Size(decoded=4_000, kept=8_000, requests=2_000, rounds=6, pods=2_992)
QUICK = Size(decoded=400, kept=800, requests=200, rounds=1, pods=96)


@dataclass(frozen=True)
class Cost:
    """What so many operations took."""

    count: int
    cpu: float
    wall: float

    @property
    def micros(self) -> float:
        """Return µs of CPU per operation."""
        return self.cpu / self.count * 1e6

    @property
    def rate(self) -> float:
        """Return operations per second."""
        return self.count / self.wall


async def cost(count: int, work: Awaitable[object]) -> Cost:
    """Return what so many operations take."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return Cost(count, time.process_time() - cpu, time.perf_counter() - wall)


async def in_parallel(at_once: int, calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Make calls, so many at once."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(work())


def resident() -> float:
    """Return the memory this process has now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def show(what: str, costs: list[Cost]) -> None:
    """Print a row: the median, how many there were in a second, and the range over the rounds."""
    micros = [each.micros for each in costs]
    middle, rate = statistics.median(micros), statistics.median(each.rate for each in costs)
    spread = f"  ({min(micros):.0f} to {max(micros):.0f} µs)" if len(costs) > 1 else ""
    print(f"{what:50} {middle:8.0f} µs CPU {rate:8,.0f} /s{spread}", flush=True)


# What is kept of a pod


class MetaShape(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    owner_references: list[Any] = []
    deletion_timestamp: str = ""


class ContainerShape(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: Any = None


class StatusShape(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    container_statuses: list[ContainerShape] = []


class SpecShape(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    node_name: str = ""


class PodShape(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """What a loop that watches pods wants to know of each."""

    metadata: MetaShape = msgspec.field(default_factory=MetaShape)
    spec: SpecShape = msgspec.field(default_factory=SpecShape)
    status: StatusShape = msgspec.field(default_factory=StatusShape)
    api_version: str = ""
    kind: str = ""


# Decoding


class WholeMeta(msgspec.Struct, rename="camel", omit_defaults=True):
    """All of metadata but `managedFields`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Any = None
    creation_timestamp: Any = None
    labels: Any = None
    annotations: Any = None
    owner_references: Any = None
    finalizers: Any = None
    generate_name: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None


class WholePod(msgspec.Struct, rename="camel"):
    metadata: WholeMeta
    api_version: str = ""
    kind: str = ""
    spec: Any = None
    status: Any = None


class WholeEvent(msgspec.Struct):
    type: str
    object: WholePod


class ShapedEvent(msgspec.Struct):
    type: str
    object: PodShape


ANY, WHOLE, SHAPED = msgspec.json.Decoder(), msgspec.json.Decoder(WholeEvent), msgspec.json.Decoder(ShapedEvent)


def as_dict(event: bytes) -> object:
    obj: Object = ANY.decode(event)["object"]
    del obj["metadata"]["managedFields"]
    return obj


def through_struct(event: bytes) -> object:
    pod = WHOLE.decode(event).object
    meta = msgspec.to_builtins(pod.metadata)
    return {"apiVersion": pod.api_version, "kind": pod.kind, "metadata": meta, "spec": pod.spec, "status": pod.status}


WAYS: dict[str, Callable[[bytes], object]] = {
    "dict, managedFields dropped": as_dict,
    "metadata through a Struct, the rest as dicts": through_struct,
    "partial Struct, back to a dict": lambda event: msgspec.to_builtins(SHAPED.decode(event).object),
    "partial Struct": lambda event: SHAPED.decode(event).object,
}


def decoding(size: Size) -> None:
    """Print what one event costs to read, and to read and keep."""
    print(f"\ndecoding a pod event of {len(pod_event()):,} bytes")
    with multiprocessing.get_context("spawn").Pool(
        1, maxtasksperchild=1
    ) as fresh:  # what one has freed the next reuses
        for row in fresh.imap(partial(decoded, size), WAYS, chunksize=1):
            print(row, flush=True)


def decoded(size: Size, way: str) -> str:
    """Return the row of one way."""
    decode, event = WAYS[way], pod_event()
    read = min(reading(decode, event, size.decoded) for _ in range(5))
    keep, kibibytes = keeping(decode, event, size.kept)
    return f"{way:50} {read:8.1f} µs {keep:8.1f} µs kept {kibibytes:8.1f} KiB kept"


def reading(decode: Callable[[bytes], object], event: bytes, count: int) -> float:
    """Return µs per event."""
    began = time.process_time()
    for _ in range(count):
        decode(event)
    return (time.process_time() - began) / count * 1e6


def keeping(decode: Callable[[bytes], object], event: bytes, count: int) -> tuple[float, float]:
    """Return µs and KiB per event that is kept, the garbage collector's share included."""
    gc.collect()
    before, began = resident(), time.process_time()
    kept = [decode(event) for _ in range(count)]
    return (time.process_time() - began) / len(kept) * 1e6, (resident() - before) * 1024 / len(kept)


def pod_event() -> bytes:
    return msgspec.json.encode({"type": "MODIFIED", "object": running_pod()})


def running_pod() -> Object:
    """Return a pod of a job as a server sends it while it runs."""
    moment = "2026-11-15T21:00:00Z"
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": "x"}
    state = {"running": {"startedAt": moment}}
    condition = {"status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-worker-1",
            "namespace": "default",
            "uid": "b9f5a2f0-5d70-4a7c-8b43-6d2c5f1e0a11",
            "resourceVersion": "12345",
            "creationTimestamp": moment,
            "labels": {f"trainwright.dev/l{index}": "v" for index in range(6)},
            "annotations": {"a": "b"},
            "ownerReferences": [{**job, "controller": True, "blockOwnerDeletion": True}],
            "managedFields": managed_fields(moment),
        },
        "spec": running_spec(),
        "status": {
            "phase": "Running",
            "conditions": [{"type": f"C{index}", **condition} for index in range(4)],
            "containerStatuses": [
                {"name": "main", "ready": True, "restartCount": 0, "state": state, "image": "x", "imageID": "x"}
            ],
            "podIP": "10.0.0.1",
        },
    }


def running_spec() -> Object:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    ca = {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}}
    toleration = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    return {
        "containers": [
            {
                "name": "main",
                "image": "none",
                "command": ["python", "-c", "x"],
                "env": [{"name": f"E{index}", "value": "v" * 12} for index in range(12)],
                "resources": {"limits": {"cpu": "1"}},
                "volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets"}],
            }
        ],
        "volumes": [{"name": "t", "projected": {"defaultMode": 420, "sources": [token, ca]}}],
        "tolerations": [{**toleration, "tolerationSeconds": 300}] * 2,
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
        "nodeName": "n",
    }


def managed_fields(moment: str) -> list[Object]:
    """Return who wrote what, as a server writes it down for a client and a kubelet."""
    env: Object = {f'k:{{"name":"E{index}"}}': {".": {}, "f:name": {}, "f:value": {}} for index in range(12)}
    container = {
        ".": {},
        "f:command": {},
        "f:env": {".": {}, **env},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
        "f:ports": {},
        "f:resources": {},
    }
    containers = {'k:{"name":"main"}': container}
    labels: Object = {".": {}, "f:app": {}, "f:job": {}}
    owners: Object = {".": {}, 'k:{"uid":"b9f5a2f0"}': {}}
    condition: Object = {".": {}, "f:lastProbeTime": {}, "f:status": {}, "f:type": {}}
    conditions = {f'k:{{"type":"C{index}"}}': condition for index in range(4)}
    written: Object = {
        "f:metadata": {"f:labels": labels, "f:ownerReferences": owners},
        "f:spec": {"f:containers": containers, "f:dnsPolicy": {}, "f:restartPolicy": {}},
    }
    return [
        {
            "manager": "trainwright",
            "operation": "Update",
            "apiVersion": "v1",
            "time": moment,
            "fieldsType": "FieldsV1",
            "fieldsV1": written,
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": conditions, "f:phase": {}}},
        },
    ]


# Requests to a stub


def new_pod(name: str) -> Object:
    """Return a pod as a client sends it."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["python", "-c", "x"],
        "env": [{"name": f"E{index}", "value": "v" * 60} for index in range(14)],
        "resources": {"limits": {"cpu": "1"}},
    }
    labels = {f"trainwright.dev/l{index}": "v" for index in range(6)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": SPACE, "name": name, "labels": labels},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def created_answer() -> bytes:
    """Return what the stub always answers: the head a server sends, and a short pod."""
    meta = {"name": "x", "namespace": SPACE, "uid": "b9f5a2f0-5d70-4a7c-8b43-6d2c5f1e0a11", "resourceVersion": "12345"}
    body = msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", "metadata": {**meta, "pad": "x" * 320}})
    head = (
        "HTTP/1.1 201 Created",
        "Audit-Id: c3e35164-df66-47bf-9ee8-2143885d3843",
        "Cache-Control: no-cache, private",
        "Content-Type: application/json",
        "X-Kubernetes-Pf-Flowschema-Uid: 90dada5a-9f43-44b5-a2fe-c87e18e6e70a",
        "X-Kubernetes-Pf-Prioritylevel-Uid: 53a0ef21-8c45-4a8f-8525-21b72f96f702",
        "Date: Sun, 15 Nov 2026 22:39:21 GMT",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", "")).encode() + body


class Stub(asyncio.Protocol):
    """Answers every request alike, and reads of it only where it ends."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.unread = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport
        self.unread += data
        while (end := self._end()) and len(self.unread) >= end:
            self.unread = self.unread[end:]
            self.transport.write(self.answer)

    def _end(self) -> int:
        """Return where the first request ends, 0 while its head is incomplete."""
        head, found, _ = self.unread.partition(b"\r\n\r\n")
        if not found:
            return 0
        _, _, rest = head.partition(b"Content-Length: ")
        return len(head) + len(found) + int(rest.partition(b"\r\n")[0] or 0)


async def serve_stub(folder: Path) -> None:
    """Serve on a free port, and print which one."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    answer = created_answer()
    server = await asyncio.get_running_loop().create_server(lambda: Stub(answer), "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def to_stub(size: Size) -> None:
    """Print what a create costs when the server is quick."""
    pod = new_pod("x")
    print(f"\nrequests to a stub: TLS, a body of {len(msgspec.json.encode(pod)):,} bytes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates.make(folder)
        async with itself("--stub", name) as lines:
            server = Server(f"https://127.0.0.1:{int(await lines())}", Material(folder / "ca.pem"))
            async with KubernetesCluster(Access(server, User(token="t" * TOKEN_LENGTH))) as cluster:
                for at_once in (1, 32, 128):
                    show(f"create, {at_once} at once", await creates(cluster, pod, at_once, size))


async def creates(cluster: KubernetesCluster, pod: Object, at_once: int, size: Size) -> list[Cost]:
    """Return what the rounds cost; the one before them makes the connections."""

    async def one_round() -> Cost:
        calls = (partial(cluster.create, POD, pod) for _ in range(size.requests))
        return await cost(size.requests, in_parallel(at_once, calls))

    await one_round()
    return [await one_round() for _ in range(size.rounds)]


# Requests to a real API server, and one who watches


async def to_server(kubeconfig: Path, size: Size) -> None:
    """Print what the life of many pods costs the one who makes them, and the one who watches."""
    print(f"\nrequests to a real API server: {size.pods:,} pods")
    async with KubernetesCluster.from_config(str(kubeconfig)) as cluster:
        await cluster.create(NAMESPACE, {"metadata": {"name": SPACE}})
        account = {"metadata": {"name": "default", "namespace": SPACE}}  # who makes it otherwise does not run here
        await cluster.create(SERVICE_ACCOUNT, account)

        names = [f"pod-{index}" for index in range(size.pods)]
        pods = [new_pod(name) for name in names]
        made = in_parallel(16, (partial(cluster.create, POD, pod) for pod in pods))
        show("create, 16 at once", [await cost(size.pods, made)])
        for how in ("whole", "shaped"):
            show(f"patch, 4 at once, somebody watches {how}", [await watched(cluster, kubeconfig, how, names)])
        gone = in_parallel(16, (partial(cluster.delete, POD, SPACE, name, grace=0) for name in names))
        show("delete, 16 at once", [await cost(size.pods, gone)])


async def watched(cluster: KubernetesCluster, kubeconfig: Path, how: str, names: list[str]) -> Cost:
    """Patch every pod while another process watches, and print what it says."""
    patch = {"metadata": {"annotations": {"watched": how}}}
    async with itself("--watch", str(kubeconfig), "--how", how, "--events", str(len(names))) as lines:
        print(await lines())
        calls = (partial(cluster.patch, POD, SPACE, name, patch) for name in names)
        patched = await cost(len(names), in_parallel(4, calls))
        print(await lines())
        return patched


async def watch(kubeconfig: str, how: str, events: int) -> None:
    """List and keep all pods, then see so many changes; print what either took."""
    shapes = {POD: PodShape} if how == "shaped" else None
    async with KubernetesCluster.from_config(kubeconfig, shapes=shapes) as cluster:
        await cluster.rest.request("GET", "/version")
        before, began = resident(), time.process_time()
        listing = await cluster.list(POD, SPACE)
        kept = {pod["metadata"]["name"]: pod for pod in listing.items}
        micros, grown = (time.process_time() - began) / len(kept) * 1e6, resident() - before
        print(f"{f'list {how}, per object':50} {micros:8.0f} µs CPU, {grown:.0f} MB for all", flush=True)

        began, seen = time.process_time(), 0
        async for change in cluster.watch(POD, SPACE, since=listing.version):
            if change.type != "MODIFIED":
                continue
            kept[change.object["metadata"]["name"]] = change.object
            seen += 1
            if seen == events:
                break
        print(f"{f'watch {how}, per event':50} {(time.process_time() - began) / seen * 1e6:8.0f} µs CPU", flush=True)


@contextlib.asynccontextmanager
async def itself(*arguments: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Run this program as another process; yields what returns its next line."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    stdout = process.stdout

    async def line() -> str:
        async with asyncio.timeout(LONGEST_SECONDS):
            text = (await stdout.readline()).decode().rstrip()
        if not text:
            raise SystemExit(f"client.py {arguments[0]} ended before it had said everything")
        return text

    try:
        yield line
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def measure(size: Size) -> None:
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} before the run")
    decoding(size)
    asyncio.run(to_stub(size))
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder) / "plane")
        try:
            plane.start(controllers=False)
            asyncio.run(to_server(plane.kubeconfig, size))
        finally:
            plane.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a little of everything, to see that it works")
    parser.add_argument("--stub", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--watch", metavar="KUBECONFIG", help=argparse.SUPPRESS)
    parser.add_argument("--how", choices=["whole", "shaped"], default="whole", help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stub:
        asyncio.run(serve_stub(options.stub))
        return
    if options.watch:
        asyncio.run(watch(options.watch, options.how, options.events))
        return
    build()
    measure(QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()
