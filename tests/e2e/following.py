"""Reads the logs of a home while it runs: every line of every run of every rank, with the pod that printed it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.cli.training import Step, steps


@dataclass(frozen=True)
class Line:
    """One line of a rank's output."""

    namespace: str
    pod: str
    restart: int
    text: str


@dataclass
class Follower:
    """Follows the log files under a run's folder; they are complete lines in the order each rank wrote them."""

    folder: Path
    lines: list[Line] = field(default_factory=list)
    _read: dict[Path, int] = field(default_factory=dict)

    def look(self) -> None:
        """Read what has been added."""
        for path in sorted(self.folder.glob("logs/*/*/*/*.log")):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._read[path] = start + len(whole) + 1
                namespace, pod = path.parts[-4], path.parts[-3].rpartition("_")[0]
                for text in whole.decode(errors="replace").split("\n"):
                    self.lines.append(Line(namespace, pod, int(path.stem), text))

    def steps(self, namespace: str = "default") -> list[Step]:
        """Return the steps that were told so far, in the order of their time."""
        return steps(line.text for line in self.lines if line.namespace == namespace)

    async def until(self, what: Callable[["Follower"], object], seconds: float, meaning: str) -> None:
        """Wait until something can be seen in the lines; fail with the last of them if it cannot."""
        try:
            async with asyncio.timeout(seconds):
                self.look()
                while not what(self):
                    await asyncio.sleep(0.02)  # a file tells nobody that it grows
                    self.look()
        except TimeoutError:
            raise AssertionError(f"not seen within {seconds:.0f} s: {meaning}; {self.tail()}") from None

    async def until_step(
        self, what: Callable[[Step], bool], seconds: float = 60, *, namespace: str = "default", meaning: str = "a step"
    ) -> Step:
        """Wait for a step that is as described, and return the first such."""
        await self.until(lambda seen: any(map(what, seen.steps(namespace))), seconds, meaning)
        return next(filter(what, self.steps(namespace)))

    def tail(self, count: int = 40) -> str:
        """Return the last lines of all ranks, for a failed assertion."""
        last = self.lines[-count:]
        return "the last lines:\n" + "\n".join(f"{line.pod}[{line.restart}] | {line.text}" for line in last)


async def recovery(follower: Follower, harm: Callable[[], None], seconds: float = 60) -> float:
    """Do some harm to a training, wait until it has begun again, and return how long until its first step."""
    follower.look()
    known, asked = len(follower.lines), time.time()
    harm()

    def again(seen: Follower) -> Step | None:
        texts = [line.text for line in seen.lines[known:]]
        start = next((number for number, text in enumerate(texts) if text.startswith("rank 0 ")), len(texts))
        return next(iter(steps(texts[start:])), None)

    await follower.until(again, seconds, "training again")
    step = again(follower)
    assert step
    return step.time - asked
