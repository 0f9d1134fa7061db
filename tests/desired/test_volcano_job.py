"""The pods of a Volcano Job: what they take over from the job itself."""

from dataclasses import replace

import pytest
from tests.frameworks.volcano import manifest

from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES, Gang, render
from trainwright.kinds import VOLCANO_JOB


def pod_spec(spec: Object, template: Object, gang: Gang) -> Object:
    """Return the only pod's spec of a job in which these things are said."""
    written = manifest("main:1")
    written["spec"] |= spec
    task = written["spec"]["tasks"][0]
    task["template"] = {"spec": {**task["template"]["spec"], **template}}
    job = VOLCANO_JOB.read(VOLCANO_JOB.default(written))
    objects = render(VOLCANO_JOB.build(job, replace(KUBERNETES, gang=gang), 0))
    (pod,) = (obj for obj in objects if obj["kind"] == "Pod")
    found: Object = pod["spec"]
    return found


@pytest.mark.parametrize(
    ("job", "template", "gang", "scheduler"),
    [
        pytest.param(
            {}, {}, "labels", None, id="the default would leave pods waiting for a scheduler that is not there"
        ),
        pytest.param({"schedulerName": "volcano"}, {}, "labels", None, id="and so would the same name written out"),
        pytest.param({}, {}, "volcano", "volcano", id="where Volcano's scheduler is used it is the default"),
        pytest.param({"schedulerName": "own"}, {}, "labels", "own", id="another scheduler is the user's choice"),
        pytest.param({"schedulerName": "own"}, {}, "volcano", "own", id="wherever that is"),
        pytest.param({}, {"schedulerName": "volcano"}, "labels", "volcano", id="what a template says stays"),
        pytest.param({"schedulerName": "a"}, {"schedulerName": "b"}, "labels", "b", id="and comes before the job's"),
    ],
)
def test_the_scheduler(job, template, gang, scheduler):
    assert pod_spec(job, template, gang).get("schedulerName") == scheduler


@pytest.mark.parametrize(
    ("template", "priority"),
    [
        pytest.param({}, "high", id="the job's"),
        pytest.param({"priorityClassName": "low"}, "low", id="unless the template has one"),
    ],
)
def test_the_priority(template, priority):
    assert pod_spec({"priorityClassName": "high"}, template, "labels")["priorityClassName"] == priority
