"""The PodGroup for Volcano's scheduler: how many pods must fit together, and what these need."""

from dataclasses import replace
from typing import Any

import pytest
from tests.frameworks.volcano import manifest

from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES, explain, render
from trainwright.kinds import VOLCANO_JOB

VOLCANO = replace(KUBERNETES, gang="volcano")


def job(tasks: str, resources: Object | None = None, **spec: Any) -> Object:
    """Return a job whose tasks all ask for the same."""
    obj = manifest(tasks)
    template = obj["spec"]["tasks"][0]["template"]
    template["spec"]["containers"][0]["resources"] = resources or {}
    return {**obj, "spec": {**obj["spec"], **spec}}


def group(obj: Object) -> Object:
    made = render(VOLCANO_JOB.build(VOLCANO_JOB.read(VOLCANO_JOB.default(obj)), VOLCANO, 0))
    (found,) = [each["spec"] for each in made if each["kind"] == "PodGroup"]
    spec: Object = found
    return spec


def test_there_is_none_without_volcanos_scheduler():
    made = render(VOLCANO_JOB.build(VOLCANO_JOB.read(VOLCANO_JOB.default(job("a:1"))), KUBERNETES, 0))

    assert [each["kind"] for each in made] == ["Pod"]


def test_pods_need_their_requests_and_limits_under_every_name_a_quota_has():
    asked = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1"}

    assert group(job("a:1 b:1", {"requests": asked, "limits": asked}))["minResources"] == {
        "cpu": "2",
        "memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.cpu": "2",
        "requests.memory": "2000Mi",
        "requests.nvidia.com/gpu": "2",
        "limits.cpu": "2",
        "limits.memory": "2000Mi",
        "pods": "2",
        "count/pods": "2",
    }


@pytest.mark.parametrize(
    ("containers", "steps", "cpu"),
    [
        pytest.param(["1", "2"], [], "3", id="containers run together"),
        pytest.param(["1"], ["4", "2"], "4", id="a hungrier init step counts in their place"),
        pytest.param(["3"], ["1", "2"], "3", id="init steps run before them and one by one"),
        pytest.param(["1"], ["2 Always"], "3", id="a sidecar runs beside them"),
    ],
)
def test_what_one_pod_needs(containers, steps, cpu):
    def container(text: str) -> Object:
        amount, _, policy = text.partition(" ")
        asks: Object = {"name": f"c{text[0]}", "image": "x", "resources": {"requests": {"cpu": amount}}}
        return asks | ({"restartPolicy": policy} if policy else {})

    obj = job("a:1")
    obj["spec"]["tasks"][0]["template"]["spec"] = {
        "containers": [container(each) for each in containers],
        "initContainers": [container(each) for each in steps],
    }

    assert group(obj)["minResources"]["requests.cpu"] == cpu


@pytest.mark.parametrize(
    ("minimum", "cpu"),
    [
        pytest.param(1, "1", id="fewer than the tasks need: the first replicas, task by task"),
        pytest.param(3, "12", id="as many as the tasks need: what each needs"),
        pytest.param(5, "32", id="more: then others, the first task first"),
    ],
)
def test_whose_needs_count(minimum, cpu):
    obj = job("a:2 b:3", minAvailable=minimum)
    first, second = obj["spec"]["tasks"]
    first["minAvailable"], second["minAvailable"] = 2, 1
    first["template"] = with_cpu("1")
    second["template"] = with_cpu("10")

    assert group(obj)["minResources"]["cpu"] == cpu
    assert group(obj)["minMember"] == minimum


def with_cpu(amount: str) -> Object:
    return {"spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": amount}}}]}}


def test_a_class_puts_no_task_before_another():
    obj = job("a:1 b:1", minAvailable=1)
    first, second = obj["spec"]["tasks"]
    first["minAvailable"] = second["minAvailable"] = 1
    first["template"], second["template"] = with_cpu("1"), with_cpu("10")
    second["template"]["spec"]["priorityClassName"] = "high"

    assert group(obj)["minResources"]["cpu"] == "1"


@pytest.mark.parametrize(
    ("policy", "members", "groups"),
    [
        pytest.param({}, 6, 0, id="all partitions are needed"),
        pytest.param({"minPartitions": 1}, 3, 1, id="one is enough"),
    ],
)
def test_partitions(policy, members, groups):
    obj = job("a:6")
    obj["spec"]["tasks"][0]["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 3, **policy}

    spec = group(obj)

    assert spec["minTaskMember"] == {"a": members}
    assert [(each["subGroupSize"], each["minSubGroups"]) for each in spec["subGroupPolicy"]] == [(3, groups)]


@pytest.mark.parametrize(
    ("settings", "scheduler", "passed", "told"),
    [
        pytest.param(VOLCANO, "volcano", "volcano", "the job's schedulerName", id="volcano's own, where it is used"),
        pytest.param(KUBERNETES, "volcano", None, "not passed on", id="volcano's own, where it is not used"),
        pytest.param(KUBERNETES, "mine", "mine", "the job's schedulerName", id="another one"),
    ],
)
def test_the_scheduler_a_job_names(settings, scheduler, passed, told):
    desired = VOLCANO_JOB.build(VOLCANO_JOB.read(VOLCANO_JOB.default(job("a:1", schedulerName=scheduler))), settings, 0)

    (pod,) = [each for each in render(desired) if each["kind"] == "Pod"]
    assert pod["spec"].get("schedulerName") == passed
    (row,) = [row for row in explain(desired) if row.path == "spec.schedulerName"]
    assert row.value == scheduler
    assert row.reason.startswith(told)
