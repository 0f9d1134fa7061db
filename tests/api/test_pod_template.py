"""Pod templates: what Kubernetes would refuse when the pods are made is found before."""

import pytest
from tests.api.examples import FULL, GONE, TEMPLATE, changed, sentences

from trainwright.api.pod_template import check

FULL_TEMPLATE = FULL["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
C = "spec.containers[0]"


def told(template):
    return [sentence.replace("t.", "", 1) for sentence in sentences(list(check(template, "t")))]


@pytest.mark.parametrize("template", [TEMPLATE, FULL_TEMPLATE], ids=["a small one", "everything"])
def test_a_good_template_has_no_problems(template):
    assert told(template) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Fields and types
        pytest.param(
            {f"{C}.comand": ["x"]}, [f"{C}.comand: unknown field 'comand'; did you mean 'command'?"], id="a misspelling"
        ),
        pytest.param(
            {"spec.image_pull_secrets": []},
            ["spec.image_pull_secrets: unknown field 'image_pull_secrets'; did you mean 'imagePullSecrets'?"],
            id="a field in another spelling",
        ),
        pytest.param(
            {"spec.quantumEntanglement": True},
            ["warning: spec.quantumEntanglement: unknown field 'quantumEntanglement'; it is passed on as it is"],
            id="a field of tomorrow's Kubernetes is passed on",
        ),
        pytest.param(
            {f"{C}.readinessProbe": {"tcpSocket": {"port": 1}, "periodSecond": 5}},
            [
                (
                    f"{C}.readinessProbe.periodSecond: unknown field 'periodSecond'; did you mean 'periodSeconds'? "
                    "(there are: exec, failureThreshold, grpc, httpGet, initialDelaySeconds, periodSeconds, "
                    "successThreshold, tcpSocket, terminationGracePeriodSeconds, timeoutSeconds)"
                )
            ],
            id="a misspelling in a probe",
        ),
        pytest.param(
            {f"{C}.command": "python train.py"},
            [f'{C}.command: expected a list, found \'python train.py\'; write ["python", "train.py"]'],
            id="a command is a list",
        ),
        pytest.param(
            {f"{C}.imagePullPolicy": "ifNotPresent"},
            [
                (
                    f"{C}.imagePullPolicy: must be one of Always, IfNotPresent, Never; found 'ifNotPresent'; did you "
                    "mean 'IfNotPresent'?"
                )
            ],
            id="an enum",
        ),
        pytest.param({"spec": GONE}, ["spec: missing"], id="no spec"),
        pytest.param({"spec.containers": GONE}, ["spec.containers: missing"], id="no containers"),
        pytest.param(
            {"spec.containers": []},
            ["spec.containers: there is no container; a pod needs at least one"],
            id="an empty list of containers",
        ),
        pytest.param(
            {"spec.containers": [None]},
            ["spec.containers[0]: expected a mapping, found nothing (null)"],
            id="null is no container",
        ),
        # Names
        pytest.param(
            {f"{C}.name": "Main_1"},
            [f"{C}.name: 'Main_1' cannot be a container's name; write at most 63 small letters, digits and '-'"],
            id="a container's name is a DNS label",
        ),
        pytest.param(
            {"spec.initContainers[0].name": "pytorch"},
            [f"{C}.name: 'pytorch' is taken already, by t.spec.initContainers[0].name"],
            id="container names are unique, init containers included",
        ),
        pytest.param(
            {"spec.initContainers[0].image": GONE},
            ["spec.initContainers[0].image: missing; every container needs an image"],
            id="init containers need an image too",
        ),
        pytest.param(
            {"metadata.labels": {"a b": "x", "ok": "not ok"}},
            [
                (
                    "metadata.labels[a b]: 'a b' cannot be the key of one of the labels; write letters, digits, '-', "
                    "'_' and '.', at most 63, with an optional prefix such as example.com/"
                ),
                (
                    "metadata.labels.ok: 'not ok' cannot be a label's value; write at most 63 letters, digits, '-', "
                    "'_' and '.', beginning and ending with a letter or digit, or use an annotation"
                ),
            ],
            id="labels",
        ),
        pytest.param(
            {"metadata.annotations": {"example.com/x": True}},
            ['metadata.annotations[example.com/x]: expected text, found true; put it in quotes: "true"'],
            id="annotations are text",
        ),
        # Ports
        pytest.param(
            {f"{C}.ports": [{"containerPort": 0}, {"containerPort": 65536}, {"name": "x"}]},
            [
                f"{C}.ports[0].containerPort: must be at least 1, found 0",
                f"{C}.ports[1].containerPort: must be at most 65535, found 65536",
                f"{C}.ports[2].containerPort: missing",
            ],
            id="ports are 1 to 65535",
        ),
        pytest.param(
            {f"{C}.ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]},
            [f"{C}.ports[1].name: 'a' is taken already, by t.{C}.ports[0].name"],
            id="port names are unique",
        ),
        pytest.param(
            {f"{C}.ports": [{"name": "a-very-long-port", "containerPort": 1}]},
            [
                (
                    f"{C}.ports[0].name: 'a-very-long-port' cannot be a port's name; write at most 15 small letters, "
                    "digits and single '-', with at least one letter"
                )
            ],
            id="port names are short",
        ),
        # Environment
        pytest.param(
            {f"{C}.env": [{"name": "A", "value": 1}]},
            [f'{C}.env[0].value: expected text, found 1; put it in quotes: "1"'],
            id="values are text",
        ),
        pytest.param(
            {f"{C}.env": [{"name": "A=B"}, {"name": ""}, {"value": "x"}]},
            [
                f"{C}.env[2].name: missing",
                f"{C}.env[0].name: 'A=B' cannot be a variable's name; write letters without '='",
                f"{C}.env[1].name: '' cannot be a variable's name; write letters without '='",
            ],
            id="names of variables",
        ),
        pytest.param(
            {f"{C}.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            [f"warning: {C}.env[1]: A is set a second time, which wins; the first is t.{C}.env[0]"],
            id="a variable that is set twice",
        ),
        pytest.param(
            {f"{C}.env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            [f"{C}.env[0]: has both value and valueFrom; leave one out"],
            id="a variable has one value",
        ),
        pytest.param(
            {f"{C}.env": [{"name": "A", "valueFrom": {}}], f"{C}.envFrom": [{}]},
            [
                (
                    f"{C}.env[0].valueFrom: has no source; write one of configMapKeyRef, fieldRef, fileKeyRef, "
                    "resourceFieldRef, secretKeyRef"
                ),
                f"{C}.envFrom[0]: has no source; write one of configMapRef, secretRef",
            ],
            id="values come from somewhere",
        ),
        # Volumes
        pytest.param(
            {f"{C}.volumeMounts": [{"name": "dta", "mountPath": "/x"}]},
            [f"{C}.volumeMounts[0].name: there is no volume 'dta'; did you mean 'data'?"],
            id="a mount that names no volume",
        ),
        pytest.param(
            {"spec.volumes": GONE},
            [f"{C}.volumeMounts[0].name: there is no volume 'data'; add it to the volumes"],
            id="a mount without any volumes",
        ),
        pytest.param(
            {f"{C}.volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}]},
            [f"{C}.volumeMounts[1].mountPath: '/a' is taken already, by t.{C}.volumeMounts[0].mountPath"],
            id="one place for one mount",
        ),
        pytest.param(
            {"spec.volumes": [{"name": "data", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": "data"}]},
            [
                "spec.volumes[0]: has more than one source (emptyDir, hostPath); leave one",
                "spec.volumes[1].name: 'data' is taken already, by t.spec.volumes[0].name",
            ],
            id="volumes are unique and have one source",
        ),
        pytest.param(
            {"spec.volumes": [{"name": "data", "emptyDir": None}]}, [], id="an empty source is an empty folder"
        ),
        # Resources
        pytest.param(
            {f"{C}.resources": {"limits": {"memory": "4GB", "cpu": "-1"}}},
            [
                (
                    f"{C}.resources.limits.memory: '4GB' is not a quantity; write a number with an optional suffix, "
                    "such as 500m, 2 or 4Gi"
                ),
                f"{C}.resources.limits.cpu: must not be negative, found -1",
            ],
            id="quantities",
        ),
        pytest.param(
            {f"{C}.resources": {"limits": {"cpu": 1}, "requests": {"cpu": "1500m"}}},
            [f"{C}.resources.requests.cpu: 1500m is more than the limit (1); lower it, or raise the limit"],
            id="a request is not above its limit",
        ),
        pytest.param(
            {f"{C}.resources": {"limits": {"gpu": 1, "memroy": "1Gi"}}},
            [
                (
                    f"{C}.resources.limits.gpu: there is no resource 'gpu' (there are: cpu, memory, "
                    "ephemeral-storage); a GPU is nvidia.com/gpu"
                ),
                (
                    f"{C}.resources.limits.memroy: there is no resource 'memroy' (there are: cpu, memory, "
                    "ephemeral-storage)"
                ),
            ],
            id="resources are those there are",
        ),
        pytest.param(
            {f"{C}.resources": {"limits": {"nvidia.com/gpu": "0.5"}}},
            [f"{C}.resources.limits[nvidia.com/gpu]: nvidia.com/gpu is counted in whole numbers, found 0.5"],
            id="no half GPUs",
        ),
        pytest.param(
            {f"{C}.resources": {"requests": {"nvidia.com/gpu": 1}}},
            [
                (
                    f"{C}.resources.requests[nvidia.com/gpu]: has no limit; nvidia.com/gpu cannot be shared, so write "
                    "the same number under limits"
                )
            ],
            id="GPUs need a limit",
        ),
        pytest.param(
            {f"{C}.resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}},
            [f"{C}.resources.requests[nvidia.com/gpu]: 1 differs from the limit (2); nvidia.com/gpu cannot be shared"],
            id="GPUs are not overcommitted",
        ),
        pytest.param(
            {f"{C}.resources": {"limits": {"memory": "512m"}}},
            [
                (
                    f"warning: {C}.resources.limits.memory: 512m is less than whole bytes ('m' is a thousandth); write "
                    "for example 512Mi"
                )
            ],
            id="half a byte is hardly meant",
        ),
        # Probes
        pytest.param(
            {f"{C}.readinessProbe": {}, f"{C}.livenessProbe": {"exec": {}, "httpGet": {"port": 0}}},
            [
                f"{C}.livenessProbe: has more than one action (exec, httpGet); leave one",
                f"{C}.livenessProbe.httpGet.port: must be a port's name or 1 to 65535, found 0",
                f"{C}.readinessProbe: has no action; write one of exec, grpc, httpGet, tcpSocket",
            ],
            id="a probe asks in one way",
        ),
        pytest.param(
            {f"{C}.lifecycle": {"preStop": {}}},
            [f"{C}.lifecycle.preStop: has no action; write one of exec, httpGet, sleep, tcpSocket"],
            id="a hook acts in one way",
        ),
        # Nulls
        pytest.param(
            {
                "metadata": None,
                "spec.volumes": None,
                f"{C}.volumeMounts": None,
                f"{C}.env": None,
                f"{C}.ports": None,
                f"{C}.resources": {"limits": None, "requests": None},
                f"{C}.readinessProbe": None,
                f"{C}.lifecycle": {"preStop": None},
            },
            [],
            id="null is as good as nothing",
        ),
    ],
)
def test_check(changes, expected):
    assert told(changed(FULL_TEMPLATE, changes)) == expected


@pytest.mark.parametrize("junk", [None, 5, "x", [], {}, {"spec": 5}, {"spec": {"containers": 5}}, {"metadata": []}])
def test_junk_is_told_and_not_raised(junk):
    assert told(junk)
