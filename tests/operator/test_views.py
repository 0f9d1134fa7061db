"""A pod as the cache keeps it says the same as the whole pod to every decision."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.reconcile.making import NOON, manifest, pod, read

from trainwright.cluster.kubernetes.decode import decode_page, event_decoder
from trainwright.core.actions import Decision
from trainwright.core.names import GANG_MIN_ANNOTATION
from trainwright.core.objects import Object
from trainwright.core.resources import POD
from trainwright.desired import KUBERNETES
from trainwright.kinds import PYTORCH_JOB
from trainwright.operator.demand import facts
from trainwright.operator.views import NodeView, PodView
from trainwright.placement import allocatable, usable
from trainwright.placement.gangs import member
from trainwright.reconcile.decide import decide
from trainwright.reconcile.kind import Observed

MEMORY = {"name": "pytorch", "image": "train:1", "resources": {"limits": {"memory": "2Gi"}}}


def oom(container: Object) -> Object:
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": "Killed", "finishedAt": "2026-03-01T11:59:00Z"}
    return {**container, "state": {"terminated": ended}}


def whole(words: str, **status: Any) -> Object:
    """Return a pod with much that nobody looks at."""
    made = pod(words)
    meta = {**made["metadata"], "resourceVersion": "7", "annotations": {"a": "b"}, "managedFields": [{"manager": "m"}]}
    spec = {"containers": [MEMORY], "nodeName": "n", "volumes": [{"name": "v"}]}
    seen = {**made["status"], "hostIP": "10.0.0.1", "qosClass": "Burstable", **status}
    return {**made, "metadata": meta, "spec": spec, "status": seen}


def from_list(obj: Object) -> Object:
    item = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    page = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": [item]})
    return decode_page(page, POD, PodView)[0][0]


def from_watch(obj: Object) -> Object:
    return event_decoder(PodView)(msgspec.json.encode({"type": "MODIFIED", "object": obj}))[1]


EVICTED = {
    "reason": "Evicted",
    "message": "low on memory",
    "containerStatuses": None,
    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T11:59:30Z"}],
}


def decided(obj: Object, policy: str) -> Decision:
    job = read(manifest(workers=1, policy=policy))
    return decide(PYTORCH_JOB, job, Observed((obj,)), KUBERNETES, NOON)


@pytest.mark.parametrize("kept", [from_list, from_watch])
@pytest.mark.parametrize("policy", ["OnFailure", "Never", "ExitCode"])
@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(whole("worker-0:Pending"), id="a pod that waits"),
        pytest.param(whole("worker-0:Running+2"), id="a pod that runs, after restarts"),
        pytest.param(whole("worker-0:Running!"), id="a pod that is going"),
        pytest.param(whole("worker-0:Succeeded"), id="a pod that succeeded, with exit code 0"),
        pytest.param(whole("worker-0:Failed=3~60"), id="a pod that failed"),
        pytest.param(whole("worker-0:Running^4"), id="a pod of another version"),
        pytest.param(whole("worker-7:Running"), id="a pod beyond the wanted number"),
        pytest.param(whole("worker-0:Failed", **EVICTED), id="a pod that was evicted"),
        pytest.param(
            whole("worker-0:Failed=137", containerStatuses=[oom({"name": "pytorch"})]),
            id="a pod that was out of memory",
        ),
        pytest.param(
            whole("worker-0:Pending", initContainerStatuses=[oom({"name": "wait", "restartCount": 3})]),
            id="an init container that failed",
        ),
        pytest.param(
            {**whole("worker-0:Running"), "metadata": {**whole("worker-0:Running")["metadata"], "ownerReferences": []}},
            id="a pod of somebody else",
        ),
    ],
)
def test_a_view_says_the_same(obj, policy, kept):
    view = kept({**obj, "status": {name: value for name, value in obj["status"].items() if value is not None}})

    assert decided(view, policy) == decided(obj, policy)


def test_a_view_has_what_every_object_must_have():
    view = from_watch(whole("worker-0:Running"))

    assert (view["apiVersion"], view["kind"], view["metadata"]["resourceVersion"]) == ("v1", "Pod", "7")
    assert from_list(whole("worker-0:Running")) == view


def test_a_view_is_small():
    view = from_watch(whole("worker-0:Running"))

    assert set(view["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences"}
    assert set(view["spec"]) == {"containers", "nodeName"}
    assert set(view["status"]) == {"phase", "containerStatuses"}


def test_a_view_says_the_same_about_room():
    obj = whole("worker-0:Running")
    step = {"name": "wait", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    gated = {"schedulingGates": [{"name": "g"}], "overhead": {"cpu": "1"}, "initContainers": [step]}
    obj = {**obj, "spec": {**obj["spec"], **gated}}

    assert replace(facts(from_watch(obj)), object=None) == replace(facts(obj), object=None)


def test_a_view_says_the_same_about_gangs():
    obj = whole("worker-0:Pending")
    meta = {**obj["metadata"], "annotations": {GANG_MIN_ANNOTATION: "3", "a": "b"}, "creationTimestamp": "2026-03-01"}
    common = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
    where = {
        "schedulingGates": [{"name": "g"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [common, {"key": "gpu", "operator": "Exists"}],
    }
    spec = {name: value for name, value in obj["spec"].items() if name != "nodeName"}
    waiting = {**obj, "metadata": meta, "spec": {**spec, **where}}
    view = from_watch(waiting)

    assert member(view) == member(waiting)
    assert view["spec"]["nodeSelector"] == where["nodeSelector"]
    assert view["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert "tolerations" not in from_watch({**waiting, "spec": {**waiting["spec"], "nodeName": "n"}})["spec"]


def test_a_node_keeps_what_it_offers():
    offers = {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "9"}, "images": [{"names": ["i"]}]}
    status = {**offers, "conditions": [{"type": "Ready", "status": "True", "message": "kubelet is posting"}]}
    meta = {"name": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
    taint = {"key": "gpu", "effect": "NoSchedule"}
    obj = {"metadata": meta, "spec": {"podCIDR": "10.0.0.0/24", "taints": [taint]}, "status": status}
    view = event_decoder(NodeView)(msgspec.json.encode({"type": "MODIFIED", "object": obj}))[1]

    assert (allocatable(view), usable(view), view["spec"]) == ({"cpu": 8000}, True, {"taints": [taint]})
    assert "images" not in view["status"]
