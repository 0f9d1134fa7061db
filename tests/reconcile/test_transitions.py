"""Every event, action and phase of a Volcano Job: what is decided is what the table says, and the page says it too."""

from itertools import product
from pathlib import Path

import pytest
from tests.reconcile.volcano import acts, command, look, manifest, phase, pod_group

from trainwright.core.actions import Decision
from trainwright.core.objects import Object
from trainwright.reconcile.transitions import ACTIONS, ALIVE, EVENTS, OWN_WAY, PHASES, TARGETED, TRANSITIONS, effect

PAGE = Path(__file__).parents[2] / "docs/kinds/volcano-job.md"
ALL = "lead-0:Running lead-1:Succeeded worker-0:Running"
SHOWN = {
    "TaskCompleted": "lead-0:Succeeded lead-1:Succeeded worker-0:Running",
    "TaskFailed": "lead-0:Running+3 lead-1:Succeeded worker-0:Running",
    "PodFailed": "lead-0:Failed=3 lead-1:Succeeded worker-0:Running",
    "PodEvicted": "lead-1:Succeeded worker-0:Running",
    "PodPending": "lead-0:Pending lead-1:Succeeded worker-0:Running",
    "Unknown": ALL,
}
SEEN = {"lead": {"seen": {"0": "lead-0-a"}, "done": [1]}, "worker": {"seen": {"0": "worker-0-a"}}}


def _job(said: str, phase: str, **record: object) -> Object:
    status = {"state": {"phase": phase}, "retryCount": 0, "record": {"version": 0, "roles": SEEN, **record}}
    return {**manifest("lead=2 worker=1", said), "status": status}


def _happens(event: str, said: str, phase: str) -> Decision:
    timer = {"at": "2026-03-01T11:59:00Z", "action": said.split(":")[-1].split("@")[0], "event": event}
    waits = [{**timer, "role": "lead", "index": 0, "uid": "lead-0-a"}] if event == "PodPending" and said else []
    others = (pod_group("Unknown"),) if event == "Unknown" else ()
    return look(_job(said, phase, timers=waits), SHOWN[event], others=others)


def _removed(removes: str, event: str, action: str) -> set[str]:
    there = {word.split(":")[0]: word.split(":")[1] for word in SHOWN.get(event, ALL).split()}
    if removes == "unfinished pods":
        return {pod for pod, now in there.items() if now[:6] not in ("Succee", "Failed")}
    if removes == "the target's pods":
        whole = action == "RestartTask" or event == "TaskCompleted"
        return {pod for pod in there if pod.startswith("lead-" if whole else "lead-0")}
    return set(there)


@pytest.mark.parametrize(("event", "action", "before"), list(product(EVENTS, ACTIONS, PHASES)))
def test_what_an_event_leads_to(event, action, before):
    decision = _happens(event, f"{event}:{action}" + ("@60" if event == "PodPending" else ""), before)

    told = effect(before, action)
    if told is None or before not in ALIVE or (event == "Unknown" and action in TARGETED):
        calm = _happens(event, "", before)
        assert (phase(decision), acts(decision)) == (phase(calm), acts(calm))
        assert decision.status["retryCount"] == decision.status["version"] == 0
        return
    assert phase(decision) == told.to
    assert decision.status["retryCount"] == int(told.counted)
    assert decision.status["version"] == int(action not in TARGETED)
    gone = {each.removeprefix("delete Pod/") for each in acts(decision).split(", ") if each}
    assert gone == _removed(told.removes, event, action)


@pytest.mark.parametrize(("action", "before"), list(product(ACTIONS, PHASES)))
def test_what_a_command_leads_to(action, before):
    decision = look(_job("", before), ALL, others=(command(action),))

    told = effect(before, action) if action not in TARGETED else None
    calm = phase(look(_job("", before), ALL))
    assert phase(decision) == (told.to if told else calm)
    assert decision.status["retryCount"] == int(bool(told and told.counted))
    assert decision.status["record"]["commands"] == ["uid-c"]
    assert "delete Command/c" in map(str, decision.actions)


def test_a_command_that_was_carried_out_is_only_removed():
    decision = look(_job("", "Running", commands=["uid-c"]), ALL, others=(command("AbortJob"),))

    assert phase(decision) == "Running"
    assert "delete Command/c" in map(str, decision.actions)


def test_a_command_that_is_gone_is_forgotten():
    assert "commands" not in look(_job("", "Running", commands=["uid-c"]), ALL).status["record"]


def test_a_command_for_an_earlier_job_of_that_name_is_left_alone():
    decision = look(_job("", "Running"), ALL, others=(command("AbortJob", uid="another"),))

    assert phase(decision) == "Running"
    assert "delete Command/c" not in map(str, decision.actions)


def test_of_several_commands_the_oldest_comes_first():
    late, early = command("TerminateJob", "a", seconds=9), command("AbortJob", "b", seconds=1)

    assert phase(look(_job("", "Running"), ALL, others=(late, early))) == "Aborting"


def tables() -> str:
    """Return the tables as the page has them."""
    events = [f"| `{event}` | {says} |" for event, says in EVENTS.items()]
    cells = [
        f"| {phase} | {', '.join(f'`{action}`' for action in ACTIONS if str(effect(phase, action)) == told)} | {told} |"
        for phase in PHASES
        for told in dict.fromkeys(map(str, (each for each in TRANSITIONS[phase].values())))
    ]
    own = [f"| {phase} | {says} |" for phase, says in OWN_WAY.items()]
    return "\n".join(
        [
            "| event | when |",
            "|---|---|",
            *events,
            "",
            "| phase | action | effect |",
            "|---|---|---|",
            *cells,
            "",
            "| phase | without any action |",
            "|---|---|",
            *own,
        ]
    )


def test_the_page_prints_the_tables():
    assert tables() in PAGE.read_text(), f"put these tables into {PAGE}:\n{tables()}"
