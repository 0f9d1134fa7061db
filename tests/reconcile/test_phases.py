"""The life of a Volcano Job, look by look: verdicts, runs, delays, launch order, and what is written down."""

from datetime import timedelta

import pytest
from tests.reconcile.making import NOON
from tests.reconcile.volcano import acts, command, look, looks, manifest, phase, pod

from trainwright.core import names
from trainwright.core.actions import Create, Decision
from trainwright.core.objects import Object
from trainwright.kinds import VOLCANO_JOB

RUN = "worker-0:Running worker-1:Running"


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        pytest.param(manifest("worker=2"), "worker-0:Succeeded worker-1:Running", "Running", id="one still runs"),
        pytest.param(manifest("worker=2"), "worker-0:Succeeded worker-1:Succeeded", "Completed", id="all succeeded"),
        pytest.param(manifest("worker=2"), "worker-0:Succeeded worker-1:Failed=1", "Failed", id="one failed"),
        pytest.param(
            manifest("worker=2/1"), "worker-0:Succeeded worker-1:Failed=1", "Completed", id="the minimum has succeeded"
        ),
        pytest.param(
            manifest("ps=2/1 worker=2/1", minAvailable=2),
            "ps-0:Failed=1 ps-1:Failed=1 worker-0:Succeeded worker-1:Succeeded",
            "Failed",
            id="a task is short of its minimum",
        ),
        pytest.param(
            manifest("ps=2/1 worker=2/1", minAvailable=1),
            "ps-0:Failed=1 ps-1:Failed=1 worker-0:Succeeded worker-1:Succeeded",
            "Completed",
            id="tasks do not matter where the job asks for less than all of them",
        ),
        pytest.param(
            manifest("worker=2", minSuccess=1), "worker-0:Succeeded worker-1:Running", "Completed", id="minSuccess met"
        ),
        pytest.param(
            manifest("worker=2/1", minSuccess=2),
            "worker-0:Succeeded worker-1:Failed=1",
            "Failed",
            id="minSuccess missed",
        ),
        pytest.param(
            manifest("worker=5/3"),
            "worker-0:Pending worker-1:Pending worker-2:Pending worker-3:Running worker-4:Running",
            "Pending",
            id="too many wait",
        ),
        pytest.param(
            manifest("worker=5/3"),
            "worker-0:Pending worker-1:Pending worker-2:Running worker-3:Succeeded worker-4:Failed=1",
            "Running",
            id="enough do not wait",
        ),
    ],
)
def test_the_verdict_on_a_running_job(job, pods, expected):
    status = {"state": {"phase": "Running"}, "record": {"version": 0}}

    assert phase(look({**job, "status": status}, pods)) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param("worker-0:Running", "Pending", id="too few"),
        pytest.param(RUN, "Running", id="enough run"),
        pytest.param("worker-0:Running worker-1:Failed=1", "Running", id="what has failed was there too"),
    ],
)
def test_a_job_runs_when_enough_pods_are_there(pods, expected):
    assert phase(looks(manifest("worker=3/2"), "", pods)[1]) == expected


def test_the_policies_of_a_task_are_asked_before_those_of_the_job():
    job = manifest("worker=2", "PodFailed:AbortJob", task_policies={"worker": "PodFailed:RestartJob"})

    assert phase(looks(job, "", RUN, "worker-0:Running worker-1:Failed=1")[1]) == "Restarting"


def test_of_two_events_at_one_look_the_end_of_a_task_comes_first():
    job = manifest("lead=1 worker=1", "PodFailed:RestartJob TaskCompleted:CompleteJob")

    assert (
        phase(looks(job, "", "lead-0:Running worker-0:Running", "lead-0:Succeeded worker-0:Failed=1")[1])
        == "Completing"
    )


def test_two_pods_that_fail_at_one_look_are_restarted_in_one_run():
    job = manifest("worker=2", "PodFailed:RestartPod")

    job, decision = looks(job, "", RUN, "worker-0:Failed=1 worker-1:Failed=1")

    assert acts(decision) == "delete Pod/worker-1, delete Pod/worker-0"
    assert decision.status["retryCount"] == 1


def test_who_failed_is_named():
    _, decision = looks(manifest("worker=2", "PodFailed:AbortJob"), "", RUN, "worker-0:Running worker-1:Failed=3")

    state = decision.status["state"]
    assert state["reason"] == "PodFailed"
    assert state["message"] == "AbortJob because of PodFailed (j-worker-1). j-worker-1 exited with code 3."
    assert decision.status["record"]["culprit"]["code"] == 3


def test_a_wait_is_remembered_and_says_when_to_look_again():
    job, decision = looks(manifest("worker=2", "PodEvicted:RestartJob@600"), "", RUN, "7 worker-0:Running")

    assert decision.look_again == NOON + timedelta(seconds=607)
    assert phase(look(job, "worker-0:Running worker-1:Pending#b", 606)) == "Pending"
    assert phase(look(job, "worker-0:Running worker-1:Pending#b", 607)) == "Restarting"
    assert look(job, "worker-0:Running worker-1:Running#b", 100).status["record"].get("timers") is None


def test_a_restart_of_the_job_ends_all_waits():
    job = manifest("worker=2", "PodEvicted:AbortJob@600 PodFailed:RestartJob")

    _, decision = looks(job, "", RUN, "worker-0:Running", "worker-0:Failed=1")

    assert phase(decision) == "Restarting"
    assert decision.look_again is None


def test_a_failed_pod_that_somebody_removes_is_made_again():
    job, _ = looks(manifest("worker=2"), "", RUN, "worker-0:Running worker-1:Failed=1")

    assert acts(look(job, "worker-0:Running")) == "create Pod/worker-1"


def _gangs(decision: Decision) -> list[str]:
    made = [each.object for each in decision.actions if isinstance(each, Create) and each.object["kind"] == "Pod"]
    return [obj["metadata"]["annotations"][names.GANG_MIN_ANNOTATION] for obj in made]


@pytest.mark.parametrize(
    ("after", "pods", "made"),
    [
        pytest.param({"name": ["a"]}, "", "create Pod/a-0, create Pod/b-0", id="what waits is not made"),
        pytest.param({"name": ["a"]}, "a-0:Running b-0:Pending", "create Pod/c-0", id="until it is ready"),
        pytest.param({"name": ["a", "b"]}, "a-0:Running b-0:Pending", "", id="all of several"),
        pytest.param(
            {"name": ["a", "b"], "iteration": "any"}, "a-0:Running b-0:Pending", "create Pod/c-0", id="or any"
        ),
        pytest.param({"name": ["a"]}, "a-0:Running! b-0:Running", "", id="a pod that is going is not ready"),
        pytest.param({"name": ["a"]}, "a-0:Succeeded b-0:Running", "create Pod/c-0", id="one that succeeded is"),
    ],
)
def test_a_task_starts_after_others(after, pods, made):
    assert acts(look(manifest("a=1 b=1 c=1", after={"c": after}), pods)) == made


def test_a_pod_is_ready_when_all_its_containers_are():
    job = manifest("a=1 c=1", after={"c": {"name": ["a"]}})
    status: Object = {"state": {"phase": "Pending"}, "record": {"version": 0}}
    slow = pod("a-0:Running")
    slow["status"]["containerStatuses"][0]["ready"] = False

    assert acts(look({**job, "status": status}, "", others=(slow,))) == ""


def test_the_gang_counts_the_tasks_that_may_start():
    job = manifest("a=2 c=3", after={"c": {"name": ["a"]}})

    assert _gangs(look(job, "")) == ["2", "2"]
    assert _gangs(look(job, "a-0:Running a-1:Running")) == ["5", "5", "5"]


def test_the_gang_does_not_wait_for_pods_that_have_succeeded_and_are_gone():
    job, _ = looks(
        manifest("worker=3"), "", f"{RUN} worker-2:Running", f"worker-0:Succeeded {RUN[17:]} worker-2:Running"
    )

    assert _gangs(look(job, "worker-1:Running")) == ["2"]


def test_the_status_tells_what_users_of_volcano_read():
    job = manifest("ps=1 worker=2", plugins={"svc": [], "env": []})

    _, decision = looks(job, "", "ps-0:Running worker-0:Running worker-1:Succeeded", "9 ps-0:Running! worker-0:Running")

    status = {name: value for name, value in decision.status.items() if name not in ("record", "state")}
    assert status == {
        "minAvailable": 3,
        "taskStatusCount": {"worker": {"phase": {"Running": 1, "Succeeded": 1}}},
        "pending": 0,
        "running": 1,
        "succeeded": 1,
        "failed": 0,
        "unknown": 0,
        "terminating": 1,
        "version": 0,
        "retryCount": 0,
        "controlledResources": {"plugin-svc": "svc", "plugin-env": "env"},
        "conditions": [
            {"status": "Pending", "lastTransitionTime": "2026-03-01T12:00:00Z"},
            {"status": "Running", "lastTransitionTime": "2026-03-01T12:00:00Z"},
        ],
    }


@pytest.mark.parametrize(
    ("phase", "outcome"),
    [
        ("Pending", ""),
        ("Running", ""),
        ("Restarting", ""),
        ("Aborting", ""),
        ("Completed", "Succeeded"),
        ("Failed", "Failed"),
        ("Terminated", "Failed"),
        ("Aborted", "Failed"),
    ],
)
def test_how_a_phase_counts_for_who_waits_for_the_end(phase, outcome):
    assert VOLCANO_JOB.face.standing({"state": {"phase": phase}}).outcome == outcome


def test_a_stopped_job_says_how_long_it_was_there():
    job, _ = looks(manifest("worker=2"), "", RUN)
    aborting = look(job, RUN, 3700, others=(command("AbortJob"),))

    aborted = look({**job, "status": aborting.status}, "", 3725)

    assert phase(aborted) == "Aborted"
    assert aborted.status["runningDuration"] == "1h2m5s"
