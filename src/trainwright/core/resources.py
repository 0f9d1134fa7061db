"""The kinds of objects there are: group, version, plural, and what the API offers for each.

Rows for the built-in kinds we use stand here; job kinds bring their own row. A store or client is given rows and
knows nothing else of a kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resource:
    """One kind of object, as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = True
    """Whether status is a subresource: written apart from the rest, and ignored in ordinary writes."""
    size_path: tuple[str, ...] = ()
    """Where the scale subresource reads and writes the wanted number of replicas."""
    selectable: tuple[str, ...] = ()
    """Fields by which a list of this kind can be narrowed; any can be by name and namespace."""

    @property
    def api_version(self) -> str:
        """Return "v1" or "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


POD = Resource("", "v1", "pods", "Pod")
SERVICE = Resource("", "v1", "services", "Service")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", status=False)
SECRET = Resource("", "v1", "secrets", "Secret", status=False)
EVENT = Resource("", "v1", "events", "Event", status=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", size_path=("spec", "replicas"))
BATCH_JOB = Resource("batch", "v1", "jobs", "Job")
AUTOSCALER = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", status=False)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", status=False)
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", status=False)
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", status=False)
VOLUME_CLAIM = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
RESOURCE_QUOTA = Resource("", "v1", "resourcequotas", "ResourceQuota")
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, status=False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease", status=False)
POD_GROUP = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
"""Volcano's; the next two are that of Kubernetes itself and that of the coscheduling plugin."""
NATIVE_POD_GROUP = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
PLUGIN_POD_GROUP = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

BUILT_IN = (
    POD,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    EVENT,
    NODE,
    NAMESPACE,
    STATEFUL_SET,
    BATCH_JOB,
    AUTOSCALER,
    RESOURCE_QUOTA,
    PRIORITY_CLASS,
)
SUPPORTING = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, NETWORK_POLICY, VOLUME_CLAIM, POD_GROUP)
"""Kinds that jobs get where they need them; a local home keeps such objects, and most mean nothing there."""


def resource_of(obj: dict[str, Any], rows: Iterable[Resource]) -> Resource:
    """Return the row for an object's apiVersion and kind, or raise KeyError with both."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    for row in rows:
        if row.kind == kind and row.api_version == version:
            return row
    raise KeyError(f"no resource is known for apiVersion {version!r}, kind {kind!r}")
