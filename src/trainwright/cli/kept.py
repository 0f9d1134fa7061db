"""What was kept of a `tw run`, opened as a cluster that can only be looked at."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from trainwright.api.faces import RESOURCES
from trainwright.cluster.journal import JOURNAL, Kept, read
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import HomeError
from trainwright.core.objects import Object
from trainwright.node.logs import FileLogs

GONE = "gone.jsonl"
"""In the folder of a run: the objects that had gone from its store, as they were last seen, one on each line."""


class KeptCluster(MemoryCluster):
    """What was kept of a run, as a cluster that can only be looked at: its journal, and before it what had gone.

    Of several pods that had a name the last one is there; the logs of all are in the folder.
    """

    def __init__(self, folder: Path) -> None:
        held = read(folder / JOURNAL) if (folder / JOURNAL).exists() else Kept([], 0)
        before = Kept([*gone(folder / GONE), *held.objects], held.version)
        super().__init__(RESOURCES, now=lambda: datetime.now(UTC), kept=before)
        self._folder = folder
        self.serve_pods(FileLogs(folder))

    def _commit(self, *_: Any) -> NoReturn:
        raise HomeError(
            f"the run {self._folder.name} is over, and what was kept of it cannot be changed; run it again with: tw run"
        )


def gone(path: Path) -> Iterable[Object]:
    """Yield the objects that had gone from the store; a last line that was cut is passed over."""
    import msgspec

    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError:
                return
