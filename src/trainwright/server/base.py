"""What the API asks of whoever runs it: who is calling, what may be stored, and when it is safe on disk."""

from dataclasses import dataclass
from typing import Protocol

from trainwright.core.objects import Object
from trainwright.core.resources import Resource
from trainwright.web.exchange import Request


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    uid: int


class Gate(Protocol):
    """Who may do what here, and when what was done is safe."""

    def caller(self, request: Request) -> Caller:
        """Return who asks; Unauthorized when nobody knows, Forbidden when they may not ask at all."""

    def admit(self, caller: Caller, resource: Resource, new: Object, old: Object | None) -> Object:
        """Return what a caller may store in place of `old`, stamped with who submitted it; Forbidden otherwise."""

    def allow(self, caller: Caller, verb: str, resource: Resource, obj: Object) -> None:
        """Raise Forbidden unless a caller may do this to an object.

        It is asked about "delete", about "log", "exec", "attach" and "portforward" of pods, and about "get" of Secrets.
        """

    async def durable(self) -> None:
        """Return when all that was written so far is on disk; a ClusterError when it cannot be."""
