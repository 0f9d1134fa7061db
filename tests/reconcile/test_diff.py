"""What stands around the pods of a job: what is put right, and what is no difference."""

from copy import deepcopy

import pytest
from tests.frameworks.volcano import manifest

from trainwright.core.actions import Patch
from trainwright.core.objects import Object, ref
from trainwright.desired import KUBERNETES
from trainwright.kinds import VOLCANO_JOB
from trainwright.reconcile.diff import difference
from trainwright.reconcile.kind import Sight
from trainwright.reconcile.record import Record

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def publish(service: Object) -> None:
    service["spec"]["publishNotReadyAddresses"] = True


def leave_out(service: Object) -> None:
    del service["spec"]["publishNotReadyAddresses"]


def fill_in(service: Object) -> None:
    service["spec"] |= {"type": "ClusterIP", "ipFamilies": ["IPv4"]}


def open_up(policy: Object) -> None:
    policy["spec"]["ingress"] = []


def grow(claim: Object) -> None:
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi"


@pytest.mark.parametrize(
    ("kind", "change", "patch"),
    [
        pytest.param(
            "Service", publish, {"spec": {"publishNotReadyAddresses": False}}, id="a change by hand is undone"
        ),
        pytest.param("Service", fill_in, None, id="what the server fills in stays"),
        pytest.param("Service", leave_out, None, id="what it leaves out because it is false is not missing"),
        pytest.param("NetworkPolicy", open_up, "spec", id="an empty list is a change where ours is not"),
        pytest.param("PersistentVolumeClaim", grow, None, id="a claim that was made larger is left alone"),
    ],
)
def test_what_is_put_right(kind, change, patch):
    written = manifest("main:1", svc=[])
    written["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaim": CLAIM}]
    job = VOLCANO_JOB.read(VOLCANO_JOB.default(written))
    desired = VOLCANO_JOB.build(job, KUBERNETES, 0)
    there = {ref(each.object): deepcopy(each.object) for each in desired.support}
    for name, obj in there.items():
        if name.kind == kind:
            change(obj)

    found = [each for each in difference(job, desired, Sight((), there), Record()) if isinstance(each, Patch)]

    assert [each.ref.kind for each in found] == ([kind] if patch else [])
    assert all(patch in ("spec", each.patch) for each in found)
