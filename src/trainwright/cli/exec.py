"""`tw exec JOB[/RANK] -- COMMAND`: a command beside a rank, with what it prints, and its exit code as ours."""

import asyncio
import os
import re
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import click

from trainwright.cli.completion import live_jobs
from trainwright.cli.homes import Where, where_options

if TYPE_CHECKING:
    from trainwright.cli.seen import Seen
    from trainwright.cluster.base import Session
    from trainwright.core.objects import Object

_CHUNK = 1 << 16
_NO_COMMAND = re.compile(r"not found|no such (file|command)", re.IGNORECASE)
"""How nodes say that there is no such command; each container runtime in its own words."""


@click.command("exec")
@click.argument("job", metavar="JOB[/RANK]", shell_complete=live_jobs)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-i", "--stdin", is_flag=True, help="Pass on what is typed or piped to us.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal as large as ours.")
@click.option("-c", "--container", default="", metavar="NAME", help="In this container of the rank.")
@where_options
def command(job: str, words: tuple[str, ...], stdin: bool, terminal: bool, container: str, where: Where) -> int:
    """Run a command beside a rank of a job, the first one that runs if none is named; its exit code is ours.

    \b
    tw exec mnist -- nvidia-smi
    tw exec mnist/worker-1 -it -- bash
    tar c data | tw exec mnist/0 -i -- tar x
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    if terminal and not sys.stdin.isatty():
        click.echo("standard input is no terminal; the command gets none either", err=True)
        terminal = False
    return asyncio.run(_exec(where, job, words, container, stdin=stdin, terminal=terminal))


async def _exec(where: Where, job: str, words: Sequence[str], container: str, *, stdin: bool, terminal: bool) -> int:
    from trainwright.cli import homes
    from trainwright.cli.seen import look
    from trainwright.core.errors import ClusterError, NotFound

    async with homes.opened(where, job) as home:
        meta = _pod(await look(home, job))["metadata"]
        try:
            session = await home.cluster.exec(
                meta["namespace"], meta["name"], [*words], container=container, stdin=stdin, tty=terminal
            )
            with _raw() if terminal else nullcontext():
                return await _carried(session, stdin=stdin, terminal=terminal)
        except ClusterError as error:
            if _NO_COMMAND.search(str(error)):
                raise NotFound(str(error)) from error
            raise


def _pod(found: "Seen") -> "Object":
    """Return the pod that was named, or the first that runs."""
    from trainwright.core.errors import Conflict
    from trainwright.core.objects import at

    pods = found.pods()
    running = [pod for pod in pods if at(pod, ("status", "phase")) == "Running"]
    if found.address.rank or running:
        return (running or pods)[0]
    raise Conflict(f"no rank of {found.key.name} runs; tw status {found.key.name} shows what became of them")


async def _carried(session: "Session", *, stdin: bool, terminal: bool) -> int:
    """Pass on input, output and the size of the terminal, and return the exit code."""
    from trainwright.cli.merge import write_all

    loop = asyncio.get_running_loop()
    if stdin:
        threading.Thread(target=_type, args=(session, loop), name="input", daemon=True).start()
    if terminal:
        loop.add_signal_handler(signal.SIGWINCH, lambda: asyncio.ensure_future(_resize(session)))
        await _resize(session)
    try:
        async for stream, data in session.output():
            write_all(1 if stream == "stdout" else 2, data)
        return await session.wait()
    finally:
        await session.kill()


def _type(session: "Session", loop: asyncio.AbstractEventLoop) -> None:
    """Pass on our input to its end; each piece waits until the one before it was taken."""
    with suppress(RuntimeError, OSError, asyncio.CancelledError):  # the command has ended, and nobody takes more
        while data := os.read(0, _CHUNK):
            asyncio.run_coroutine_threadsafe(session.write(data), loop).result()
        asyncio.run_coroutine_threadsafe(session.close_input(), loop).result()


async def _resize(session: "Session") -> None:
    size = shutil.get_terminal_size()
    await session.resize(size.columns, size.lines)


@contextmanager
def _raw() -> Iterator[None]:
    """Leave every key to the command, also Ctrl-C; the terminal is as before afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead stays
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
