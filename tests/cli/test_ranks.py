"""What is said about a rank, from its pod."""

import pytest

from trainwright.cli.ranks import failure, label, order, rank


def pod(status=None, *, name="mnist-worker-1", node="here", meta=None, limit=""):
    container = {"name": "pytorch", **({"resources": {"limits": {"memory": limit}}} if limit else {})}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"trainwright.dev/job": "mnist"}, **(meta or {})},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": status or {},
    }


def ended(code, phase="Failed", **more):
    return {
        "phase": phase,
        "containerStatuses": [{"name": "pytorch", "state": {"terminated": {"exitCode": code, **more}}}],
    }


def waits(reason, message=""):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Running", "containerStatuses": [{"name": "pytorch", "restartCount": 2, "state": state}]}


UNSCHEDULED = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "needs cpu 8"}]}


@pytest.mark.parametrize(
    ("seen", "phase", "detail"),
    [
        pytest.param(pod(node=""), "Waiting", "", id="a new pod waits"),
        pytest.param(pod(UNSCHEDULED, node=""), "Waiting", "needs cpu 8", id="and says what for"),
        pytest.param(pod(), "Starting", "", id="a bound one starts"),
        pytest.param(pod({"phase": "Running"}), "Running", "", id="then runs"),
        pytest.param(pod({"phase": "Running"}, meta={"deletionTimestamp": "x"}), "Stopping", "", id="or is stopping"),
        pytest.param(pod(waits("CrashLoopBackOff", "in 5s")), "Restarting", "in 5s", id="a crashed one starts again"),
        pytest.param(pod({"phase": "Succeeded"}), "Succeeded", "", id="one that is done"),
        pytest.param(pod(ended(3)), "Failed", "exited with code 3", id="one that failed says how"),
        pytest.param(pod({"phase": "Failed", "reason": "Evicted"}), "Failed", "Evicted", id="also when nothing ran"),
    ],
)
def test_the_phase_of_a_rank(seen, phase, detail):
    assert (rank(seen).phase, rank(seen).detail) == (phase, detail)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(pod(ended(3)), "exited with code 3", id="a code"),
        pytest.param(pod(ended(139, signal=11)), "was killed by SIGSEGV (exit code 139)", id="a signal"),
        pytest.param(pod(ended(143)), "was killed by SIGTERM (exit code 143)", id="a signal by its code"),
        pytest.param(pod(ended(200)), "exited with code 200", id="a code that is no signal"),
        pytest.param(
            pod(ended(137, reason="OOMKilled"), limit="2Gi"),
            "exited with code 137 (out of memory: limit 2Gi)",
            id="out of memory says the limit",
        ),
        pytest.param(
            pod(ended(127, reason="StartError", message="no such command: 'torchrn'")),
            "could not be started: no such command: 'torchrn'",
            id="a command that is not there",
        ),
    ],
)
def test_the_cause_in_words(seen, words):
    assert str(failure(seen)) == words


def test_a_crash_that_was_restarted_is_still_known():
    state: dict[str, object] = {"running": {}}
    last = {"terminated": {"exitCode": 5}}
    statuses = [{"name": "pytorch", "restartCount": 3, "state": state, "lastState": last}]
    found = failure(pod({"phase": "Running", "containerStatuses": statuses}))

    assert found is not None
    assert (found.code, found.restart) == (5, 2)


def test_ranks_are_in_order_and_named_without_the_job():
    names = ["mnist-worker-10", "mnist-worker-2", "mnist-master-0"]

    assert [label(each) for each in order(pod(name=name) for name in names)] == ["master-0", "worker-2", "worker-10"]
