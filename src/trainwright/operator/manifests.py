"""What `tw install` prints: the kinds, and everything the operator needs to run inside a cluster.

One replica, replaced and never doubled: there is no leader election yet, and two operators would only repeat each
other's calls.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS
from trainwright.operator.crds import definitions
from trainwright.operator.rights import REGISTER_RIGHTS, RIGHTS, SCALING_RIGHTS, rules
from trainwright.operator.serve import SHUTDOWN_SECONDS

NAME = "trainwright"
NAMESPACE = "trainwright-system"
PORT = 8080
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "operator"}
_NOBODY = 65532


@dataclass(frozen=True)
class Installation:
    """What may differ between two clusters."""

    namespace: str = NAMESPACE
    image: str = KUBERNETES.wait_image
    install_crds: bool = False
    """The operator registers the kinds itself."""


def manifests(installation: Installation) -> Iterator[Object]:
    """Yield everything to apply, in an order that works in one go."""
    if not installation.install_crds:
        yield from definitions(KINDS)
    yield from operator_manifests(installation)


def operator_manifests(installation: Installation) -> Iterator[Object]:
    """Yield everything but the kinds."""
    namespace = installation.namespace
    yield {
        **_named("v1", "Namespace", namespace),
        "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    yield _named("v1", "ServiceAccount", NAME, namespace)
    role = _named("rbac.authorization.k8s.io/v1", "ClusterRole", NAME)
    rights = (*RIGHTS, *SCALING_RIGHTS, *(REGISTER_RIGHTS if installation.install_crds else ()))
    yield {**role, "rules": rules(rights)}
    yield {
        **_named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", NAME),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    yield {
        **_named("v1", "Service", NAME, namespace),
        "spec": {"selector": _LABELS, "ports": [{"name": "metrics", "port": PORT, "targetPort": "http"}]},
    }
    yield {
        **_named("apps/v1", "Deployment", NAME, namespace),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(installation)},
        },
    }


def _pod(installation: Installation) -> Object:
    return {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(SHUTDOWN_SECONDS) + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "operator",
                "image": installation.image,
                "command": ["tw", "operator"],
                "args": [
                    f"--metrics-address=:{PORT}",
                    "--log-format=json",
                    f"--image={installation.image}",
                    *(["--install-crds"] if installation.install_crds else []),
                ],
                "ports": [{"name": "http", "containerPort": PORT}],
                "livenessProbe": _probe("/healthz", seconds=20),
                "readinessProbe": _probe("/readyz", seconds=5),
                # No limits: what the caches need grows with the jobs, and killing an operator for it helps nobody.
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def _probe(path: str, seconds: int) -> Object:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": seconds, "timeoutSeconds": 5}


def _named(version: str, kind: str, name: str, namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place, "labels": _LABELS}}
