"""The frame of `tw run` and `tw demo`: folder, home, logs and signals around a session, and the last words after it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainwright.cli import exits, jobs, ranks, report, runs
from trainwright.cli.homes import SOCKET
from trainwright.cli.kept import GONE
from trainwright.cli.loading import Loaded
from trainwright.cli.merge import Merger, Prefixes, Source
from trainwright.cli.runs import RunFolder
from trainwright.cli.screen import Screen
from trainwright.cli.session import Session, Stop
from trainwright.cli.view import JobKey, View, container_name, key_of
from trainwright.cli.words import span
from trainwright.core.objects import Object, timestamp
from trainwright.kinds import KINDS, kind_of
from trainwright.node.base import Trial
from trainwright.operator import log
from trainwright.operator.home import HomeOptions, LocalHome, local_home
from trainwright.server.sockets import answering

_SIGNALS = {
    signal.SIGINT: Stop(exits.INTERRUPTED, "interrupted"),
    signal.SIGTERM: Stop(exits.CANCELLED, "cancelled by SIGTERM"),
    signal.SIGHUP: Stop(exits.after_signal(signal.SIGHUP), "stopping: the terminal is gone"),
}
_DRAIN_SECONDS = 0.02
FOREVER_SECONDS = 10 * 365 * 86400.0


@dataclass(frozen=True)
class Wishes:
    """How the user wants the home to be."""

    isolation: Literal["auto", "net", "ports"] = "auto"
    attempt: Callable[[], Trial] | None = None
    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    timeout: float | None = None
    environment: Mapping[str, str] | None = None
    cwd: Path | None = None
    lenient: bool = False
    autoscale: bool = True
    state: Path | None = None
    """Where runs are kept; None: in the user's state directory."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    code: int
    jobs: Sequence[Object]
    folder: Path
    view: View


@dataclass(frozen=True)
class Live:
    """A run while it goes on, for who does something to it."""

    home: LocalHome
    session: Session
    view: View
    folder: Path


Beside = Callable[[Live], Awaitable[None]]
"""Runs while the jobs do, and is ended when they end."""


async def launch(loaded: Loaded, wishes: Wishes, screen: Screen, beside: Beside | None = None) -> Result:
    """Run everything a file asks for, and return when nothing of it is left running."""
    keep = runs.keep_from()
    with runs.new_run(wishes.state or runs.state(), datetime.now(UTC)) as folder:
        if not folder.notice:
            runs.prune(folder.path.parent, keep)
        run = _Run(loaded, wishes, screen, folder)
        with _logging_to(folder.path / "tw.log"):
            try:
                return await run.run(beside)
            except BaseException:
                screen.show(None)
                screen.settle(1.0)  # what was said so far comes before what is said about the error
                raise


class _Run:
    """One run, from its folder to its last words."""

    def __init__(self, loaded: Loaded, wishes: Wishes, screen: Screen, folder: RunFolder) -> None:
        self._loaded, self._wishes, self._screen, self._folder = loaded, wishes, screen, folder
        self._view = View(keep=self._keep)
        self._session = Session(screen, self._view)
        self._session.on_pod = self._pod_seen
        self._several = len(loaded.jobs) > 1
        self._loop = asyncio.get_running_loop()
        prefixes = Prefixes(terminal=screen.terminal, colour=screen.colour)
        self._merger = Merger(folder.path, screen.log, self._label, prefixes, self._output_broke)
        self._keys: list[JobKey] = []
        self._can_note, self._killed = True, False

    async def run(self, beside: Beside | None) -> Result:
        for number, stop in _SIGNALS.items():
            self._loop.add_signal_handler(number, self._signalled, stop)
        self._note(started=timestamp(datetime.now(UTC)), pid=os.getpid(), command=sys.argv, file=self._loaded.file)
        timer = self._timer()
        async with local_home(self._options()) as home:
            place = "is kept in" if self._wishes.state is None else "has its files in"
            kept = self._folder.notice or f"this run {place} {self._folder.path}"
            self._screen.say(f"{home.notice}; {kept}", style="dim")
            for warning in self._loaded.warnings:
                self._screen.say(warning)
            self._merger.start()
            async with (
                answering(home, self._folder.path / SOCKET),
                self._session.on(home.cluster, [kind.resource for kind in KINDS]),
            ):
                await self._submit(home)
                async with _beside(beside, Live(home, self._session, self._view, self._folder.path)):
                    await self._session.until_over()
                timer.cancel()
                await self._session.wind_down()
        self._merger.close()
        await self._until_written(lambda: self._merger.busy)
        code = self._last_words()
        await self._until_written(lambda: self._screen.busy)
        self._note(ended=timestamp(datetime.now(UTC)), exit=code, outcome=self._outcome(code))
        return Result(code, [self._view.jobs[key] for key in self._keys], self._folder.path, self._view)

    def _options(self) -> HomeOptions:
        wishes = self._wishes
        return HomeOptions(
            run_dir=self._folder.path,
            isolation=wishes.isolation,
            attempt=wishes.attempt,
            cpu=wishes.cpu,
            memory=wishes.memory,
            gpu=wishes.gpu,
            environment=dict(os.environ) if wishes.environment is None else wishes.environment,
            cwd=wishes.cwd or Path.cwd(),
            lenient=wishes.lenient,
            autoscale=wishes.autoscale,
            on_notice=self._screen.say,
        )

    def _timer(self) -> asyncio.TimerHandle:
        seconds = self._wishes.timeout if self._wishes.timeout is not None else FOREVER_SECONDS
        late = Stop(exits.DEADLINE, f"not finished after {span(seconds)} (--timeout)", "error")
        return self._loop.call_later(seconds, self._session.stop, late)

    async def _submit(self, home: LocalHome) -> None:
        """Make what stands beside the jobs first, then the jobs."""
        for obj in self._loaded.support:
            await home.submit(obj)
        for obj in self._loaded.jobs:
            kind = kind_of(obj)
            assert kind is not None, "only jobs are loaded as jobs"
            stored = await home.submit(obj)
            self._keys.append(key_of(stored))
            self._view.jobs.setdefault(key_of(stored), stored)
            self._session.add(key_of(stored), kind.resource)
        facts = [{"kind": key.kind, "namespace": key.namespace, "name": key.name} for key in self._keys]
        self._note(jobs=facts, isolation=home.isolation)

    async def _until_written(self, busy: Callable[[], bool]) -> None:
        """Wait until everything is written out, however slowly it is read, or a second signal says to stop waiting."""
        while busy() and not self._killed:  # noqa: ASYNC110 - threads that may hang in a write, as long as a pager does
            await asyncio.sleep(_DRAIN_SECONDS)

    # What comes from outside

    def _signalled(self, stop: Stop) -> None:
        if self._session.stopped:
            self._killed = True
            self._session.kill()
            self._merger.abandon()
        else:
            self._session.stop(stop)

    def _output_broke(self, error: OSError) -> None:
        """Stop because nobody reads the logs any more; called by the merger's thread."""
        stop = Stop(exits.after_signal(signal.SIGPIPE), "")
        if not isinstance(error, BrokenPipeError):
            stop = Stop(exits.OURS, f"the logs cannot be written to stdout: {error.strerror}; stopping", "error")
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._session.stop, stop)

    def _pod_seen(self, pod: Object) -> None:
        meta = pod["metadata"]
        for each in ranks.endings(pod):
            self._merger.ended(meta.get("namespace", ""), meta["name"], meta["uid"], each.container, each.restart)

    def _label(self, source: Source) -> str | None:
        pod = self._view.pods.get(source.uid)
        return container_name(pod, source.container, several_jobs=self._several) if pod else None

    # What is kept

    def _keep(self, obj: Object) -> None:
        """Keep what the store has let go, so that it can be looked at afterwards."""
        self._writing(lambda: _append(self._folder.path / GONE, msgspec.json.encode(obj)))

    def _note(self, **facts: Any) -> None:
        self._writing(lambda: self._folder.note(**facts))

    def _writing(self, write: Callable[[], None]) -> None:
        if not self._can_note:
            return
        try:
            write()
        except OSError as error:
            self._can_note = False
            self._screen.say(f"this run cannot be kept in {self._folder.path}: {error.strerror}; going on without")

    # Last words

    def _last_words(self) -> int:
        """Say how each job ended and return the exit code: that of the first job that failed."""
        codes = [self._job_ended(key) for key in self._keys]
        over = all(jobs.state(self._view.jobs[key]).finished for key in self._keys)
        stopped = self._session.stopped
        if stopped and not (over and stopped in _SIGNALS.values()):  # who stops what has ended changes nothing about it
            return stopped.code
        return next((code for code in codes if code), exits.OK)

    def _job_ended(self, key: JobKey) -> int:
        job = self._view.jobs[key]
        state = jobs.state(job)
        if not state.finished:
            if not self._session.stopped:
                self._screen.say(f"{key} was deleted before it had finished", style="error")
            return exits.CANCELLED
        if state.outcome == "Succeeded":
            self._screen.say(report.succeeded(key, self._view, self._session.took.get(key)), style="good")
            return exits.OK
        blamed = report.blame(job, self._view.every_pod(key), self._folder.path)
        first, *more = report.failed(key, state, blamed)
        self._screen.say(first, style="error")
        for line in more:
            self._screen.say(line, style="detail")
        return report.code(state, blamed)

    def _outcome(self, code: int) -> str:
        names = {exits.INTERRUPTED: "Interrupted", exits.CANCELLED: "Cancelled", exits.DEADLINE: "Out of time"}
        if not self._session.stopped:
            return "Succeeded" if code == exits.OK else "Failed"
        return names.get(code, "Stopped")


@asynccontextmanager
async def _beside(beside: Beside | None, live: Live) -> AsyncIterator[None]:
    """Run something while the body runs, and end it with the body."""
    task = asyncio.ensure_future(beside(live)) if beside else None
    try:
        yield
    finally:
        if task:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send what the loops log to a file of the run; nowhere if that cannot be written."""
    try:
        path.touch()
    except OSError:
        path = Path(os.devnull)
    with path.open("a", buffering=1) as file:
        log.setup(stream=file)
        try:
            yield
        finally:
            log.setup()


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line + b"\n")
