"""What one operator at a time does: the loop over jobs, and whatever runs beside it as long as it runs."""

from collections.abc import Sequence
from typing import Protocol

from trainwright.cluster.beside import beside
from trainwright.core.resources import Resource
from trainwright.operator.loop import Operator


class Loop(Protocol):
    """Something that runs until it is cancelled, on caches of its own."""

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there."""

    async def run(self) -> None:
        """Work until cancelled."""


class Duties:
    """Everything a leader does. A new leader has new ones: nothing of what an earlier one knew is believed."""

    def __init__(self, operator: Operator, others: Sequence[Loop] = ()) -> None:
        self.operator = operator
        self._others = others

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there, each once."""
        loops: Sequence[Loop] = (self.operator, *self._others)
        return list(dict.fromkeys(each for loop in loops for each in loop.unsynced()))

    async def run(self) -> None:
        """Work until the operator is stopped, or cancelled; one loop that fails ends all."""
        async with beside(*(loop.run() for loop in self._others)):
            await self.operator.run()
