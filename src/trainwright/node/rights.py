"""What a node calls on an API server, and why: its ClusterRole and Role are made from this table.

A node reads ConfigMaps and Secrets by name only, but of any pod: whoever may bind pods to a node, or is the node, can
read them. It may ask for tokens of any account, too, so whoever is the node can be anybody who has pods. The API
server's own limits for nodes (authorizer `Node`) hold for nodes in the group `system:nodes`; an account with these
rights is not one of them.
"""

from collections.abc import Iterable

from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, EVENT, LEASE, NODE, POD, SECRET, SERVICE, SERVICE_ACCOUNT, Resource
from trainwright.node.lease import NAMESPACE

NAME = "trainwright-node"
ACCOUNT_NAMESPACE = "kube-system"

RIGHTS: dict[tuple[Resource, str], dict[str, str]] = {
    (NODE, ""): {
        "create": "register itself",
        "get": "see whether it was given up or deleted",
        "patch": "label itself when it comes back",
    },
    (NODE, "status"): {"patch": "say what it offers, where it listens and that it is ready"},
    (POD, ""): {
        "list": "find its pods, and the addresses behind the names of Services",
        "watch": "hear of pods that come, change and go",
        "delete": "let go of a pod that has stopped",
    },
    (POD, "status"): {"patch": "say how its pods are"},
    (SERVICE, ""): {"list": "know the names pods look up", "watch": "hear of new ones"},
    (CONFIG_MAP, ""): {"get": "give pods the environment and the volumes they ask for"},
    (SECRET, ""): {"get": "the same"},
    (SERVICE_ACCOUNT, "token"): {"create": "give pods the tokens by which the API server knows them"},
    (EVENT, ""): {"create": "tell users what happened to a pod", "patch": "count what happens again"},
}
"""What it needs in the whole cluster, by resource and subresource."""

LEASE_RIGHTS = {"create": "begin to give signs of life", "patch": "and give the next one"}
"""What it needs with Leases, in the namespace where nodes have theirs."""


def manifests() -> list[Object]:
    """Return an account for nodes and the rights it needs."""
    rules = [_rule(resource, part, verbs) for (resource, part), verbs in RIGHTS.items()]
    lease = [_rule(LEASE, "", LEASE_RIGHTS)]
    return [
        _object("v1", "ServiceAccount", {"namespace": ACCOUNT_NAMESPACE}),
        _object("rbac.authorization.k8s.io/v1", "ClusterRole", {}, rules=rules),
        _binding("ClusterRole", {}),
        _object("rbac.authorization.k8s.io/v1", "Role", {"namespace": NAMESPACE}, rules=lease),
        _binding("Role", {"namespace": NAMESPACE}),
    ]


def _rule(resource: Resource, part: str, verbs: Iterable[str]) -> Object:
    named = f"{resource.plural}/{part}" if part else resource.plural
    return {"apiGroups": [resource.group], "resources": [named], "verbs": list(verbs)}


def _binding(kind: str, meta: Object) -> Object:
    return _object(
        "rbac.authorization.k8s.io/v1",
        f"{kind}Binding",
        meta,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME},
        subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": ACCOUNT_NAMESPACE}],
    )


def _object(version: str, kind: str, meta: Object, **rest: object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NAME, **meta}, **rest}
