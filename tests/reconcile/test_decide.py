"""The life of a PyTorchJob, as tables of sentences: what is seen, and what is decided."""

from datetime import timedelta
from time import perf_counter

import pytest
from tests.reconcile.making import (
    NOON,
    acts,
    conditions,
    events,
    look,
    looks,
    manifest,
    message,
    pod,
    read,
    restarts,
)

from trainwright.core.actions import Create, Emit
from trainwright.core.objects import Object, timestamp
from trainwright.desired import KUBERNETES
from trainwright.kinds import PYTORCH_JOB
from trainwright.reconcile.decide import decide, refuse
from trainwright.reconcile.kind import Observed


def elastic(workers: int = 3, policy: str = "OnFailure", master: int = 0, **run_policy) -> Object:
    return manifest(master, workers, policy, {"minReplicas": 1, "maxReplicas": 4}, **run_policy)


RUNNING = "worker-0:Running worker-1:Running worker-2:Running"


@pytest.mark.parametrize(
    ("pods", "actions"),
    [
        pytest.param("", "create Pod/master-0, create Pod/worker-0, create Pod/worker-1", id="a new job gets its pods"),
        pytest.param("master-0:Running worker-0:Running worker-1:Running", "", id="a healthy job is left alone"),
        pytest.param("master-0:Running worker-0:Pending", "create Pod/worker-1", id="what is missing is made"),
        pytest.param(
            "master-0:Running worker-0:Running worker-1:Running!",
            "",
            id="a pod is not made again before the old one is gone",
        ),
        pytest.param(
            "master-0:Running worker-0:Running worker-1:Running worker-2:Running worker-3:Pending",
            "delete Pod/worker-3, delete Pod/worker-2",
            id="surplus goes from the top",
        ),
        pytest.param(
            "master-0:Running worker-1:Running worker-3:Running!",
            "create Pod/worker-0",
            id="a hole below is filled while surplus still goes",
        ),
        pytest.param(
            "master-0:Running worker-0:Running worker-1:Failed",
            "delete Pod/worker-1",
            id="an evicted pod is removed to be made again",
        ),
        pytest.param(
            "master-0:Running worker-0:Succeeded worker-1:Running", "", id="a worker that has succeeded is left alone"
        ),
    ],
)
def test_pods(pods, actions):
    assert acts(look(manifest(master=1, workers=2), pods)) == actions


def test_the_first_round_makes_services_before_pods():
    decision = decide(PYTORCH_JOB, read(manifest(master=1, workers=1)), Observed(), KUBERNETES, NOON)

    assert acts(decision) == "create Service/master-0, create Service/j, create Pod/master-0, create Pod/worker-0"
    assert conditions(decision.status) == "Created"
    assert decision.status["startTime"] == timestamp(NOON)
    assert decision.status["conditions"][0]["message"] == "PyTorchJob j is created."


def test_replicas_zero_is_nothing_to_do_and_no_success():
    obj, _ = looks(elastic(2), (0, "worker-0:Running worker-1:Running"))

    obj, down = looks(scaled(obj, 0), (5, "worker-0:Running worker-1:Running"))
    _, empty = looks(obj, (9, ""))

    assert acts(down) == "delete Pod/worker-1, delete Pod/worker-0"
    assert acts(empty) == ""
    assert conditions(empty.status) == "Created Running"
    assert restarts(empty.status) == 0


@pytest.mark.parametrize(
    ("master", "workers", "stretch", "pods", "ends"),
    [
        pytest.param(1, 2, None, "master-0:Succeeded worker-0:Running worker-1:Running", True, id="the master decides"),
        pytest.param(1, 2, None, "master-0:Running worker-0:Succeeded worker-1:Succeeded", False, id="not the workers"),
        pytest.param(0, 2, None, "worker-0:Succeeded worker-1:Running", False, id="without a master all workers must"),
        pytest.param(0, 2, None, "worker-0:Succeeded worker-1:Succeeded", True, id="all workers have succeeded"),
        pytest.param(
            0, 2, {}, "worker-0:Running worker-1:Succeeded", True, id="one worker of an elastic job is enough"
        ),
        pytest.param(1, 2, {}, "master-0:Running worker-1:Succeeded", False, id="an elastic job's master decides too"),
        pytest.param(
            1, 1, None, "master-0:Succeeded worker-0:Failed=1", True, id="success comes before a failure seen with it"
        ),
    ],
)
def test_success(master, workers, stretch, pods, ends):
    decision = look(manifest(master, workers, "Never", stretch), pods)

    assert ("Succeeded" in conditions(decision.status)) == ends
    assert ("completionTime" in decision.status) == ends


def test_after_success_who_still_runs_counts_as_succeeded():
    _, decision = looks(
        manifest(master=1, workers=2),
        (0, "master-0:Running worker-0:Running worker-1:Running"),
        (9, "master-0:Succeeded worker-0:Running worker-1:Running"),
    )

    assert conditions(decision.status) == "Created -Running Succeeded"
    assert message(decision.status) == "PyTorchJob j is successfully completed."
    counts = {name: (role["active"], role["succeeded"]) for name, role in decision.status["replicaStatuses"].items()}
    assert counts == {"Master": (0, 1), "Worker": (0, 2)}


def test_what_has_succeeded_is_never_run_again():
    obj = manifest(workers=2)

    _, decision = looks(obj, (0, "worker-0:Running worker-1:Succeeded"), (5, "worker-0:Running"))

    assert acts(decision) == ""
    assert decision.status["replicaStatuses"]["Worker"]["succeeded"] == 1


@pytest.mark.parametrize(
    ("policy", "pods", "expected", "actions"),
    [
        pytest.param("Never", "worker-1:Failed=1", "Created Failed", "", id="Never: a failure is final"),
        pytest.param("Never", "worker-1:Failed", "Created Failed", "", id="Never: so is an eviction"),
        pytest.param(
            "OnFailure", "worker-1:Failed=1", "Created Restarting", "delete Pod/worker-1", id="OnFailure: made again"
        ),
        pytest.param(
            "Always", "worker-1:Failed=1", "Created Restarting", "delete Pod/worker-1", id="Always: made again"
        ),
        pytest.param("ExitCode", "worker-1:Failed=1", "Created Failed", "", id="ExitCode: 1 is final"),
        pytest.param("ExitCode", "worker-1:Failed=3", "Created Failed", "", id="ExitCode: 3 is final"),
        pytest.param("ExitCode", "worker-1:Failed=127", "Created Failed", "", id="ExitCode: 127 is final"),
        pytest.param(
            "ExitCode",
            "worker-1:Failed=128",
            "Created Restarting",
            "delete Pod/worker-1",
            id="ExitCode: 128 is retried",
        ),
        pytest.param(
            "ExitCode",
            "worker-1:Failed=130",
            "Created Restarting",
            "delete Pod/worker-1",
            id="ExitCode: 130 is retried",
        ),
        pytest.param(
            "ExitCode",
            "worker-1:Failed=138",
            "Created Restarting",
            "delete Pod/worker-1",
            id="ExitCode: 138 is retried",
        ),
        pytest.param(
            "ExitCode",
            "worker-1:Failed",
            "Created Restarting",
            "delete Pod/worker-1",
            id="ExitCode: evicted is retried",
        ),
        pytest.param(
            "ExitCode", "worker-1:Failed=1!", "Created", "", id="ExitCode: what a pod says on its way out is not final"
        ),
    ],
)
def test_failure(policy, pods, expected, actions):
    decision = look(manifest(workers=2, policy=policy), f"worker-0:Pending {pods}")

    assert conditions(decision.status) == expected
    assert acts(decision) == actions


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param(
            "Never",
            "PyTorchJob j is failed because 1 Worker replica(s) failed. j-worker-1 exited with code 3.",
            id="Never",
        ),
        pytest.param(
            "ExitCode",
            'job "j" is failing because "Worker" replica(s) failed. j-worker-1 exited with code 3.',
            id="ExitCode",
        ),
        pytest.param(
            "OnFailure",
            "PyTorchJob j is restarting because 1 Worker replica(s) failed. j-worker-1 exited with code 3.",
            id="OnFailure",
        ),
    ],
)
def test_messages_name_the_culprit(policy, words):
    decision = look(manifest(workers=2, policy=policy), "worker-0:Running worker-1:Failed=3")

    assert message(decision.status) == words
    assert any(isinstance(each, Emit) and each.message == words and each.type == "Warning" for each in decision.actions)


def test_a_failed_job_has_a_completion_time_a_cause_and_a_culprit():
    decision = look(manifest(workers=2, policy="ExitCode"), "worker-0:Running worker-1:Failed=3")

    assert decision.status["completionTime"] == timestamp(NOON)
    assert decision.status["replicaStatuses"]["Worker"]["failed"] == 1
    assert decision.status["record"]["cause"] == "Failure"
    assert decision.status["record"]["culprit"]["pod"] == "j-worker-1"
    assert decision.status["record"]["culprit"]["code"] == 3


def test_once_failed_nothing_is_said_again():
    obj, failed = looks(manifest(workers=1, policy="Never"), (0, "worker-0:Failed=1"))
    later = look(obj, "worker-0:Succeeded", seconds=60)

    assert later.status == failed.status
    assert events(later) == []


@pytest.mark.parametrize(
    ("limit", "steps", "count", "fails"),
    [
        pytest.param(
            2, [(0, "worker-0:Running"), (5, "worker-0:Running+1")], 1, False, id="one restart of two is fine"
        ),
        pytest.param(2, [(0, "worker-0:Running"), (5, "worker-0:Running+2")], 2, True, id="the second one is the last"),
        pytest.param(0, [(0, "worker-0:Running")], 0, False, id="a limit of 0 lets a job run"),
        pytest.param(0, [(0, "worker-0:Running+1")], 1, True, id="a limit of 0 allows no restart"),
        pytest.param(1, [(0, "worker-0:Running+1")], 1, True, id="nor does a limit of 1"),
        pytest.param(None, [(0, "worker-0:Running+50")], 50, False, id="without a limit a job restarts for ever"),
        pytest.param(
            3,
            [(0, "worker-0:Running+1"), (5, "worker-0:Running+1"), (9, "worker-0:Running+1")],
            1,
            False,
            id="looking again counts nothing twice",
        ),
        pytest.param(
            3,
            [(0, "worker-0:Running+1"), (5, "worker-0:Failed=1+1"), (9, ""), (12, "worker-0:Running#b")],
            2,
            False,
            id="a pod made again counts one more, and its past restarts are not lost",
        ),
        pytest.param(
            3,
            [(0, "worker-0:Failed=1"), (5, "worker-0:Failed=1#b"), (9, "worker-0:Failed=1#c")],
            3,
            True,
            id="pods made again count across all that were",
        ),
        pytest.param(
            5,
            [(0, "worker-0:Failed=1"), (1, "worker-0:Failed=1"), (2, "worker-0:Failed=1!"), (3, "")],
            1,
            False,
            id="one failed pod counts once however often it is seen",
        ),
        pytest.param(
            5,
            [(0, "worker-0:Running"), (5, ""), (9, "worker-0:Running#b")],
            1,
            False,
            id="a pod that vanished counts once",
        ),
        pytest.param(
            5,
            [(0, "worker-0:Running"), (1, "worker-0:Running!"), (2, "worker-0:Failed=1!"), (3, "")],
            1,
            False,
            id="a pod somebody deletes counts once, however slowly it goes",
        ),
        pytest.param(5, [(0, "worker-0:Pending"), (5, "")], 0, False, id="a pod that never ran is no restart"),
        pytest.param(5, [(0, "worker-0:Pending!"), (5, "")], 0, False, id="nor is one deleted before it ran"),
    ],
)
def test_backoff_limit(limit, steps, count, fails):
    policy = {} if limit is None else {"backoffLimit": limit}

    _, decision = looks(manifest(workers=1, **policy), *steps)

    assert restarts(decision.status) == count
    assert ("Failed" in conditions(decision.status)) == fails


def test_the_backoff_limit_stops_what_still_runs_and_keeps_what_has_ended():
    obj = manifest(workers=3, backoffLimit=1)

    decision = look(obj, "worker-0:Running+1 worker-1:Succeeded worker-2:Pending")

    assert message(decision.status).startswith("Job j has failed because it has reached the specified backoff limit.")
    assert "j-worker-0" in message(decision.status)
    assert acts(decision) == "delete Pod/worker-2, delete Pod/worker-0"
    assert decision.status["record"]["cause"] == "BackoffLimit"


def test_a_pod_of_policy_exit_code_is_not_retried_for_ever():
    steps = [(second, f"worker-0:Failed=137#{letter}") for second, letter in enumerate("abc")]

    _, decision = looks(manifest(workers=1, policy="ExitCode", backoffLimit=3), *steps)

    assert conditions(decision.status) == "Created Restarting Failed"


@pytest.mark.parametrize(
    ("seconds", "fails", "look_again"),
    [
        pytest.param(10, False, 30, id="before the deadline a timer is set"),
        pytest.param(29, False, 30, id="up to the last second"),
        pytest.param(30, True, None, id="at the deadline the job fails"),
        pytest.param(300, True, None, id="and not later, whatever woke us"),
    ],
)
def test_deadline(seconds, fails, look_again):
    obj = manifest(workers=1, activeDeadlineSeconds=30)

    _, decision = looks(obj, (0, "worker-0:Running"), (seconds, "worker-0:Running"))

    assert ("Failed" in conditions(decision.status)) == fails
    assert decision.look_again == (NOON + timedelta(seconds=look_again) if look_again else None)
    if fails:
        words = "Job j has failed because it was active longer than specified deadline."
        assert message(decision.status) == words
        assert acts(decision) == "delete Pod/worker-0"
        assert decision.status["record"]["cause"] == "Deadline"


@pytest.mark.parametrize(
    ("clean", "policy", "pods", "actions"),
    [
        pytest.param("None", "OnFailure", "master-0:Succeeded worker-0:Running", "", id="None keeps everything"),
        pytest.param("None", "Never", "master-0:Failed=1 worker-0:Running", "", id="also of a failed job"),
        pytest.param(
            "Running",
            "OnFailure",
            "master-0:Succeeded worker-0:Running worker-1:Pending",
            "delete Pod/worker-1, delete Pod/worker-0",
            id="Running removes what has not ended",
        ),
        pytest.param(
            "Running",
            "Never",
            "master-0:Running worker-0:Failed=1 worker-1:Succeeded",
            "delete Pod/master-0, delete Service/master-0",
            id="and the Service of its name; what has ended stays to be read",
        ),
        pytest.param(
            "All",
            "OnFailure",
            "master-0:Succeeded worker-0:Running",
            "delete Pod/master-0, delete Pod/worker-0, delete Service/master-0, delete Service/j",
            id="All removes everything",
        ),
    ],
)
def test_clean_up(clean, policy, pods, actions):
    assert acts(look(manifest(master=1, workers=2, policy=policy, cleanPodPolicy=clean), pods)) == actions


@pytest.mark.parametrize(
    ("seconds", "actions", "look_again"),
    [
        pytest.param(10, "", 100, id="a finished job waits for its time"),
        pytest.param(100, "delete PyTorchJob/j", None, id="then it is removed"),
    ],
)
def test_time_to_live(seconds, actions, look_again):
    obj = manifest(workers=1, ttlSecondsAfterFinished=100)

    _, decision = looks(obj, (0, "worker-0:Succeeded"), (seconds, "worker-0:Succeeded"))

    assert acts(decision) == actions
    assert decision.look_again == (NOON + timedelta(seconds=look_again) if look_again else None)


def test_time_to_live_of_a_job_that_somebody_else_ended_without_a_time():
    obj, _ = looks(manifest(workers=1, ttlSecondsAfterFinished=5), (0, "worker-0:Succeeded"))
    del obj["status"]["completionTime"]

    assert acts(look(obj, "worker-0:Succeeded", seconds=5)) == "delete PyTorchJob/j"


def suspend(obj: Object, value: bool = True) -> Object:
    return {**obj, "spec": {**obj["spec"], "runPolicy": {**obj["spec"]["runPolicy"], "suspend": value}}}


def test_a_job_created_suspended_has_nothing():
    decision = decide(PYTORCH_JOB, read(manifest(workers=2, suspend=True)), Observed(), KUBERNETES, NOON)

    assert decision.actions == (Emit("PyTorchJobSuspended", "PyTorchJob j is suspended."),)
    assert conditions(decision.status) == "Created Suspended"
    assert "startTime" not in decision.status


def test_suspending_removes_everything_and_resuming_starts_afresh():
    obj, _ = looks(manifest(workers=2), (0, "worker-0:Running worker-1:Running+2"))
    obj, paused = looks(suspend(obj), (10, "worker-0:Running worker-1:Running+2"))

    assert acts(paused) == "delete Pod/worker-1, delete Pod/worker-0, delete Service/worker-0, delete Service/j"
    assert conditions(paused.status) == "Created -Running Suspended"
    assert paused.status["conditions"][1]["reason"] == "PyTorchJobSuspended"
    assert paused.status["conditions"][1]["message"] == "PyTorchJob j is suspended."
    assert paused.status["replicaStatuses"]["Worker"]["active"] == 0
    assert paused.status["startTime"] == timestamp(NOON)

    _, again = looks(suspend(obj, False), (60, "worker-1:Running!"))

    assert acts(again) == "create Pod/worker-0"
    assert again.status["startTime"] == timestamp(NOON + timedelta(seconds=60))
    assert conditions(again.status) == "Created -Running -Suspended"
    assert again.status["conditions"][-1]["reason"] == "PyTorchJobResumed"
    assert restarts(again.status) == 2, "what was counted is kept, and a suspension adds nothing"
    assert "PyTorchJobResumed" in events(again)


def test_a_suspended_job_says_so_once():
    obj, _ = looks(suspend(manifest(workers=1)), (0, "worker-0:Running"))

    assert events(look(obj, "", seconds=9)) == []


def test_pods_left_over_from_before_a_suspension_are_not_kept_after_it():
    obj, _ = looks(manifest(workers=2), (0, "worker-0:Running worker-1:Running"))
    obj, _ = looks(suspend(obj), (10, "worker-0:Running worker-1:Running"))

    assert acts(look(suspend(obj, False), "worker-0:Running", seconds=11)) == "delete Pod/worker-0, create Pod/worker-1"


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(manifest(workers=1, managedBy="kueue.x-k8s.io/multikueue"), id="a job somebody else manages"),
        pytest.param(manifest(workers=1, managedBy="kueue.x-k8s.io/multikueue", suspend=True), id="also suspended"),
    ],
)
def test_somebody_elses_job_is_left_alone(obj):
    decision = look(obj, "worker-0:Failed=1")

    assert decision.status == {}
    assert decision.actions == ()


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector():
    obj = manifest(workers=1)
    obj["metadata"]["deletionTimestamp"] = timestamp(NOON)

    assert look(obj, "").actions == ()


def test_a_pod_of_another_owner_is_left_alone_and_said():
    seen = Observed((pod("worker-0:Running", owner="somebody"), pod("worker-1:Running")))

    decision = decide(PYTORCH_JOB, read(manifest(workers=2)), seen, KUBERNETES, NOON)

    assert "worker-0" not in acts(decision).replace("Service/worker-0", "")
    assert "NameTaken" in events(decision)


def test_a_job_that_goes_on_restarting_says_what_happened_last():
    steps = [(0, "master-0:Failed=130"), (5, "master-0:Failed=1#b")]
    job, first = looks(manifest(master=1), steps[0])
    _, second = looks(job, steps[1])

    assert conditions(second.status) == conditions(first.status) == "Created Restarting"
    assert "exit code 130" in message(first.status)
    assert "exited with code 1." in message(second.status)
    before, after = first.status["conditions"][-1], second.status["conditions"][-1]
    assert after["lastTransitionTime"] == before["lastTransitionTime"], "it is in the same condition all the time"


def test_conditions_that_another_operator_has_worded_stay_in_their_order():
    theirs = [
        {"type": name, "status": "True", "reason": f"PyTorchJob{name}", "message": f"{name}, in other words"}
        for name in ("Created", "Running")
    ]

    decision = look({**manifest(master=1), "status": {"conditions": theirs}}, "master-0:Pending")

    assert conditions(decision.status) == "Created Running"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(0, "")], "Created", id="a new job is created"),
        pytest.param([(0, ""), (1, "master-0:Pending")], "Created", id="waiting is not running"),
        pytest.param([(0, ""), (1, "worker-0:Running")], "Created", id="nor do workers run in the master's name"),
        pytest.param([(0, "master-0:Running")], "Created Running", id="a job runs when its master does"),
        pytest.param(
            [(0, "master-0:Running"), (1, "master-0:Running worker-0:Failed=1")],
            "Created Restarting",
            id="Restarting takes the place of Running",
        ),
        pytest.param(
            [(0, "master-0:Running"), (1, "master-0:Running worker-0:Failed=1"), (2, "master-0:Running")],
            "Created Running",
            id="and Running that of Restarting",
        ),
        pytest.param(
            [(0, "master-0:Running"), (1, "master-0:Running+1")],
            "Created Running",
            id="a restart in place is not shown",
        ),
        pytest.param(
            [(0, "master-0:Running"), (1, "master-0:Succeeded")], "Created -Running Succeeded", id="an end ends Running"
        ),
    ],
)
def test_conditions(steps, expected):
    _, decision = looks(manifest(master=1, workers=1), *steps)

    assert conditions(decision.status) == expected


@pytest.mark.parametrize(
    ("master", "pods", "words"),
    [
        pytest.param(1, "master-0:Running", "PyTorchJob j is running.", id="with a master"),
        pytest.param(0, "worker-0:Running", "PyTorchJob ns/j is running.", id="without one, with the namespace"),
    ],
)
def test_running_message(master, pods, words):
    assert message(look(manifest(master=master, workers=1), pods).status) == words


def test_a_condition_that_stays_keeps_its_times():
    obj, first = looks(manifest(workers=1), (0, "worker-0:Running"))
    later = look(obj, "worker-0:Running", seconds=30)

    assert later.status == first.status


def test_replica_statuses_count_and_say_how_to_select():
    decision = look(
        manifest(master=1, workers=4), "master-0:Running worker-0:Running worker-1:Pending worker-2:Running!"
    )

    assert decision.status["replicaStatuses"]["Worker"] == {
        "active": 1,
        "succeeded": 0,
        "failed": 1,
        "selector": "training.kubeflow.org/job-name=j,training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type=worker",
    }


@pytest.mark.parametrize(
    ("before", "after", "lost", "count"),
    [
        pytest.param(RUNNING, RUNNING, False, 0, id="as long as worker 0 lives nothing happens"),
        pytest.param(
            RUNNING, "worker-0:Running+1 worker-1:Running worker-2:Running", True, 1, id="its container restarts"
        ),
        pytest.param(RUNNING, "worker-0:Failed=137 worker-1:Running worker-2:Running", True, 1, id="its pod fails"),
        pytest.param(RUNNING, "worker-0:Running! worker-1:Running worker-2:Running", True, 1, id="somebody deletes it"),
        pytest.param(RUNNING, "worker-1:Running worker-2:Running", True, 1, id="it is gone"),
        pytest.param(RUNNING, "worker-0:Running#b worker-1:Running worker-2:Running", True, 1, id="it is another one"),
        pytest.param(
            RUNNING, "worker-0:Running+1 worker-1:Failed=1 worker-2:Running+1", True, 1, id="what others suffer is free"
        ),
        pytest.param("worker-0:Pending", "", False, 0, id="a hub that never ran is not lost"),
        pytest.param("", "worker-0:Running+2 worker-1:Running", True, 2, id="restarts before the first look count too"),
        pytest.param(
            RUNNING, "worker-0:Running worker-1:Running worker-2:Failed=1", False, 1, id="others are not the hub"
        ),
    ],
)
def test_losing_the_hub(before, after, lost, count):
    _, decision = looks(elastic(), (0, before), (30, after))

    assert decision.status["record"]["version"] == (1 if lost else 0)
    assert restarts(decision.status) == count
    if lost:
        going = sorted(words.split(":")[0] for words in after.split() if "!" not in words)
        gone = {f"worker-{index}" for index in range(3)} - {words.split(":")[0] for words in after.split()}
        assert {f"delete Pod/{name}" for name in going} | {f"create Pod/{name}" for name in gone} == set(
            acts(decision).split(", ")
        )
        assert conditions(decision.status).endswith("Restarting")
        assert "worker 0, where they meet, was lost" in message(decision.status)


def test_after_losing_the_hub_all_start_again_together_and_count_once():
    obj, decision = looks(
        elastic(backoffLimit=2),
        (0, RUNNING),
        (30, "worker-0:Running+1 worker-1:Running worker-2:Running"),
        (31, "worker-0:Running+1! worker-1:Failed=1 worker-2:Running+1!"),
        (32, ""),
    )

    made = [each.object for each in decision.actions if isinstance(each, Create)]
    assert [each["metadata"]["name"] for each in made] == ["j-worker-0", "j-worker-1", "j-worker-2"]
    assert {each["metadata"]["labels"]["trainwright.dev/version"] for each in made} == {"1"}
    assert restarts(obj["status"]) == 1

    again = "worker-0:Running#b^1 worker-1:Running#b^1 worker-2:Running#b^1"
    obj, decision = looks(obj, (40, again))
    assert conditions(decision.status) == "Created Running"
    _, decision = looks(obj, (50, "worker-1:Running#b^1 worker-2:Running#b^1"))
    assert "Failed" in conditions(decision.status), "the second loss of the hub is the limit"


@pytest.mark.parametrize(
    ("policy", "steps", "expected", "count"),
    [
        pytest.param(
            "ExitCode",
            [(0, RUNNING), (30, "worker-0:Running worker-1:Failed=1~1 worker-2:Running")],
            "Created Running",
            0,
            id="a survivor's failure is not judged at once",
        ),
        pytest.param(
            "ExitCode",
            [(0, RUNNING), (30, "worker-0:Running worker-1:Failed=1~6 worker-2:Running")],
            "Created -Running Failed",
            0,
            id="but after the settle time it is",
        ),
        pytest.param(
            "ExitCode",
            [
                (0, RUNNING),
                (30, "worker-0:Running worker-1:Failed=1~1 worker-2:Running"),
                (32, "worker-0:Failed=137~2 worker-1:Failed=1~3 worker-2:Failed=1~1"),
            ],
            "Created Restarting",
            1,
            id="unless the hub turns out to be lost",
        ),
        pytest.param(
            "OnFailure",
            [
                (0, RUNNING),
                (30, "worker-0:Running worker-1:Running+1~1 worker-2:Running+1~1"),
                (32, "worker-0:Running+1 worker-1:Running+1~3 worker-2:Running+1~3"),
            ],
            "Created Restarting",
            1,
            id="restarts of survivors are free as well",
        ),
        pytest.param(
            "OnFailure",
            [
                (0, RUNNING),
                (30, "worker-0:Running worker-1:Running+1~1 worker-2:Running"),
                (40, "worker-0:Running worker-1:Running+1~11 worker-2:Running"),
            ],
            "Created Running",
            1,
            id="a restart for a reason of its own counts",
        ),
        pytest.param(
            "ExitCode",
            [(0, RUNNING), (30, "worker-0:Failed=1 worker-1:Running worker-2:Running")],
            "Created -Running Failed",
            0,
            id="a hub that fails for good ends the job",
        ),
        pytest.param(
            "Never",
            [(0, RUNNING), (30, "worker-0:Failed=137~1 worker-1:Running worker-2:Running")],
            "Created -Running Failed",
            0,
            id="under Never every failure ends the job",
        ),
    ],
)
def test_survivors_of_a_hub(policy, steps, expected, count):
    _, decision = looks(elastic(policy=policy), *steps)

    assert conditions(decision.status) == expected
    assert restarts(decision.status) == count


def test_a_failure_that_has_to_settle_says_when_to_look_again():
    _, decision = looks(elastic(), (0, RUNNING), (30, "worker-0:Running worker-1:Failed=1~2 worker-2:Running"))

    assert decision.look_again == NOON + timedelta(seconds=33)
    assert acts(decision) == ""


def test_a_node_whose_clock_is_wrong_does_not_keep_a_failure_from_being_judged():
    steps = (0, RUNNING), (30, "worker-0:Running worker-1:Failed=1 worker-2:Running")
    obj, _ = looks(elastic(), steps[0])
    ahead = pod("worker-1:Failed=1", NOON + timedelta(hours=1))
    seen = Observed((pod("worker-0:Running"), ahead, pod("worker-2:Running")))

    decision = decide(PYTORCH_JOB, read(obj), seen, KUBERNETES, NOON + timedelta(seconds=30))

    assert "delete Pod/worker-1" in acts(decision)


def test_a_master_of_an_elastic_job_starts_again_with_its_workers():
    pods = "master-0:Running worker-0:Running worker-1:Running"
    _, decision = looks(
        elastic(2, master=1), (0, pods), (30, "master-0:Failed=1~1 worker-0:Running+1 worker-1:Running")
    )

    assert acts(decision) == "delete Pod/worker-1, delete Pod/master-0, delete Pod/worker-0"
    assert restarts(decision.status) == 1


def scaled(obj: Object, workers: int) -> Object:
    specs = obj["spec"]["pytorchReplicaSpecs"]
    return {
        **obj,
        "spec": {**obj["spec"], "pytorchReplicaSpecs": {**specs, "Worker": {**specs["Worker"], "replicas": workers}}},
    }


def test_scaling_down_and_up_again_counts_nothing():
    obj, _ = looks(elastic(3), (0, RUNNING))
    obj, down = looks(scaled(obj, 2), (10, RUNNING))
    assert acts(down) == "delete Pod/worker-2"

    obj, up = looks(scaled(obj, 3), (11, "worker-0:Running worker-1:Running worker-2:Running!"))
    assert acts(up) == ""
    obj, gone = looks(obj, (12, "worker-0:Running worker-1:Running"))
    assert acts(gone) == "create Pod/worker-2"
    assert restarts(gone.status) == 0


def test_scaling_from_six_to_one_makes_nothing_in_between():
    obj, _ = looks(elastic(6), (0, " ".join(f"worker-{index}:Running" for index in range(6))))

    _, decision = looks(scaled(obj, 1), (5, "worker-0:Running worker-5:Running!"))

    assert acts(decision) == ""


def test_a_pod_of_a_later_version_means_that_we_look_at_an_old_job():
    assert acts(look(elastic(1), "worker-0:Running^1")) == ""


METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


def with_metrics(maximum: int = 4, **run_policy) -> Object:
    return manifest(0, 1, elastic={"minReplicas": 1, "maxReplicas": maximum, "metrics": [METRIC]}, **run_policy)


@pytest.mark.parametrize(
    ("obj", "pods", "actions"),
    [
        pytest.param(with_metrics(), "worker-0:Running", "", id="the autoscaler stays while the job runs"),
        pytest.param(
            with_metrics(),
            "worker-0:Succeeded",
            "delete HorizontalPodAutoscaler/j",
            id="it goes when the job has finished, whatever the policy",
        ),
        pytest.param(
            with_metrics(suspend=True),
            "",
            "delete Service/worker-0, delete Service/j, delete HorizontalPodAutoscaler/j",
            id="and when the job is suspended",
        ),
    ],
)
def test_autoscaler(obj, pods, actions):
    assert acts(look(obj, pods)) == actions


def test_an_autoscaler_follows_the_range():
    old = [each.object for each in PYTORCH_JOB.build(read(with_metrics(4)), KUBERNETES, 0).support]
    server_says: Object = {"behavior": {"scaleUp": {}}}
    seen = tuple({**each, "spec": {**each["spec"], **server_says}} for each in old)

    same = decide(PYTORCH_JOB, read(with_metrics(4)), Observed((*seen, pod("worker-0:Running"))), KUBERNETES, NOON)
    changed = decide(PYTORCH_JOB, read(with_metrics(9)), Observed((*seen, pod("worker-0:Running"))), KUBERNETES, NOON)

    assert acts(same) == ""
    assert acts(changed) == "patch HorizontalPodAutoscaler/j"
    (patch,) = [each for each in changed.actions if not isinstance(each, Emit)]
    assert patch.patch == {"spec": {"maxReplicas": 9}}  # type: ignore[union-attr]


def test_an_object_nobody_wants_any_more_goes():
    seen = [each.object for each in PYTORCH_JOB.build(read(with_metrics()), KUBERNETES, 0).support]
    job = read(manifest(workers=1, elastic={}))

    decision = decide(PYTORCH_JOB, job, Observed((*seen, pod("worker-0:Running"))), KUBERNETES, NOON)

    assert acts(decision) == "delete HorizontalPodAutoscaler/j"


def test_events_are_said_once_per_round_and_not_per_pod():
    decision = look(manifest(workers=200), "")

    (event,) = [each for each in decision.actions if isinstance(each, Emit)]
    names = ", ".join(f"j-worker-{index}" for index in range(5))
    assert event.message == f"Created 200 pods: {names} and 195 more"


def test_the_same_look_gives_the_same_answer():
    obj, _ = looks(elastic(), (0, RUNNING))
    pods = "worker-0:Running+1 worker-1:Failed=1 worker-2:Running"

    first, second = look(obj, pods, 30), look(obj, pods, 30)

    assert first.status == second.status
    assert list(map(str, first.actions)) == list(map(str, second.actions))


def test_a_job_that_should_not_have_been_let_in_fails_in_words():
    obj = {**manifest(workers=1), "spec": {}}
    problems = PYTORCH_JOB.check(obj, None)

    decision = refuse(PYTORCH_JOB, obj, problems, NOON)

    assert conditions(decision.status) == "Created Failed"
    assert "spec.pytorchReplicaSpecs" in message(decision.status)
    assert decision.status["record"]["cause"] == "Invalid"
    assert refuse(PYTORCH_JOB, {**obj, "status": decision.status}, problems, NOON).actions == ()


def test_nothing_that_is_handed_in_is_changed():
    obj, _ = looks(elastic(), (0, RUNNING))
    words = ("worker-0:Running+1", "worker-1:Failed=1", "worker-2:Running")
    pods = tuple(map(pod, words))
    before = repr((obj, pods))

    decide(PYTORCH_JOB, read(obj), Observed(pods), KUBERNETES, NOON)

    assert repr((obj, pods)) == before


def test_a_thousand_replicas_are_decided_in_milliseconds(benchmark_seconds):
    obj = manifest(workers=1000)
    pods = tuple(pod(f"worker-{index}:Running") for index in range(1000))
    job = read({**obj, "status": look(obj, "").status})

    assert benchmark_seconds(lambda: decide(PYTORCH_JOB, job, Observed(pods), KUBERNETES, NOON)) < 0.2
    assert benchmark_seconds(lambda: decide(PYTORCH_JOB, job, Observed(), KUBERNETES, NOON)) < 0.5


@pytest.fixture
def benchmark_seconds():
    """Return the best of three: what the machine can do, not what else it does."""

    def measure(work) -> float:
        times = []
        for _ in range(3):
            start = perf_counter()
            work()
            times.append(perf_counter() - start)
        return min(times)

    return measure
