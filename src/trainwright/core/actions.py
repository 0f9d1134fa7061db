"""Create, Patch, Delete, Emit: all a decision may ask for, and the Decision that asks.

Actions are values. Whoever carries them out treats "already there" for Create and "not there" for Delete as done,
so that repeating them after a crash is harmless.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from trainwright.core.objects import Object, Ref


@dataclass(frozen=True)
class Create:
    """Make an object that should exist. `fill` names a random value the one who acts puts in, once."""

    object: Object
    fill: str = ""

    def __str__(self) -> str:
        return f"create {self.object['kind']}/{self.object['metadata']['name']}"


@dataclass(frozen=True)
class Patch:
    """Change an object by a JSON merge patch."""

    ref: Ref
    patch: dict[str, Any]

    def __str__(self) -> str:
        return f"patch {self.ref.kind}/{self.ref.name}"


@dataclass(frozen=True)
class Delete:
    """Remove one object; with `uid`, only that very one and not a successor of the same name."""

    ref: Ref
    uid: str = ""

    def __str__(self) -> str:
        return f"delete {self.ref.kind}/{self.ref.name}"


@dataclass(frozen=True)
class Emit:
    """Tell users what happened, as an event on the job."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"

    def __str__(self) -> str:
        return f"emit {self.reason}"


Action = Create | Patch | Delete | Emit


@dataclass(frozen=True)
class Decision:
    """What to do: write this status if it differs, then act, then look again at that time at the latest."""

    status: Object
    actions: tuple[Action, ...] = ()
    look_again: datetime | None = None
