"""Every situation: what was seen, and the one sentence that is said about it."""

import re
from datetime import timedelta, timezone
from pathlib import Path

import pytest
import yaml
from tests.conftest import ROOT
from tests.reconcile.making import NOON, manifest
from tests.why.making import (
    LATER,
    event,
    held,
    lived,
    merged,
    node,
    other,
    pod,
    running,
    said,
    seen,
    waiting,
    with_status,
)

from trainwright.admission import admit
from trainwright.core.errors import Problem
from trainwright.core.names import CANCEL_ANNOTATION
from trainwright.core.objects import Object, timestamp
from trainwright.kinds import MPI_JOB, PYTORCH_JOB, VOLCANO_JOB, kind_of
from trainwright.reconcile.decide import refuse
from trainwright.why import SITUATIONS, Facts, judge

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
HOUR = timedelta(hours=1)
NODE = (node(),)
BOTH = "worker-0:Running worker-1:Running"
JOB = manifest(workers=2)
NEVER = manifest(workers=2, policy="Never")


def failed(*ends: str, job=NEVER, **more) -> Facts:
    """Return facts about a job whose pods ended so."""
    words = " ".join(ends)
    pods = [pod(each, NOON + timedelta(minutes=1)) for each in ends]
    return seen(lived(job, BOTH, words), *pods, **more)


def blamed(reason: str, message: str = "", code: int | None = None, **more) -> Facts:
    """Return facts about a job that failed because of a pod of that reason."""
    culprit = {"pod": "j-worker-1", "container": "pytorch", "reason": reason, "message": message, "limit": "2Gi"}
    known = {**culprit, **({"code": code} if code is not None else {})}
    job = lived(NEVER, BOTH, "worker-0:Running worker-1:Failed=3")
    record = {**job["status"]["record"], "culprit": known}
    return seen(with_status(job, record=record), **more)


def invalid() -> Object:
    problems = [Problem("spec.a", "is wrong"), Problem("spec.b", "too")]
    return {**JOB, "status": refuse(PYTORCH_JOB, JOB, problems, NOON).status}


def volcano(
    phase: str = "Running", reason: str = "", message: str = "", record: Object | None = None, **spec
) -> Object:
    """Return a Volcano Job of a ps and two workers in a phase."""
    template = {"spec": {"containers": [{"name": "main", "image": "i", "command": ["c"]}]}}
    tasks = [
        {"name": "ps", "replicas": 1, "template": template},
        {"name": "worker", "replicas": 2, "template": template, "dependsOn": {"name": ["ps"]}},
    ]
    state = {"phase": phase, "reason": reason, "message": message, "lastTransitionTime": timestamp(NOON)}
    meta = {"name": "j", "namespace": "ns", "uid": "job-uid", "creationTimestamp": timestamp(NOON)}
    status = {"state": state, "record": record or {"version": 0}}
    kind = {"apiVersion": VOLCANO_JOB.resource.api_version, "kind": "Job"}
    return {**kind, "metadata": meta, "spec": {"tasks": tasks, **spec}, "status": status}


def task_pod(task: str, index: int, phase: str, **patch) -> Object:
    labels = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index), "trainwright.dev/version": "0"}
    made = {
        "kind": "Pod",
        "metadata": {"name": f"j-{task}-{index}", "namespace": "ns", "uid": f"{task}-{index}", "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }
    return merged(made, patch)


def mpi() -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "i", "command": ["c"]}]}}
    roles = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    meta = {"name": "j", "namespace": "ns", "uid": "job-uid"}
    kind = {"apiVersion": MPI_JOB.resource.api_version, "kind": "MPIJob"}
    status = {"conditions": [{"type": "Created", "status": "True"}]}
    return {**kind, "metadata": meta, "spec": {"mpiReplicaSpecs": roles}, "status": status}


def elastic(size: int = 2, **status) -> Object:
    job = manifest(workers=size, elastic={"minReplicas": 1, "maxReplicas": 4})
    requests = {"requests": {"cpu": "3"}}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] = requests
    pods = " ".join(f"worker-{index}:Running" for index in range(size))
    return with_status(lived(job, pods), **status)


SCALED: Object = {
    "scaleHistory": [{"time": timestamp(NOON), "from": 1, "to": 2, "reason": "grows from 1 to 2: there is room"}]
}
GATE: Object = {"spec": {"schedulingGates": [{"name": "trainwright.dev/gang"}]}}
CLAIM: Object = {"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 has no affinity"}


def told(reason: str, message: str) -> Object:
    """Return the status of a pod of which our own scheduler says why it waits."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}


ENDED = {"terminated": {"exitCode": 4, "finishedAt": timestamp(NOON)}}
FALLEN = {"roles": {"Worker": {"falls": {"1": {"times": 4, "at": timestamp(LATER - timedelta(seconds=5))}}}}}
STEP = {"name": "wait", "state": {"running": {"startedAt": timestamp(NOON)}}}
WAITS = {"name": "wait", "command": ["wait_for", "--host", "j-master-0", "--seconds", "9"]}
STORE = "DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."

TABLE = [
    pytest.param(
        seen({**JOB, "metadata": {**JOB["metadata"], "deletionTimestamp": timestamp(NOON), "finalizers": ["x/y"]}}),
        "being-deleted",
        "j was told to go 10m ago and is held by the finalizer x/y: whoever set it has to remove it",
        id="a finalizer holds a job that is being deleted",
    ),
    pytest.param(
        seen({**JOB, "metadata": {**JOB["metadata"], "deletionTimestamp": timestamp(NOON)}}, pod("worker-0:Running!")),
        "being-deleted",
        "j was told to go 10m ago and waits for 1 pod to stop: worker-0",
        id="a pod that is stopping holds a job that is being deleted",
    ),
    pytest.param(seen(invalid()), "refused", "j was refused: spec.a: is wrong", id="a manifest that is not valid"),
    pytest.param(
        seen(manifest(workers=2, managedBy="kueue.x-k8s.io/multikueue")),
        "managed-elsewhere",
        "j is left alone: its managedBy says that kueue.x-k8s.io/multikueue looks after it",
        id="somebody else looks after it",
    ),
    pytest.param(
        seen(lived(manifest(workers=2, suspend=True), "")),
        "suspended",
        "j is suspended since 12:00:00: somebody has set suspend",
        id="the user has suspended it",
    ),
    pytest.param(
        seen({**JOB, "metadata": {**JOB["metadata"], "creationTimestamp": timestamp(NOON)}}),
        "unattended",
        "nobody looks after j: it is 10m old and no operator has written a status",
        id="no operator is there",
    ),
    pytest.param(
        seen(lived(NEVER, BOTH, "worker-0:Succeeded worker-1:Succeeded")),
        "succeeded",
        "j succeeded after 1m: all 2 ranks ended with success",
        id="all ranks have succeeded",
    ),
    pytest.param(
        seen(lived(manifest(1, 2), f"master-0:Running {BOTH}", f"master-0:Succeeded {BOTH}")),
        "succeeded",
        "j succeeded after 1m: master ended with success and decides; by then 0 of 2 workers had",
        id="the master decides",
    ),
    pytest.param(
        failed("worker-0:Running", "worker-1:Running", job=manifest(workers=2, activeDeadlineSeconds=30)),
        "late",
        "j failed: it ran longer than its activeDeadlineSeconds of 30",
        id="its deadline has passed",
    ),
    pytest.param(
        seen(volcano("Aborted", "CommandIssued", "AbortJob was commanded.")),
        "commanded",
        "j is Aborted: AbortJob was commanded",
        id="somebody has aborted it",
    ),
    pytest.param(
        seen(
            merged(
                with_status(
                    lived(NEVER, BOTH, "worker-0:Running worker-1:Failed=3"),
                    record={"version": 0, "cause": "Cancelled"},
                ),
                {"metadata": {"annotations": {CANCEL_ANNOTATION: "ada"}}},
            )
        ),
        "cancelled",
        "j was cancelled by ada",
        id="somebody has cancelled it",
    ),
    pytest.param(
        seen(
            volcano(
                "Failed", record={"version": 0, "cause": "Failure", "roles": {"worker": {"done": [0]}}}, minSuccess=2
            )
        ),
        "too-few",
        "j failed: 1 of 3 ranks succeeded, and minSuccess is 2",
        id="fewer have succeeded than must",
    ),
    pytest.param(
        blamed("OOMKilled", code=137, events=(event("OOMKilling", "c had 2.1Gi when it was killed", "j-worker-1"),)),
        "out-of-memory",
        "j failed: j-worker-1 ran out of memory (its limit is 2Gi, c had 2.1Gi when it was killed)",
        id="a rank used more memory than it may",
    ),
    pytest.param(
        blamed("Error", code=143, events=(event("Killing", "ending c: its liveness probe has failed", "j-worker-1"),)),
        "failed-its-probe",
        "j failed: j-worker-1 was ended because its probe failed: ending c: its liveness probe has failed",
        id="a probe failed too often",
    ),
    pytest.param(
        blamed("StartError", "there is no command", code=128),
        "not-started",
        "j failed: j-worker-1 could not be started: there is no command",
        id="a container that could not be started",
    ),
    pytest.param(
        failed("worker-0:Running", "worker-1:Failed=1", output={"worker-1-a": said(STORE)}),
        "never-met",
        "j failed: its ranks did not all meet, 1 of 2 joined, says j-worker-1",
        id="a rank gave up waiting for the others",
    ),
    pytest.param(
        blamed("Evicted", "The node was low on resource: memory."),
        "evicted",
        "j failed: j-worker-1 was evicted: The node was low on resource: memory.",
        id="a node sent a pod away",
    ),
    pytest.param(
        blamed("Preempting", "by a pod of higher priority"),
        "evicted",
        "j failed: j-worker-1 made room for others: by a pod of higher priority",
        id="a pod made room for one of higher priority",
    ),
    pytest.param(
        blamed("Terminated", "ended because its node stops"),
        "node-lost",
        "j failed: j-worker-1 was lost with its node (ended because its node stops)",
        id="a node stopped",
    ),
    pytest.param(
        seen(
            lived(manifest(workers=2, backoffLimit=1), BOTH, "worker-0:Running worker-1:Running=5+1"),
            pod("worker-1:Running=5+1"),
        ),
        "worn-out",
        "j failed: it failed 1 time, and its limit is backoffLimit 1; last, j-worker-1 exited with code 5",
        id="it failed as often as it may",
    ),
    pytest.param(
        failed("worker-0:Running", "worker-1:Failed=139"),
        "killed",
        "j failed: j-worker-1 was killed by SIGSEGV",
        id="a rank was killed by a signal",
    ),
    pytest.param(
        failed("worker-0:Failed=1~30", "worker-1:Failed=3"),
        "exited",
        "j failed: j-worker-1 exited with code 3",
        id="the first to fail is named and not those it took along",
    ),
    pytest.param(
        seen(volcano("Failed", "Failed", "the queue is closed")),
        "failed",
        "j failed: the queue is closed",
        id="it failed and no rank is to blame",
    ),
    pytest.param(
        seen(
            None, events=(event("FailedCreatePod", "j-worker-0: exceeded quota: q, requested: pods=1, used: pods=2"),)
        ),
        "over-quota",
        "j waits for its quota: q allows no more (requested: pods=1, used: pods=2)",
        id="the quota is used up",
    ),
    pytest.param(
        seen(None, events=(event("NameTaken", "Service j-worker-0 belongs to somebody else"),)),
        "name-taken",
        "j waits: Service j-worker-0 belongs to somebody else",
        id="a name it needs is taken",
    ),
    pytest.param(
        seen(None, events=(event("FailedCreatePod", "j-worker-0: maximum cpu usage is 1"),)),
        "not-created",
        "j cannot make its Pod j-worker-0: maximum cpu usage is 1",
        id="the API refuses a pod",
    ),
    pytest.param(
        seen(None, held("worker-0", "CreateContainerConfigError", 'configmap "hyper" not found'), running("worker-1")),
        "missing-object",
        "j waits for ConfigMap hyper: worker-0 needs it and it is not there",
        id="a ConfigMap that is not there, in a kubelet's words",
    ),
    pytest.param(
        seen(
            None,
            held("worker-0", "ContainerCreating"),
            running("worker-1"),
            events=(event("FailedMount", 'MountVolume.SetUp failed: secret "keys" not found', "j-worker-0"),),
        ),
        "missing-object",
        "j waits for Secret keys: worker-0 needs it and it is not there",
        id="a Secret whose volume cannot be mounted",
    ),
    pytest.param(
        seen(None, waiting("worker-0", **CLAIM), running("worker-1"), nodes=NODE),
        "unbound-claim",
        "j waits for a volume: the claim data that worker-0 needs is not there",
        id="a volume claim that is not there",
    ),
    pytest.param(
        seen(None, held("worker-0", "ImagePullBackOff", "no such tag"), running("worker-1")),
        "no-image",
        "j waits for its image: worker-0 cannot pull train:1 (ImagePullBackOff)",
        id="an image that cannot be pulled",
    ),
    pytest.param(
        seen(None, held("worker-0", "RunContainerError", "no such file: trian"), running("worker-1")),
        "no-start",
        "j cannot start worker-0: no such file: trian",
        id="a program that is not there",
    ),
    pytest.param(
        seen(None, running("worker-0"), running("worker-1"), nodes=(node(ready=False),)),
        "unready-node",
        "j has lost sight of worker-0 and worker-1: node n1 is not ready since 12:00:00",
        id="a node that does not answer",
    ),
    pytest.param(
        seen(None, waiting("worker-0", gang=2), nodes=NODE),
        "gang-incomplete",
        "j waits for the rest of its gang: 1 of 2 pods are there, and they start together",
        id="the rest of the gang is not there",
    ),
    pytest.param(
        seen(None, waiting("worker-0", "9"), running("worker-1"), nodes=NODE),
        "never-fits",
        "j can never start here: j-worker-0 needs 9, and 8 of 8 is free on node n1: 1 too little, "
        "even if nothing else ran",
        id="more than any node offers",
    ),
    pytest.param(
        seen(None, waiting("worker-0"), running("worker-1"), nodes=(node(unschedulable=True),)),
        "nodes-closed",
        "j waits for a node: node n1 is cordoned",
        id="no node takes pods",
    ),
    pytest.param(
        seen(
            None,
            waiting("worker-0"),
            running("worker-1"),
            nodes=(node(taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]),),
        ),
        "kept-away",
        "no node takes worker-0 of j: node n1 has the taint gpu=a100:NoSchedule",
        id="a taint keeps it away",
    ),
    pytest.param(
        seen(None, waiting("worker-0", spec={"nodeSelector": {"disk": "ssd"}}), running("worker-1"), nodes=NODE),
        "kept-away",
        "no node takes worker-0 of j: node n1 has not the label disk=ssd",
        id="no node has the label it asks for",
    ),
    pytest.param(
        seen(
            None,
            waiting("worker-0", "3", gang=2),
            waiting("worker-1", "3", gang=2),
            nodes=NODE,
            others=(other("a-0", "2", job="a"), other("a-1", "2", job="a"), other("web", "1", namespace="shop")),
        ),
        "no-room",
        "j waits for cpu: a gang of 2 pods needs 6, and 3 of 8 is free on node n1: 3 too little; "
        "job a holds 4 and pod shop/web holds 1",
        id="a gang waits for processors that others hold",
    ),
    pytest.param(
        seen(
            None,
            waiting("worker-0", "5"),
            running("worker-1"),
            nodes=(node(), node("n2")),
            others=(other("a-0", "4", job="a"), other("b-0", "6", job="b", on="n2")),
        ),
        "no-room",
        "j waits for cpu: j-worker-0 needs 5, and 4 of 8 is free on node n1: 1 too little; job a holds 4",
        id="there is enough in all, but on no single node: the closest is named",
    ),
    pytest.param(
        seen(
            lived(manifest(workers=3), ""),
            *(waiting(f"worker-{index}", "3", gang=3) for index in range(3)),
            nodes=(node(), node("n2")),
            others=(other("a-0", "3", job="a"), other("b-0", "3", job="b", on="n2")),
        ),
        "no-room",
        "j waits for cpu: 2 of the 3 pods of its gang would fit, the next needs 3, and 2 of 8 is free on node n1: "
        "1 too little; job a holds 3",
        id="there is enough in all, but in pieces that are too small for a whole gang",
    ),
    pytest.param(
        seen(None, waiting("worker-0", status=told("QuotaExceeded", "the quota q allows no more")), nodes=NODE),
        "over-allowance",
        "j waits for its quota: the quota q allows no more",
        id="a gang waits for the quota of its namespace",
    ),
    pytest.param(
        seen(
            None,
            waiting("worker-0", status=told("Queued", "2nd in the queue behind default/a; it is kept")),
            nodes=NODE,
        ),
        "queued",
        "j is 2nd in the queue behind default/a; it is kept",
        id="there is room, and others are ahead",
    ),
    pytest.param(
        seen(None, waiting("worker-0", **GATE), running("worker-1"), nodes=NODE),
        "gated",
        "j is held back: the gate trainwright.dev/gang is shut for 1 pod",
        id="another gang goes first",
    ),
    pytest.param(
        seen(None, waiting("worker-0", status={"conditions": [UNSCHEDULED]}), running("worker-1")),
        "unplaced",
        "j waits for a node: 0/1 nodes are available: 1 has no affinity",
        id="the scheduler's own reason, where nodes cannot be seen",
    ),
    pytest.param(
        seen(None, running("worker-0"), running("worker-1"), home="kept"),
        "cut-short",
        "j was not finished: the run that held it ended while it was Running",
        id="the run ended before the job",
    ),
    pytest.param(
        seen(volcano("Terminating"), task_pod("worker", 0, "Running", metadata={"deletionTimestamp": timestamp(NOON)})),
        "stopping",
        "j is Terminating and waits for worker-0 to stop",
        id="it was told to stop and a pod takes its time",
    ),
    pytest.param(
        seen(None, pod("worker-0:Succeeded"), pod("worker-1:Failed=3")),
        "stopping",
        "j is Running and is about to end: nothing of it runs any more",
        id="all its ranks have ended a moment ago",
    ),
    pytest.param(
        seen(
            None,
            held(
                "worker-0",
                "CrashLoopBackOff",
                "back-off 1m20s restarting failed container=pytorch pod=j-worker-0",
                restartCount=3,
                lastState=ENDED,
            ),
            running("worker-1"),
        ),
        "crash-loop",
        "j is in a crash loop: worker-0 exited with code 4, 4 times by now; it runs again at 12:01:20",
        id="it fails again and again, and runs again at a time that is known",
    ),
    pytest.param(
        seen(with_status(lived(JOB, BOTH), record=FALLEN), running("worker-0")),
        "resting",
        "j rests: worker-1 has failed 4 times in a row and is made again at 12:10:05",
        id="a rank has failed again and again, and its pod is made again at a time that is known",
    ),
    pytest.param(
        seen(
            None,
            running("worker-0", ready=False),
            running("worker-1"),
            events=(event("Unhealthy", "readiness probe: refused", "j-worker-0", count=7),),
        ),
        "unhealthy",
        "j: worker-0 runs and is not ready: readiness probe: refused, 7 times by now",
        id="a rank runs and its probe fails",
    ),
    pytest.param(
        seen(volcano("Restarting", "PodFailed", "RestartJob because of PodFailed.")),
        "restarting",
        "j is restarting (0 of 3 ranks run): RestartJob because of PodFailed.",
        id="it is being restarted",
    ),
    pytest.param(
        seen(volcano("Pending"), task_pod("ps", 0, "Pending")),
        "waits-for-roles",
        "j waits: worker starts after ps (0 of 1 ps ready)",
        id="a role waits for those it depends on",
    ),
    pytest.param(
        seen(
            None,
            merged(
                held("worker-0", "PodInitializing"),
                {"spec": {"initContainers": [WAITS]}, "status": {"initContainerStatuses": [STEP]}},
            ),
            running("worker-1"),
        ),
        "waits-in-a-step",
        "j waits: worker-0 waits for j-master-0 in its init step wait, 10m by now",
        id="a pod waits for its master before it starts",
    ),
    pytest.param(
        seen(mpi(), task_pod("worker", 0, "Pending"), task_pod("worker", 1, "Running")),
        "waits-for-workers",
        "j waits: launcher starts after worker (1 of 2 worker ready)",
        id="a launcher waits for its workers",
    ),
    pytest.param(
        seen(elastic(1), events=(event("Waiting", "its minimum of 1 is not met: cpu is short"),)),
        "below-minimum",
        "j waits for room: its minimum of 1 is not met: cpu is short",
        id="an elastic job whose minimum is not met",
    ),
    pytest.param(
        seen(None, running("worker-0"), running("worker-1"), output={"worker-0-a": said(STORE)}),
        "meeting-incomplete",
        "j waits at its rendezvous: 1 of 2 joined, says worker-0",
        id="ranks wait for each other and say so",
    ),
    pytest.param(
        seen(None, running("worker-0"), nodes=NODE),
        "incomplete",
        "j is incomplete: 1 of 2 ranks run; worker-1 has no pod",
        id="a rank is missing",
    ),
    pytest.param(
        seen(
            None,
            running("worker-0"),
            running("worker-1"),
            output={"worker-0-a": said("step 7", ago=400), "worker-1-a": said("step 8", ago=380)},
        ),
        "stuck",
        "j is stuck: none of 2 ranks has printed for 6m20s; worker-0 is behind, at 7 when the others were at 8: "
        "they wait in it",
        id="nobody prints any more and one is behind",
    ),
    pytest.param(
        seen(
            None,
            running("worker-0"),
            running("worker-1"),
            output={"worker-0-a": said("loading data", ago=400), "worker-1-a": said("waiting", ago=380)},
        ),
        "stuck",
        "j may be stuck: none of 2 ranks has printed for 6m20s; worker-0 was the first to fall silent, 6m40s ago",
        id="nobody prints any more, and who is behind cannot be told",
    ),
    pytest.param(
        seen(
            lived(manifest(1), "master-0:Running"), running("master-0"), output={"master-0-a": said("epoch 1", ago=400)}
        ),
        "stuck",
        "j may be stuck: its one rank has not printed for 6m40s",
        id="the only rank prints no more",
    ),
    pytest.param(
        seen(
            None,
            running("worker-0"),
            running("worker-1"),
            output={"worker-0-a": said("step 7", ago=400), "worker-1-a": said("step 99", ago=1)},
        ),
        "stuck",
        "j is stuck in worker-0: it has printed nothing for 6m40s while the other rank does",
        id="one rank no longer prints what its mate does",
    ),
    pytest.param(
        seen(
            None,
            running("worker-0"),
            running("worker-1"),
            output={"worker-0-a": said("step 99", ago=1), "worker-1-a": said("ready", ago=400)},
        ),
        "well",
        "j is running well: 2 of 2 ranks, last line 1s ago (worker-0)",
        id="a rank that only the first one speaks for is not stuck",
    ),
    pytest.param(
        seen(None, running("worker-0", restarts=2), running("worker-1")),
        "restarted",
        "j runs again, 2 of 2 ranks, after 2 restarts; last, j-worker-0 exited with code 1 11m ago",
        id="it runs again after restarts",
    ),
    pytest.param(
        seen(
            elastic(),
            running("worker-0"),
            running("worker-1"),
            events=(event("NotScaled", "the autoscaler leaves its size alone: it has metrics"),),
        ),
        "left-alone",
        "j runs with 2 workers and is not scaled: it has metrics",
        id="the autoscaler leaves it alone",
    ),
    pytest.param(
        seen(elastic(**SCALED), running("worker-0"), running("worker-1")),
        "resized",
        "j was scaled from 1 to 2 at 12:00:00 because there is room; 2 of 2 ranks run",
        id="it was resized",
    ),
    pytest.param(
        seen(
            elastic(),
            running("worker-0"),
            running("worker-1"),
            nodes=NODE,
            others=(other("a-0", "7", job="a"),),
        ),
        "no-room-to-grow",
        "j runs with 2 workers and does not grow to 4: one more needs 3, and 1 of 8 is free on node n1: 2 too little; "
        "job a holds 7",
        id="there is no room to grow",
    ),
    pytest.param(
        seen(None, running("worker-0"), running("worker-1"), output={"worker-1-a": said("step 9")}),
        "well",
        "j is running well: 2 of 2 ranks, last line 3s ago (worker-1)",
        id="it runs well",
    ),
    pytest.param(
        seen(None, held("worker-0", "ContainerCreating"), held("worker-1", "ContainerCreating")),
        "starting",
        "j is starting: 2 of 2 pods are there, none runs yet",
        id="its pods are being started",
    ),
]


@pytest.mark.parametrize(("facts", "situation", "sentence"), TABLE)
def test_judge(facts: Facts, situation: str, sentence: str):
    verdict = judge(facts)

    assert (verdict.situation, verdict.sentence) == (situation, sentence)


def test_what_was_refused_long_ago_is_not_what_it_waits_for():
    told = event("FailedCreatePod", "j-worker-1: exceeded quota: q, requested: pods=1, used: pods=2")

    assert judge(seen(None, running("worker-0"), events=(told,), now=LATER)).situation == "over-quota"
    assert judge(seen(None, running("worker-0"), events=(told,), now=LATER + HOUR)).situation == "incomplete"


def test_evidence_of_a_failure():
    facts = failed("worker-0:Failed=1~30", "worker-1:Failed=3", output={"worker-1-a": said("epoch 1", "ValueError")})

    assert judge(facts).evidence == (
        "it ended at 12:00:00",
        "the last 2 lines of worker-1:",
        "| epoch 1",
        "| ValueError",
        "worker-0 ended after it with code 1, most likely because of it",
    )
    assert judge(facts).next == ("tw logs j/worker-1", "tw retry j")


def test_the_lines_of_a_rank_that_runs_again_are_those_of_the_run_that_failed():
    output = {"worker-0-a": said("epoch 1", before=("epoch 9", "ValueError"))}
    facts = seen(None, running("worker-0", restarts=1), running("worker-1"), output=output)

    assert judge(facts).evidence == ("the last 2 lines of worker-0:", "| epoch 9", "| ValueError")


def test_when_room_may_become_free_is_told_where_the_holder_has_a_deadline():
    holder = lived(manifest(workers=1, activeDeadlineSeconds=1800), "worker-0:Running")
    holder["metadata"] = {**holder["metadata"], "name": "a", "uid": "a"}
    others = (other("a-0", "8", job="a"),)
    facts = seen(None, waiting("worker-0"), waiting("worker-1"), nodes=NODE, others=others, jobs=(holder,))

    assert judge(facts).evidence == (
        "2 of 2 ranks wait for a node",
        "job a has to end by 12:30:00, at its activeDeadlineSeconds",
    )
    assert judge(facts).next == ("tw why a", "tw ps -A")


def test_a_priority_class_that_nobody_has_made_is_evidence():
    pods = waiting("worker-0", "6", spec={"priorityClassName": "high"}), running("worker-1")

    verdict = judge(seen(None, *pods, nodes=NODE, others=(other("a-0", "4"),)))

    assert "there is no priority class high: it counts as 0" in verdict.evidence


def test_how_a_job_came_to_its_size_is_evidence_of_every_verdict():
    waited = event("Waiting", "its minimum of 1 is not met: cpu is short")
    facts = seen(elastic(**SCALED), held("worker-0", "ContainerCreating"), events=(waited,), now=LATER)

    assert judge(facts).evidence[-2:] == (
        "scaled from 1 to 2 at 12:00:00 because there is room",
        "waited at 12:00:00 because its minimum of 1 is not met: cpu is short",
    )


def test_times_are_told_where_the_reader_is():
    facts = failed("worker-0:Running", "worker-1:Failed=3", now=LATER.astimezone(timezone(timedelta(hours=2))))

    assert judge(facts).evidence[0] == "it ended at 14:00:00"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_new_job_of_every_kind_is_starting(path: Path):
    for document in yaml.safe_load_all(path.read_text()):
        if kind := kind_of(document):
            meta = {**document["metadata"], "namespace": "ns", "uid": "u"}
            facts = Facts(kind, admit({**document, "metadata": meta}).object, LATER, nodes=NODE)

            assert judge(facts).situation == "starting"


def test_every_situation_has_a_row_here():
    assert {row.values[1] for row in TABLE} == set(SITUATIONS)


def test_the_manual_lists_every_situation_in_its_order():
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", (ROOT / "docs" / "why.md").read_text(), re.MULTILINE)

    assert rows == [(name, (row.__doc__ or "").rstrip(".")) for name, row in SITUATIONS.items()]


def test_every_situation_is_brought_about_somewhere():
    texts = [
        (ROOT / "tests" / place).read_text() for place in ("e2e/test_why.py", "kube/test_why.py", "cli/test_why.py")
    ]
    found = {name for name in SITUATIONS for text in texts if re.search(rf'"{name}[",]', text)}

    assert found == set(SITUATIONS)
