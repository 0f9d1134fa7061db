"""What `tw run` shows while jobs run: a table on a terminal, a line for each change elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING

from trainwright.cli.ranks import Ending, Rank
from trainwright.cli.words import columns, counted, span

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {
    "Running": "green",
    "Succeeded": "dim",
    "Failed": "bold red",
    "Restarting": "yellow",
    "Waiting": "yellow",
    "Starting": "cyan",
    "Stopping": "magenta",
}


@dataclass(frozen=True)
class JobLine:
    """One job above its ranks: its phase, and what it waits for."""

    name: str
    phase: str
    detail: str = ""


def rank_change(before: Rank | None, now: Rank, ended: Ending | None) -> str:
    """Return the line for what has changed about a rank, or nothing when a reader would not care."""
    if before and now.restarts > before.restarts:
        cause = f": {ended}" if ended else ""
        return f"{now.label} starts again ({counted(now.restarts, 'restart')}){cause}"
    if before and before.phase == now.phase:
        return ""
    if now.phase == "Waiting":  # said once for the whole job, with the reason
        return ""
    if now.phase == "Gone" or (before and before.phase == "Stopping"):  # how it ends is our doing, not its own
        return f"{now.label} stopped" if before and before.phase != "Waiting" else ""
    words = f"{now.label} {now.phase.lower()}"
    if now.phase == "Failed" and now.detail:
        return f"{words}: {now.detail}"
    return words


def frame(
    jobs: Sequence[tuple[JobLine, Sequence[Rank]]], now: datetime, *, colour: bool
) -> Callable[[int, int], list[str]]:
    """Return what draws the table for a terminal of a given size; drawn once per size, however often it is asked."""
    drawn: dict[tuple[int, int], list[str]] = {}

    def draw(width: int, height: int) -> list[str]:
        if (width, height) not in drawn:
            drawn[width, height] = _draw(jobs, now, width, height, colour=colour)
        return drawn[width, height]

    return draw


def _draw(
    jobs: Sequence[tuple[JobLine, Sequence[Rank]]], now: datetime, width: int, height: int, *, colour: bool
) -> list[str]:
    from rich.console import Console
    from rich.text import Text

    text = StringIO()
    console = Console(file=text, width=max(width - 1, 20), force_terminal=True, no_color=not colour, highlight=False)
    room = max((height - 1) // max(len(jobs), 1) - 3, 1)
    for job, ranks in jobs:
        detail = f": {job.detail}" if job.detail else ""
        title = f"{job.name}  {job.phase}  {_tally(ranks)}{detail}"
        console.print(Text(title, style="bold"), no_wrap=True, overflow="ellipsis")
        if not ranks:
            continue
        shown = _shown(ranks, room)
        for line in _lines([_cells(rank, now) for rank in shown]):
            console.print(line, no_wrap=True, overflow="ellipsis")
        if len(shown) < len(ranks):
            console.print(f"  and {counted(len(ranks) - len(shown), 'more rank')}", style="dim")
    return text.getvalue().rstrip("\n").split("\n")[: max(height - 1, 1)]


_HEADS = ("  RANK", "PHASE", "NODE", "RESTARTS", "AGE")


def _cells(rank: Rank, now: datetime) -> tuple[str, ...]:
    age = span((now - rank.started).total_seconds()) if rank.started else ""
    return f"  {rank.label}", rank.phase, rank.node, str(rank.restarts or ""), age, rank.detail


def _lines(rows: Sequence[tuple[str, ...]]) -> "list[Text]":
    """Return the lines of the table; too narrow a terminal cuts what stands last."""
    from rich.text import Text

    head, *plain = columns((*_HEADS, ""), rows)
    lines = [Text(head, "dim")]
    for line, (_, phase, *_, detail) in zip(plain, rows, strict=True):
        text = Text(line)
        text.highlight_regex(rf"(?<= ){phase}(?= |$)", _STYLES.get(phase, ""))
        text.stylize("dim", len(line) - len(detail))
        lines.append(text)
    return lines


def _shown(ranks: Sequence[Rank], room: int) -> Sequence[Rank]:
    """Return the ranks there is room for; when not for all, those with something to say come first."""
    if len(ranks) <= room:
        return ranks
    telling = {"Failed": 0, "Restarting": 1, "Waiting": 2, "Starting": 3, "Stopping": 3, "Running": 4, "Succeeded": 5}
    chosen = sorted(range(len(ranks)), key=lambda place: (telling.get(ranks[place].phase, 9), place))[: max(room, 1)]
    return [ranks[place] for place in sorted(chosen)]


def _tally(ranks: Iterable[Rank]) -> str:
    counts: dict[str, int] = {}
    for rank in ranks:
        counts[rank.phase] = counts.get(rank.phase, 0) + 1
    return ", ".join(f"{number} {phase.lower()}" for phase, number in counts.items())
