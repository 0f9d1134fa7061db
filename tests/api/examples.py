"""Jobs the tests start from, and a short way to change one: `changed(STATIC, {"spec.nprocPerNode": "2"})`."""

import copy
import json
from typing import Any

from trainwright.api.reader import steps
from trainwright.core.errors import Problem
from trainwright.core.objects import Object

GONE = object()
"""As a new value: remove what stands there."""

TEMPLATE: Object = {"spec": {"containers": [{"name": "pytorch", "image": "torch", "command": ["python", "train.py"]}]}}

STATIC: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": TEMPLATE},
            "Worker": {"replicas": 3, "template": TEMPLATE},
        }
    },
}

ELASTIC: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "elastic"},
    "spec": {
        "elasticPolicy": {"minReplicas": 2, "maxReplicas": 4},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}},
    },
}

FULL: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {
        "name": "everything",
        "namespace": "research",
        "uid": "1-2-3",
        "labels": {"team": "vision", "example.com/tier": "a_b.c"},
        "annotations": {"example.com/why": "all of it, at once"},
        "creationTimestamp": "2024-01-01T00:00:00Z",
    },
    "spec": {
        "nprocPerNode": "2",
        "runPolicy": {
            "cleanPodPolicy": "Running",
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 3600,
            "backoffLimit": 3,
            "suspend": False,
            "managedBy": "kubeflow.org/training-operator",
            "schedulingPolicy": {
                "minAvailable": 2,
                "queue": "gpu",
                "minResources": {"cpu": 2, "memory": "4Gi"},
                "priorityClass": "high",
                "scheduleTimeoutSeconds": 30,
            },
        },
        "elasticPolicy": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "rdzvBackend": "c10d",
            "rdzvPort": 29400,
            "rdzvHost": "store.example.com",
            "rdzvId": "one",
            "rdzvConf": [{"key": "join_timeout", "value": "60"}, {"key": "read_timeout", "value": "5"}],
            "standalone": False,
            "maxRestarts": 100,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "restartPolicy": "ExitCode", "template": TEMPLATE},
            "Worker": {
                "replicas": 2,
                "restartPolicy": "OnFailure",
                "template": {
                    "metadata": {"labels": {"a": "b"}, "annotations": {"sidecar.istio.io/inject": "false"}},
                    "spec": {
                        "initContainers": [{"name": "fetch", "image": "busybox", "args": ["sh", "-c", "true"]}],
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "torch",
                                "command": ["torchrun", "train.py"],
                                "ports": [
                                    {"name": "pytorchjob-port", "containerPort": 8080},
                                    {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
                                ],
                                "env": [
                                    {"name": "A", "value": "1"},
                                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                ],
                                "envFrom": [{"configMapRef": {"name": "settings"}}],
                                "resources": {
                                    "requests": {"cpu": 0.5, "memory": "1Gi"},
                                    "limits": {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": 1},
                                },
                                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 5},
                                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                                "securityContext": {"runAsUser": 1000},
                            },
                            {"name": "log", "image": "busybox", "command": ["tail"]},
                        ],
                        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
                        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                        "nodeSelector": {"zone": "a"},
                        "terminationGracePeriodSeconds": 5,
                    },
                },
            },
        },
    },
}


VOLCANO: Object = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "mnist"},
    "spec": {
        "tasks": [
            {"name": "master", "replicas": 1, "template": TEMPLATE},
            {"name": "worker", "replicas": 3, "template": TEMPLATE},
        ]
    },
}

VOLCANO_FULL: Object = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {
        "name": "everything",
        "namespace": "research",
        "uid": "1-2-3",
        "annotations": {"trainwright.dev/elastic": "worker"},
    },
    "spec": {
        "schedulerName": "volcano",
        "minAvailable": 4,
        "minSuccess": 1,
        "maxRetry": 5,
        "ttlSecondsAfterFinished": 60,
        "queue": "gpu.team-a",
        "priorityClassName": "high",
        "runningEstimate": "1h30m",
        "elasticReplicas": 3,
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
        "plugins": {"svc": ["--publish-not-ready-addresses=true"], "env": [], "pytorch": ["--port=2222"]},
        "policies": [
            {"event": "PodEvicted", "action": "RestartJob", "timeout": "10m"},
            {"events": ["PodFailed", "TaskFailed"], "action": "AbortJob"},
            {"exitCode": 3, "action": "RestartJob"},
        ],
        "volumes": [
            {"mountPath": "/data", "volumeClaimName": "data"},
            {
                "mountPath": "/out",
                "volumeClaim": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ],
        "tasks": [
            {
                "name": "master",
                "replicas": 1,
                "minAvailable": 1,
                "maxRetry": 2,
                "topologyPolicy": "single-numa-node",
                "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
                "dependsOn": {"name": ["worker", "shards"], "iteration": "any"},
                "template": {
                    "spec": {
                        "restartPolicy": "OnFailure",
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "torch",
                                "command": ["python", "train.py"],
                                "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "2"}},
                            }
                        ],
                    }
                },
            },
            {
                "name": "worker",
                "replicas": 4,
                "minAvailable": 2,
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "hostNetwork": True,
                        "containers": [{"name": "pytorch", "image": "torch", "env": [{"name": "A", "value": "1"}]}],
                    },
                },
            },
            {
                "name": "shards",
                "replicas": 6,
                "partitionPolicy": {
                    "totalPartitions": 3,
                    "partitionSize": 2,
                    "minPartitions": 1,
                    "networkTopology": {"highestTierName": "rack"},
                },
                "policies": [{"event": "PodFailed", "action": "RestartPartition"}],
                "template": TEMPLATE,
            },
        ],
    },
}


TRAINING: Object = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "j", "namespace": "ns"},
    "spec": {"trainer": {"entrypoint": "python train.py", "min-instance": 2, "max-instance": 2}},
}

TRAINING_FULL: Object = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "everything", "namespace": "research", "uid": "1-2-3"},
    "spec": {
        "image": "paddlepaddle/paddlecloud-job",
        "port": 7164,
        "ports_num": 1,
        "ports_num_for_sparse": 1,
        "fault_tolerant": True,
        "passes": 10,
        "mountPath": "/home/work/namespace/",
        "volumes": [{"name": "work", "emptyDir": {"sizeLimit": "1Gi"}}],
        "VolumeMounts": [{"name": "work", "mountPath": "/work"}],
        "host_network": False,
        "imagePullSecrets": [{"name": "pull"}],
        "NodeSelector": {"zone": "a"},
        "elasticReplicas": 3,
        "master": {"resources": {"limits": {"cpu": "800m"}, "requests": {"cpu": "500m", "memory": "600Mi"}}},
        "pserver": {"min-instance": 2, "max-instance": 2, "resources": {"requests": {"cpu": 0.5}}},
        "trainer": {
            "entrypoint": "python train.py",
            "workspace": "/home/job-1/",
            "passes": 10,
            "min-instance": 2,
            "max-instance": 6,
            "resources": {"limits": {"cpu": "200m", "memory": "200Mi", "alpha.kubernetes.io/nvidia-gpu": 1}},
        },
    },
}


def changed(obj: Object, changes: dict[str, Any]) -> Object:
    """Return a copy of a job in which other values stand at some paths."""
    made: Object = json.loads(json.dumps(obj))  # unlike deepcopy, this leaves no two templates the same one
    for path, value in changes.items():
        *way, last = steps(path)
        at: Any = made
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        key: Any = int(last) if isinstance(at, list) else last
        if value is GONE:
            del at[key]
        else:
            at[key] = copy.deepcopy(value)
    return made


def sentences(problems: list[Problem]) -> list[str]:
    """Return problems as `tw lint` words them."""
    return [("warning: " if problem.severity == "warning" else "") + str(problem) for problem in problems]
