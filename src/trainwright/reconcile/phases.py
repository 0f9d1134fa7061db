"""The life of jobs that live by policies: Volcano's Job.

A look at a job goes one step: what has happened since the last look (`facts.py`) and what somebody has commanded call
for actions; what an action does says the table (`transitions.py`); without any, the phase goes its own way. One action
on the whole job is carried out at a look: a command's before a policy's, of policies the one whose event comes first
in the table of events; a delayed one last. What else called for an action at that look belongs to what has been
stopped, and is dropped. Actions on parts of the job are carried out together and count as one run.

An aborted job counts as failed for whoever waits for its end, though a command may resume it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trainwright.api.common import Job
from trainwright.core.actions import Action, Decision, Delete, Emit
from trainwright.core.objects import Object, at, moment, ref
from trainwright.core.resources import VOLUME_CLAIM
from trainwright.desired import Desired, Settings
from trainwright.reconcile import diff, facts, launch, verdicts
from trainwright.reconcile import record as records
from trainwright.reconcile.facts import Found
from trainwright.reconcile.kind import Kind, Pod, Sight
from trainwright.reconcile.record import Record, Timer
from trainwright.reconcile.transitions import ALIVE, FINISHED, STOPPING, TARGETED, Effect, Phase, effect
from trainwright.reconcile.volcano_status import Move, Tally, phase_of, tally, volcano

_COMMAND = "CommandIssued"


@dataclass(frozen=True)
class Call:
    """An action that is called for: by whom, and about what."""

    action: str
    event: str
    role: str = ""
    index: int | None = None


@dataclass(frozen=True)
class Turn:
    """What a look has led to so far."""

    record: Record
    move: Move
    retries: int


class Phases:
    """A job goes from phase to phase, as its policies, commands and its pods' ends have it."""

    def step(self, kind: Kind, job: Job, sight: Sight, settings: Settings, now: datetime) -> Decision:
        """Say what to do next for a job."""
        before: Object = job.object.get("status") or {}
        phase, kept = phase_of(before), records.read(before)
        command = _next_command(kept, sight)
        found = facts.find(job, kept, sight) if phase in ALIVE else Found(kept)
        timers = facts.running_timers(job, kept, found, sight.pods, now)
        later = tuple(timer for timer in timers if timer.at > now)
        record = replace(found.record, timers=later, commands=_remembered(kept, sight, command))
        turn = Turn(record, Move(phase), int(before.get("retryCount") or 0))
        calls = [*_commanded(command), *_called(job, found), *_due(timers, now)]
        turn = _act(job, turn, calls, sight) or _own_way(job, turn, sight)

        counts = tally(job, turn.record, sight.pods)
        roles = launch.startable(job, turn.record, sight.pods)
        staged = launch.staged(job, settings, roles, turn.record, sight.pods)
        desired = kind.build(staged, settings, turn.record.version)
        status = volcano(job, turn.record, counts, turn.move, turn.retries, desired.support, now)
        wanted = launch.joining(launch.launched(desired, roles, sight), job, settings, turn.record, sight.pods)
        actions = _actions(job, turn, wanted, sight)
        news = (*_answered(sight, turn.record, command), *_told(phase, turn.move))
        expiry = _expiry(job, status)
        if expiry and now >= expiry:
            return Decision(status, (*actions, *news, Delete(ref(job.object), job.uid)))
        waits = [timer.at for timer in turn.record.timers] + ([expiry] if expiry else [])
        return Decision(status, (*actions, *news), min(waits, default=None))

    def refuse(self, job: Job, message: str, now: datetime) -> Object:
        """Return the status of a job that fails because it is not valid."""
        record = Record(cause="Invalid")
        return volcano(job, record, Tally({}), Move("Failed", "Invalid", message), 0, (), now)


# Commands


def _next_command(record: Record, sight: Sight) -> Object | None:
    """Return the oldest command that was not carried out yet: one at a look."""
    fresh = (each for each in sight.commands if each["metadata"]["uid"] not in record.commands)
    return min((each for each in fresh if "deletionTimestamp" not in each["metadata"]), key=_age, default=None)


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]


def _remembered(record: Record, sight: Sight, command: Object | None) -> frozenset[str]:
    """Return the commands that must not be carried out again: those that are still there, and the one of this look."""
    there = {each["metadata"]["uid"] for each in sight.commands}
    return (record.commands & there) | ({command["metadata"]["uid"]} if command else set())


def _commanded(command: Object | None) -> Iterator[Call]:
    if command is not None:
        yield Call(str(command.get("action", "")), _COMMAND)


def _answered(sight: Sight, record: Record, command: Object | None) -> Iterator[Action]:
    """Remove the commands that were carried out; their effect stands in the status that was written before."""
    for each in sight.commands:
        if each["metadata"]["uid"] in record.commands and "deletionTimestamp" not in each["metadata"]:
            yield diff.remove(each)
    if command is not None:
        said = [command.get("reason"), command.get("message")]
        why = ": ".join(str(text) for text in said if text)
        yield Emit(_COMMAND, f"{command.get('action')} was commanded{f' ({why})' if why else ''}")


# Actions


def _called(job: Job, found: Found) -> Iterator[Call]:
    """Yield the actions that policies call for at once."""
    for fact in found.facts:
        policy = facts.policy_for(job, fact)
        if policy is not None and policy.delay_seconds is None:
            yield Call(policy.action, fact.event, fact.role, fact.index)


def _due(timers: Iterable[Timer], now: datetime) -> Iterator[Call]:
    for timer in sorted(timers, key=lambda each: each.at):
        if timer.at <= now:
            yield Call(timer.action, timer.event, timer.role, timer.index)


def _act(job: Job, turn: Turn, calls: list[Call], sight: Sight) -> Turn | None:
    """Carry out what was called for; None if nothing of it has an effect in this phase."""
    phase = turn.move.phase
    for call in calls:
        done = effect(phase, call.action)
        if done is not None and call.action not in TARGETED:
            return _whole(job, turn, call, done, sight)
    parts = [call for call in calls if call.action in TARGETED and call.role]
    done = effect(phase, parts[0].action) if parts else None
    return _parts(job, turn, parts, done, sight) if done is not None else None


def _whole(job: Job, turn: Turn, call: Call, done: Effect, sight: Sight) -> Turn:
    """Stop the whole job, or start it again. On the last run what has ended stays, to be looked into."""
    keeps = done.removes == "unfinished pods" or _is_last_run(job, turn, done)
    record = turn.record.stopped() if keeps else turn.record.next_version()
    blamed = _blamed(job, turn.record, [call], sight)
    record = replace(record, culprit=blamed.as_json() if blamed else None)
    return Turn(record, _move(job, done, [call], blamed), turn.retries + done.counted)


def _parts(job: Job, turn: Turn, calls: list[Call], done: Effect, sight: Sight) -> Turn:
    """Start parts of the job again; all else, its Services and keys included, stays as it is."""
    places = {place for call in calls for place in facts.targets(job, call.action, call.role, call.index)}
    blamed = _blamed(job, turn.record, calls, sight)
    keeps = _is_last_run(job, turn, done)
    gone = [pod for pod in sight.pods if (pod.role, pod.index) in places and not (keeps and pod.ended)]
    record = _without(turn.record, places, gone, keeps=keeps)
    record = replace(
        record,
        culprit=blamed.as_json() if blamed else None,
        timers=tuple(timer for timer in record.timers if not _is_covered(job, timer, places)),
    )
    return Turn(record, _move(job, done, calls, blamed), turn.retries + done.counted)


def _without(record: Record, places: set[tuple[str, int]], gone: Iterable[Pod], *, keeps: bool) -> Record:
    """Return the record without what it knows of replicas that start again; `keeps`: except of those that had ended."""
    roles = {}
    for name, role in record.roles.items():
        mine = {index for other, index in places if other == name}
        ended = set() if keeps else mine
        roles[name] = replace(
            role,
            seen={index: uid for index, uid in role.seen.items() if index not in mine},
            done=role.done - ended,
            failed={index: uid for index, uid in role.failed.items() if index not in ended},
            completed=role.completed and not ended,
        )
    return replace(record, roles=roles, retired=record.retired | {pod.uid for pod in gone})


def _is_covered(job: Job, timer: Timer, places: set[tuple[str, int]]) -> bool:
    """Say whether what a timer waits to start again has just been started again."""
    return timer.action in TARGETED and set(facts.targets(job, timer.action, timer.role, timer.index)) <= places


def _is_last_run(job: Job, turn: Turn, done: Effect) -> bool:
    """Say whether a restart comes to nothing because there were enough runs: then the evidence stays."""
    limit = job.run_policy.max_retry
    return done.counted and limit is not None and turn.retries >= limit - 1


def _blamed(job: Job, record: Record, calls: list[Call], sight: Sight) -> verdicts.Culprit | None:
    """Return whose failure called for an action; nobody's, if it was no failure."""
    if any(call.event in ("PodFailed", "TaskFailed") and call.action != "CompleteJob" for call in calls):
        return _culprit(job, record, sight)
    return None


def _culprit(job: Job, record: Record, sight: Sight) -> verdicts.Culprit | None:
    """Return who failed first among the pods that count."""
    mine = (pod.object for pod in sight.pods if not record.is_past(pod.version, ended=pod.ended))
    return verdicts.culprit(job, mine)


def _move(job: Job, done: Effect, calls: list[Call], blamed: verdicts.Culprit | None) -> Move:
    first = calls[0]
    if first.event == _COMMAND:
        return Move(done.to, _COMMAND, f"{first.action} was commanded.")
    whom = ", ".join(dict.fromkeys(facts.who(job, call.role, call.index) for call in calls))
    said = f"{first.action} because of {first.event} ({whom})."
    return Move(done.to, first.event, f"{said} {blamed}." if blamed else said)


# What a phase does by itself


def _own_way(job: Job, turn: Turn, sight: Sight) -> Turn:
    """Go on as the phase does when nothing was called for."""
    counts = tally(job, turn.record, sight.pods)
    match turn.move.phase:
        case "Pending" if counts["Running"] + counts["Succeeded"] + counts["Failed"] >= _needed(job):
            return replace(turn, move=Move("Running", "Running", f"{_needed(job)} pods or more run or have ended."))
        case "Running":
            return _verdict(job, turn, counts, sight)
        case "Restarting":
            return _restart(job, turn, counts)
        case "Completing" | "Aborting" | "Terminating" as phase if not any(map(_is_alive, sight.pods)):
            state = job.object["status"]["state"]
            return replace(turn, move=Move(STOPPING[phase], state.get("reason", ""), state.get("message", "")))
    return turn


def _needed(job: Job) -> int:
    """Return how many pods the job needs in all; never more than it may have."""
    return job.total if job.run_policy.gang_min is None else min(job.run_policy.gang_min, job.total)


def _verdict(job: Job, turn: Turn, counts: Tally, sight: Sight) -> Turn:
    """Say whether a running job has come to its end, as Volcano does."""
    total, succeeded, goal = job.total, counts["Succeeded"], job.run_policy.min_success
    if total == 0:
        return turn
    if goal is not None and succeeded >= goal:
        return _completed(turn, f"{succeeded} pods have succeeded; minSuccess is {goal}.")
    if succeeded + counts["Failed"] < total:
        if counts["Pending"] > total - _needed(job):
            said = f"Only {total - counts['Pending']} pods do not wait; minAvailable is {_needed(job)}."
            return replace(turn, move=Move("Pending", "NotEnoughPods", said))
        return turn
    if short := _shortfall(job, counts):
        return _failed(job, turn, short, sight)
    return _completed(turn, f"{succeeded} of {total} pods have succeeded.")


def _shortfall(job: Job, counts: Tally) -> str:
    """Say what is missing for a success once every pod has ended; nothing if nothing is."""
    succeeded, goal, needed = counts["Succeeded"], job.run_policy.min_success, _needed(job)
    if needed >= sum(min(role.needed, role.replicas) for role in job.roles):
        for role in job.roles:
            ended = counts.roles[role.name]
            if any(ended.values()) and ended["Succeeded"] < role.needed:
                return (
                    f"{ended['Succeeded']} pods of task {role.name} have succeeded; its minAvailable is {role.needed}."
                )
    if goal is not None:
        return f"{succeeded} pods have succeeded; minSuccess is {goal}."
    return "" if succeeded >= needed else f"{succeeded} pods have succeeded; minAvailable is {needed}."


def _completed(turn: Turn, message: str) -> Turn:
    record = replace(turn.record, culprit=None, timers=())
    return replace(turn, record=record, move=Move("Completed", "Completed", message))


def _failed(job: Job, turn: Turn, message: str, sight: Sight) -> Turn:
    blamed = _culprit(job, turn.record, sight)
    record = replace(turn.record, cause="Failure", culprit=blamed.as_json() if blamed else None, timers=())
    return replace(turn, record=record, move=Move("Failed", "Failed", f"{message} {blamed}." if blamed else message))


def _restart(job: Job, turn: Turn, counts: Tally) -> Turn:
    """Go on to the next run when enough pods have gone, or end the job when there were enough runs."""
    limit = job.run_policy.max_retry
    if limit is not None and turn.retries >= limit:
        record = replace(turn.record, cause="BackoffLimit", timers=())
        blamed = verdicts.read_culprit(record.culprit)
        said = f"The job has run {limit} times; maxRetry allows no more."
        return replace(turn, record=record, move=Move("Failed", "MaxRetry", f"{said} {blamed}." if blamed else said))
    if job.total - counts.terminating >= _needed(job):
        said = f"Run {turn.retries + 1} of {limit} begins." if limit is not None else "The next run begins."
        return replace(turn, move=Move("Pending", "Restarted", said))
    return turn


def _is_alive(pod: Pod) -> bool:
    return pod.terminating or not pod.ended


# What follows


def _actions(job: Job, turn: Turn, desired: Desired, sight: Sight) -> tuple[Action, ...]:
    phase = turn.move.phase
    if phase in ("Pending", "Running"):
        return diff.difference(job, desired, sight, turn.record)
    if phase == "Restarting":  # pods are made when the next run begins: none fails in between uncounted
        return diff.difference(job, replace(desired, pods=()), sight, turn.record)
    going = diff.unfinished(sight)
    if phase in STOPPING or any(map(_is_alive, sight.pods)):
        return going  # pods that are ending may still need their names
    return (*going, *diff.around(sight, keep=VOLUME_CLAIM.kind))


def _told(before: Phase, move: Move) -> Iterator[Emit]:
    if move.phase != before:
        bad = move.phase in ("Restarting", "Failed", "Aborting", "Terminating")
        yield Emit(f"Job{move.phase}", move.message or f"The job is {move.phase}.", "Warning" if bad else "Normal")


def _expiry(job: Job, status: Object) -> datetime | None:
    """Return when a finished job is removed; an aborted one is not finished."""
    ended = moment(at(status, ("state", "lastTransitionTime")))
    if job.run_policy.ttl_seconds is None or ended is None or phase_of(status) not in FINISHED:
        return None
    return ended + timedelta(seconds=job.run_policy.ttl_seconds)
