"""What `tw install` prints: the kinds, and everything the operator needs to run inside a cluster.

The Helm chart and the files in deploy/ are made from the same functions (tools/packaging.py, tools/chart.py).
`Installation` is what may differ between two clusters; it is checked where users write it, and here it is only carried
out.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from trainwright.core.objects import Object, Ref, ref
from trainwright.desired import KUBERNETES
from trainwright.kinds import KINDS
from trainwright.operator.configurations import PORT as WEBHOOK_PORT
from trainwright.operator.configurations import Webhooks, configurations
from trainwright.operator.crds import LABELS as KIND_LABELS
from trainwright.operator.crds import NAME, definitions
from trainwright.operator.gangs import Choice
from trainwright.operator.leader import lease_name
from trainwright.operator.rights import (
    GANG_RIGHTS,
    HANDOVER_RIGHTS,
    REGISTER_RIGHTS,
    RIGHTS,
    SCALING_RIGHTS,
    WEBHOOK_RIGHTS,
    Right,
    leader_rights,
)
from trainwright.operator.roles import roles
from trainwright.operator.serve import SHUTDOWN_SECONDS

NAMESPACE = "trainwright-system"
PORT = 8080
REPLICAS = 2
"""One works and the other waits, answers webhooks and takes over."""
Part = Literal["crds", "operator", "webhooks", "autoscaler", "leader-election", "metrics"]
PARTS: tuple[Part, ...] = get_args(Part)
_LABELS = {**KIND_LABELS, "app.kubernetes.io/component": "operator"}
_NOBODY = 65532


@dataclass(frozen=True)
class Installation:
    """What may differ between two clusters."""

    namespace: str = NAMESPACE
    image: str = KUBERNETES.wait_image
    watch: tuple[str, ...] = ()
    """The only namespaces whose jobs are looked after, with rights in these alone; none: all."""
    replicas: int = REPLICAS
    gang: Choice = "auto"
    """How pods that start together are kept together."""
    capacity: str = ""
    """What elastic jobs share where nodes cannot be seen: "cpu=64,memory=256Gi"."""
    without: frozenset[Part] = frozenset()
    install_crds: bool = False
    """The operator registers the kinds itself."""

    def has(self, part: Part) -> bool:
        """Say whether a part is installed. What belongs to the whole cluster goes with rights on the whole cluster."""
        return part not in self.without and not (self.watch and part in ("crds", "webhooks"))

    @property
    def rights(self) -> tuple[Right, ...]:
        """Return what the operator's account may do."""
        scaling = (each for each in SCALING_RIGHTS if not (self.capacity and each.scope == "cluster"))
        return (
            *RIGHTS,
            *HANDOVER_RIGHTS,
            *(scaling if self.has("autoscaler") else ()),
            *GANG_RIGHTS[self.gang],
            *(WEBHOOK_RIGHTS if self.has("webhooks") else ()),
            *(leader_rights(lease_name(self.watch)) if self.has("leader-election") else ()),
            *(REGISTER_RIGHTS if self.install_crds else ()),
        )


def manifests(installation: Installation, kept: Collection[Ref] = ()) -> Iterator[Object]:
    """Yield everything to apply, in an order that works in one go, but what is to be kept as it is there."""
    yield from (each for each in _all(installation) if ref(each) not in kept)


def _all(installation: Installation) -> Iterator[Object]:
    if installation.has("crds") and not installation.install_crds:
        yield from definitions(KINDS)
    if installation.has("operator"):
        yield from operator_manifests(installation)


def operator_manifests(installation: Installation) -> Iterator[Object]:
    """Yield everything but the kinds."""
    namespace = installation.namespace
    account = _named("v1", "ServiceAccount", NAME, namespace)
    if not installation.watch:  # who may only make Roles cannot make namespaces
        yield _namespace(namespace)
    yield account
    yield from roles(installation.rights, account, installation.watch, _LABELS)
    if ports := list(_service_ports(installation)):
        yield {**_named("v1", "Service", NAME, namespace), "spec": {"selector": _LABELS, "ports": ports}}
    webhooks = Webhooks(namespace=namespace, service=NAME)
    if installation.has("webhooks"):  # empty: the operator fills it, and needs no right to make Secrets here
        yield {**_named("v1", "Secret", webhooks.secret, namespace), "type": "Opaque"}
    yield _deployment(installation)
    if installation.replicas > 1:
        yield {
            **_named("policy/v1", "PodDisruptionBudget", NAME, namespace),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}},
        }
    if installation.has("webhooks"):
        yield from (_labelled(each) for each in configurations(webhooks))


def _namespace(name: str) -> Object:
    labels = {**_LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _service_ports(installation: Installation) -> Iterator[Object]:
    if installation.has("metrics"):
        yield {"name": "metrics", "port": PORT, "targetPort": "http"}
    if installation.has("webhooks"):
        yield {"name": "webhooks", "port": 443, "targetPort": "webhooks"}


def _deployment(installation: Installation) -> Object:
    # Without leader election two operators would only repeat each other's calls, so the old one goes first.
    strategy: Object = {"type": "Recreate"}
    if installation.has("leader-election"):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    return {
        **_named("apps/v1", "Deployment", NAME, installation.namespace),
        "spec": {
            "replicas": installation.replicas,
            "strategy": strategy,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(installation)},
        },
    }


def _pod(installation: Installation) -> Object:
    return {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(SHUTDOWN_SECONDS) + 10,
        "affinity": _apart(),
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
                "args": list(_flags(installation)),
                "ports": list(_container_ports(installation)),
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


def _container_ports(installation: Installation) -> Iterator[Object]:
    yield {"name": "http", "containerPort": PORT}
    if installation.has("webhooks"):
        yield {"name": "webhooks", "containerPort": WEBHOOK_PORT}


def _flags(installation: Installation) -> Iterator[str]:
    yield f"--metrics-address=:{PORT}"
    yield "--log-format=json"
    yield f"--image={installation.image}"
    if installation.watch:
        yield f"--namespace={','.join(installation.watch)}"
    if installation.install_crds:
        yield "--install-crds"
    if installation.has("webhooks"):
        yield "--webhooks"
    if not installation.has("leader-election"):
        yield "--no-leader-elect"
    if not installation.has("autoscaler"):
        yield "--no-autoscaler"
    yield f"--gang={installation.gang}"
    if installation.capacity:
        yield f"--capacity={installation.capacity}"


def _apart() -> Object:
    """Return the wish that two operators are not on one node, which would take both along."""
    term = {"labelSelector": {"matchLabels": _LABELS}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _probe(path: str, seconds: int) -> Object:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": seconds, "timeoutSeconds": 5}


def _named(version: str, kind: str, name: str, namespace: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": _LABELS}}


def _labelled(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": _LABELS}}
