"""Volcano's Job: what is filled in, what is refused in which words, and the Job that comes out."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from tests.api.examples import GONE, VOLCANO, VOLCANO_FULL, changed, sentences
from tests.api.mutations import objects

from trainwright.api import manifest
from trainwright.api.common import After, Elastic, Policy, Request, RunPolicy
from trainwright.api.volcano_job import RESOURCE, check, default, read, resizable

MASTER, WORKER, SHARDS = "spec.tasks[0]", "spec.tasks[1]", "spec.tasks[2]"
CONTAINER = f"{WORKER}.template.spec.containers[0]"
ELASTIC = {"metadata.annotations": {"trainwright.dev/elastic": "worker"}}
EVENTS = "*, PodPending, PodFailed, PodEvicted, Unknown, TaskCompleted, TaskFailed, JobUpdated"
ACTIONS = "AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob, ResumeJob"
ONLY = (
    "an update may only change minAvailable, priorityClassName and elasticReplicas, and the replicas and minAvailable "
    "of tasks"
)

some = settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("job", [VOLCANO, VOLCANO_FULL], ids=["small", "everything"])
def test_a_good_job_has_no_problems(job):
    assert check(job) == []
    assert check(default(job)) == []
    assert check(default(job), old=default(job)) == []


def test_the_ray_example_of_the_design_document_is_accepted():
    text = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: ray-cluster-job
spec:
  minAvailable: 3
  schedulerName: volcano
  plugins:
    ray: []
    svc: []
  policies:
    - event: PodEvicted
      action: RestartJob
  queue: default
  tasks:
    - replicas: 1
      name: head
      template:
        spec:
          containers:
            - name: head
              image: rayproject/ray:latest-py311-cpu
              resources: {}
          restartPolicy: OnFailure
    - replicas: 2
      name: worker
      template:
        spec:
          containers:
            - name: worker
              image: rayproject/ray:latest-py311-cpu
              resources: {}
          restartPolicy: OnFailure
"""
    (document,) = manifest.parse(text)

    assert document.object is not None
    assert check(document.object) == []
    assert read(document.object).requests == (Request("ray"), Request("svc"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Names
        pytest.param(
            {"metadata.name": "My_Job"},
            [
                (
                    "metadata.name: 'My_Job' cannot be a host name; write small letters, digits and '-', beginning and "
                    "ending with a letter or digit"
                )
            ],
            id="a job's name is part of host names",
        ),
        pytest.param(
            {"metadata.name": "0-test"}, [], id="without plugins there is no Service, and a digit may be first"
        ),
        pytest.param(
            {"metadata.name": "0-test", "spec.plugins": {"svc": []}},
            [
                (
                    "metadata.name: '0-test' cannot be a host name; write small letters, digits and '-', beginning "
                    "with a letter and ending with a letter or digit"
                )
            ],
            id="with plugins the job's Service needs a letter first",
        ),
        pytest.param(
            {"metadata.name": "a" * 54, f"{WORKER}.replicas": 11},
            [
                (
                    f"metadata.name: pod '{'a' * 54}-worker-10' would be 64 characters long, but a host name has at "
                    "most 63; shorten the name to 53"
                )
            ],
            id="the last pod's name must fit too, not only the first's",
        ),
        pytest.param({"metadata.name": GONE}, ["metadata.name: missing; give the job a name"], id="a job needs a name"),
        pytest.param(
            {f"{WORKER}.name": "Worker_1"},
            [
                (
                    f"{WORKER}.name: 'Worker_1' cannot be a task's name; write at most 63 small letters, digits and "
                    "'-', beginning and ending with a letter or digit"
                )
            ],
            id="a task's name is part of host names",
        ),
        pytest.param(
            {f"{WORKER}.name": "master"},
            [f"{WORKER}.name: 'master' is taken already, by {MASTER}.name"],
            id="no two tasks have one name",
        ),
        pytest.param(
            {f"{MASTER}.name": "default1", f"{WORKER}.name": GONE},
            [f"{WORKER}.name: 'default1' is taken already, by {MASTER}.name"],
            id="nor one that is filled in",
        ),
        # Tasks
        pytest.param(
            {"spec": {}},
            ["spec.tasks: missing; the tasks, each with a template and a number of pods"],
            id="a job needs tasks",
        ),
        pytest.param(
            {"spec.tasks": []}, ["spec.tasks: there must be at least 1, found none"], id="a job needs at least one task"
        ),
        pytest.param(
            {f"{WORKER}.replicas": -1},
            [f"{WORKER}.replicas: must be at least 0, found -1"],
            id="replicas are not negative (fact 29)",
        ),
        pytest.param(
            {f"{WORKER}.replicas": GONE},
            [f"warning: {WORKER}.replicas: missing, so the task has no pods; write 1 or more"],
            id="a task without replicas has no pods, as in Volcano",
        ),
        pytest.param(
            {f"{WORKER}.minAvailable": 4},
            [f"{WORKER}.minAvailable: 4 is more than replicas (3); lower it, or raise replicas"],
            id="a task cannot need more pods than it has",
        ),
        pytest.param(
            {f"{WORKER}.minAvailable": -1},
            [f"{WORKER}.minAvailable: must be at least 0, found -1"],
            id="a task cannot need less than nothing",
        ),
        pytest.param(
            {f"{WORKER}.template": GONE},
            [f"{WORKER}.template: missing; the pod template"],
            id="a task needs a template",
        ),
        pytest.param(
            {f"{CONTAINER}.image": GONE},
            [f"{CONTAINER}.image: missing; every container needs an image"],
            id="templates are checked as Kubernetes would",
        ),
        pytest.param(
            {f"{CONTAINER}.securityContext": {"privileged": True}},
            [],
            id="privileged containers are accepted (fact 58)",
        ),
        pytest.param(
            {f"{WORKER}.maxRetry": 0, "spec.maxRetry": 0},
            [
                f"warning: {WORKER}.maxRetry: 0 means 3, as in Volcano; write 1 if the first restart is one too many",
                "warning: spec.maxRetry: 0 means 3, as in Volcano; write 1 for a job that runs only once",
            ],
            id="no retries cannot be said as 0",
        ),
        pytest.param(
            {f"{WORKER}.dependOn": {"name": ["master"]}},
            [
                (
                    f"{WORKER}.dependOn: unknown field 'dependOn'; did you mean 'dependsOn'? (there are: dependsOn, "
                    "maxRetry, minAvailable, name, partitionPolicy, policies, replicas, template, topologyPolicy)"
                )
            ],
            id="a misspelt field gets a hint",
        ),
        # Processors
        pytest.param(
            {f"{WORKER}.topologyPolicy": "restricted", f"{CONTAINER}.resources": {"limits": {"cpu": 1}}},
            [],
            id="limits are enough for pinned processors (fact 31)",
        ),
        pytest.param(
            {f"{WORKER}.topologyPolicy": "restricted", f"{CONTAINER}.resources": {"requests": {"cpu": "500m"}}},
            [
                (
                    f"{CONTAINER}.resources.requests.cpu: topologyPolicy restricted needs a whole number of "
                    "processors, found '500m'; write 1 or more"
                )
            ],
            id="half a processor cannot be pinned (fact 31)",
        ),
        pytest.param(
            {f"{WORKER}.topologyPolicy": "best-effort"},
            [
                (
                    f"{CONTAINER}.resources.limits.cpu: topologyPolicy best-effort needs a whole number of processors, "
                    "found nothing; write 1 or more"
                )
            ],
            id="nor can none",
        ),
        pytest.param({f"{WORKER}.topologyPolicy": "none"}, [], id="none asks for nothing"),
        pytest.param(
            {f"{WORKER}.topologyPolicy": "x"},
            [f"{WORKER}.topologyPolicy: must be one of none, best-effort, restricted, single-numa-node; found 'x'"],
            id="topology policies are those there are",
        ),
        # Partitions
        pytest.param(
            {f"{WORKER}.partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}},
            [(f"{WORKER}.replicas: 2 partitions of 2 are 4 pods, found 3; write 4, or change partitionPolicy")],
            id="partitions make up all replicas",
        ),
        pytest.param(
            {f"{WORKER}.partitionPolicy": {"totalPartitions": 0}},
            [
                f"{WORKER}.partitionPolicy.totalPartitions: must be at least 1, found 0",
                f"{WORKER}.partitionPolicy.partitionSize: missing; how many pods are in each",
            ],
            id="there are partitions, and something is in them",
        ),
        pytest.param(
            {
                f"{WORKER}.partitionPolicy": {"totalPartitions": 3, "partitionSize": 1, "minPartitions": 2},
                f"{WORKER}.minAvailable": 1,
            },
            [
                (
                    f"{WORKER}.minAvailable: 2 partitions (minPartitions) of 1 are 2 pods, found 1; write 2, or leave "
                    "it out"
                )
            ],
            id="the pods that are needed are whole partitions",
        ),
        pytest.param(
            {
                f"{WORKER}.partitionPolicy": {"totalPartitions": 3, "partitionSize": 1, "minPartitions": 4},
                f"{WORKER}.minAvailable": 3,
            },
            [
                (
                    f"{WORKER}.partitionPolicy.minPartitions: 4 is more than totalPartitions (3); lower it, or raise "
                    "totalPartitions"
                )
            ],
            id="no more partitions are needed than there are",
        ),
        # Order
        pytest.param(
            {f"{MASTER}.dependsOn": {"name": ["worker"]}, f"{WORKER}.dependsOn": {"name": ["master"]}},
            [
                (
                    f"{MASTER}.dependsOn: the tasks wait for each other, master -> worker -> master, so none would "
                    "start; remove one of them"
                )
            ],
            id="a circle is refused, and named",
        ),
        pytest.param(
            {f"{WORKER}.dependsOn": {"name": ["worker"]}},
            [f"{WORKER}.dependsOn.name[0]: task 'worker' cannot wait for itself; leave it out"],
            id="a task does not wait for itself",
        ),
        pytest.param(
            {f"{WORKER}.dependsOn": {"name": ["mater"]}},
            [
                (
                    f"{WORKER}.dependsOn.name[0]: there is no task 'mater'; did you mean 'master'? (there are: master, "
                    "worker)"
                )
            ],
            id="a task waits for tasks that are there",
        ),
        pytest.param(
            {f"{WORKER}.dependsOn": {"name": ["master", "master"]}},
            [f"{WORKER}.dependsOn.name[1]: 'master' is taken already, by {WORKER}.dependsOn.name[0]"],
            id="a task is waited for once",
        ),
        pytest.param(
            {f"{WORKER}.dependsOn": {"name": ["master"], "iteration": "Any"}},
            [f"{WORKER}.dependsOn.iteration: must be one of any, all; found 'Any'; did you mean 'any'?"],
            id="any and all are spelt small",
        ),
        # Policies
        pytest.param(
            {"spec.policies": [{"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}]},
            ["spec.policies[0]: has both an event and an exitCode; write two policies"],
            id="a policy has an event or an exit code",
        ),
        pytest.param(
            {"spec.policies": [{"action": "AbortJob"}, {"events": [], "action": "AbortJob"}]},
            [
                "spec.policies[0]: never applies; write event, events or exitCode",
                "spec.policies[1]: never applies; write event, events or exitCode",
            ],
            id="a policy applies some time",
        ),
        pytest.param(
            {f"{WORKER}.policies": [{"event": "PodRunning", "action": "AbortJob"}]},
            [f"{WORKER}.policies[0].event: must be one of {EVENTS}; found 'PodRunning'; did you mean 'PodPending'?"],
            id="events are those a policy may name",
        ),
        pytest.param(
            {"spec.policies": [{"exitCode": 3, "action": "Abort"}]},
            [f"spec.policies[0].action: must be one of {ACTIONS}; found 'Abort'; did you mean 'AbortJob'?"],
            id="actions are those there are, also for exit codes",
        ),
        pytest.param(
            {"spec.policies": [{"event": "PodFailed"}]},
            ["spec.policies[0].action: missing; what shall happen, such as RestartJob"],
            id="a policy has an action",
        ),
        pytest.param(
            {
                "spec.policies": [
                    {"event": "PodFailed", "action": "AbortJob"},
                    {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"},
                ]
            },
            ["spec.policies[1]: PodFailed has a policy already, spec.policies[0]; leave one out"],
            id="an event has one policy",
        ),
        pytest.param(
            {"spec.policies": [{"events": ["PodEvicted", "PodEvicted", "PodFailed"], "action": "TerminateJob"}]},
            [],
            id="within one policy an event may stand twice (fact 33)",
        ),
        pytest.param(
            {
                "spec.policies": [{"event": "PodFailed", "action": "AbortJob"}],
                f"{WORKER}.policies": [{"event": "PodFailed", "action": "RestartJob"}],
            },
            [],
            id="a task may have its own policy for an event of the job's (fact 34)",
        ),
        pytest.param(
            {"spec.policies": [{"exitCode": 0, "action": "AbortJob"}]},
            ["spec.policies[0].exitCode: 0 is no failure; write the code with which a container fails"],
            id="0 is no failure",
        ),
        pytest.param(
            {"spec.policies": [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]},
            ["spec.policies[1]: exit code 3 has a policy already, spec.policies[0]; leave one out"],
            id="an exit code has one policy",
        ),
        pytest.param(
            {"spec.policies": [{"event": "PodFailed", "action": "AbortJob"}, {"event": "*", "action": "RestartJob"}]},
            ["spec.policies[1]: * is any event, so PodFailed cannot stand beside it; leave one out"],
            id="beside any event there is no other",
        ),
        pytest.param(
            {"spec.policies": [{"event": "*", "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]},
            [],
            id="beside any event there may be exit codes",
        ),
        pytest.param(
            {"spec.policies": [{"event": "PodPending", "action": "AbortJob"}]},
            [
                (
                    "warning: spec.policies[0]: every pod is pending at first, so without timeout nothing happens; "
                    "write for example timeout: 10m"
                )
            ],
            id="pending needs a time",
        ),
        pytest.param(
            {"spec.policies": [{"event": "PodFailed", "action": "AbortJob", "timeout": "10 min"}]},
            [
                (
                    "spec.policies[0].timeout: '10 min' cannot be a duration; write numbers with units, such as 90s, "
                    "10m or 1h30m"
                )
            ],
            id="a timeout is a duration",
        ),
        pytest.param(
            {"spec.runningEstimate": 600},
            [("spec.runningEstimate: expected text, found 600; write numbers with units, such as 90s, 10m or 1h30m")],
            id="a number without a unit is no duration",
        ),
        pytest.param(
            {f"{WORKER}.policies": [{"event": "PodFailed", "action": "RestartPartition"}]},
            [
                (
                    f"warning: {WORKER}.policies[0].action: the task has no partitionPolicy, so there is no partition "
                    "to restart; use RestartPod"
                )
            ],
            id="there is a partition to restart",
        ),
        # Numbers of the job
        pytest.param(
            {"spec.minAvailable": 5},
            ["spec.minAvailable: 5 is more than the 4 pods of the job; lower it"],
            id="a job cannot need more pods than it has",
        ),
        pytest.param(
            {"spec.minAvailable": 0},
            [
                (
                    "warning: spec.minAvailable: 0 means what the tasks need together (4), as in Volcano; write 1 if a "
                    "pod may start alone"
                )
            ],
            id="needing nothing cannot be said as 0",
        ),
        pytest.param(
            {"spec.minSuccess": 5},
            ["warning: spec.minSuccess: 5 is more than the 4 pods of the job; lower it"],
            id="more successes than pods are accepted, as by Volcano",
        ),
        pytest.param(
            {"spec.minSuccess": 0, "spec.ttlSecondsAfterFinished": -1, "spec.maxRetry": -1},
            [
                "spec.minSuccess: must be at least 1, found 0",
                "spec.ttlSecondsAfterFinished: must be at least 0, found -1",
                "spec.maxRetry: must be at least 0, found -1",
            ],
            id="limits are not negative",
        ),
        # Network, volumes, queue
        pytest.param(
            {"spec.networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}},
            ["spec.networkTopology: has both highestTierAllowed and highestTierName; leave one out"],
            id="a tier is said once",
        ),
        pytest.param(
            {
                f"{WORKER}.partitionPolicy": {
                    "totalPartitions": 3,
                    "partitionSize": 1,
                    "networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack", "mode": "firm"},
                }
            },
            [
                f"{WORKER}.partitionPolicy.networkTopology.mode: must be one of hard, soft; found 'firm'",
                (
                    f"{WORKER}.partitionPolicy.networkTopology: has both highestTierAllowed and highestTierName; leave "
                    "one out"
                ),
            ],
            id="also for partitions",
        ),
        pytest.param(
            {
                "spec.volumes": [
                    {"mountPath": "/a"},
                    {"volumeClaimName": "x"},
                    {"mountPath": "", "volumeClaimName": "x"},
                ]
            },
            [
                "spec.volumes[1].mountPath: missing; where the containers find it",
                "spec.volumes[2].mountPath: '' cannot be a path to mount at; write a path without ':', such as /data",
                "spec.volumes[0]: has no claim; write volumeClaimName, or volumeClaim to have one made",
            ],
            id="a volume has a claim and a place",
        ),
        pytest.param(
            {
                "spec.volumes": [
                    {"mountPath": "/a", "volumeClaimName": "x"},
                    {"mountPath": "/a", "volumeClaimName": "y"},
                ]
            },
            ["spec.volumes[1].mountPath: '/a' is taken already, by spec.volumes[0].mountPath"],
            id="a place is taken once",
        ),
        pytest.param(
            {"spec.volumes": [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}}]},
            ["spec.volumes[0]: has both volumeClaimName and volumeClaim; leave one out"],
            id="a new job's claim is there, or is made",
        ),
        pytest.param(
            {"spec.volumes": [{"mountPath": "/a:b", "volumeClaimName": "X_"}]},
            [
                (
                    "spec.volumes[0].mountPath: '/a:b' cannot be a path to mount at; write a path without ':', such as "
                    "/data"
                ),
                (
                    "spec.volumes[0].volumeClaimName: 'X_' cannot be the name of a claim; write small letters, digits, "
                    "'-' and '.', beginning and ending with a letter or digit"
                ),
            ],
            id="paths and claims have names Kubernetes takes",
        ),
        pytest.param(
            {"spec.queue": "root"},
            ["spec.queue: 'root' only holds other queues; name one of them, or leave it out for 'default'"],
            id="the root queue takes no jobs (fact 58)",
        ),
        pytest.param(
            {"spec.queue": "My Queue", "spec.priorityClassName": "High"},
            [
                (
                    "spec.queue: 'My Queue' cannot be a queue's name; write small letters, digits, '-' and '.', "
                    "beginning and ending with a letter or digit"
                ),
                (
                    "spec.priorityClassName: 'High' cannot be the name of a priority class; write small letters, "
                    "digits, '-' and '.', beginning and ending with a letter or digit"
                ),
            ],
            id="queues and priority classes have names Kubernetes takes",
        ),
        pytest.param(
            {"spec.schedulerName": "x" * 64},
            [
                (
                    f"spec.schedulerName: '{'x' * 59}… cannot be a scheduler's name; write at most 63 characters in "
                    "one line"
                )
            ],
            id="a scheduler's name is short",
        ),
        pytest.param(
            {"spec.plugins": {"svc": None, "env": "--x"}},
            [
                "spec.plugins.svc: expected a list, found nothing (null); write [] for an empty list",
                "spec.plugins.env: expected a list, found '--x'; write [\"--x\"]",
            ],
            id="a plugin has a list of flags",
        ),
        # Elasticity
        pytest.param(
            ELASTIC | {f"{WORKER}.minAvailable": 1, "spec.elasticReplicas": 2}, [], id="a size within its bounds"
        ),
        pytest.param(
            ELASTIC | {f"{WORKER}.minAvailable": 1, "spec.elasticReplicas": 4},
            [
                (
                    "spec.elasticReplicas: 4 is more than the replicas of task 'worker' (3); lower it, or raise "
                    f"{WORKER}.replicas"
                )
            ],
            id="a size above its bounds",
        ),
        pytest.param(
            ELASTIC | {f"{WORKER}.minAvailable": 2, "spec.elasticReplicas": 1},
            [
                (
                    "spec.elasticReplicas: 1 is less than minAvailable of task 'worker' (2); raise it, or lower "
                    f"{WORKER}.minAvailable"
                )
            ],
            id="a size below its bounds",
        ),
        pytest.param(
            {"metadata.annotations": {"trainwright.dev/elastic": "workers"}},
            [
                (
                    "metadata.annotations[trainwright.dev/elastic]: there is no task 'workers'; did you mean 'worker'? "
                    "(there are: master, worker)"
                )
            ],
            id="the elastic task is there",
        ),
        pytest.param(
            ELASTIC,
            [
                (
                    "warning: metadata.annotations[trainwright.dev/elastic]: task 'worker' needs all of its 3 "
                    "replicas, so it is never resized; write a minAvailable below"
                )
            ],
            id="an elastic task has room to be resized",
        ),
        # Nulls, and several at once
        pytest.param(
            {
                "metadata.labels": None,
                "spec.policies": None,
                "spec.plugins": None,
                "spec.minAvailable": None,
                f"{WORKER}.minAvailable": None,
                f"{WORKER}.dependsOn": None,
                f"{CONTAINER}.env": None,
            },
            [],
            id="null is as good as nothing",
        ),
        pytest.param(
            {"spec.queue": "", "spec.schedulerName": "", f"{WORKER}.name": ""}, [], id="so is a text without letters"
        ),
        pytest.param(
            {
                "metadata.name": "My_Job",
                "spec.queue": "root",
                "spec.minAvailable": 9,
                f"{WORKER}.dependsOn": {"name": ["nobody"]},
            },
            [
                (
                    "metadata.name: 'My_Job' cannot be a host name; write small letters, digits and '-', beginning and "
                    "ending with a letter or digit"
                ),
                f"{WORKER}.dependsOn.name[0]: there is no task 'nobody' (there are: master, worker)",
                "spec.minAvailable: 9 is more than the 4 pods of the job; lower it",
                "spec.queue: 'root' only holds other queues; name one of them, or leave it out for 'default'",
            ],
            id="all problems are told together",
        ),
    ],
)
def test_check(changes, expected):
    assert sentences(check(changed(VOLCANO, changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({f"{WORKER}.replicas": 6}, [], id="a task may grow (fact 32)"),
        pytest.param(
            {f"{WORKER}.replicas": 2, f"{WORKER}.minAvailable": 2, "spec.minAvailable": 3},
            [],
            id="a task may shrink, with what the job needs of it (fact 32)",
        ),
        pytest.param(
            {f"{WORKER}.replicas": 2, "spec.minAvailable": 3},
            [f"{WORKER}.minAvailable: 3 is more than replicas (2); lower it, or raise replicas"],
            id="but not below what the job needs of it (fact 32)",
        ),
        pytest.param(
            {f"{WORKER}.replicas": -1, f"{WORKER}.minAvailable": 0, "spec.minAvailable": 1},
            [f"{WORKER}.replicas: must be at least 0, found -1"],
            id="a task does not shrink below nothing",
        ),
        pytest.param(
            {f"{WORKER}.replicas": 2, f"{WORKER}.minAvailable": 2},
            ["spec.minAvailable: 4 is more than the 3 pods of the job; lower it"],
            id="nor below what the job needs in all",
        ),
        pytest.param({"spec.priorityClassName": "high", "spec.minAvailable": 2}, [], id="what else may be changed"),
        pytest.param({"spec.elasticReplicas": 3}, [], id="the size may be changed"),
        pytest.param(
            {"spec.tasks": VOLCANO["spec"]["tasks"][:1], "spec.minAvailable": 1},
            ["spec.tasks: there are 2 and would be 1; an update cannot add or remove tasks"],
            id="tasks are neither added nor removed (fact 32)",
        ),
        pytest.param(
            {f"{WORKER}.name": "trainer"},
            [f"{WORKER}.name: 'worker' cannot become 'trainer'; {ONLY}"],
            id="tasks are not renamed (fact 32)",
        ),
        pytest.param(
            {"spec.queue": "gpu"},
            [f"spec.queue: 'default' cannot become 'gpu'; {ONLY}"],
            id="a job keeps its queue (fact 32)",
        ),
        pytest.param({"spec.queue": "default", "spec.maxRetry": GONE}, [], id="to say what holds anyway is no change"),
        pytest.param(
            {f"{CONTAINER}.image": "other", f"{WORKER}.policies": [{"event": "*", "action": "AbortJob"}]},
            [
                f"{CONTAINER}.image: 'torch' cannot become 'other'; {ONLY}",
                f"{WORKER}.policies: cannot be changed; {ONLY}",
            ],
            id="every change is told, as deep down as it is",
        ),
        pytest.param(
            {"spec.minSuccess": 2}, [f"spec.minSuccess: nothing cannot become 2; {ONLY}"], id="nothing is added"
        ),
    ],
)
def test_check_of_an_update(changes, expected):
    old = default(VOLCANO)

    assert sentences(check(changed(old, changes), old)) == expected


def test_an_update_cannot_undo_the_partitions():
    old = default(VOLCANO_FULL)

    assert sentences(check(changed(old, {f"{SHARDS}.replicas": 8}), old)) == [
        f"{SHARDS}.replicas: 3 partitions of 2 are 6 pods, found 8; write 6, or change partitionPolicy"
    ]


def test_the_name_of_a_claim_that_was_made_is_filled_in_by_an_update():
    old = default(VOLCANO_FULL)

    assert check(changed(old, {"spec.volumes[1].volumeClaimName": "everything-pvc-1"}), old) == []


def stored(changes):
    return default(changed(VOLCANO, changes))["spec"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {}, {"queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 4}, id="a plain job"
        ),
        pytest.param(
            {"spec.queue": "gpu", "spec.maxRetry": 1, "spec.schedulerName": "own", "spec.minAvailable": 2},
            {"queue": "gpu", "schedulerName": "own", "maxRetry": 1, "minAvailable": 2},
            id="what is said stays",
        ),
        pytest.param(
            {"spec.queue": "", "spec.maxRetry": 0, "spec.minAvailable": 0},
            {"queue": "default", "maxRetry": 3, "minAvailable": 4},
            id="what Go takes for nothing is replaced",
        ),
        pytest.param(
            {f"{MASTER}.replicas": 2, f"{MASTER}.minAvailable": 1},
            {"minAvailable": 4},
            id="a job needs what its tasks need (fact 28)",
        ),
        pytest.param({"spec.networkTopology": {}}, {"networkTopology": {"mode": "hard"}}, id="a topology is hard"),
        pytest.param(ELASTIC, {"elasticReplicas": 3}, id="an elastic job says its size, so that it can be scaled"),
        pytest.param(ELASTIC | {"spec.elasticReplicas": 2}, {"elasticReplicas": 2}, id="a size that is said stays"),
    ],
)
def test_defaults_of_a_job(changes, expected):
    spec = stored(changes)

    assert {name: spec[name] for name in expected} == expected


PARTITIONS = {"totalPartitions": 3, "partitionSize": 1, "minPartitions": 2}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({f"{WORKER}.name": GONE}, {"name": "default1"}, id="names are counted (fact 26)"),
        pytest.param({}, {"maxRetry": 3, "minAvailable": 3}, id="all replicas are needed (fact 26)"),
        pytest.param(
            {f"{WORKER}.minAvailable": 0, f"{WORKER}.maxRetry": 0},
            {"minAvailable": 0, "maxRetry": 3},
            id="a task may need nothing",
        ),
        pytest.param(
            {f"{WORKER}.partitionPolicy": PARTITIONS}, {"minAvailable": 2}, id="as many pods as its partitions have"
        ),
        pytest.param(
            {f"{WORKER}.partitionPolicy": {"totalPartitions": 3, "partitionSize": 1, "networkTopology": {}}},
            {
                "minAvailable": 3,
                "partitionPolicy": {
                    "totalPartitions": 3,
                    "partitionSize": 1,
                    "minPartitions": 0,
                    "networkTopology": {"mode": "hard"},
                },
            },
            id="partitions without a minimum",
        ),
        pytest.param(
            {f"{WORKER}.template": {"spec": {"hostNetwork": True}}},
            {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}}},
            id="names are resolved also on the host's network",
        ),
        pytest.param(
            {f"{WORKER}.template": {"spec": {"hostNetwork": True, "dnsPolicy": "None"}}},
            {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "None"}}},
            id="unless the user has said how",
        ),
    ],
)
def test_defaults_of_a_task(changes, expected):
    task = stored(changes)["tasks"][1]

    assert {name: task[name] for name in expected} == expected


@pytest.mark.parametrize("job", [VOLCANO, VOLCANO_FULL], ids=["small", "everything"])
def test_defaults_change_neither_their_argument_nor_themselves(job):
    before = copy.deepcopy(job)

    once = default(job)

    assert default(once) == once
    assert job == before


def test_read_takes_everything():
    job = read(default(VOLCANO_FULL))
    master, worker, shards = job.roles

    assert (job.resource, job.namespace, job.name, job.uid) == (RESOURCE, "research", "everything", "1-2-3")
    assert job.domain == "everything"
    assert job.requests == (
        Request("svc", flags=("--publish-not-ready-addresses=true",)),
        Request("env"),
        Request("pytorch", flags=("--port=2222",)),
    )
    assert job.run_policy == RunPolicy(
        ttl_seconds=60,
        gang_min=4,
        min_success=1,
        max_retry=5,
        policies=(
            Policy("RestartJob", ("PodEvicted",), delay_seconds=600),
            Policy("AbortJob", ("PodFailed", "TaskFailed")),
            Policy("RestartJob", exit_code=3),
        ),
    )
    assert (master.name, master.replicas, master.minimum, master.max_retry) == ("master", 1, 1, 2)
    assert master.after == After(("worker", "shards"), any=True)
    assert master.policies == (Policy("CompleteJob", ("TaskCompleted",)),)
    assert (worker.replicas, worker.minimum, worker.max_retry, worker.after) == (3, 2, 3, None)
    assert (shards.replicas, shards.minimum, shards.partition_size) == (6, 2, 2)
    assert [role.restart_policy for role in job.roles] == ["OnFailure", "Never", "Always"]
    assert job.elastic == Elastic("worker", 2, 4)
    assert job.object == default(VOLCANO_FULL)


def test_a_job_that_was_stored_by_others_is_read_with_its_defaults():
    job = read(VOLCANO)

    assert (job.namespace, job.total, job.run_policy.gang_min, job.run_policy.max_retry) == ("default", 4, 4, 3)
    assert job.elastic is None
    assert job.object is VOLCANO


def test_a_framework_may_name_the_elastic_task():
    job = read(changed(VOLCANO, {f"{WORKER}.minAvailable": 1, "spec.elasticReplicas": 2}))

    elastic = resizable(job, "worker")

    assert elastic.elastic == Elastic("worker", 1, 3)
    assert elastic.count("worker") == 2
    assert resizable(elastic, "master") is elastic
    assert resizable(job, "nobody") is job


def test_a_size_never_makes_the_gang_wait_for_more_pods_than_there_are():
    job = read(
        changed(VOLCANO, ELASTIC | {f"{WORKER}.minAvailable": 1, "spec.minAvailable": 4, "spec.elasticReplicas": 1})
    )

    assert (job.total, job.run_policy.gang_min) == (2, 2)


@some
@given(objects("Job"))
def test_whatever_is_accepted_can_be_read(obj):
    if not any(problem.severity == "error" for problem in check(obj)):
        once = default(obj)
        job = read(once)
        assert len(job.roles) == len(once["spec"]["tasks"])
        assert len({role.name for role in job.roles}) == len(job.roles)
        assert all(role.needed <= role.replicas for role in job.roles)
