"""PyTorchJob: what is filled in, what is refused in which words, and the Job that comes out."""

import copy
from typing import Any

import pytest
from tests.api.examples import ELASTIC, FULL, GONE, STATIC, TEMPLATE, changed, sentences

from trainwright.api import manifest
from trainwright.api.common import Elastic, Request, RunPolicy
from trainwright.api.pytorch_job import RESOURCE, check, default, read

ROLES = "spec.pytorchReplicaSpecs"
CONTAINER = f"{ROLES}.Worker.template.spec.containers[0]"
WORKER_ONLY = {f"{ROLES}.Master": GONE}
QUEUE = "spec.runPolicy.schedulingPolicy.queue"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize("job", [STATIC, ELASTIC, FULL], ids=["static", "elastic", "everything"])
def test_a_good_job_has_no_problems(job):
    assert check(job) == []
    assert check(default(job)) == []
    assert check(default(job), old=default(job)) == []


def test_the_example_of_the_design_document_is_accepted():
    text = """
apiVersion: "kubeflow.org/v1"
kind: PyTorchJob
metadata:
  name: elastic-example-imagenet
spec:
  elasticPolicy:
    rdzvBackend: c10d
    minReplicas: 1
    maxReplicas: 2
    maxRestarts: 100
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: gaocegege/pytorch-elastic-example-imagenet:1.0.0-sigterm
              imagePullPolicy: IfNotPresent
              env:
              - name: LOGLEVEL
                value: DEBUG
              command:
                - python
                - -m
                - torch.distributed.run
                - /workspace/examples/imagenet.py
                - "/workspace/data/tiny-imagenet-200"
"""
    (document,) = manifest.parse(text)

    assert document.object is not None
    assert check(document.object) == []
    assert read(document.object).elastic == Elastic("Worker", 1, 2, hub=0)


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        # Names
        pytest.param(
            STATIC,
            {"metadata.name": "0-test"},
            [
                (
                    "metadata.name: '0-test' cannot be a host name; write small letters, digits and '-', beginning "
                    "with a letter and ending with a letter or digit"
                )
            ],
            id="a name that begins with a digit cannot be a Service's (fact 11)",
        ),
        pytest.param(
            STATIC,
            {"metadata.name": "a" * 55},
            [
                (
                    f"metadata.name: pod '{'a' * 55}-worker-2' would be 64 characters long, but a host name has at "
                    "most 63; shorten the name to 54"
                )
            ],
            id="a name is too long with the pod's suffix",
        ),
        pytest.param(STATIC, {"metadata.name": "a" * 54}, [], id="a name just fits"),
        pytest.param(
            ELASTIC,
            {"metadata.name": "a" * 54, "spec.elasticPolicy.maxReplicas": 100},
            [
                (
                    f"metadata.name: pod '{'a' * 54}-worker-99' would be 64 characters long, but a host name has at "
                    "most 63; shorten the name to 53"
                )
            ],
            id="a name must also fit the pods an elastic job may grow to",
        ),
        pytest.param(STATIC, {"metadata": {"generateName": "mnist-"}}, [], id="a generated name is a name"),
        pytest.param(
            STATIC,
            {"metadata": {"generateName": "a" * 50}},
            [
                (
                    f"metadata.generateName: pod '{'a' * 50}xxxxx-worker-2' would be 64 characters long, but a host "
                    "name has at most 63; shorten the name to 49"
                )
            ],
            id="a generated name is five characters longer",
        ),
        pytest.param(
            STATIC, {"metadata.name": GONE}, ["metadata.name: missing; give the job a name"], id="a job needs a name"
        ),
        pytest.param(STATIC, {"metadata": GONE}, ["metadata: missing"], id="a job needs metadata"),
        pytest.param(
            STATIC,
            {"metadata.name": 5},
            ['metadata.name: expected text, found 5; put it in quotes: "5"'],
            id="a number is no name",
        ),
        # Roles
        pytest.param(STATIC, {"spec": {}}, [f"{ROLES}: missing; the roles, Master and Worker"], id="a job needs roles"),
        pytest.param(
            STATIC,
            {ROLES: {}},
            [f"{ROLES}: there is no role; write Worker, or Master and Worker"],
            id="a job needs at least one role",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.worker": {"template": TEMPLATE}},
            [f"{ROLES}.worker: there is no role 'worker'; did you mean 'Worker'? (there are: Master, Worker)"],
            id="roles are spelt as Kubeflow spells them",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker": None},
            [f"{ROLES}.Worker: expected a mapping, found nothing (null)"],
            id="an empty role is said, not passed over",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Master.replicas": 2},
            [f"{ROLES}.Master.replicas: there is exactly one Master, found 2; write 1, and more workers"],
            id="there is exactly one master (fact 14)",
        ),
        pytest.param(STATIC, {f"{ROLES}.Master.replicas": GONE}, [], id="a master without replicas is one"),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.replicas": 0},
            [f"{ROLES}.Worker.replicas: must be at least 1, found 0"],
            id="no workers are refused: leave the role out instead (fact 19)",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.replicas": -1},
            [f"{ROLES}.Worker.replicas: must be at least 1, found -1"],
            id="a negative number of workers is refused",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.replicas": "3"},
            [f"{ROLES}.Worker.replicas: expected a whole number, found '3'; write 3 without quotes"],
            id="replicas in quotes are text",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.replicas": 2**31},
            [f"{ROLES}.Worker.replicas: must be at most 150000, found 2147483648"],
            id="no cluster has room for more",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.restartPolicy": "Sometimes"},
            [f"{ROLES}.Worker.restartPolicy: must be one of Always, OnFailure, Never, ExitCode; found 'Sometimes'"],
            id="restart policies are those there are",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.restartPolicy": "onfailure"},
            [
                (
                    f"{ROLES}.Worker.restartPolicy: must be one of Always, OnFailure, Never, ExitCode; found "
                    "'onfailure'; did you mean 'OnFailure'?"
                )
            ],
            id="a misspelt restart policy gets a hint",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.template": GONE},
            [f"{ROLES}.Worker.template: missing; the pod template, with a container named 'pytorch'"],
            id="a role needs a template",
        ),
        # Templates
        pytest.param(
            STATIC,
            {f"{CONTAINER}.image": ""},
            [f"{CONTAINER}.image: missing; every container needs an image"],
            id="every container needs an image (fact 12)",
        ),
        pytest.param(
            STATIC,
            {f"{CONTAINER}.name": "main"},
            [f"{ROLES}.Worker.template.spec.containers: one container must be named 'pytorch', found 'main'"],
            id="one container is named pytorch (fact 13)",
        ),
        pytest.param(
            STATIC,
            {f"{CONTAINER}.name": GONE},
            [
                f"{CONTAINER}.name: missing",
                f"{ROLES}.Worker.template.spec.containers: one container must be named 'pytorch'",
            ],
            id="a nameless container is not named pytorch (fact 13)",
        ),
        pytest.param(
            STATIC,
            {f"{CONTAINER}.ports": [{"name": "http", "containerPort": 23456}]},
            [
                (
                    f"{CONTAINER}.ports: 'http' and 'pytorchjob-port' are both port 23456, which a Service cannot "
                    "offer twice; give one of them another number"
                )
            ],
            id="the port that would be added is taken",
        ),
        # Run policy
        pytest.param(
            STATIC,
            {"spec.runPolicy.cleanPodPolicy": "Everything"},
            ["spec.runPolicy.cleanPodPolicy: must be one of None, Running, All; found 'Everything'"],
            id="clean-up policies are those there are",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.cleanPodPolicy": ""},
            ["spec.runPolicy.cleanPodPolicy: must be one of None, Running, All; found ''"],
            id="an empty clean-up policy does not mean All",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy": {"backoffLimit": -1, "ttlSecondsAfterFinished": -1, "activeDeadlineSeconds": 0}},
            [
                "spec.runPolicy.backoffLimit: must be at least 0, found -1",
                "spec.runPolicy.ttlSecondsAfterFinished: must be at least 0, found -1",
                "spec.runPolicy.activeDeadlineSeconds: must be at least 1, found 0",
            ],
            id="limits are not negative, and a deadline is positive",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.activeDeadlineSeconds": 2**40},
            [],
            id="a deadline has 64 bits",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.suspend": "true"},
            ["spec.runPolicy.suspend: expected true or false, found 'true'; write true without quotes"],
            id="suspend in quotes is text",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.managedBy": "other-job-controller"},
            [
                (
                    "spec.runPolicy.managedBy: must be one of kubeflow.org/training-operator, "
                    "kueue.x-k8s.io/multikueue; found 'other-job-controller'"
                )
            ],
            id="jobs are managed by us or by MultiKueue (fact 16)",
        ),
        pytest.param(STATIC, {"spec.runPolicy.managedBy": MULTIKUEUE}, [], id="MultiKueue may manage a job"),
        pytest.param(
            STATIC,
            {"spec.runPolicy.schedulingPolicy.minAvailable": 5},
            ["spec.runPolicy.schedulingPolicy.minAvailable: 5 is more than the 4 pods of the job; lower it"],
            id="a gang larger than the job would never start",
        ),
        pytest.param(
            ELASTIC,
            {"spec.runPolicy.schedulingPolicy.minAvailable": 4},
            [],
            id="a gang may be as large as an elastic job may become",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.schedulingPolicy.minResources": {"cpu": "1 core", "memory": 0.5}},
            [
                (
                    "spec.runPolicy.schedulingPolicy.minResources.cpu: '1 core' is not a quantity; write a number with "
                    "an optional suffix, such as 500m, 2 or 4Gi"
                ),
                (
                    "spec.runPolicy.schedulingPolicy.minResources.memory: expected a quantity such as 500m, 2 or 4Gi, "
                    'found 0.5; put it in quotes: "0.5"'
                ),
            ],
            id="resources of a gang are quantities",
        ),
        pytest.param(
            STATIC,
            {"spec.runPolicy.cleanPodPolcy": "All"},
            [
                (
                    "spec.runPolicy.cleanPodPolcy: unknown field 'cleanPodPolcy'; did you mean 'cleanPodPolicy'? "
                    "(there are: activeDeadlineSeconds, backoffLimit, cleanPodPolicy, managedBy, schedulingPolicy, "
                    "suspend, ttlSecondsAfterFinished)"
                )
            ],
            id="a misspelt field gets a hint",
        ),
        pytest.param(
            STATIC,
            {"spec.cleanPodPolicy": "All"},
            ["spec.cleanPodPolicy: unknown field 'cleanPodPolicy' here; it belongs into runPolicy"],
            id="a field of older versions is shown its new place",
        ),
        # Elasticity
        pytest.param(
            STATIC,
            {"spec.elasticPolicy": {}, f"{ROLES}.Worker": GONE},
            [f"{ROLES}.Worker: missing; elasticPolicy resizes the workers, so there must be some"],
            id="an elastic job needs workers (fact 18)",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy": {"minReplicas": 4, "maxReplicas": 2}},
            ["spec.elasticPolicy.minReplicas: 4 is more than maxReplicas (2); lower it, or raise maxReplicas"],
            id="the minimum is not above the maximum",
        ),
        pytest.param(
            ELASTIC,
            {f"{ROLES}.Worker.replicas": 5},
            [
                (
                    f"{ROLES}.Worker.replicas: 5 is more than maxReplicas (4); lower it, or set "
                    "elasticPolicy.maxReplicas higher"
                )
            ],
            id="there are not more workers than the maximum",
        ),
        pytest.param(
            ELASTIC,
            {f"{ROLES}.Worker.replicas": 1},
            [
                (
                    f"{ROLES}.Worker.replicas: 1 is less than minReplicas (2); raise it, or set "
                    "elasticPolicy.minReplicas lower"
                )
            ],
            id="there are not fewer workers than the minimum",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy": {"minReplicas": 1}},
            [
                (
                    f"{ROLES}.Worker.replicas: 2 is more than maxReplicas (1, copied from minReplicas); lower it, or "
                    "set elasticPolicy.maxReplicas higher"
                )
            ],
            id="a bound that was copied says so",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.minReplicas": 0},
            ["spec.elasticPolicy.minReplicas: must be at least 1, found 0"],
            id="an elastic job keeps at least one worker",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.rdzvBackend": "c10"},
            ["spec.elasticPolicy.rdzvBackend: must be one of c10d, etcd, etcd-v2; found 'c10'; did you mean 'c10d'?"],
            id="rendezvous backends are those torchrun has",
        ),
        pytest.param(ELASTIC, {"spec.elasticPolicy.backend": "c10d"}, [], id="the document's own name is accepted"),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.backend": "etcd", "spec.elasticPolicy.rdzvBackend": "c10d"},
            ["spec.elasticPolicy.backend: 'etcd', but rdzvBackend is 'c10d'; both mean the same, leave this one out"],
            id="the two names of the backend do not contradict each other",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.rdzvBackend": "etcd"},
            [
                (
                    "warning: spec.elasticPolicy.rdzvBackend: etcd without rdzvHost expects an etcd server in worker "
                    "0; set rdzvHost"
                )
            ],
            id="etcd runs somewhere",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.rdzvPort": 70000, "spec.elasticPolicy.rdzvHost": "http://store:80"},
            [
                "spec.elasticPolicy.rdzvPort: must be at most 65535, found 70000",
                "spec.elasticPolicy.rdzvHost: 'http://store:80' is not a host; write a name, with the port in rdzvPort",
            ],
            id="the rendezvous is at a host and a port",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.rdzvConf": [{"key": "a=b", "value": "1"}, {"value": "1,2"}, {"key": "c", "value": 5}]},
            [
                "spec.elasticPolicy.rdzvConf[1].key: missing; the name of a rendezvous setting, such as join_timeout",
                'spec.elasticPolicy.rdzvConf[2].value: expected text, found 5; put it in quotes: "5"',
                (
                    "spec.elasticPolicy.rdzvConf[0].key: 'a=b' cannot be a setting; write a name without '=', ',' and "
                    "spaces"
                ),
                "spec.elasticPolicy.rdzvConf[1].value: '1,2' has a ',', which ends a setting; leave it out",
            ],
            id="settings of the rendezvous are pairs that torchrun can read",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.rdzvConf": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]},
            ["spec.elasticPolicy.rdzvConf[1].key: 'a' is set a second time; leave one out"],
            id="a setting of the rendezvous stands once",
        ),
        pytest.param(ELASTIC, {"spec.elasticPolicy.rdzvConf": []}, [], id="no settings are no crash"),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.standalone": True},
            [
                (
                    "warning: spec.elasticPolicy.standalone: each of up to 4 workers would train alone; leave it out, "
                    "or use one worker"
                )
            ],
            id="standalone is for one pod",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.maxRestarts": -1},
            ["spec.elasticPolicy.maxRestarts: must be at least 0, found -1"],
            id="restarts are not negative",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.metrics": [{"type": "Resource", "resource": {"name": "cpu"}}, {"type": "CPU"}]},
            [
                "spec.elasticPolicy.metrics[0].resource.target: missing",
                (
                    "spec.elasticPolicy.metrics[1].type: must be one of ContainerResource, External, Object, Pods, "
                    "Resource; found 'CPU'"
                ),
            ],
            id="metrics are those of a horizontal pod autoscaler",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.metrics": [{"type": "Resource", "pods": None}]},
            ["spec.elasticPolicy.metrics[0].resource: missing; it says what a metric of type Resource looks at"],
            id="a metric has what its type says",
        ),
        pytest.param(
            STATIC,
            {f"{CONTAINER}.ports": [{"containerPort": 23456}, {"name": "a", "containerPort": 53, "protocol": "UDP"}]},
            [],
            id="ports without a name, or of another protocol, are in nobody's way",
        ),
        # Processes
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.nProcPerNode": 2},
            [
                (
                    "warning: spec.elasticPolicy.nProcPerNode: spec.elasticPolicy.nProcPerNode is deprecated; use "
                    "spec.nprocPerNode instead"
                )
            ],
            id="the old place of nprocPerNode is deprecated (fact 15)",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.nProcPerNode": 2, "spec.nprocPerNode": "2"},
            [
                (
                    "warning: spec.elasticPolicy.nProcPerNode: spec.elasticPolicy.nProcPerNode is deprecated; use "
                    "spec.nprocPerNode instead"
                ),
                "spec.nprocPerNode: cannot stand beside spec.elasticPolicy.nProcPerNode; leave that one out",
            ],
            id="nprocPerNode stands in one place",
        ),
        pytest.param(
            STATIC,
            {"spec.nprocPerNode": 4},
            ['spec.nprocPerNode: expected text, found 4; put it in quotes: "4"'],
            id="nprocPerNode is text",
        ),
        pytest.param(
            STATIC,
            {"spec.nprocPerNode": "0"},
            ["spec.nprocPerNode: must be auto, cpu, gpu, xpu or a number from \"1\" on; found '0'"],
            id="there is at least one process",
        ),
        pytest.param(
            STATIC,
            {"spec.nprocPerNode": "gpus"},
            [
                (
                    "warning: spec.nprocPerNode: torchrun knows auto, cpu, gpu, xpu or a number, found 'gpus'; did you "
                    "mean 'gpu'?"
                )
            ],
            id="a word torchrun may not know",
        ),
        # Traps
        pytest.param(
            STATIC,
            WORKER_ONLY,
            [
                (
                    f"warning: {ROLES}.Worker: 3 workers without Master and elasticPolicy are not told how to reach "
                    "each other; add a Master, or elasticPolicy: {}"
                )
            ],
            id="several workers without a rendezvous",
        ),
        pytest.param(STATIC, WORKER_ONLY | {f"{ROLES}.Worker.replicas": 1}, [], id="one worker needs no rendezvous"),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.restartPolicy": "Always"},
            [
                (
                    f"warning: {ROLES}.Worker.restartPolicy: a container that ends well is started again, so the job "
                    "never succeeds; use OnFailure"
                )
            ],
            id="Always never ends",
        ),
        pytest.param(
            STATIC,
            {f"{ROLES}.Worker.template.spec.restartPolicy": "Always"},
            [
                (
                    f"warning: {ROLES}.Worker.template.spec.restartPolicy: 'Always' is replaced by the role's "
                    "restartPolicy (OnFailure); leave it out"
                )
            ],
            id="the template's restart policy does not count",
        ),
        # Nulls, and several at once
        pytest.param(
            FULL,
            {
                "metadata.labels": None,
                "spec.runPolicy": None,
                "spec.elasticPolicy.rdzvConf": None,
                "spec.nprocPerNode": None,
                f"{ROLES}.Worker.replicas": None,
                f"{ROLES}.Worker.restartPolicy": None,
                f"{CONTAINER}.env": None,
                f"{CONTAINER}.resources": None,
            },
            [],
            id="null is as good as nothing",
        ),
        pytest.param(
            STATIC,
            {
                "metadata.name": "My_Job",
                "spec.runPolicy.suspend": 1,
                f"{ROLES}.Master.replicas": 2,
                f"{CONTAINER}.image": GONE,
            },
            [
                "spec.runPolicy.suspend: expected true or false, found 1",
                (
                    "metadata.name: 'My_Job' cannot be a host name; write small letters, digits and '-', beginning "
                    "with a letter and ending with a letter or digit"
                ),
                f"{CONTAINER}.image: missing; every container needs an image",
                f"{ROLES}.Master.replicas: there is exactly one Master, found 2; write 1, and more workers",
            ],
            id="all problems are told together",
        ),
    ],
)
def test_check(base, changes, expected):
    assert sentences(check(changed(base, changes))) == expected


def test_the_webhooks_own_good_job_has_neither_errors_nor_warnings():
    changes = {
        "metadata.name": "test",
        "spec.runPolicy.managedBy": "kubeflow.org/training-operator",
        "spec.elasticPolicy": {"rdzvBackend": "c10d"},
    }

    assert check(changed(STATIC, changes)) == []  # fact 10


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {"spec.runPolicy.suspend": True}, [], id="a job may be suspended"),
        pytest.param({}, {f"{ROLES}.Worker.replicas": 5}, [], id="a job may be resized"),
        pytest.param(
            {"spec.runPolicy.managedBy": "kubeflow.org/training-operator"},
            {"spec.runPolicy.managedBy": MULTIKUEUE},
            [
                (
                    "spec.runPolicy.managedBy: field is immutable; it is 'kubeflow.org/training-operator' and cannot "
                    "become 'kueue.x-k8s.io/multikueue'"
                )
            ],
            id="a job keeps its manager (fact 17)",
        ),
        pytest.param(
            {"spec.runPolicy.managedBy": MULTIKUEUE},
            {"spec.runPolicy": GONE},
            [
                (
                    "spec.runPolicy.managedBy: field is immutable; it is 'kueue.x-k8s.io/multikueue' and cannot become "
                    "'kubeflow.org/training-operator'"
                )
            ],
            id="a job does not lose its manager",
        ),
        pytest.param(
            {},
            {"spec.runPolicy.managedBy": "kubeflow.org/training-operator"},
            [],
            id="to name the manager there is anyway is no change",
        ),
        pytest.param(
            {QUEUE: "initial-queue"},
            {QUEUE: "other"},
            [f"{QUEUE}: field is immutable; it is 'initial-queue' and cannot become 'other'"],
            id="a job keeps its queue (fact 22)",
        ),
        pytest.param({QUEUE: "gpu"}, {"spec.runPolicy": GONE}, [], id="as on an API server, a queue may be left out"),
    ],
)
def test_check_of_an_update(before, after, expected):
    old = changed(STATIC, before)
    new = changed(
        old, {path: value for path, value in after.items() if value is not GONE or "runPolicy" in old["spec"]}
    )

    assert sentences(check(new, old)) == expected


def stored(base, changes, path):
    at: Any = default(changed(base, changes))
    for step in path.split("."):
        at = at.get(step) if isinstance(at, dict) else None
    return at


@pytest.mark.parametrize(
    ("base", "changes", "path", "value"),
    [
        pytest.param(STATIC, {}, "spec.nprocPerNode", "auto", id="one process per accelerator (fact 9)"),
        pytest.param(ELASTIC, {}, "spec.nprocPerNode", "auto", id="elastic jobs too (fact 9)"),
        pytest.param(
            ELASTIC, {"spec.elasticPolicy.nProcPerNode": 2}, "spec.nprocPerNode", None, id="the old place is enough"
        ),
        pytest.param(STATIC, {}, "spec.runPolicy", {"cleanPodPolicy": "None", "suspend": False}, id="pods are kept"),
        pytest.param(
            STATIC,
            {"spec.runPolicy": {"cleanPodPolicy": "All", "backoffLimit": 2}},
            "spec.runPolicy",
            {"cleanPodPolicy": "All", "suspend": False, "backoffLimit": 2},
            id="what is said stays",
        ),
        pytest.param(STATIC, {f"{ROLES}.Worker.replicas": GONE}, f"{ROLES}.Worker.replicas", 1, id="a role is one pod"),
        pytest.param(
            STATIC, {f"{ROLES}.Worker.replicas": None}, f"{ROLES}.Worker.replicas", 1, id="null is replaced as well"
        ),
        pytest.param(STATIC, {}, f"{ROLES}.Worker.restartPolicy", "OnFailure", id="a failed container starts again"),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy": {}, f"{ROLES}.Worker.replicas": 1},
            "spec.elasticPolicy",
            {"minReplicas": 1, "maxReplicas": 1, "rdzvBackend": "c10d"},
            id="an empty policy keeps the size (fact 6)",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy": {"maxReplicas": 1}},
            "spec.elasticPolicy.minReplicas",
            1,
            id="only a maximum is also the minimum (fact 7)",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy": {"minReplicas": 1}},
            "spec.elasticPolicy.maxReplicas",
            1,
            id="only a minimum is also the maximum (fact 8)",
        ),
        pytest.param(
            ELASTIC,
            {f"{ROLES}.Worker.replicas": GONE},
            f"{ROLES}.Worker.replicas",
            2,
            id="an elastic job without a size starts at its minimum",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.backend": "etcd"},
            "spec.elasticPolicy",
            {"minReplicas": 2, "maxReplicas": 4, "rdzvBackend": "etcd"},
            id="the document's name becomes the released one",
        ),
    ],
)
def test_default(base, changes, path, value):
    assert stored(base, changes, path) == value


PYTORCH_PORT = {"name": "pytorchjob-port", "containerPort": 23456}


@pytest.mark.parametrize(
    ("containers", "ports"),
    [
        pytest.param([{"name": "pytorch"}], [[PYTORCH_PORT]], id="the port is opened"),
        pytest.param(
            [{"name": "pytorch", "ports": [{"name": "pytorchjob-port", "containerPort": 8080}]}],
            [[{"name": "pytorchjob-port", "containerPort": 8080}]],
            id="a port of that name is left alone",
        ),
        pytest.param(
            [{"name": "pytorch", "ports": [{"name": "http", "containerPort": 80}]}],
            [[{"name": "http", "containerPort": 80}, PYTORCH_PORT]],
            id="other ports stay in front",
        ),
        pytest.param([{"name": "log"}, {"name": "pytorch"}], [None, [PYTORCH_PORT]], id="sidecars are left alone"),
        pytest.param([{"name": "pytorch", "ports": None}], [[PYTORCH_PORT]], id="null is no port"),
    ],
)
def test_the_port_that_is_opened(containers, ports):
    job = default(changed(STATIC, {f"{ROLES}.Worker.template.spec.containers": containers}))

    after = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert [container.get("ports") for container in after] == ports


@pytest.mark.parametrize("job", [STATIC, ELASTIC, FULL], ids=["static", "elastic", "everything"])
def test_defaults_change_neither_their_argument_nor_themselves(job):
    before = copy.deepcopy(job)

    once = default(job)

    assert default(once) == once
    assert job == before


def requests(base, changes=()):
    return read(default(changed(base, dict(changes)))).requests


ASKED = {
    "port": 23456,
    "nproc": "auto",
    "minimum": 2,
    "maximum": 4,
    "backend": "c10d",
    "host": None,
    "id": None,
    "conf": (),
    "max_restarts": None,
    "standalone": False,
}


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        pytest.param(STATIC, {}, [Request("pytorch", {"port": 23456, "nproc": "auto"})], id="a static job"),
        pytest.param(
            STATIC,
            {
                "spec.nprocPerNode": "4",
                f"{ROLES}.Master.template.spec.containers[0].ports": [
                    {"name": "pytorchjob-port", "containerPort": 8080}
                ],
            },
            [Request("pytorch", {"port": 8080, "nproc": "4"})],
            id="the master's port and the number of processes",
        ),
        pytest.param(
            ELASTIC,
            {},
            [Request("pytorch", {"port": 23456, "nproc": "auto"}), Request("torch_elastic", ASKED)],
            id="an elastic job",
        ),
        pytest.param(
            ELASTIC,
            {"spec.elasticPolicy.nProcPerNode": 2, "spec.elasticPolicy.rdzvPort": 29400},
            [
                Request("pytorch", {"port": 29400, "nproc": "2"}),
                Request("torch_elastic", ASKED | {"nproc": "2", "port": 29400}),
            ],
            id="the rendezvous port and the old place of nprocPerNode",
        ),
        pytest.param(
            FULL,
            {},
            [
                Request("pytorch", {"port": 23456, "nproc": "2"}),
                Request(
                    "torch_elastic",
                    ASKED
                    | {
                        "port": 29400,
                        "nproc": "2",
                        "minimum": 1,
                        "host": "store.example.com",
                        "id": "one",
                        "conf": (("join_timeout", "60"), ("read_timeout", "5")),
                        "max_restarts": 100,
                    },
                ),
            ],
            id="with a master both",
        ),
    ],
)
def test_the_frameworks_a_job_asks_for(base, changes, expected):
    assert list(requests(base, changes)) == expected


@pytest.mark.parametrize(
    ("changes", "hub"),
    [
        pytest.param({}, 0, id="worker 0 hosts the rendezvous"),
        pytest.param({"spec.elasticPolicy.rdzvHost": "store"}, None, id="another host does"),
        pytest.param({"spec.elasticPolicy.rdzvBackend": "etcd"}, None, id="etcd does"),
        pytest.param({"spec.elasticPolicy.standalone": True}, None, id="everybody does"),
    ],
)
def test_who_hosts_the_rendezvous(changes, hub):
    elastic = read(default(changed(ELASTIC, changes))).elastic

    assert elastic == Elastic("Worker", 2, 4, hub=hub)


def test_read_takes_everything():
    job = read(default(FULL))

    assert (job.resource, job.namespace, job.name, job.uid) == (RESOURCE, "research", "everything", "1-2-3")
    assert [(role.name, role.replicas, role.restart_policy) for role in job.roles] == [
        ("Master", 1, "ExitCode"),
        ("Worker", 2, "OnFailure"),
    ]
    assert job.run_policy == RunPolicy(
        clean_pods="Running", ttl_seconds=60, deadline_seconds=3600, backoff_limit=3, suspend=False, gang_min=2
    )
    assert job.elastic == Elastic("Worker", 1, 4, metrics=tuple(FULL["spec"]["elasticPolicy"]["metrics"]))
    assert job.object == default(FULL)


def test_a_job_of_multikueue_is_somebody_elses():
    assert read(changed(STATIC, {"spec.runPolicy.managedBy": MULTIKUEUE})).run_policy.external
    assert not read(STATIC).run_policy.external


def test_a_job_that_was_stored_by_others_is_read_with_its_defaults():
    job = read(STATIC)

    assert job.namespace == "default"
    assert job.total == 4
    assert job.object is STATIC
