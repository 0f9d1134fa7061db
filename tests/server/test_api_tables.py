"""What kubectl get shows: cells from objects, as pure functions."""

from datetime import UTC, datetime, timedelta

import pytest

from trainwright.api.faces import RESOURCES
from trainwright.core.objects import timestamp
from trainwright.core.resources import (
    AUTOSCALER,
    BATCH_JOB,
    CONFIG_MAP,
    EVENT,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from trainwright.kinds import KINDS
from trainwright.server.api.printers import PRINTERS, human
from trainwright.server.api.served import served
from trainwright.server.api.tables import Tables, found, steps

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return timestamp(NOON - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400 + 86400, "9y"),
    ],
)
def test_durations(seconds, words):
    assert human(seconds) == words


def cells(resource, obj):
    """Return the cells of an object by the names of its columns."""
    printer = PRINTERS[resource]
    whole = {**obj, "metadata": {"name": "x", "creationTimestamp": ago(60), **obj.get("metadata", {})}}
    return dict(zip(printer.columns, printer.cells(whole, NOON), strict=True))


def container(state, *, ready=False, restarts=0, name="main", **more):
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, **more}


RUNNING = container({"running": {}}, ready=True)
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "ready", "word"),
    [
        pytest.param({"phase": "Pending"}, "0/2", "Pending", id="nothing has begun"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, "0/2", "Evicted", id="its own reason comes first"),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            "0/2",
            "SchedulingGated",
            id="held back by a gate",
        ),
        pytest.param({"phase": "Running", "containerStatuses": [RUNNING, RUNNING]}, "2/2", "Running", id="all run"),
        pytest.param(
            {"phase": "Running", "conditions": READY, "containerStatuses": [container(ENDED), RUNNING]},
            "1/2",
            "Running",
            id="one has ended, the rest is ready",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [container(ENDED), RUNNING]},
            "1/2",
            "NotReady",
            id="one has ended, and the pod is not ready",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}}), RUNNING],
            },
            "1/2",
            "CrashLoopBackOff",
            id="the first that waits says why",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [container(ENDED), container(FAILED)]},
            "0/2",
            "Error",
            id="a failure is not hidden by a success",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 3}})]},
            "0/2",
            "ExitCode:3",
            id="without a reason the exit code is said",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 137, "signal": 9}})]},
            "0/2",
            "Signal:9",
            id="or the signal",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [container({"running": {}}, name="step")]},
            "0/2",
            "Init:0/1",
            id="an init container runs",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [container(FAILED, name="step")]},
            "0/2",
            "Init:Error",
            id="an init container has failed",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}}, name="step")],
            },
            "0/2",
            "Init:CrashLoopBackOff",
            id="an init container waits",
        ),
        pytest.param(
            {
                "phase": "Running",
                "initContainerStatuses": [container(ENDED, name="step")],
                "containerStatuses": [RUNNING],
            },
            "1/2",
            "Running",
            id="init containers are done",
        ),
    ],
)
def test_pods(status, ready, word):
    spec = {"containers": [{"name": "main"}, {"name": "other"}], "initContainers": [{"name": "step"}]}

    shown = cells(POD, {"spec": spec, "status": status})

    assert (shown["Ready"], shown["Status"]) == (ready, word)


def test_a_pod_that_is_leaving():
    meta = {"deletionTimestamp": ago(1)}
    assert cells(POD, {"metadata": meta, "status": {"phase": "Running"}})["Status"] == "Terminating"
    assert cells(POD, {"metadata": meta, "status": {"phase": "Succeeded"}})["Status"] == "Succeeded"


def test_restarts_say_when_the_last_one_was():
    last = {"lastState": {"terminated": {"finishedAt": ago(30)}}}
    statuses = [container({"running": {}}, restarts=2, **last), container({"running": {}}, restarts=1)]

    assert cells(POD, {"status": {"phase": "Running", "containerStatuses": statuses}})["Restarts"] == "3 (30s ago)"


@pytest.mark.parametrize(
    ("resource", "obj", "expected"),
    [
        pytest.param(
            SERVICE,
            {"spec": {"clusterIP": "None", "ports": [{"port": 80}, {"port": 1, "protocol": "UDP", "nodePort": 3}]}},
            {"Type": "ClusterIP", "Cluster-IP": "None", "External-IP": "<none>", "Port(s)": "80/TCP,1:3/UDP"},
            id="a service",
        ),
        pytest.param(
            STATEFUL_SET, {"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}, {"Ready": "1/3"}, id="a set"
        ),
        pytest.param(
            BATCH_JOB,
            {
                "spec": {"completions": 2, "selector": {"matchLabels": {"a": "b"}}},
                "status": {"succeeded": 1, "startTime": ago(90)},
            },
            {"Status": "Running", "Completions": "1/2", "Duration": "90s", "Selector": "a=b"},
            id="a job that runs",
        ),
        pytest.param(
            BATCH_JOB,
            {"spec": {"parallelism": 4}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            {"Status": "Complete", "Completions": "0/1 of 4", "Duration": ""},
            id="a job that is done",
        ),
        pytest.param(
            NODE,
            {
                "metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": READY, "nodeInfo": {"kernelVersion": "6", "architecture": "amd64"}},
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "gpu", "Kernel-Version": "6 (amd64)"},
            id="a node",
        ),
        pytest.param(NODE, {}, {"Status": "Unknown", "Roles": "<none>", "OS-Image": "<unknown>"}, id="a bare node"),
        pytest.param(
            EVENT,
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "message": " said \n",
                "lastTimestamp": ago(5),
                "firstTimestamp": ago(9),
                "source": {"component": "c", "host": "h"},
            },
            {"Last Seen": "5s", "First Seen": "9s", "Object": "pod/p", "Message": "said", "Source": "c, h", "Count": 1},
            id="an event",
        ),
        pytest.param(CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Data": 2}, id="a config map"),
        pytest.param(
            VOLUME_CLAIM,
            {
                "spec": {"volumeName": "v", "storageClassName": "fast"},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
            },
            {"Status": "Bound", "Volume": "v", "Capacity": "1Gi", "Access Modes": "RWO", "StorageClass": "fast"},
            id="a claim",
        ),
        pytest.param(
            AUTOSCALER,
            {
                "spec": {
                    "scaleTargetRef": {"kind": "PyTorchJob", "name": "j"},
                    "maxReplicas": 4,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                        }
                    ],
                }
            },
            {"Reference": "PyTorchJob/j", "Targets": "cpu: <unknown>/80%", "MinPods": "<unset>", "MaxPods": 4},
            id="an autoscaler",
        ),
        pytest.param(
            RESOURCE_QUOTA,
            {
                "status": {
                    "hard": {"requests.cpu": "8", "limits.cpu": "9", "pods": "5"},
                    "used": {"requests.cpu": "2", "limits.cpu": "3", "pods": "1"},
                }
            },
            {"Request": "pods: 1/5, requests.cpu: 2/8", "Limit": "limits.cpu: 3/9"},
            id="a quota",
        ),
        pytest.param(
            PRIORITY_CLASS,
            {"value": 7},
            {"Value": 7, "Global-Default": "false", "PreemptionPolicy": "PreemptLowerPriority"},
            id="a priority class",
        ),
    ],
)
def test_other_kinds(resource, obj, expected):
    shown = cells(resource, obj)

    assert {name: shown[name] for name in expected} == expected


def test_every_resource_has_a_table():
    for row in served(RESOURCES, KINDS):
        obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": "x", "creationTimestamp": ago(60)}}

        table = Tables(row).table([obj], NOON)

        assert len(table["columnDefinitions"]) == len(table["rows"][0]["cells"])
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".status.phase", "Running"),
        (".status.conditions[-1:].type", "b"),
        (".status.conditions[0].type", "a"),
        (".status.conditions[5].type", None),
        (".status.none.more", None),
        (".status.phase.more", None),
    ],
)
def test_paths(path, value):
    obj = {"status": {"phase": "Running", "conditions": [{"type": "a"}, {"type": "b"}]}}

    assert found(obj, steps(path)) == value
