"""The status of Kubeflow's kinds: what `kubectl explain` says of it, and the columns of `kubectl get`.

Written by `reconcile/status.py`; users and their tools only read it.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from dataclasses import dataclass

from trainwright.api.reader import Shape, entry
from trainwright.core.objects import Object


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
