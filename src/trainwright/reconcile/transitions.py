"""What every action does to a Volcano Job in every phase: a table, and nothing else.

An event (a pod failed, a task completed) calls for an action by the job's policies; a command calls for one by itself.
What the action does depends on the phase alone and stands in `TRANSITIONS`; a cell that is not there does nothing.
`OWN_WAY` says where a phase leads without any action. docs/kinds/volcano-job.md prints these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from trainwright.api.volcano_spec import Action

Phase = Literal[
    "Pending",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Aborting",
    "Aborted",
    "Terminating",
    "Terminated",
    "Failed",
]
PHASES: tuple[Phase, ...] = get_args(Phase)

Event = Literal["PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown"]
EVENTS: Mapping[Event, str] = {
    "TaskCompleted": "every replica of a task has succeeded; told once, and again after the task was run again",
    "TaskFailed": "the containers of a task's pods were restarted `maxRetry` times in all; told again as it goes on",
    "PodFailed": "a pod has failed; an exit code is that of its first container",
    "PodEvicted": "a pod is gone before it had ended, and neither a restart nor a smaller `replicas` has removed it",
    "Unknown": "the scheduler says of the job's PodGroup that its state is not known",
    "PodPending": "a pod is there and does not run; only policies with a `timeout` look at it",
}
"""What may happen, in the order in which it is looked at: of two that happen at once, the first one's policy acts."""

ACTIONS: tuple[Action, ...] = get_args(Action)
TARGETED: frozenset[str] = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
"""Actions on a part of the job; all others are about the whole of it."""


@dataclass(frozen=True)
class Effect:
    """What an action does: which pods it removes, where it leads, whether it counts as a run."""

    removes: Literal["all pods", "unfinished pods", "the target's pods"]
    to: Phase
    counted: bool = False
    """It uses up one of the runs `maxRetry` allows."""

    def __str__(self) -> str:
        return f"remove {self.removes} → {self.to}" + (", counted" if self.counted else "")


_STOP: Mapping[str, Effect] = {
    "AbortJob": Effect("unfinished pods", "Aborting"),
    "TerminateJob": Effect("unfinished pods", "Terminating"),
    "CompleteJob": Effect("unfinished pods", "Completing"),
}
_TARGET = Effect("the target's pods", "Restarting")
_COUNTED_TARGET = Effect("the target's pods", "Restarting", counted=True)
_ALIVE: Mapping[str, Effect] = {
    **_STOP,
    "RestartJob": Effect("all pods", "Restarting", counted=True),
    "RestartTask": _COUNTED_TARGET,
    "RestartPod": _COUNTED_TARGET,
    "RestartPartition": _COUNTED_TARGET,
}
_RESUME: Mapping[str, Effect] = {"ResumeJob": Effect("unfinished pods", "Restarting")}

TRANSITIONS: Mapping[Phase, Mapping[str, Effect]] = {
    "Pending": _ALIVE,
    "Running": _ALIVE,
    "Restarting": {
        **_STOP,
        "RestartJob": Effect("all pods", "Restarting"),
        "RestartTask": _TARGET,
        "RestartPod": _TARGET,
        "RestartPartition": _TARGET,
    },
    "Aborting": _RESUME,
    "Aborted": _RESUME,
    "Completing": {},
    "Completed": {},
    "Terminating": {},
    "Terminated": {},
    "Failed": {},
}

OWN_WAY: Mapping[Phase, str] = {
    "Pending": "makes pods → Running when `minAvailable` pods run or have ended",
    "Running": "makes pods → Completed or Failed when enough have ended, → Pending when too few are left",
    "Restarting": "waits for pods to go → Failed after `maxRetry` runs, else → Pending",
    "Completing": "waits for pods to go → Completed",
    "Completed": "for good",
    "Aborting": "waits for pods to go → Aborted",
    "Aborted": "until it is resumed",
    "Terminating": "waits for pods to go → Terminated",
    "Terminated": "for good",
    "Failed": "for good",
}
"""Where a phase leads when no action is called for."""

ALIVE: frozenset[Phase] = frozenset({"Pending", "Running", "Restarting"})
"""Phases in which events are looked at; in the others a job is being stopped, or has been."""
STOPPING: Mapping[Phase, Phase] = {"Completing": "Completed", "Aborting": "Aborted", "Terminating": "Terminated"}
"""Phases in which a job waits until no pod is left that could still do something, and what comes then."""
FINISHED: frozenset[Phase] = frozenset({"Completed", "Failed", "Terminated"})
"""Phases no job leaves. An aborted one may be resumed."""


def effect(phase: Phase, action: str) -> Effect | None:
    """Return what an action does in a phase; None if nothing."""
    return TRANSITIONS[phase].get(action)
