"""What Kubeflow's kinds have in common: the run policy that users write, and the status that they read.

The status is written by `reconcile/status.py`; users and their tools only read it.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from dataclasses import dataclass
from typing import Any

from trainwright.api.common import CleanPods, RunPolicy
from trainwright.api.reader import Shape, entry
from trainwright.core.objects import Object

MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True)
class SchedulingPolicy:
    """How the job's pods are scheduled together."""

    min_available: int | None = entry("How many pods must fit before any starts.", minimum=1)
    queue: str | None = entry("The queue of the gang scheduler; it cannot be changed.", immutable=True)
    min_resources: dict[str, Any] | None = entry(
        "What must be free before any pod starts.",
        shape=Shape("object", values=Shape("int-or-quantity")),
    )
    priority_class: str | None = entry("The priority class of the gang.")
    schedule_timeout_seconds: int | None = entry("How long a gang scheduler may try.", minimum=0)


@dataclass(frozen=True)
class RunPolicySpec:
    """How long the job may live, how often it may fail, and what is left of it."""

    clean_pod_policy: CleanPods | None = entry("Which pods are deleted when the job has ended.")
    ttl_seconds_after_finished: int | None = entry("When a job that has ended is deleted.", minimum=0)
    active_deadline_seconds: int | None = entry("How long the job may be active.", minimum=1, wide=True)
    backoff_limit: int | None = entry("How many restarts make the job fail.", minimum=0)
    suspend: bool | None = entry("Whether the job shall have no pods for now.")
    scheduling_policy: SchedulingPolicy | None = entry("How the pods are scheduled together.")
    managed_by: str | None = entry("Who looks after the job; each kind says who may.")


def manager(ours: str) -> Any:
    """Describe the field that says who looks after a job: the operator of its kind, or MultiKueue."""
    return entry(
        "Who looks after the job; it cannot be changed.",
        immutable=True,
        shape=Shape("string", enum=(ours, MULTIKUEUE)),
    )


def read_run_policy(policy: RunPolicySpec, ours: str) -> RunPolicy:
    """Return the policy as decisions look at it."""
    return RunPolicy(
        clean_pods=policy.clean_pod_policy or "None",
        ttl_seconds=policy.ttl_seconds_after_finished,
        deadline_seconds=policy.active_deadline_seconds,
        backoff_limit=policy.backoff_limit,
        suspend=bool(policy.suspend),
        gang_min=policy.scheduling_policy.min_available if policy.scheduling_policy else None,
        external=policy.managed_by not in (None, ours),
    )


@dataclass(frozen=True)
class Condition:
    """One thing that is, or was, the case with a job."""

    type: str | None = entry("Created, Running, Restarting, Suspended, Succeeded or Failed.", required=True)
    status: str | None = entry("True, False or Unknown.", required=True)
    reason: str | None = entry("Why, in one word.")
    message: str | None = entry("Why, in a sentence.")
    last_update_time: str | None = entry("When the condition was last written.")
    last_transition_time: str | None = entry("When the condition last became true or false.")


@dataclass(frozen=True)
class ReplicaStatus:
    """How the pods of one role are."""

    active: int | None = entry("How many pods run.")
    succeeded: int | None = entry("How many pods have succeeded.")
    failed: int | None = entry("How many pods have failed.")
    selector: str | None = entry("The labels of the role's pods; a horizontal pod autoscaler counts by it.")


@dataclass(frozen=True)
class Status:
    """How the job is."""

    conditions: tuple[Condition, ...] = entry("What is the case; the last one is the job's state.", default=())
    active: str | None = entry("How many pods run, of how many there should be.")
    restarts: int | None = entry("How often containers were restarted and pods made again, over the whole life.")
    replica_statuses: dict[str, ReplicaStatus] | None = entry("How the pods of each role are.")
    start_time: str | None = entry("When the job was first looked after, or last resumed.")
    completion_time: str | None = entry("When the job succeeded or failed.")
    last_reconcile_time: str | None = entry("Kubeflow's; we do not write it.")
    record: Object | None = entry(
        "What the operator remembers between two looks at the job.", shape=Shape("object", preserved=True)
    )
