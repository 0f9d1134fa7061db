"""What a container finds in its environment."""

import pytest

from trainwright.node.environment import complete, declared, expand, references
from trainwright.node.refusals import Missing, Refused
from trainwright.node.sources import Facts, Found

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}, "annotations": {"a/b": "c"}},
    "spec": {"serviceAccountName": "sa", "containers": []},
}
FACTS = Facts(POD, node="n", pod_ip="10.0.0.5", host_ip="10.0.0.1", allocatable={"cpu": "8", "memory": "16Gi"})
FOUND: Found = {
    ("ConfigMap", "conf"): {"metadata": {"name": "conf"}, "data": {"k": "v", "two": "2"}},
    ("Secret", "key"): {"metadata": {"name": "key"}, "data": {"s": "aGk="}},
    ("Secret", "bad"): {"metadata": {"name": "bad"}, "data": {"s": "not base64!"}},
}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)", "1", id="a variable"),
        pytest.param("x$(A)y$(B)", "x1y2", id="several"),
        pytest.param("$(NOPE)", "$(NOPE)", id="an unknown one stays"),
        pytest.param("$$(A)", "$(A)", id="a doubled dollar escapes"),
        pytest.param("$$$(A)", "$1", id="an escaped dollar before a variable"),
        pytest.param("$A ${A} $", "$A ${A} $", id="other dollars stay"),
        pytest.param("$(A", "$(A", id="an open one stays"),
        pytest.param("$()", "$()", id="an empty one stays"),
    ],
)
def test_expand(text, expanded):
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def ref(**origin):
    return {"name": "X", "valueFrom": origin}


@pytest.mark.parametrize(
    ("container", "variables"),
    [
        pytest.param({"env": [{"name": "X", "value": "1"}]}, {"X": "1"}, id="a plain value"),
        pytest.param({"env": [{"name": "X"}]}, {"X": ""}, id="no value is the empty one"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "X", "value": "$(A)$(B)"}, {"name": "B", "value": "2"}]},
            {"A": "1", "X": "1$(B)", "B": "2"},
            id="a later one sees earlier ones only",
        ),
        pytest.param(
            {"env": [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]}, {"X": "2"}, id="the last one wins"
        ),
        pytest.param({"envFrom": [{"configMapRef": {"name": "conf"}}]}, {"k": "v", "two": "2"}, id="a whole ConfigMap"),
        pytest.param({"envFrom": [{"prefix": "P_", "secretRef": {"name": "key"}}]}, {"P_s": "hi"}, id="with a prefix"),
        pytest.param({"envFrom": [{"secretRef": {"name": "no", "optional": True}}]}, {}, id="an optional one missing"),
        pytest.param(
            {"envFrom": [{"configMapRef": {"name": "conf"}}], "env": [{"name": "k", "value": "$(k)!"}]},
            {"k": "v!", "two": "2"},
            id="env overrides envFrom and sees it",
        ),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "metadata.name"})]}, {"X": "p"}, id="pod name"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "metadata.namespace"})]}, {"X": "ns"}, id="namespace"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "metadata.uid"})]}, {"X": "u"}, id="uid"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "metadata.labels['app']"})]}, {"X": "x"}, id="a label"),
        pytest.param(
            {"env": [ref(fieldRef={"fieldPath": "metadata.annotations['a/b']"})]}, {"X": "c"}, id="annotation"
        ),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "metadata.labels['no']"})]}, {"X": ""}, id="no such label"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "spec.nodeName"})]}, {"X": "n"}, id="node"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "spec.serviceAccountName"})]}, {"X": "sa"}, id="account"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "status.podIP"})]}, {"X": "10.0.0.5"}, id="pod address"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "status.podIPs"})]}, {"X": "10.0.0.5"}, id="pod addresses"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "status.hostIP"})]}, {"X": "10.0.0.1"}, id="node address"),
        pytest.param({"env": [ref(configMapKeyRef={"name": "conf", "key": "k"})]}, {"X": "v"}, id="a ConfigMap's key"),
        pytest.param({"env": [ref(secretKeyRef={"name": "key", "key": "s"})]}, {"X": "hi"}, id="a Secret's key"),
        pytest.param(
            {"env": [ref(secretKeyRef={"name": "key", "key": "no", "optional": True})]},
            {},
            id="an optional key missing",
        ),
        pytest.param(
            {
                "resources": {"limits": {"memory": "1Gi"}},
                "env": [ref(resourceFieldRef={"resource": "limits.memory", "divisor": "1Mi"})],
            },
            {"X": "1024"},
            id="a limit in units of the divisor",
        ),
        pytest.param(
            {
                "resources": {"requests": {"cpu": "1500m"}},
                "env": [ref(resourceFieldRef={"resource": "requests.cpu"})],
            },
            {"X": "2"},
            id="rounded up",
        ),
        pytest.param(
            {"env": [ref(resourceFieldRef={"resource": "limits.cpu"})]}, {"X": "8"}, id="no limit is the node's"
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "3"}}, "env": [ref(resourceFieldRef={"resource": "requests.cpu"})]},
            {"X": "3"},
            id="no request is the limit",
        ),
    ],
)
def test_declared(container, variables):
    assert declared(container, FACTS, FOUND) == variables


@pytest.mark.parametrize(
    ("container", "error", "words"),
    [
        pytest.param(
            {"envFrom": [{"configMapRef": {"name": "no"}}]}, Missing, "there is no ConfigMap 'no'", id="ConfigMap"
        ),
        pytest.param(
            {"env": [ref(secretKeyRef={"name": "key", "key": "no"})]},
            Missing,
            "Secret 'key' has no key 'no'",
            id="key",
        ),
        pytest.param({"env": [ref(secretKeyRef={"name": "bad", "key": "s"})]}, Missing, "not base64", id="base64"),
        pytest.param({"env": [ref(fieldRef={"fieldPath": "spec.no"})]}, Refused, "unknown field 'spec.no'", id="field"),
        pytest.param({"env": [ref(resourceFieldRef={"resource": "cpu"})]}, Refused, "limits.cpu", id="resource"),
        pytest.param({"env": [ref(fileKeyRef={})]}, Refused, "env X: valueFrom fileKeyRef", id="another origin"),
    ],
)
def test_what_is_missing_is_waited_for_and_what_is_wrong_refused(container, error, words):
    with pytest.raises(error, match=words):
        declared(container, FACTS, FOUND)


def test_references_name_every_object():
    container = {
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [ref(configMapKeyRef={"name": "c", "key": "k"}), ref(secretKeyRef={"name": "d", "key": "k"})],
    }

    assert list(references(container)) == [("ConfigMap", "a"), ("Secret", "b"), ("ConfigMap", "c"), ("Secret", "d")]


CALLER = {"PATH": "/bin", "HOME": "/me", "PWD": "/here", "SHLVL": "2"}


@pytest.mark.parametrize(
    ("caller", "manifest", "resources", "devices", "expected"),
    [
        pytest.param({}, {}, {}, None, {}, id="the caller's own, without what its shell says of itself"),
        pytest.param({}, {"HOME": "/x"}, {}, None, {"HOME": "/x"}, id="the manifest wins"),
        pytest.param({}, {"HOSTNAME": "x"}, {}, None, {"HOSTNAME": "x"}, id="also about the host name"),
        pytest.param({}, {}, {"requests": {"cpu": "1500m"}}, None, {"OMP_NUM_THREADS": "2"}, id="threads by request"),
        pytest.param(
            {}, {}, {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}, None, {"OMP_NUM_THREADS": "4"}, id="by limit"
        ),
        pytest.param(
            {"OMP_NUM_THREADS": "9"},
            {},
            {"limits": {"cpu": "4"}},
            None,
            {"OMP_NUM_THREADS": "9"},
            id="the caller's stays",
        ),
        pytest.param(
            {},
            {"OMP_NUM_THREADS": "7"},
            {"limits": {"cpu": "4"}},
            None,
            {"OMP_NUM_THREADS": "7"},
            id="the manifest's too",
        ),
        pytest.param({}, {}, {}, "0,1", {"CUDA_VISIBLE_DEVICES": "0,1"}, id="devices handed out"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "3"}, {}, {}, "", {"CUDA_VISIBLE_DEVICES": ""}, id="no devices"),
        pytest.param(
            {"CUDA_VISIBLE_DEVICES": "3"}, {}, {}, None, {"CUDA_VISIBLE_DEVICES": "3"}, id="a node without GPUs"
        ),
    ],
)
def test_complete(caller, manifest, resources, devices, expected):
    found = complete(CALLER | caller, manifest, {"resources": resources}, hostname="h", devices=devices)

    assert found == {"PATH": "/bin", "HOME": "/me", "HOSTNAME": "h", **expected}


def test_peers_are_reached_past_the_proxy():
    caller = CALLER | {"no_proxy": "localhost", "https_proxy": "http://10.77.0.1:3128"}

    found = complete(caller, {}, {}, hostname="h", devices=None, peers=["mnist", ".mnist"])

    assert found["no_proxy"] == "localhost,mnist,.mnist"


def test_without_a_proxy_nobody_is_an_exception():
    assert "no_proxy" not in complete(CALLER, {}, {}, hostname="h", devices=None, peers=["mnist"])
