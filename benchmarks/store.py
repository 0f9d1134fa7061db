"""What the memory cluster costs: writes, watches, the journal. Prints a table; docs/design/002 quotes it.

Run with `.venv/bin/python benchmarks/store.py`.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from trainwright.cluster.base import Cluster
from trainwright.cluster.informer import Informer
from trainwright.cluster.journal import Journal
from trainwright.cluster.memory import MemoryCluster
from trainwright.cluster.queue import WorkQueue
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, POD

COUNT = 5_000


def pod(index: int) -> Object:
    """Return a pod of 1.4 KB, as a training job has them."""
    env = [{"name": f"VARIABLE_{n}", "value": f"value-{n}-{index}"} for n in range(24)]
    labels = {"training.kubeflow.org/job-name": f"job-{index // 8}", "training.kubeflow.org/replica-index": str(index)}
    container = {"name": "pytorch", "image": "none", "command": ["python", "train.py"], "env": env}
    meta = {"name": f"pod-{index}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def cluster(journal: Journal | None = None) -> MemoryCluster:
    return MemoryCluster(BUILT_IN, now=lambda: datetime.now(UTC), journal=journal)


async def timed(what: str, work: Callable[[], Awaitable[object]], count: int = COUNT) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what:50} {count / wall:10,.0f} /s {wall / count * 1e6:8.1f} us {cpu / count * 1e6:8.1f} us CPU")


async def create(store: Cluster) -> None:
    for index in range(COUNT):
        await store.create(POD, pod(index))


async def patch_status(store: Cluster, phase: str) -> None:
    for index in range(COUNT):
        await store.patch(POD, "default", f"pod-{index}", {"status": {"phase": phase}}, subresource="status")


async def informed(watchers: int, labels: str = "") -> None:
    store = cluster()
    await create(store)
    informers = [Informer(store, POD, labels=labels) for _ in range(watchers)]
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer.run()) for informer in informers]
        for informer in informers:
            await informer.synced.wait()
        await asyncio.sleep(0)

        async def patch_and_see() -> None:
            for index in range(COUNT):
                await store.patch(POD, "default", f"pod-{index}", {"status": {"phase": "x"}}, subresource="status")
                await asyncio.sleep(0)

        await timed(f"status patch, {watchers} informers{' of one job' if labels else ''}", patch_and_see)
        for task in running:
            task.cancel()


async def main() -> None:
    store = cluster()
    await timed("create a pod of 1.4 KB", lambda: create(store))
    await timed("status patch", lambda: patch_status(store, "Running"))
    await timed("status patch that changes nothing", lambda: patch_status(store, "Running"))

    async def lists(labels: str, times: int) -> None:
        for _ in range(times):
            await store.list(POD, "default", labels=labels)

    await timed("list 5,000 pods", lambda: lists("", 50), 50)
    await timed("list 8 of 5,000 pods by label", lambda: lists("training.kubeflow.org/job-name=job-7", 50), 50)
    for watchers in (1, 10, 100):
        await informed(watchers)
    await informed(100, labels="training.kubeflow.org/job-name=job-7")
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder, "journal"), on_error=print)
        kept = cluster(journal)

        async def create_durably() -> None:
            await create(kept)
            await journal.flush()

        await timed("create, kept in the journal, all on disk", create_durably)

        async def create_and_flush() -> None:
            for index in range(200):
                await kept.patch(POD, "default", f"pod-{index}", {"status": {"phase": "x"}}, subresource="status")
                await journal.flush()

        await timed("patch and flush, one at a time", create_and_flush, 200)
        journal.close()
    queue: WorkQueue[int] = WorkQueue()

    async def cycle() -> None:
        for key in range(COUNT):
            queue.add(key)
            queue.done(await queue.get())

    await timed("work queue: add, get, done", cycle)


if __name__ == "__main__":
    asyncio.run(main())
