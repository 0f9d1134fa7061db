"""Volcano's Job as dataclasses: every field a user may write, and the status `kubectl explain` tells of.

No rules that relate one field to another: those are in `volcano_checks.py`. A text that Go would take for absent when
it is empty ("") is taken so here too.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from dataclasses import dataclass
from typing import Any, Literal

from trainwright.api import pod_template, reader
from trainwright.api.duration import DURATION
from trainwright.api.envelope import MOST_PODS
from trainwright.api.reader import Shape, Text, entry, shape_of
from trainwright.core.objects import Object

ANY_EVENT = "*"
Event = Literal["*", "PodPending", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"]
Action = Literal[
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_RULE = "at most 63 small letters, digits and '-', beginning and ending with a letter or digit"
_SUBDOMAIN = rf"^({_LABEL}(\.{_LABEL})*)?$"
_SUBDOMAIN_RULE = "small letters, digits, '-' and '.', beginning and ending with a letter or digit"


def _subdomain(what: str) -> Shape:
    return Shape("string", text=Text(what, _SUBDOMAIN, _SUBDOMAIN_RULE, longest=253))


_DURATION = Shape("string", text=DURATION)
_CLAIM = reader.shapes("""
Claim: accessModes:[ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod] dataSource:any dataSourceRef:any
  resources:Resources selector:any storageClassName:str volumeAttributesClassName:str volumeMode:Filesystem|Block
  volumeName:str
Resources: limits:{int-or-quantity} requests:{int-or-quantity}
""")["Claim"]


@dataclass(frozen=True)
class LifecyclePolicy:
    """What shall happen when something has happened to a pod: events or an exit code, and the action."""

    action: Action | None = entry("What shall happen, such as RestartJob.", required=True)
    event: Event | None = entry("What must have happened; * is anything.")
    events: tuple[Event, ...] = entry("Several events, any of which is enough.", default=())
    exit_code: int | None = entry("With which code a pod's first container must have failed.")
    timeout: str | None = entry("How long the action waits for the matter to settle, such as 10m.", shape=_DURATION)


@dataclass(frozen=True)
class NetworkTopology:
    """How near to each other the pods must be."""

    mode: Literal["hard", "soft"] | None = entry("Whether the pods wait for such a place (hard) or rather run.")
    highest_tier_allowed: int | None = entry("The highest tier of the network the pods may span.", minimum=0)
    highest_tier_name: str | None = entry("The same tier, by its name.")


@dataclass(frozen=True)
class PartitionPolicy:
    """How a task's pods are divided into groups of neighbours."""

    total_partitions: int | None = entry("How many groups there are.", required=True, minimum=1, maximum=MOST_PODS)
    partition_size: int | None = entry("How many pods are in each.", required=True, minimum=1, maximum=MOST_PODS)
    min_partitions: int | None = entry("How many groups the job needs; 0: the task says it in pods.", minimum=0)
    network_topology: NetworkTopology | None = entry("How near to each other the pods of a group must be.")


@dataclass(frozen=True)
class DependsOn:
    """The tasks that must be up before a task starts."""

    name: tuple[str, ...] = entry("The names of those tasks.", default=())
    iteration: Literal["any", "all"] | None = entry("Whether one of them is enough, or all must be up.")


@dataclass(frozen=True)
class Task:
    """Pods that are made from one template."""

    name: str | None = entry(
        "The task's name; default0, default1 and so on unless given.",
        shape=Shape("string", text=Text("a task's name", f"^({_LABEL})?$", _LABEL_RULE, longest=63)),
    )
    replicas: int | None = entry("How many pods the task has.", minimum=0, maximum=MOST_PODS)
    min_available: int | None = entry("How many of them the job needs; all unless given.", minimum=0)
    template: Object | None = entry("The pod template.", required=True, shape=pod_template.TEMPLATE)
    policies: tuple[LifecyclePolicy, ...] = entry("What shall happen; tried before those of the job.", default=())
    topology_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = entry(
        "How a pod's processors and memory must lie to each other on its node."
    )
    max_retry: int | None = entry("How many restarts of containers are a failure of the task.", minimum=0)
    depends_on: DependsOn | None = entry("The tasks that must be up before this one starts.")
    partition_policy: PartitionPolicy | None = entry("How the pods are divided into groups of neighbours.")


@dataclass(frozen=True)
class Volume:
    """A claim that every container of every task mounts."""

    mount_path: str | None = entry(
        "Where the containers find it.",
        required=True,
        shape=Shape("string", text=Text("a path to mount at", "^[^:]+$", "a path without ':', such as /data")),
    )
    volume_claim_name: str | None = entry("The name of a claim that is there.", shape=_subdomain("the name of a claim"))
    volume_claim: dict[str, Any] | None = entry("A claim that is made for the job.", shape=_CLAIM)


@dataclass(frozen=True)
class Spec:
    """What the job shall be."""

    scheduler_name: str | None = entry(
        "Who schedules the pods; it cannot be changed.",
        immutable=True,
        shape=Shape("string", text=Text("a scheduler's name", "^.*$", "at most 63 characters in one line", longest=63)),
    )
    min_available: int | None = entry("How many pods must fit before any starts.", minimum=0)
    volumes: tuple[Volume, ...] = entry("Claims that all containers mount.", default=())
    tasks: tuple[Task, ...] = entry(
        "The tasks, each with a template and a number of pods.",
        required=True,
        default=(),
        shape=Shape("array", items=shape_of(Task), fewest=1),
    )
    policies: tuple[LifecyclePolicy, ...] = entry("What shall happen when something happens to a pod.", default=())
    plugins: dict[str, tuple[str, ...]] | None = entry("The plugins the job asks for, each with its flags.")
    running_estimate: str | None = entry("How long the job will run, for its readers.", shape=_DURATION)
    queue: str | None = entry(
        "The queue of the gang scheduler; it cannot be changed.", immutable=True, shape=_subdomain("a queue's name")
    )
    max_retry: int | None = entry("How many runs there may be in all; 3 unless given.", minimum=0)
    ttl_seconds_after_finished: int | None = entry("When a job that has ended is deleted.", minimum=0)
    priority_class_name: str | None = entry(
        "The priority class of the pods.", shape=_subdomain("the name of a priority class")
    )
    min_success: int | None = entry("How many pods that succeed make the job a success.", minimum=1)
    network_topology: NetworkTopology | None = entry("How near to each other the pods must be.")
    elastic_replicas: int | None = entry(
        "How many pods the elastic task shall have now; ours, and not Volcano's.", minimum=0, maximum=MOST_PODS
    )


# Status


@dataclass(frozen=True)
class State:
    """Where the job stands."""

    phase: str | None = entry(
        "Pending, Running, Restarting, Completing, Completed, Aborting, Aborted, Terminating, Terminated or Failed."
    )
    reason: str | None = entry("Why, in one word.")
    message: str | None = entry("Why, in a sentence.")
    last_transition_time: str | None = entry("When the phase last changed.")


@dataclass(frozen=True)
class Condition:
    """A phase the job has been in."""

    status: str | None = entry("The phase.", required=True)
    last_transition_time: str | None = entry("When the job came into it.")


@dataclass(frozen=True)
class TaskState:
    """How the pods of one task are."""

    phase: dict[str, int] | None = entry("How many pods are in each phase.")


@dataclass(frozen=True)
class Status:
    """How the job is."""

    state: State | None = entry("Where the job stands.")
    min_available: int | None = entry("How many pods the job needs.")
    task_status_count: dict[str, TaskState] | None = entry("How the pods of each task are.")
    pending: int | None = entry("How many pods wait.")
    running: int | None = entry("How many pods run.")
    succeeded: int | None = entry("How many pods have succeeded.")
    failed: int | None = entry("How many pods have failed.")
    terminating: int | None = entry("How many pods are being ended.")
    unknown: int | None = entry("How many pods nobody has heard of.")
    version: int | None = entry("How often all pods of the job were ended together.")
    retry_count: int | None = entry("How often the job was restarted.")
    running_duration: str | None = entry("How long the job was there until it ended.")
    controlled_resources: dict[str, str] | None = entry("What plugins and volumes have brought.")
    conditions: tuple[Condition, ...] = entry("The phases the job has been in, the last one at the end.", default=())
    elastic_replicas: int | None = entry("How many pods of the elastic task are active.")
    elastic_selector: str | None = entry("The labels of the elastic task's pods; an autoscaler counts by it.")
    record: Object | None = entry(
        "What the operator remembers between two looks at the job.", shape=Shape("object", preserved=True)
    )
