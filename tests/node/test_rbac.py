"""What a service account may do: one rule per line of Kubernetes' own manual."""

import pytest

from trainwright.core.objects import Object
from trainwright.node.rbac import Account, Call, allowed

LAUNCHER = Account("ns", "launcher")
EXEC = Call("create", "pods/exec", "ns", "worker-0")


def role(namespace: str = "ns", name: str = "launcher", **rule: list[str]) -> Object:
    given = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], **rule}
    return {"metadata": {"namespace": namespace, "name": name}, "rules": [given]}


def binding(namespace: str = "ns", kind: str = "Role", **subject: str) -> Object:
    given = {"kind": "ServiceAccount", "name": "launcher", "namespace": "ns", **subject}
    return {
        "metadata": {"namespace": namespace, "name": "any"},
        "roleRef": {"kind": kind, "name": "launcher"},
        "subjects": [given],
    }


@pytest.mark.parametrize(
    ("role", "binding", "good"),
    [
        pytest.param(role(), binding(), True, id="a bound Role allows what it names"),
        pytest.param(role(resourceNames=["worker-0"]), binding(), True, id="for the pods it names"),
        pytest.param(role(resourceNames=["worker-1"]), binding(), False, id="and for no others"),
        pytest.param(role(verbs=["get"]), binding(), False, id="not with another verb"),
        pytest.param(role(verbs=["*"]), binding(), True, id="a star is every verb"),
        pytest.param(role(resources=["pods"]), binding(), False, id="a pod is not its exec"),
        pytest.param(role(apiGroups=["apps"]), binding(), False, id="not in another group"),
        pytest.param(role(namespace="other"), binding(namespace="other"), False, id="not in another namespace"),
        pytest.param(role(name="unbound"), binding(), False, id="not by a Role that is not bound"),
        pytest.param(role(), binding(name="other"), False, id="not to another account"),
        pytest.param(role(), binding(namespace="ns", kind="ClusterRole"), False, id="not by a ClusterRole"),
        pytest.param(role(), {**binding(), "subjects": []}, False, id="not to nobody"),
    ],
)
def test_what_an_account_may(role, binding, good):
    assert allowed(LAUNCHER, EXEC, [role], [binding]) is good


def test_a_refusal_is_worded_as_the_api_server_does():
    assert EXEC.refusal(LAUNCHER) == (
        'pods "worker-0" is forbidden: User "system:serviceaccount:ns:launcher" cannot create resource '
        '"pods/exec" in API group "" in the namespace "ns"'
    )
