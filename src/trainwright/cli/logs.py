"""`tw logs JOB`: what the ranks of a job printed, in the order of time; and with -f what they go on to print."""

import asyncio
import re
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from trainwright.cli.completion import jobs as complete_jobs
from trainwright.cli.homes import Where, where_options
from trainwright.cli.words import Duration

if TYPE_CHECKING:
    from trainwright.cli.log_readers import Choice
    from trainwright.cli.log_sources import Asked
    from trainwright.cli.time_order import Line


class Pattern(click.ParamType["re.Pattern[bytes]"]):
    """A regular expression on the command line."""

    name = "pattern"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "re.Pattern[bytes]":
        """Return it compiled, or fail with what is wrong."""
        if isinstance(value, re.Pattern):
            return value
        try:
            return re.compile(str(value).encode())
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


@click.command("logs")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=complete_jobs)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last so many lines of each rank.")
@click.option("--since", type=Duration(), metavar="D", help="Only what was printed so lately: 30s, 5m.")
@click.option("--grep", "pattern", type=Pattern(), metavar="REGEX", help="Only lines in which this is found.")
@click.option("--rank", "numbers", metavar="0-3", help="Only these ranks, counted through all: 3, 0-3 or 0,2,5-7.")
@click.option("-c", "--container", default="", metavar="NAME", help="Only this container of each rank.")
@click.option("-p", "--previous", is_flag=True, help="Only the run of each container before its last restart.")
@click.option("--timestamps", is_flag=True, help="Say when each line was printed.")
@where_options
def command(
    job: str,
    follow: bool,
    tail: int | None,
    since: float | None,
    pattern: "re.Pattern[bytes] | None",
    numbers: str | None,
    container: str,
    previous: bool,
    timestamps: bool,
    where: Where,
) -> None:
    """Print what the ranks of a job printed, in the order of time, each line with its rank in front.

    On this machine every restart is there; a cluster has the last run of each container and the one before it.

    \b
    tw logs mnist                     all ranks
    tw logs mnist/worker-1            one rank, as it printed it
    tw logs mnist -f --tail 10        the last lines, and what comes
    tw logs mnist --rank 0-3 --grep 'loss|acc'
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    from trainwright.cli import seen
    from trainwright.cli.log_readers import Choice
    from trainwright.cli.log_sources import Asked

    after = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    asked = Asked(follow=follow and not previous, previous=previous, tail=tail, since=after)
    choice = Choice(container, seen.numbers(numbers) if numbers else None)
    # The event loop may be held up by a pager, and Ctrl-C must end the command nevertheless.
    signal.signal(signal.SIGINT, _interrupt)
    asyncio.run(_logs(where, job, choice, asked, _Printer(pattern, after, timestamps=timestamps)))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


async def _logs(where: Where, job: str, choice: "Choice", asked: "Asked", printer: "_Printer") -> None:
    from trainwright.cli import homes, log_readers
    from trainwright.cli.seen import look

    async with homes.opened(where, job) as home:
        reader = log_readers.reader(await look(home, job), choice, asked)
        printer.with_names = reader.needs_names
        await reader.read(printer.print)


class _Printer:
    """Writes lines to standard output: those that are wanted, with what belongs in front."""

    def __init__(self, pattern: "re.Pattern[bytes] | None", since: datetime | None, *, timestamps: bool) -> None:
        from trainwright.cli.merge import Prefixes
        from trainwright.cli.screen import Screen
        from trainwright.node.log_times import written

        screen = Screen()
        self._write = screen.log
        self._prefixes = Prefixes(terminal=screen.terminal, colour=screen.colour)
        self._pattern = pattern
        self._since = written(int(since.timestamp() * 1e9)) if since else ""
        self._timestamps = timestamps
        self.with_names = True

    def print(self, lines: "list[Line]") -> None:
        """Print lines; blocks while nobody reads them."""
        wanted = [line for line in lines if self._is_wanted(line)]
        names = dict.fromkeys(line.log for line in wanted)
        before = {name: self._prefixes.of(name) if self.with_names else b"" for name in names}
        if self._timestamps:
            text = b"".join(before[line.log] + line.time.encode() + b" " + line.text for line in wanted)
        else:
            text = b"".join(before[line.log] + line.text for line in wanted)
        if text:
            self._write(text)

    def _is_wanted(self, line: "Line") -> bool:
        if self._since and line.time < self._since:
            return False
        return self._pattern is None or self._pattern.search(line.text) is not None
