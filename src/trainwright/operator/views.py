"""What the operator keeps of a pod and of a node: what decisions look at, and nothing else.

Pods are what there is most of. Without their volumes, environments and addresses they take half the memory and a fifth
of the time to read. A test compares what is decided about whole pods and about these.
"""

from typing import Any

import msgspec


class _Part(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Fields that are not there stay away when the object is a dict again."""


class _Owner(_Part):
    uid: str = ""
    controller: bool = False


class _Metadata(_Part):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    owner_references: list[_Owner] = []


class _Resources(_Part):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class _Container(_Part):
    name: str = ""
    resources: _Resources | None = None


class _InitContainer(_Container):
    restart_policy: str | None = None


class _Spec(_Part):
    node_name: str | None = None
    containers: list[_Container] = []
    init_containers: list[_InitContainer] = []
    overhead: dict[str, Any] = {}
    scheduling_gates: list[dict[str, str]] = []


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
    """A node as the autoscaler hears of it."""

    metadata: _NodeMetadata
    api_version: str = ""
    kind: str = ""
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None
