"""The last words of `tw run` about a job: who is to blame, why, what it said last, and where the rest is."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.faces import Standing
from trainwright.cli import exits, ranks
from trainwright.cli.merge import Source
from trainwright.cli.ranks import Ending
from trainwright.cli.view import JobKey, View
from trainwright.cli.words import counted, span
from trainwright.core.objects import Object
from trainwright.reconcile import record as records
from trainwright.reconcile.verdicts import Culprit, read_culprit

LAST_LINES = 10
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class Blame:
    """The replica that failed first, how, and its log."""

    pod: str
    words: str
    code: int
    log: Path | None = None


def blame(job: Object, pods: Sequence[Object], folder: Path) -> Blame | None:
    """Return whom the job's record blames, in the words of its pod and with its log if there is one."""
    culprit = read_culprit(records.read(job.get("status")).culprit)
    if culprit is None:
        return None
    pod = next((pod for pod in reversed(pods) if _is_meant(pod, culprit)), None)
    ending = (
        next((each for each in ranks.endings(pod) if each.container == culprit.container and each.code), None)
        if pod
        else None
    )
    if pod is None or ending is None:
        return Blame(culprit.pod, str(culprit), culprit.code or 1)
    behind = f": {culprit.behind}" if culprit.behind else ""
    return Blame(culprit.pod, f"{culprit.pod} {ending}{behind}", ending.code or 1, _log(pod, ending, folder))


def _is_meant(pod: Object, culprit: Culprit) -> bool:
    if pod["metadata"]["name"] != culprit.pod:
        return False
    return any(each.container == culprit.container and each.code == culprit.code for each in ranks.endings(pod))


def _log(pod: Object, ending: Ending, folder: Path) -> Path | None:
    meta = pod["metadata"]
    path = Source(meta.get("namespace", ""), meta["name"], meta["uid"], ending.container, ending.restart).path(folder)
    return path if path.exists() else None


def failed(job: JobKey, state: Standing, blamed: Blame | None) -> list[str]:
    """Return what to say about a job that failed."""
    if state.cancelled:
        return [state.message or f"{job} was cancelled"]
    how = "failed" if state.phase == state.outcome else f"failed ({state.phase})"
    if blamed is None:
        return [f"{job} {how}: {state.message or state.reason or 'no reason is known'}"]
    why = f" ({state.message})" if state.late and state.message else ""
    lines = [f"{job} {how}: {blamed.words}{why}"]
    said = last_lines(blamed.log) if blamed.log else []
    if said:
        many = f"the last {len(said)} lines" if len(said) > 1 else "the last line"
        lines += [f"{many} of {blamed.pod}:", *(f"  {line}" for line in said)]
        lines.append(f"all it printed: {blamed.log}")
    elif blamed.log:
        lines.append(f"{blamed.pod} printed nothing")
    return lines


def succeeded(job: JobKey, view: View, seconds: float | None) -> str:
    """Return what to say about a job that succeeded."""
    restarts = sum(rank.restarts for rank in view.ranks(job))
    took = f" in {span(seconds)}" if seconds is not None else ""
    again = f", after {counted(restarts, 'restart')}" if restarts else ""
    return f"{job} succeeded{took}{again}"


def code(state: Standing, blamed: Blame | None) -> int:
    """Return the exit code for a job that has ended."""
    if state.outcome == "Succeeded":
        return exits.OK
    if state.late:
        return exits.DEADLINE
    if state.cancelled:
        return exits.CANCELLED
    return blamed.code if blamed else 1


def last_lines(path: Path, number: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log, without reading all of it."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(size - _TAIL_BYTES, 0))
            data = file.read(_TAIL_BYTES)
    except OSError:
        return []
    lines = data.decode(errors="replace").splitlines()
    if start and len(lines) > 1:
        lines = lines[1:]  # the first one is most likely cut
    return lines[-number:]
