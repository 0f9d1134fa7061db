"""What the operator keeps of a pod and of a node: what decisions look at, and nothing else.

Pods are what there is most of. Without their volumes, environments and addresses they take half the memory and a fifth
of the time to read. A test compares what is decided about whole pods and about these.
"""

from typing import Any

import msgspec

from trainwright.core.names import GANG_MIN_ANNOTATION
from trainwright.core.objects import Object

_TOLERATED_BY_ALL = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""What the API server has every pod tolerate for a while; no node that takes pods has these."""


class _Part(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Fields that are not there stay away when the object is a dict again."""


class _Owner(_Part):
    uid: str = ""
    controller: bool = False


class _Annotations(_Part):
    gang_min: str | None = msgspec.field(default=None, name=GANG_MIN_ANNOTATION)


class _Metadata(_Part):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: _Annotations | None = None
    owner_references: list[_Owner] = []

    def __post_init__(self) -> None:
        if self.annotations is not None and self.annotations.gang_min is None:
            self.annotations = None


class _Resources(_Part):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class _Container(_Part):
    name: str = ""
    resources: _Resources | None = None


class _InitContainer(_Container):
    restart_policy: str | None = None


class _Affinity(_Part):
    node_affinity: dict[str, Any] = {}


class _Toleration(_Part):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Spec(_Part):
    node_name: str | None = None
    containers: list[_Container] = []
    init_containers: list[_InitContainer] = []
    overhead: dict[str, Any] = {}
    scheduling_gates: list[dict[str, str]] = []
    priority: int | None = None
    node_selector: dict[str, str] = {}
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] = []

    def __post_init__(self) -> None:
        """Forget what decides where a pod may go once it has gone, and what every pod tolerates."""
        if self.node_name:
            self.node_selector, self.affinity, self.tolerations, self.priority = {}, None, [], None
        elif self.tolerations:
            self.tolerations = [each for each in self.tolerations if each.key not in _TOLERATED_BY_ALL]


class _ContainerStatus(_Part):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: dict[str, Any] = {}
    last_state: dict[str, Any] = {}


class _Condition(_Part):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(_Part):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] = []
    init_container_statuses: list[_ContainerStatus] = []
    container_statuses: list[_ContainerStatus] = []


class PodView(_Part):
    """A pod as the operator's cache keeps it."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""
    spec: _Spec | None = None
    status: _Status | None = None


class _NodeMetadata(_Part):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Taint(_Part):
    key: str = ""
    value: str = ""
    effect: str = ""


class _NodeSpec(_Part):
    unschedulable: bool = False
    taints: list[_Taint] = []


class _NodeStatus(_Part):
    allocatable: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    conditions: list[_Condition] = []


class NodeView(_Part):
    """A node as the autoscaler and the gates hear of it."""

    metadata: _NodeMetadata
    api_version: str = ""
    kind: str = ""
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


def identity(obj: Object) -> Object:
    """Return what a cache must keep of an object that was counted: by which it knows it again."""
    meta = obj["metadata"]
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in meta}
    return {"metadata": kept}
