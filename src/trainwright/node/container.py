"""One container through all its runs: started, probed, restarted with back-off, stopped.

Durations are measured on the monotonic clock; the wall clock is only written down. Whatever ends a run, everything the
main process left behind is killed before the run counts as over, as it would be with a container.
"""

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from trainwright.core.errors import ClusterError
from trainwright.core.objects import Object
from trainwright.node import logs, notes, probes
from trainwright.node.base import Exit, Mount, Process, ProcessSpec, Sandbox, SpawnError
from trainwright.node.log_times import Timekeeper
from trainwright.node.memory import Limit, MemoryLimits, memory_limit
from trainwright.node.notes import Note
from trainwright.node.patience import Patience
from trainwright.node.refusals import Missing, Refused
from trainwright.node.status import MESSAGE_BYTES, Container, running, terminated, waiting
from trainwright.placement import show

log = logging.getLogger(__name__)

TERMINATION_VARIABLE = "TRAINWRIGHT_TERMINATION_LOG"
"""Says where to write the termination message; not every isolation can mount a file at the usual path."""
DEFAULT_TERMINATION_PATH = "/dev/termination-log"
_RESET_SECONDS = 600.0
_LONGEST_BACKOFF = 30
_RETRY_FIRST, _RETRY_LONGEST = 0.2, 5.0
_AFTER_PRE_STOP = 2.0
_LOST = "its node stopped while it ran; how it ended is not known"
_START_FAILED = 128


@dataclass(frozen=True)
class Place:
    """What a container needs of its pod and node."""

    sandbox: Sandbox
    launch: Callable[[Object, str], Awaitable[ProcessSpec]]
    """Makes command, environment and mounts of a container; raises Missing or Refused."""
    log_folder: Path
    private: Path
    """A folder of the pod's own for termination messages and the output of probes."""
    limits: MemoryLimits
    times: Timekeeper
    now: Callable[[], datetime]
    backoff: float
    grace: float
    changed: Callable[[], None]
    emit: Callable[[str, str, Literal["Normal", "Warning"]], None]
    stop_reason: Callable[[], str] = lambda: ""


class ContainerRun:
    """A container that is kept running as its restart policy says."""

    def __init__(self, place: Place, spec: Object, path: str, view: Container, policy: str) -> None:
        self.view = view
        self.spec = spec
        self.growth = logs.Growth()
        self.done = asyncio.Event()
        """Set when there will be no other run."""
        self.up = asyncio.Event()
        """Set when it has started and passed its startup probe, or will never do so."""
        self.process: Process | None = None
        self.command: ProcessSpec | None = None
        """How its main process was started: what an exec shares with it."""
        self._guests: dict[Process, asyncio.Task[Exit]] = {}
        """What was started beside the main process and ends with it."""
        self._place = place
        self._path = path
        self._policy = policy
        self._stopping = asyncio.Event()
        self._settled = asyncio.Event()
        """Set unless a process is being started: `process` then says whether there is one."""
        self._settled.set()
        self._exited = asyncio.Event()
        self._crashes = 0
        self._oom = False
        self._probes: dict[probes.ProbeKind, probes.Probe | None] = {}
        self._hooks: dict[str, probes.Action] = {}
        self._resumed = view.ended is not None
        if view.ended or view.last_state:
            self.growth.begun = self.growth.over = view.restarts

    @property
    def name(self) -> str:
        """Return the container's name."""
        return self.view.name

    async def run(self) -> None:
        """Run it until it has ended for good, or was stopped."""
        try:
            while not self._stopping.is_set():
                if not self._resumed:
                    await self._attempt()
                self._resumed = False
                if self._stopping.is_set() or not self._runs_again():
                    break
                await self._back_off()
        finally:
            state = self.view.last_state if "waiting" in self.view.state and self.view.last_state else self.view.state
            self._set(state=state, ready=False)
            self.growth.end()
            self.up.set()
            self.done.set()

    async def stop(self, patience: Patience) -> None:
        """End it: preStop hook, SIGTERM, and when patience has run out SIGKILL to everything it started."""
        self._stopping.set()
        await self._settled.wait()  # a process that is just being started has its grace, too
        if self.process is not None:
            self._place.emit("Killing", f"ending {self.name}", "Normal")
            await self._terminate(self.process, patience)
        await self.done.wait()

    async def start_beside(self, spec: ProcessSpec) -> Process:
        """Start a process beside the main one, which ends when the main one does, as in any container."""
        guest = await self._place.sandbox.start(spec)
        self._guests[guest] = staying = asyncio.create_task(guest.wait())
        staying.add_done_callback(lambda _: self._guests.pop(guest, None))
        return guest

    async def run_command(self, command: tuple[str, ...]) -> probes.Answer:
        """Run a command beside the main process, and say whether it ended well. Cancelling ends the command."""
        shared = self.command
        if shared is None or not command:
            return probes.Answer(False, "the container is not running" if command else "there is no command")
        with tempfile.TemporaryFile(dir=self._place.private) as output:
            spec = replace(shared, argv=command, stdin=None, stdout=output.fileno(), stderr=output.fileno())
            starting = asyncio.create_task(self._place.sandbox.start(spec))
            try:
                process = await asyncio.shield(starting)
                ended = await process.wait()
            except SpawnError as error:
                return probes.Answer(False, str(error))
            except asyncio.CancelledError:
                with contextlib.suppress(SpawnError):
                    await (await starting).kill()
                raise
            output.seek(0)
            said = output.read(1024).decode(errors="replace").strip()
        return probes.Answer(ended.code == 0, said or f"exit code {ended.code}")

    # One run

    async def _attempt(self) -> None:
        """Run it once, from its preparation to its end."""
        try:
            spec = await self._prepared()
            if spec is None or self._stopping.is_set():
                return
            process, limit = await self._start(spec)
        except (Refused, SpawnError) as error:
            self._not_started(str(error))
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            self._not_started(f"cannot be started: {error.strerror or error}{where}")
        else:
            await self._live(process, limit)

    async def _prepared(self) -> ProcessSpec | None:
        """Return how to start it; waits for what is missing, None when told to stop meanwhile."""
        pause = _RETRY_FIRST
        while not self._stopping.is_set():
            try:
                return await self._place.launch(self.spec, self._path)
            except Missing as error:
                self._wait_state("CreateContainerConfigError", str(error))
                self._place.emit("Failed", f"{self.name}: {error}", "Warning")
            except ClusterError as error:
                self._wait_state("CreateContainerConfigError", f"the API cannot be asked right now: {error}")
            await self._nap(pause)
            pause = min(pause * 2, _RETRY_LONGEST)
        return None

    async def _start(self, spec: ProcessSpec) -> tuple[Process, Limit | None]:
        self._probes = {kind: probes.read(self.spec, kind, self._path) for kind in probes.KINDS}
        lifecycle = self.spec.get("lifecycle") or {}
        self._hooks = {
            name: probes.read_action(hook, self.spec, f"{self._path}.lifecycle.{name}")
            for name, hook in lifecycle.items()
            if name in ("preStop", "postStart") and hook
        }
        run, size = self._next_run(), memory_limit(self.spec)
        spec = self._with_termination_message(spec, run)
        path = logs.log_path(self._place.log_folder, self.name, run)
        file = logs.open_log(path)
        self._place.times.begin(path)
        self._settled.clear()
        note = notes.begin(self._place.private, self.name, run)
        try:
            self.growth.begin(run)
            noted = replace(spec, stdout=file, stderr=file, note=note)
            self.process = process = await self._place.sandbox.start(noted)
        finally:
            os.close(note)
            os.close(file)
            self._settled.set()
        self.command = spec
        limit = self._place.limits.limit(size, process.pid, self._place.sandbox.pids) if size else None
        return process, limit

    async def _live(self, process: Process, limit: Limit | None) -> None:
        """Watch over a process until it and everything it started are gone."""
        run, began, started = self._next_run(), self._place.now(), asyncio.get_running_loop().time()
        last = self.view.state if self.view.ended else self.view.last_state
        self._exited, self._oom = asyncio.Event(), False
        self._set(state=running(began), last_state=last, restarts=run, ready=False, started=False, id=self._id(run))
        self._place.emit("Started", f"{self.name} runs", "Normal")
        watchers = [asyncio.create_task(self._look_after(process))]
        if limit:
            watchers.append(asyncio.create_task(self._guard(process, limit)))
        try:
            ended = await process.wait()
            self._exited.set()
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        await process.kill()
        self.process = self.command = None
        await asyncio.gather(*(guest.kill() for guest in [*self._guests]))
        if asyncio.get_running_loop().time() - started >= _RESET_SECONDS:
            self._crashes = 0
        oom = ended.code != 0 and (self._oom or (limit is not None and limit.exceeded()))
        if limit:
            if oom and (peak := limit.peak()):
                self._place.emit("OOMKilling", f"{self.name} had {show('memory', peak)} when it was killed", "Warning")
            limit.close()
        self._place.times.finish(logs.log_path(self._place.log_folder, self.name, run))
        self.growth.finish(run)
        self._record(ended, run, began, oom=oom)

    def _record(self, ended: Exit, run: int, began: datetime, *, oom: bool) -> None:
        reason = "OOMKilled" if oom else (self._place.stop_reason() if ended.code else "")
        if oom:
            ended = Exit(128 + signal.SIGKILL, signal.SIGKILL)
        message = self._termination_message(run, failed=ended.code != 0)
        state = terminated(
            ended, started=began, finished=self._place.now(), reason=reason, message=message, run_id=self._id(run)
        )
        self._set(state=state, ready=False, started=False)

    async def _guard(self, process: Process, limit: Limit) -> None:
        await limit.wait()
        self._oom = True
        await process.kill()

    async def _look_after(self, process: Process) -> None:
        """Run the postStart hook, then ask the probes as long as the process lives."""
        try:
            if await self._post_start(process) and await self._startup(process):
                readiness, liveness = self._probes["readinessProbe"], self._probes["livenessProbe"]
                self._set(started=True, ready=readiness is None)
                self.up.set()
                async with asyncio.TaskGroup() as tasks:
                    if readiness:
                        tasks.create_task(self._watch("Readiness", readiness, self._judge_readiness))
                    if liveness:
                        tasks.create_task(self._keep_alive(process, "Liveness", liveness))
        except Exception:  # a probe that breaks must not take the container with it
            log.exception("probes of container %s broke off", self.name)
            raise

    async def _startup(self, process: Process) -> bool:
        probe = self._probes["startupProbe"]
        return probe is None or await self._keep_alive(process, "Startup", probe)

    async def _keep_alive(self, process: Process, name: str, probe: probes.Probe) -> bool:
        """Watch a probe whose failure ends the run; True when it has passed, for the startup probe."""
        passed = False

        def judge(good: bool) -> bool:
            nonlocal passed
            passed = good
            return not good or name == "Startup"

        await self._watch(name, probe, judge)
        if not passed:
            self._place.emit("Killing", f"ending {self.name}: its {name.lower()} probe has failed too often", "Normal")
            await self._terminate(process, Patience(self._place.grace if probe.grace is None else probe.grace))
        return passed

    def _judge_readiness(self, good: bool) -> bool:
        if self.view.ready != good:
            self._set(ready=good)
        return False

    async def _watch(self, name: str, probe: probes.Probe, judge: Callable[[bool], bool]) -> None:
        def bad(message: str) -> None:
            self._place.emit("Unhealthy", f"{name.lower()} probe of {self.name}: {message}", "Warning")

        await probes.watch(probe, self._place.sandbox, self.run_command, judge, bad)

    async def _post_start(self, process: Process) -> bool:
        """Run the postStart hook; one that fails ends the run."""
        hook = self._hooks.get("postStart")
        if hook is None:
            return True
        answer = await probes.ask(hook, self._place.sandbox, self.run_command, _RESET_SECONDS)
        if not answer.good:
            self._place.emit("FailedPostStartHook", f"postStart hook of {self.name}: {answer.message}", "Warning")
            await self._terminate(process, Patience(self._place.grace))
        return answer.good

    async def _terminate(self, process: Process, patience: Patience) -> None:
        """End a process within the patience there is."""
        hook = self._hooks.pop("preStop", None)  # once per run, whoever ends it and however often
        if hook is not None and patience.left() and not self._exited.is_set():
            asking = asyncio.create_task(probes.ask(hook, self._place.sandbox, self.run_command, patience.left()))
            if not await patience.outlasts(asking):
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                patience.at_least(_AFTER_PRE_STOP)
            elif not (answer := asking.result()).good:
                self._place.emit("FailedPreStopHook", f"preStop hook of {self.name}: {answer.message}", "Warning")
        if patience.left():
            process.signal(signal.SIGTERM)
            exited = asyncio.create_task(self._exited.wait())
            try:
                if await patience.outlasts(exited):
                    return
            finally:
                exited.cancel()
        await process.kill()

    # Between runs

    def _runs_again(self) -> bool:
        ended = self.view.ended
        if ended is None:
            return False
        policy = "Always" if self.view.kind == "sidecar" else self._policy
        if self.view.kind == "init" and policy == "Always":
            policy = "OnFailure"
        return policy == "Always" or (policy == "OnFailure" and ended["exitCode"] != 0)

    async def _back_off(self) -> None:
        """Wait before the next run: not at all the first time, then twice as long each time."""
        base = self._place.backoff
        delay = min(base * 2 ** (self._crashes - 1), base * _LONGEST_BACKOFF) if self._crashes else 0.0
        self._crashes += 1
        if not delay:
            return
        words = f"{self.name} ended with code {self.view.state['terminated']['exitCode']}; runs again in {delay:g} s"
        self._set(state=waiting("CrashLoopBackOff", words), last_state=self.view.state)
        self._place.emit("BackOff", words, "Warning")
        await self._nap(delay)

    async def _nap(self, seconds: float) -> None:
        """Sleep, unless told to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _not_started(self, message: str) -> None:
        """Record a run that never began: for the restart policy it is a failure like any other."""
        run = self._next_run()
        self._place.emit("Failed", f"{self.name}: {message}", "Warning")
        last = self.view.state if self.view.ended else self.view.last_state
        state = terminated(
            Exit(_START_FAILED), started=None, finished=self._place.now(), reason="StartError", message=message
        )
        self.growth.finish(run)
        self._set(state=state, last_state=last, restarts=run, ready=False, started=False)

    def _next_run(self) -> int:
        """Return the number of the run that is about to begin."""
        begun = self.view.ended is not None or bool(self.view.last_state)
        return self.view.restarts + 1 if begun and "running" not in self.view.state else self.view.restarts

    def _wait_state(self, reason: str, message: str) -> None:
        last = self.view.state if self.view.ended else self.view.last_state
        self._set(state=waiting(reason, message), last_state=last)

    def _set(self, **facts: object) -> None:
        self.view = replace(self.view, **facts)  # type: ignore[arg-type]
        self._place.changed()

    def _id(self, run: int) -> str:
        return f"process://{self._place.log_folder.name.rpartition('_')[2]}/{self.name}/{run}"

    # The termination message

    def _message_file(self, run: int) -> Path:
        return self._place.private / f"termination-{self.name}-{run}"

    def _with_termination_message(self, spec: ProcessSpec, run: int) -> ProcessSpec:
        file = self._message_file(run)
        file.touch(mode=0o666)
        mount = Mount(file, self.spec.get("terminationMessagePath") or DEFAULT_TERMINATION_PATH, optional=True)
        return replace(spec, env={**spec.env, TERMINATION_VARIABLE: str(file)}, mounts=(*spec.mounts, mount))

    def _termination_message(self, run: int, *, failed: bool) -> str:
        try:
            with self._message_file(run).open("rb") as file:
                message = file.read(MESSAGE_BYTES).decode(errors="replace")
        except OSError:
            message = ""
        if not message and failed and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return logs.tail(logs.log_path(self._place.log_folder, self.name, run))
        return message


def resumed(view: Container, note: Note | None, now: datetime) -> Container:
    """Return a container as it is after its node came back: what ran then has ended as noted, or was lost."""
    shown = view.restarts if "waiting" not in view.state or view.last_state else -1
    if note is not None and note.run > shown:
        last = view.state if view.ended else view.last_state
        return _ended(replace(view, restarts=note.run, last_state=last), note, now)
    if "running" in view.state:
        return _ended(view, note if note and note.run == shown else None, now)
    return view


def _ended(view: Container, note: Note | None, now: datetime) -> Container:
    began = (view.state.get("running") or {}).get("startedAt")
    if note and note.ended:
        state = terminated(note.ended, started=None, finished=note.at or now, run_id=view.id)
    else:
        state = terminated(
            Exit(137), started=None, finished=now, reason="ContainerStatusUnknown", message=_LOST, run_id=view.id
        )
    if began:
        state["terminated"]["startedAt"] = began
    return replace(view, state=state, ready=False, started=False)
