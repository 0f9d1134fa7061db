"""What one operator at a time does: the loop over jobs, and whatever runs beside it as long as it runs."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

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

    def __init__(self, operator: Operator, beside: Sequence[Loop] = ()) -> None:
        self.operator = operator
        self._beside = beside

    def unsynced(self) -> list[Resource]:
        """Return the resources whose caches do not show yet what is there, each once."""
        loops: Sequence[Loop] = (self.operator, *self._beside)
        return list(dict.fromkeys(each for loop in loops for each in loop.unsynced()))

    async def run(self) -> None:
        """Work until the operator is stopped, or cancelled; one loop that fails ends all."""
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(loop.run()) for loop in self._beside]
            try:
                await self.operator.run()
            finally:
                for task in beside:
                    task.cancel()
