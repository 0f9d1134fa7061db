"""Commands: what may be asked of a job, and what is refused in which words."""

import pytest
from tests.api.examples import GONE, changed, sentences

from trainwright.api.reader import build
from trainwright.api.volcano_command import Command, Target, check, is_for_a_job
from trainwright.core.objects import Object

ABORT: Object = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"generateName": "mnist-abortjob-"},
    "action": "AbortJob",
    "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "mnist", "uid": "1-2-3"},
}
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "gpu"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [], id="a job is aborted"),
        pytest.param({"action": "ResumeJob", "reason": "lunch", "message": "is over"}, [], id="and resumed"),
        pytest.param({"action": "CloseQueue", "target": QUEUE}, [], id="what is asked of a queue is not looked at"),
        pytest.param(
            {"action": "AbortJobs"},
            [
                (
                    "action: must be one of AbortJob, RestartJob, TerminateJob, CompleteJob, ResumeJob; found "
                    "'AbortJobs'; did you mean 'AbortJob'?"
                )
            ],
            id="a misspelt action",
        ),
        pytest.param(
            {"action": "RestartTask"},
            [
                (
                    "action: must be one of AbortJob, RestartJob, TerminateJob, CompleteJob, ResumeJob; found "
                    "'RestartTask'"
                )
            ],
            id="a Command names no task",
        ),
        pytest.param(
            {"action": GONE, "target": GONE},
            [
                "action: missing; what shall be done: AbortJob, RestartJob, TerminateJob, CompleteJob, ResumeJob",
                "target: missing; the job, in the same namespace",
            ],
            id="it says what, and to whom",
        ),
        pytest.param({"target.name": GONE}, ["target.name: missing; the job's name"], id="a job has a name"),
    ],
)
def test_check(changes, expected):
    assert sentences(check(changed(ABORT, changes))) == expected


def test_what_it_says_is_read():
    assert build(Command, ABORT) == Command("AbortJob", Target("batch.volcano.sh/v1alpha1", "Job", "mnist", "1-2-3"))


def test_only_commands_for_our_jobs_are_ours():
    assert is_for_a_job(build(Command, ABORT).target)
    assert not is_for_a_job(build(Command, changed(ABORT, {"target": QUEUE})).target)
    assert not is_for_a_job(None)
