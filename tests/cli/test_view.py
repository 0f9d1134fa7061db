"""What is remembered of a run's jobs and pods, what is hopeless, and who is blamed."""

from typing import Any

import pytest

from trainwright.cli import jobs, report
from trainwright.cli.capacity import hopeless
from trainwright.cli.view import JobKey, View, container_name
from trainwright.cluster.base import Change

MNIST = JobKey("default", "mnist", "PyTorchJob")


def pod(name="mnist-worker-0", uid="u0", phase="Running", *, restarts=0, code=None, cpu="1", gang="1", node=""):
    status = {"name": "pytorch", "restartCount": restarts, "state": {"running": {}}}
    if code is not None:
        status["state"] = {"terminated": {"exitCode": code}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "labels": {"trainwright.dev/job": "mnist"},
            "annotations": {"trainwright.dev/gang-min": gang},
        },
        "spec": {
            "containers": [{"name": "pytorch", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase, "containerStatuses": [status]},
    }


def node(cpu="2"):
    return {"metadata": {"name": "local"}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "100"}}}


def test_a_pod_made_again_is_one_rank_with_a_restart():
    view = View()
    view.pod_changed(Change("ADDED", pod(uid="a", restarts=2)))
    view.pod_changed(Change("DELETED", pod(uid="a", restarts=2)))
    view.pod_changed(Change("ADDED", pod(uid="b")))

    [rank] = view.ranks(MNIST)
    assert (rank.uid, rank.restarts, rank.phase) == ("b", 3, "Running")
    assert [each["metadata"]["uid"] for each in view.present()] == ["b"]


def test_what_is_gone_is_kept_and_says_so():
    kept: list[Any] = []
    view = View(keep=kept.append)
    view.pod_changed(Change("DELETED", pod()))

    assert [rank.phase for rank in view.ranks(MNIST)] == ["Gone"]
    assert [obj["metadata"]["uid"] for obj in kept] == ["u0"]


def test_a_container_is_named_by_its_rank_and_by_itself_only_if_there_are_others():
    one, two = pod(), pod()
    two["spec"]["containers"].append({"name": "sidecar"})

    assert container_name(one, "pytorch", several_jobs=False) == "worker-0"
    assert container_name(one, "init-pytorch", several_jobs=False) == "worker-0/init-pytorch"
    assert container_name(two, "pytorch", several_jobs=False) == "worker-0/pytorch"
    assert container_name(one, "pytorch", several_jobs=True) == "mnist/worker-0"


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        pytest.param([pod(cpu="2")], "", id="what fits is not hopeless"),
        pytest.param(
            [pod(cpu="8")], "one pod needs cpu 8, and 2 is offered; offer more with --cpu 8", id="one pod too big"
        ),
        pytest.param(
            [pod(uid="a", gang="2", cpu="1500m"), pod("mnist-worker-1", "b", gang="2", cpu="1500m")],
            "2 pods that start together need cpu 3, and 2 is offered; offer more with --cpu 3",
            id="a gang too big",
        ),
        pytest.param([pod(gang="2", cpu="2")], "", id="a gang that is not complete yet"),
        pytest.param([pod(cpu="8", node="local")], "", id="what runs, runs"),
    ],
)
def test_hopeless(pods, words):
    sentence = hopeless("mnist", pods, [node()])

    assert words in sentence
    assert bool(sentence) == bool(words)


def failed_job(**record):
    condition = {"type": "Failed", "status": "True", "reason": "PyTorchJobFailed", "message": "it failed"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "status": {"conditions": [condition], "record": record},
    }


def test_the_culprit_its_last_lines_and_the_file(tmp_path):
    log = tmp_path / "logs" / "default" / "mnist-worker-0_u0" / "pytorch" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    job = failed_job(culprit={"pod": "mnist-worker-0", "container": "pytorch", "code": 3})
    blamed = report.blame(job, [pod(phase="Failed", code=3)], tmp_path)

    lines = report.failed(MNIST, jobs.state(job), blamed)

    assert lines[0] == "mnist failed: mnist-worker-0 exited with code 3"
    assert lines[1:-1] == ["the last 10 lines of mnist-worker-0:", *(f"  line {n}" for n in range(90, 100))]
    assert lines[-1] == f"all it printed: {log}"
    assert report.code(jobs.state(job), blamed) == 3


def test_a_job_that_was_late_has_its_own_exit_code():
    job = failed_job(cause="Deadline")

    assert report.code(jobs.state(job), None) == 124


def test_a_failure_nobody_is_to_blame_for_has_a_reason(tmp_path):
    job = failed_job()

    assert report.blame(job, [], tmp_path) is None
    assert report.failed(MNIST, jobs.state(job), None) == ["mnist failed: it failed"]
    assert report.code(jobs.state(job), None) == 1
