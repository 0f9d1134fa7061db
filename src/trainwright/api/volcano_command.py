"""Command (bus.volcano.sh/v1alpha1): something that shall be done to a job once, such as abort or resume.

A Command has neither spec nor status: what it says stands beside its metadata. Volcano's own commands for queues have
the same kind; they are nobody's business here, and pass.
"""

# ruff: noqa: RUF009 - `entry` makes a dataclass field, as `field` does

from dataclasses import dataclass
from typing import get_args

from trainwright.api import pod_template
from trainwright.api.reader import Shape, build, entry, not_one_of, shape_of, walk
from trainwright.api.volcano_job import RESOURCE
from trainwright.api.volcano_spec import Action
from trainwright.core.errors import Problem
from trainwright.core.objects import Object

ACTIONS = tuple(action for action in get_args(Action) if action.endswith("Job"))
"""What can be done to a whole job: a Command names no task and no pod."""


@dataclass(frozen=True)
class Target:
    """The job it is for."""

    api_version: str | None = entry("The version of the job's kind.", required=True)
    kind: str | None = entry("The kind of the job.", required=True)
    name: str | None = entry("The job's name.", required=True)
    uid: str | None = entry("The job's uid; a job of that name with another uid is left alone.")
    controller: bool | None = entry("As in every reference to an owner.")
    block_owner_deletion: bool | None = entry("As in every reference to an owner.")


@dataclass(frozen=True)
class Command:
    """Something that shall be done to a job, once."""

    action: str | None = entry(f"What shall be done: {', '.join(ACTIONS)}.", required=True)
    target: Target | None = entry("The job, in the same namespace.", required=True)
    reason: str | None = entry("Why, in one word.")
    message: str | None = entry("Why, in a sentence.")


DOCUMENT = Shape(
    "object",
    doc=shape_of(Command).doc,
    fields={
        "apiVersion": Shape("string"),
        "kind": Shape("string"),
        "metadata": Shape("object"),  # what is inside is an API server's own business
        **shape_of(Command).fields,
    },
    required=("action", "target"),
)
"""The shape of the whole object."""


def check(obj: Object) -> list[Problem]:
    """Return everything that is wrong with a Command."""
    command = build(Command, obj)
    metadata = obj.get("metadata")
    found = [*walk(DOCUMENT, obj), *pod_template.check_metadata(metadata, "metadata")]
    if isinstance(metadata, dict):
        found += walk(pod_template.METADATA, metadata, "metadata")
    if command.action is not None and is_for_a_job(command.target) and command.action not in ACTIONS:
        found.append(Problem("action", not_one_of(command.action, ACTIONS)))
    return found


def is_for_a_job(target: Target | None) -> bool:
    """Say whether what a Command is for is a job of ours."""
    return target is not None and (target.api_version, target.kind) == (RESOURCE.api_version, RESOURCE.kind)
