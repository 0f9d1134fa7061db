"""`tw why` says the right sentence about situations that were really brought about, as processes on this machine.

All jobs of the table live in one home at the same time; whoever needs a world of its own has one further down. What
only a cluster can do (evict, pull images, lose nodes) is in tests/kube/test_why.py.
"""

import os
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from tests.e2e import processes
from tests.e2e.situations import (
    Trouble,
    asking,
    command,
    container,
    elastic,
    mpi,
    task,
    torch,
    training,
    trouble,
    unattended,
    volcano,
)

from trainwright.core.names import AUTOSCALE_ANNOTATION, CANCEL_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import BATCH_JOB, NODE, POD
from trainwright.kinds import PYTORCH_JOB

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

TIME = r"\d\d:\d\d:\d\d"
SPAN = r"[\d.]+[smh]\w*"
GPU = "nvidia.com/gpu"
LATER = timedelta(minutes=6)

FAILS_THIRD = (
    'echo step 1; case "$HOSTNAME" in *-worker-1) echo "ValueError: bad input" >&2; exit 3;; esac; sleep 1; exit 1'
)
EATS = "python3 -c 'x = bytearray(300 << 20); import time; time.sleep(1000)'"
FAILS_ONCE = 'test -e ran && exec sleep 1000; touch ran; echo "cannot open data"; exit 7'
PROBE = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
NEVER_ASKED = {"exec": {"command": ["true"]}, "initialDelaySeconds": 1000}
STEPS = 'case "$HOSTNAME" in *-worker-0) echo "step 41 loss 0.3";; *) echo "step 42 loss 0.3";; esac; sleep 1000'
STORE = 'echo "DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."'
DEAF = "trap '' TERM; while :; do sleep 0.1; done"
"""Does not go when it is told to."""


class Row(NamedTuple):
    """A job that gets into a situation, what is said of it, and what of the evidence must be there."""

    job: Object
    sentence: str
    evidence: tuple[str, ...] = ()
    later: timedelta = timedelta()


TABLE = {
    "exited": Row(
        torch("exits", FAILS_THIRD, workers=2),
        "exits failed: exits-worker-1 exited with code 3",
        (r"\| ValueError: bad input", ".*worker-0 ended after it with code 1, most likely because of it"),
    ),
    "exited, of another kind": Row(
        training("trains", "echo no tasks; exit 6"),
        "trains failed: trains-trainer-[01] exited with code 6",
        (r"\| no tasks",),
    ),
    "killed": Row(torch("crashes", "kill -SEGV $$$$"), "crashes failed: crashes-master-0 was killed by SIGSEGV"),
    "out-of-memory": Row(
        torch("eats", EATS, **asking(memory="64Mi")),
        r"eats failed: eats-master-0 ran out of memory \(its limit is 64Mi, pytorch had [\d.]+Mi when it was killed\)",
    ),
    "not-started": Row(
        torch("empty", None),
        "empty failed: empty-master-0 could not be started: .*command.*",
    ),
    "failed-its-probe": Row(
        torch("dead", livenessProbe=PROBE),
        "dead failed: dead-master-0 was ended because its probe failed: .*its liveness probe has failed too often",
    ),
    "late": Row(
        torch("slow", run={"activeDeadlineSeconds": 1}),
        "slow failed: it ran longer than its activeDeadlineSeconds of 1",
    ),
    "worn-out": Row(
        torch("worn", "exit 5", policy="OnFailure", run={"backoffLimit": 1}),
        "worn failed: it failed 1 time, and its limit is backoffLimit 1; last, worn-master-0 exited with code 5",
    ),
    "never-met": Row(
        torch("alone", f"{STORE}; exit 1"),
        "alone failed: its ranks did not all meet, 1 of 2 joined, says alone-master-0",
    ),
    "too-few": Row(
        volcano("vote", task("voter", 'test "$VC_TASK_INDEX" = 0', 3), minSuccess=2, plugins={"env": []}),
        "vote failed: 1 of 3 ranks succeeded, and minSuccess is 2; vote-voter-[12] exited with code 1 first",
    ),
    "cancelled": Row(
        torch("unwanted", meta={"annotations": {CANCEL_ANNOTATION: "ada"}}),
        "unwanted was cancelled by ada",
    ),
    "succeeded": Row(
        torch("leads", 'case "$HOSTNAME" in *master*) exit 0;; esac; sleep 1000', workers=2),
        "leads succeeded .*: master ended with success and decides; by then 0 of 2 workers had",
    ),
    "crash-loop": Row(
        torch("loops", "echo no data; exit 4", policy="OnFailure"),
        rf"loops is in a crash loop: master-0 exited with code 4, \d+ times by now; it runs again at {TIME}",
        (r"\| no data",),
    ),
    "resting": Row(
        torch("weary", "echo no peers; exit 140", policy="ExitCode"),
        rf"weary rests: master-0 has failed \d+ times in a row and is made again at {TIME}",
        (".*weary-master-0 was killed by SIGUSR2 .*",),
    ),
    "no-start": Row(
        torch("typo", None, policy="OnFailure", command=["no-such-program"]),
        "typo cannot start master-0: .*no-such-program.*",
    ),
    "missing-object": Row(
        torch("settings", envFrom=[{"configMapRef": {"name": "hyper"}}]),
        "settings waits for ConfigMap hyper: master-0 needs it and it is not there",
    ),
    "missing-object, a volume": Row(
        torch("keys", pod={"volumes": [{"name": "keys", "secret": {"secretName": "keys"}}]}),
        "keys waits for Secret keys: master-0 needs it and it is not there",
    ),
    "never-fits": Row(
        torch("huge", **asking(cpu="1000")),
        "huge can never start here: huge-master-0 needs 1000, and 8 of 8 is free on node local: 992 too little, "
        "even if nothing else ran",
        ("1 of 1 ranks wait for a node",),
    ),
    "no-room, of cpu": Row(
        torch("second", workers=1, **asking(cpu="2")),
        "second waits for cpu: a gang of 2 pods needs 4, and 2 of 8 is free on node local: 2 too little; "
        "job first holds 6",
        (rf"job first has to end by {TIME}, at its activeDeadlineSeconds",),
    ),
    "no-room, of memory": Row(
        torch("third", **asking(memory="7Gi")),
        "third waits for memory: third-master-0 needs 7Gi, and .*Gi of 8Gi is free on node local: .* too little; "
        "job first holds 6Gi.*",
    ),
    "no-room, of a gpu": Row(
        torch("fourth", **asking(**{GPU: "2"})),
        rf"fourth waits for {GPU}: fourth-master-0 needs 2, and 0 of 2 is free on node local: 2 too little; "
        "job first holds 2",
    ),
    "gated": Row(
        torch("behind", pod={"schedulingGates": [{"name": "example.com/turn"}]}),
        "behind is held back: the gate example.com/turn is shut for 1 pod",
    ),
    "waits-for-roles": Row(
        volcano(
            "stages",
            task("ps", container={"readinessProbe": NEVER_ASKED}),
            task("worker", dependsOn={"name": ["ps"]}),
        ),
        r"stages waits: worker starts after ps \(0 of 1 ps ready\)",
        ("ps-0 is Running and not ready",),
    ),
    "waits-for-workers": Row(
        mpi("launches", readinessProbe=NEVER_ASKED),
        r"launches waits: launcher starts after worker \(0 of 2 worker ready\)",
        ("worker-1 is Running and not ready",),
    ),
    "waits-in-a-step": Row(
        torch("steps", pod={"initContainers": [container("echo fetching; sleep 1000", name="fetch")]}),
        rf"steps waits: master-0 waits in its init step fetch, {SPAN} by now",
        (r"\| fetching",),
    ),
    "unhealthy": Row(
        torch("sick", readinessProbe=PROBE),
        r"sick: master-0 runs and is not ready: readiness probe of pytorch: exit code 1, \d+ times? by now",
    ),
    "suspended": Row(
        torch("paused", run={"suspend": True}), rf"paused is suspended since {TIME}: somebody has set suspend"
    ),
    "managed-elsewhere": Row(
        torch("theirs", run={"managedBy": "kueue.x-k8s.io/multikueue"}),
        "theirs is left alone: its managedBy says that kueue.x-k8s.io/multikueue looks after it",
    ),
    "restarted": Row(
        torch("again", FAILS_ONCE, policy="OnFailure"),
        rf"again runs again, 1 of 1 ranks, after 1 restart; last, again-master-0 exited with code 7 {SPAN} ago",
        (r"\| cannot open data",),
    ),
    "meeting-incomplete": Row(
        torch("meets", f"{STORE}; sleep 1000"),
        "meets waits at its rendezvous: 1 of 2 joined, says master-0",
    ),
    "incomplete": Row(
        volcano("halves", task("worker", 'test "$VC_TASK_INDEX" = 0 && sleep 1000', 2), plugins={"env": []}),
        "halves is incomplete: 1 of 2 ranks run; worker-1 is Failed",
    ),
    "stuck": Row(
        torch("hangs", STEPS, workers=2),
        rf"hangs is stuck: none of 3 ranks has printed for {SPAN}; "
        "worker-0 is behind, at 41 when the others were at 42: they wait in it",
        (r"\| step 41 loss 0.3",),
        LATER,
    ),
    "well": Row(
        torch("fine", "echo begin; sleep 1000", workers=1),
        rf"fine is running well: 2 of 2 ranks, last line {SPAN} ago \((master-0|worker-0)\)",
    ),
    "name-taken": Row(
        torch("taken"),
        "taken waits: Pod taken-master-0 belongs to somebody else and is left alone; the job goes on when it is gone",
    ),
}
"""By situation, and where there are several rows what they are about."""

FIRST = torch("first", run={"activeDeadlineSeconds": 1000}, **asking(cpu="6", memory="6Gi", **{GPU: "2"}))
"""Holds what others wait for."""
STRANGER: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "taken-master-0", "namespace": "default", "labels": {"trainwright.dev/job": "taken"}},
    "spec": {"schedulingGates": [{"name": "example.com/never"}], "containers": [container("true")]},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Trouble]:
    """Open the home in which all jobs of the table get into trouble; no process may be left afterwards."""
    mark = uuid.uuid4().hex
    folder = tmp_path_factory.mktemp("why") / "run"
    environment = {**os.environ, processes.MARK: mark}
    async with trouble(environment, folder, cpu="8", memory="8Gi", gpu="2", autoscale=False) as opened:
        await opened.submit(FIRST)
        await opened.until_pod("first-master-0", "phase", "Running")
        await opened.submit(STRANGER, *(row.job for row in TABLE.values()))
        yield opened
    assert not processes.left(mark)


@pytest.mark.parametrize("name", TABLE)
async def test_situation(home: Trouble, name: str):
    row = TABLE[name]

    verdict = await home.until_why(row.job["metadata"]["name"], row.sentence, *row.evidence, later=row.later)

    assert verdict.situation == name.partition(",")[0]


async def test_a_job_that_is_told_to_stop_and_stopped_by_command(home: Trouble):
    await home.submit(volcano("tired", task("worker", DEAF, pod={"terminationGracePeriodSeconds": 3})))
    await home.until_pod("tired-worker-0", "phase", "Running")
    await home.submit(command("stop", await home.job("tired"), "AbortJob"))

    assert (await home.until_why("tired", "tired is Aborting and waits for worker-0 to stop")).situation == "stopping"
    said = await home.until_why("tired", r"tired is Aborted: AbortJob was commanded \(asked for by ada\)")

    assert (said.situation, said.next) == ("commanded", ("tw resume tired",))


async def test_a_job_that_is_being_restarted(home: Trouble):
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    tasks = (task("bad", "exit 9"), task("slow", DEAF, pod={"terminationGracePeriodSeconds": 3}))
    await home.submit(volcano("cycles", *tasks, policies=policies))

    said = await home.until_why(
        "cycles",
        r"cycles is restarting \(0 of 2 ranks run, .*slow-0 still stopping\): "
        r"RestartJob because of PodFailed \(cycles-bad-0\). cycles-bad-0 exited with code 9.",
    )

    assert said.situation == "restarting"


async def test_a_job_that_a_finalizer_holds(home: Trouble):
    await home.submit(torch("held", meta={"finalizers": ["example.com/backup"]}))
    await home.until_pod("held-master-0", "phase", "Running")
    await home.cluster.delete(PYTORCH_JOB.resource, "default", "held")

    said = await home.until_why(
        "held",
        rf"held was told to go {SPAN} ago and is held by the finalizer example.com/backup: "
        "whoever set it has to remove it",
    )

    assert said.situation == "being-deleted"
    nothing: Object = {"metadata": {"finalizers": []}}
    await home.cluster.patch(PYTORCH_JOB.resource, "default", "held", nothing)


async def test_a_gang_that_is_not_complete(home: Trouble):
    await home.submit(torch("pair", workers=1, **asking(cpu="4")))
    await home.until_why("pair", "pair waits for cpu: a gang of 2 pods needs 8, .*")
    await home.cluster.patch(POD, "default", "pair-worker-0", {"metadata": {"finalizers": ["example.com/slow"]}})
    await home.cluster.delete(POD, "default", "pair-worker-0")

    said = await home.until_why(
        "pair",
        "pair waits for the rest of its gang: 1 of 2 pods are there, and they start together",
        "still stopping: worker-0",
    )

    assert said.situation == "gang-incomplete"
    await home.cluster.patch(POD, "default", "pair-worker-0", {"metadata": {"finalizers": []}})


async def test_a_node_that_takes_no_pods_and_one_that_is_lost_from_sight(tmp_path: Path):
    async with trouble(os.environ, tmp_path / "run", cpu="2") as home:
        await home.cluster.patch(NODE, "", "local", {"spec": {"unschedulable": True}})
        await home.submit(torch("late"))
        said = await home.until_why("late", "late waits for a node: node local is cordoned")
        assert (said.situation, said.next[0]) == ("nodes-closed", "kubectl uncordon local")

        lost = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T12:00:00Z"}]
        ghost = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}}
        await home.cluster.create(NODE, ghost)
        await home.cluster.patch(NODE, "", "ghost", {"status": {"conditions": lost}}, subresource="status")
        await home.submit(torch("far", pod={"nodeName": "ghost"}))
        said = await home.until_why("far", rf"far has lost sight of master-0: node ghost is not ready since {TIME}")
        assert said.situation == "unready-node"


async def test_jobs_that_share_three_processors(tmp_path: Path):
    async with trouble(os.environ, tmp_path / "run", cpu="3") as home:
        await home.submit(elastic("grows", 1, 2, cpu="1"))
        said = await home.until_why(
            "grows", rf"grows was scaled from 1 to 2 at {TIME} because there is room for it; 2 of 2 ranks run"
        )
        assert (said.situation, said.evidence) == ("resized", ("worker may be 1 to 2",))

        await home.submit(elastic("stays", 1, 3, cpu="1", annotations={AUTOSCALE_ANNOTATION: "false"}))
        said = await home.until_why(
            "stays", f'stays runs with 1 worker and is not scaled: its annotation {AUTOSCALE_ANNOTATION} is "false"'
        )
        assert said.situation == "left-alone"

        await home.submit(elastic("needs", 3, 4, cpu="1"))
        said = await home.until_why("needs", "needs waits for cpu: a gang of 3 pods needs 3, .*")
        assert said.situation == "no-room"


async def test_a_job_below_its_minimum_as_told_to_somebody_who_may_not_see_nodes(tmp_path: Path):
    async with trouble(os.environ, tmp_path / "run", cpu="1") as home:
        await home.submit(elastic("large", 2, 3, cpu="1"))

        said = await home.blind().until_why("large", "large waits for room: its minimum of 2 is not met: .*cpu.*")

        assert (said.situation, said.evidence[0]) == ("below-minimum", "worker may be 2 to 3")


async def test_a_job_that_failed_and_no_rank_is_to_blame(home: Trouble):
    await home.submit(mpi("headless"))
    await home.until_why("headless", "headless is running well: .*")
    await home.cluster.delete(BATCH_JOB, "default", "headless-launcher")

    said = await home.until_why("headless", "headless failed: .*its launcher headless-launcher was deleted; .*")

    assert said.situation == "failed"


async def test_a_job_that_cannot_grow(tmp_path: Path):
    async with trouble(os.environ, tmp_path / "run", cpu="3", autoscale=False) as home:
        await home.submit(elastic("small", 1, 4, cpu="2"))

        said = await home.until_why(
            "small",
            "small runs with 1 worker and does not grow to 4: "
            "one more needs 2, and 1 of 3 is free on node local: 1 too little; its own ranks hold 2",
        )

        assert said.situation == "no-room-to-grow"


async def test_jobs_that_wait_for_their_turn_and_for_their_quota(tmp_path: Path):
    quota = {"hard": {"requests.cpu": "2"}}
    async with trouble(os.environ, tmp_path / "run", cpu="4") as home:
        await home.submit(torch("holds", **asking(cpu="3")))
        await home.until_why("holds", "holds is running well.*")
        await home.submit(torch("large", **asking(cpu="4")))
        await home.until_why("large", "large waits for cpu: .*", "it is 1st in the queue")
        await home.submit(torch("small", **asking(cpu="1")))

        words = "there is room, but it is kept for default/large, which is ahead"
        queued = await home.until_why("small", f"small is 2nd in the queue behind default/large; {words}")
        await home.submit(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "team", "namespace": "default"},
                "spec": quota,
            }
        )
        words = r"the quota team of default allows requests\.cpu 2, 3 is used and 1 needed"
        allowed = await home.until_why("small", f"small waits for its quota: {words}")

    assert (queued.situation, allowed.situation) == ("queued", "over-allowance")


async def test_a_job_that_nobody_looks_after(tmp_path: Path):
    async with unattended(tmp_path) as home:
        await home.submit(torch("lonely"))

        said = await home.why("lonely", LATER)

    assert said.situation == "unattended"
    assert said.sentence == "nobody looks after lonely: it is 6m old and no operator has written a status"


async def test_a_job_of_which_no_pod_runs_yet(tmp_path: Path):
    async with unattended(tmp_path, operator=True) as home:
        await home.submit(torch("new", workers=1))

        said = await home.until_why("new", rf"new is starting: 2 of 2 pods are there, none runs yet, {SPAN} .*")

    assert said.situation == "starting"
