"""Jobs that have begun: crashing, stuck, incomplete, restarted, or simply well."""

import re
from collections import Counter
from datetime import datetime, timedelta

from trainwright.core import names
from trainwright.core.objects import Object, at, moment
from trainwright.core.words import counted, listed
from trainwright.reconcile import policies
from trainwright.reconcile.kind import Pod
from trainwright.reconcile.verdicts import culprit
from trainwright.why import blame
from trainwright.why.base import Facts, Judge, Output, Verdict, message_of, quoted, waiting_states

SILENT = timedelta(minutes=5)
"""A rank that has printed and then prints nothing for so long is stuck, if all others are or its mates go on."""
_STOPPING = ("Completing", "Aborting", "Terminating")
_SECONDS = re.compile(r"(?:(\d+)m)?(\d+(?:\.\d+)?) ?s\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def cut_short(facts: Facts) -> Verdict | None:
    """The run that held the job ended before the job did: interrupted, or killed."""
    if facts.home != "kept":
        return None
    sentence = f"{facts.name} was not finished: the run that held it ended while it was {facts.standing.phase}"
    done = [pod for pod in facts.ranks if pod.phase == "Succeeded"]
    evidence = (f"{counted(len(done), 'rank')} of {facts.job.total} had succeeded",) if done else ()
    return Verdict(sentence, (*evidence, *blame.restarts(facts)), (facts.command("logs"), "tw run FILE"))


def stopping(facts: Facts) -> Verdict | None:
    """The job was told to stop, or all its ranks have ended, and it waits for its pods to go."""
    over = len(facts.ranks) >= facts.job.total > 0 and all(pod.ended for pod in facts.ranks)
    if facts.standing.phase not in _STOPPING and not over:
        return None
    going = [facts.label(pod.name) for pod in facts.leaving]
    waits = f"waits for {listed(going)} to stop" if going else "is about to end: nothing of it runs any more"
    said = (facts.standing.message,) if facts.standing.message else ()
    return Verdict(f"{facts.name} is {facts.standing.phase} and {waits}", said)


def crash_loop(facts: Facts) -> Verdict | None:
    """A container fails again and again; it is started again after a pause that doubles."""
    for pod, container, reason, message in waiting_states(facts):
        if reason != "CrashLoopBackOff":
            continue
        found = culprit(facts.job, [pod.object])
        how = str(found).removeprefix(f"{pod.name} ") if found else "has failed"
        until = _until(container, message)
        again = f"; it runs again at {facts.clock(until)}" if until else ""
        times = counted(int(container.get("restartCount", 0)) + 1, "time")
        sentence = f"{facts.name} is in a crash loop: {facts.label(pod.name)} {how}, {times} by now{again}"
        evidence = blame.account(facts, found) if found else ()
        return Verdict(sentence, (*evidence, *_limits(facts)), (facts.command("logs", facts.label(pod.name)),))
    return None


def resting(facts: Facts) -> Verdict | None:
    """A rank has failed several times in a row, and rests before its pod is made again."""
    waits = policies.resting(facts.record, facts.now)
    if not waits:
        return None
    (role, index), until = min(waits.items(), key=lambda each: each[1])
    rank = facts.label(names.pod(facts.name, role, index))
    times = counted(facts.record.role(role).falls[index].times, "time")
    others = f", like {counted(len(waits) - 1, 'other')}" if len(waits) > 1 else ""
    sentence = (
        f"{facts.name} rests: {rank} has failed {times} in a row and is made again at {facts.clock(until)}{others}"
    )
    found = blame.blamed(facts)
    evidence = blame.account(facts, found) if found else ()
    said = (facts.standing.message,) if facts.standing.message else ()
    return Verdict(sentence, (*said, *evidence, *_limits(facts)), (facts.command("logs", rank),))


def _until(container: Object, message: str) -> datetime | None:
    """Return when a container runs again: its end, and the pause that the message tells."""
    ended, pause = moment(at(container, ("lastState", "terminated", "finishedAt"))), _SECONDS.search(message)
    if ended is None or pause is None:
        return None
    return ended + timedelta(minutes=int(pause[1] or 0), seconds=float(pause[2]))


def _limits(facts: Facts) -> tuple[str, ...]:
    limit = facts.job.run_policy.backoff_limit
    return () if limit is None else (f"{facts.record.restarts} of {counted(limit, 'restart')} are used (backoffLimit)",)


def unhealthy(facts: Facts) -> Verdict | None:
    """A rank runs and is not ready: its probe fails."""
    for pod in facts.running:
        containers = at(pod.object, ("status", "containerStatuses")) or ()
        if all(each.get("ready") for each in containers):
            continue
        told = [event for event in facts.told("Unhealthy", pod=pod.name) if event.get("message")]
        if told:
            times = f", {counted(int(told[-1].get('count') or 1), 'time')} by now"
            sentence = f"{facts.name}: {facts.label(pod.name)} runs and is not ready: {message_of(told[-1])}{times}"
            return Verdict(sentence, _last_lines(facts, pod), (facts.command("logs", facts.label(pod.name)),))
    return None


def restarting(facts: Facts) -> Verdict | None:
    """The job is being restarted: pods of the last run are going, or are made again."""
    if facts.standing.phase != "Restarting" or len(facts.running) >= facts.job.total:
        return None
    going = [facts.label(pod.name) for pod in facts.leaving]
    waits = f", {listed(going)} still stopping" if going else ""
    sentence = f"{facts.name} is restarting ({len(facts.running)} of {facts.job.total} ranks run{waits})"
    said = facts.standing.message
    return Verdict(f"{sentence}: {said}" if said else sentence, blame.restarts(facts), (facts.command("events"),))


def meeting_incomplete(facts: Facts) -> Verdict | None:
    """Ranks wait at the rendezvous and say that not all have joined."""
    for pod in facts.running:
        if joined := blame.never_met(facts.output.get(pod.uid, Output()).lines):
            sentence = f"{facts.name} waits at its rendezvous: {joined}, says {facts.label(pod.name)}"
            return Verdict(sentence, (*_last_lines(facts, pod), *_not_running(facts)), (facts.command("logs"),))
    return None


def incomplete(facts: Facts) -> Verdict | None:
    """Some ranks run and some do not, for no reason that was found: those that run may wait for them."""
    missing = _not_running(facts)
    if not facts.running or not missing:
        return None
    sentence = f"{facts.name} is incomplete: {len(facts.running)} of {facts.job.total} ranks run"
    return Verdict(f"{sentence}; {missing[0]}", missing[1:], (facts.command("logs"), facts.command("events")))


def _not_running(facts: Facts) -> tuple[str, ...]:
    """Return what became of each rank that does not run; one that has succeeded is missed by nobody."""
    there = {(pod.role, pod.index): pod for pod in facts.ranks}
    found = []
    for role in facts.job.roles:
        for index in range(role.replicas):
            pod = there.get((role.name, index))
            if index in facts.record.role(role.name).done or (pod and pod.phase == "Succeeded"):
                continue
            if pod is None:
                found.append(f"{role.label}-{index} has no pod")
            elif pod.terminating:
                found.append(f"{role.label}-{index} is stopping")
            elif pod.phase != "Running":
                found.append(f"{role.label}-{index} is {pod.phase}")
    return tuple(found)


def stuck(facts: Facts) -> Verdict | None:
    """Nobody has printed for 5 minutes, or one rank has not while its mates go on: who fell behind is named."""
    printed = [(pod, said) for pod in facts.running if (said := facts.output.get(pod.uid)) and said.lines and said.at]
    silent = [(pod, said) for pod, said in printed if said.at and facts.now - said.at >= SILENT]
    if not silent:
        return None
    alike = [each for each in silent if _has_mates(each[1], printed)]
    if len(silent) < len(printed):
        behind = alike[0] if len(alike) == 1 else None
        return _behind(facts, *behind, printed) if behind else None
    return _all_silent(facts, alike or silent)


def _has_mates(said: Output, printed: list[tuple[Pod, Output]]) -> bool:
    """Say whether others print lines of the same form, so that its silence means something."""
    return sum(_shape(other.lines[-1]) == _shape(said.lines[-1]) for _, other in printed) > 1


def _shape(line: str) -> str:
    return _NUMBER.sub("#", line)


def _behind(facts: Facts, pod: Pod, said: Output, printed: list[tuple[Pod, Output]]) -> Verdict:
    rank = facts.label(pod.name)
    others = len(printed) - 1
    sentence = (
        f"{facts.name} is stuck in {rank}: it has printed nothing for {facts.since(said.at)}"
        f" while {'the other rank does' if others == 1 else f'the other {others} ranks do'}"
    )
    return Verdict(sentence, _last_lines(facts, pod), _look_into(facts, rank))


def _all_silent(facts: Facts, silent: list[tuple[Pod, Output]]) -> Verdict:
    """Name the rank that is behind by the numbers in the last lines, else the one that fell silent first."""
    count, last = len(facts.running), max(each.at for _, each in silent if each.at)
    who = f"none of {count} ranks has printed" if count > 1 else "its one rank has not printed"
    found = _slow(silent)
    pod, said = found[0] if found else min(silent, key=lambda each: each[1].at or facts.now)
    rank = facts.label(pod.name)
    sure = "is stuck" if found else "may be stuck"
    first = f"; {rank} was the first to fall silent, {facts.since(said.at)} ago" if count > 1 else ""
    why = f"; {rank} is behind, {found[1]}: they wait in it" if found else first
    lines = (f"its last line, at {facts.clock(said.at)}:", *quoted(said.lines[-1:]))
    return Verdict(f"{facts.name} {sure}: {who} for {facts.since(last)}{why}", lines, _look_into(facts, rank))


def _slow(silent: list[tuple[Pod, Output]]) -> tuple[tuple[Pod, Output], str] | None:
    """Return the one rank whose last line has a smaller number than those of its mates, and the numbers."""
    shapes = Counter(_shape(said.lines[-1]) for _, said in silent)
    common, count = shapes.most_common(1)[0]
    mates = [each for each in silent if _shape(each[1].lines[-1]) == common]
    progress = [(_first_number(said.lines[-1]), pod, said) for pod, said in mates]
    least, most = min(each[0] for each in progress), max(each[0] for each in progress)
    slow = [(pod, said) for number, pod, said in progress if number == least]
    if count > 1 and least < most and len(slow) == 1:
        return slow[0], f"at {least:g} when the others were at {most:g}"
    return None


def _first_number(line: str) -> float:
    found = _NUMBER.search(line)
    return float(found[0]) if found else 0.0


def _look_into(facts: Facts, rank: str) -> tuple[str, ...]:
    return facts.command("logs", rank), facts.command("exec", rank) + " -- py-spy dump --pid 1", facts.command("top")


def restarted(facts: Facts) -> Verdict | None:
    """The job runs again after restarts: how many, and what the last failure was."""
    restarts = blame.restart_count(facts)
    if not facts.running or not restarts:
        return None
    found = blame.blamed(facts)
    why = f"; last, {found}{blame.failed_ago(facts, found)}" if found else ""
    sentence = f"{facts.name} runs again, {_up(facts)}, after {counted(restarts, 'restart')}{why}"
    said = (facts.standing.message,) if facts.standing.phase == "Restarting" and facts.standing.message else ()
    lines = blame.last_words(facts, found) if found else ()
    next_ = (facts.command("logs", facts.label(found.pod)),) if found else (facts.command("events"),)
    evidence = (*said, *blame.restarts(facts), *blame.disturbed(facts), *lines, *_limits(facts))
    return Verdict(sentence, evidence, next_)


def well(facts: Facts) -> Verdict | None:
    """It runs as it should: how many ranks, and when the last line was printed."""
    if not facts.running:
        return None
    times = [(said.at, pod) for pod in facts.running if (said := facts.output.get(pod.uid)) and said.at]
    newest = max(times, key=lambda each: each[0], default=None)
    last = f", last line {facts.since(newest[0])} ago ({facts.label(newest[1].name)})" if newest else ""
    done = sum(pod.phase == "Succeeded" for pod in facts.ranks)
    over = (f"{counted(done, 'rank')} succeeded already",) if done else ()
    return Verdict(f"{facts.name} is running well: {_up(facts)}{last}", over, (facts.command("logs") + " -f",))


def starting(facts: Facts) -> Verdict | None:
    """It was made a moment ago and its pods are being started."""
    age = facts.since(at(facts.object, ("metadata", "creationTimestamp")))
    there = [pod for pod in facts.ranks if not pod.terminating]
    sentence = f"{facts.name} is starting: {len(there)} of {facts.job.total} pods are there, none runs yet"
    return Verdict(f"{sentence}, {age} after it was made" if age else sentence, _not_running(facts)[:5])


def _up(facts: Facts) -> str:
    return f"{len(facts.running)} of {facts.job.total} ranks"


def _last_lines(facts: Facts, pod: Pod) -> tuple[str, ...]:
    said = facts.output.get(pod.uid, Output())
    return blame.said_last(facts.label(pod.name), said.lines[-blame.LAST_LINES :])


RUNNING: tuple[Judge, ...] = (cut_short, stopping, crash_loop, resting, unhealthy, restarting)
"""Looked at before anything else about pods that have begun."""
GOING_ON: tuple[Judge, ...] = (meeting_incomplete, incomplete, stuck, restarted)
FINE: tuple[Judge, ...] = (well, starting)
