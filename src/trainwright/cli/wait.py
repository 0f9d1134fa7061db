"""`tw wait JOB`: return when a job has ended, or when something else holds of it."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwright.cli import exits
from trainwright.cli.completion import jobs as complete_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.words import Duration

if TYPE_CHECKING:
    from trainwright.api.faces import Face, Standing

_FORMS = "phase=PHASE, condition=NAME, condition=NAME=False, jsonpath={PATH}=VALUE or delete"


@dataclass(frozen=True)
class Goal:
    """What is waited for."""

    words: str
    holds: "Callable[[Face, dict[str, Any]], bool]"
    is_deletion: bool = False


class GoalType(click.ParamType[Goal]):
    """`--for` on the command line."""

    name = "goal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Goal:
        """Return what is waited for, or fail with what can be."""
        if isinstance(value, Goal):
            return value
        try:
            return goal(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("wait")
@click.argument("job", metavar="JOB", shell_complete=complete_jobs)
@click.option("--for", "wanted", type=GoalType(), metavar="WHAT", help=f"{_FORMS}; the end of the job if not given.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this: 30s, 5m. Exit code 124.")
@where_options
def command(job: str, wanted: Goal | None, timeout: float | None, where: Where) -> int:
    """Return when a job has ended, with 0 if it succeeded and with the culprit's exit code if it failed.

    With --for, return when that holds; a job that ends before it does gives exit code 1.

    \b
    tw wait mnist
    tw wait mnist --for phase=Running --timeout 5m
    tw wait mnist --for condition=Restarting
    tw wait mnist --for delete
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    return asyncio.run(_wait(where, job, wanted, timeout))


def goal(text: str) -> Goal:
    """Return what a user waits for, or raise ValueError with what can be waited for."""
    what, _, value = text.partition("=")
    if text == "delete":
        return Goal("gone", lambda face, job: False, is_deletion=True)  # noqa: ARG005 - what is there is not gone
    if what == "phase" and value:
        phases = {each.lower() for each in value.split(",")}
        return Goal(value, lambda face, job: _standing(face, job).phase.lower() in phases)
    if what == "condition" and value:
        name, _, status = value.partition("=")
        return Goal(name, lambda face, job: _has(job, name, status or "True"))  # noqa: ARG005
    if what == "jsonpath" and value:
        return _found(value)
    raise ValueError(f"{text!r} cannot be waited for; write {_FORMS}")


def _found(value: str) -> Goal:
    from trainwright.core import jsonpath

    match = re.fullmatch(r"'?(?P<path>\{.*\}|[^={}]+)'?(?:=(?P<value>.*))?", value)
    if match is None:
        raise ValueError(f"{value!r} is no path and no value; write jsonpath={{.status.phase}}=running")
    path, wanted = match["path"], match["value"]
    if wanted is None:
        return Goal(value, lambda face, job: bool(jsonpath.render(path, job)))  # noqa: ARG005
    return Goal(value, lambda face, job: jsonpath.render(path, job) == wanted)  # noqa: ARG005


async def _wait(where: Where, text: str, wanted: Goal | None, timeout: float | None) -> int:
    from trainwright.cli import homes
    from trainwright.cli.waiting import until
    from trainwright.core.errors import NotFound

    async with homes.opened(where, text) as home:
        try:
            face, job = await homes.look_up(home, text)
        except NotFound:
            if wanted and wanted.is_deletion:
                return exits.OK
            raise

        def is_over(now: dict[str, Any] | None) -> bool:
            if now is None:
                return True
            if wanted is None:
                return _standing(face, now).finished
            return wanted.holds(face, now) or (homes.is_over(face, now) and not wanted.is_deletion)

        name = job["metadata"]["name"]
        what = f"{name} is not {wanted.words}" if wanted else f"{name} has not ended"
        last = await until(home, face.resource, job, is_over, timeout, what)
    return _result(face, name, last, wanted)


def _result(face: "Face", name: str, last: dict[str, Any] | None, wanted: Goal | None) -> int:
    """Say how the waiting ended, and return the exit code for it."""
    from trainwright.cli import report

    if last is None:
        click.echo(f"{name} is gone", err=not (wanted and wanted.is_deletion))
        return exits.OK if wanted and wanted.is_deletion else exits.CANCELLED
    standing = _standing(face, last)
    if wanted is None:
        click.echo(f"{name} is {standing.phase}")
        return report.code(standing, report.blame(last, (), Path()))
    if wanted.holds(face, last):
        click.echo(f"{name} is {wanted.words}")
        return exits.OK
    click.echo(f"{name} is {standing.phase}; it will not be {wanted.words} any more", err=True)
    return exits.REFUSED


def _standing(face: "Face", job: dict[str, Any]) -> "Standing":
    return face.standing(job.get("status") or {})


def _has(job: dict[str, Any], name: str, status: str) -> bool:
    """Say whether a condition has a status; those of a Volcano Job have no type, and their status is a phase."""
    for each in (job.get("status") or {}).get("conditions") or ():
        if "type" not in each:
            if each.get("status", "").lower() == name.lower() and status == "True":
                return True
        elif each["type"].lower() == name.lower() and each.get("status", "").lower() == status.lower():
            return True
    return False
