"""What the planner is told of a job: a table of jobs, their pods, and what is made of them."""

from dataclasses import replace
from typing import Any

import pytest
from tests.operator.scaling_world import NOON, opted_out, pytorch_job, training_job, volcano_job

from trainwright.admission import admit
from trainwright.autoscaler import ElasticJob
from trainwright.core.names import GANG_GATE, JOB_LABEL, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from trainwright.core.objects import Object, timestamp
from trainwright.kinds import PYTORCH_JOB, kind_of
from trainwright.operator.demand import ENDING, PodFacts, elastic_job, facts


def pod(words: str, role: str = "worker") -> PodFacts:
    """Return a pod of job "a" from words such as "1@n", "2", "3@n!" (going), "0@n=Succeeded", "4?Queued"."""
    name, _, phase = words.partition("=")
    name, _, reason = name.partition("?")
    name, going, _ = name.partition("!")
    index, _, node = name.partition("@")
    labels = {JOB_LABEL: "a", REPLICA_TYPE_LABEL: role, REPLICA_INDEX_LABEL: index}
    meta = {"name": f"a-{role}-{index}", "namespace": "default", "uid": words, "labels": labels}
    obj: Object = {
        "metadata": {**meta, **({"deletionTimestamp": ""} if going else {})},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": phase or ("Running" if node else "Pending"),
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}] if reason else [],
        },
    }
    return facts(obj)


def seen(job: Object, pods: str = "", status: Object | None = None, **how: Any) -> ElasticJob | None:
    kind = kind_of(job)
    assert kind
    meta = {**job["metadata"], "uid": "u", "creationTimestamp": timestamp(NOON)}
    stored = {**admit(job).object, "status": status or {}, "metadata": {**job["metadata"], **meta}}
    return elastic_job(kind, kind.read(stored), map(pod, pods.split()), key="default/a", **how)


JOB = pytorch_job("a", 1, 6, 3)


@pytest.mark.parametrize(
    ("pods", "places", "running", "leaving", "resizing"),
    [
        pytest.param("", (), 0, 0, True, id="a new job has its pods still to come"),
        pytest.param("0@n 1@m 2@n", ("n", "m", "n"), 3, 0, False, id="a job that has what it wants is settled"),
        pytest.param("0@n 1@n 2", ("n", "n", ""), 2, 0, False, id="a pod without a node has no place"),
        pytest.param("0@n 2@n", ("n", "", "n"), 2, 0, True, id="a lost pod is waited for"),
        pytest.param("0@n 1@n 2@n 3@m", ("n", "n", "n", "m"), 3, 0, True, id="a pod too many has to leave first"),
        pytest.param("0@n 1@n 2@n 3@m!", ("n", "n", "n"), 3, 1, False, id="a pod that is stopping counts as gone"),
        pytest.param("0@n 1@n 2@n! 2@m", ("n", "n", "m"), 3, 1, False, id="a pod that is replaced is no resize"),
        pytest.param("0@n 1@n 2@n=Failed", ("n", "n"), 2, 0, True, id="a failed pod is made again"),
    ],
)
def test_units(pods, places, running, leaving, resizing):
    job = seen(JOB, pods)

    assert job is not None
    assert (job.minimum, job.maximum, job.size) == (1, 6, 3)
    assert (job.places, job.running, job.leaving, job.resizing) == (places, running, leaving, resizing)


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        pytest.param("0@n 1@n 2@n=Succeeded", {}, id="a pod that succeeded"),
        pytest.param("0@n 1@n", {"record": {"roles": {"Worker": {"done": [2]}}}}, id="one that is gone since"),
        pytest.param("0@n 1@n", {"record": {"roles": {"Worker": {"failed": {"2": "x"}}}}}, id="a failure that is left"),
    ],
)
def test_a_job_with_ended_pods_needs_room_for_the_others_and_keeps_its_size(pods, status):
    job = seen(JOB, pods, status)

    assert job is not None
    assert (job.size, job.places, job.resizing, job.elastic, job.steady) == (2, ("n", "n"), False, False, ENDING)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": [{"type": "Succeeded", "status": "True"}]}, id="has succeeded"),
        pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, id="has failed"),
        pytest.param({"conditions": [{"type": "Suspended", "status": "True"}]}, id="is suspended"),
    ],
)
def test_no_room_for_a_job_that(status):
    assert seen(JOB, "0@n", status) is None


@pytest.mark.parametrize(
    ("pods", "needs_room"),
    [
        pytest.param("", True, id="in a namespace without a quota"),
        pytest.param("0?QuotaExceeded 1?QuotaExceeded 2?QuotaExceeded", False, id="that waits for its quota"),
        pytest.param("0@n 1@n 2?QuotaExceeded", True, id="of which the first fit its quota"),
        pytest.param("0?Queued 1?Queued 2?Queued", True, id="that waits for room"),
    ],
)
def test_room_for_a_job(pods, needs_room):
    assert (seen(JOB, pods) is not None) == needs_room


def test_a_job_is_as_urgent_as_its_most_urgent_pod():
    job = elastic_job(
        PYTORCH_JOB, PYTORCH_JOB.read(admit(JOB).object), [pod("0"), replace(pod("1"), priority=9)], key="a"
    )

    assert job is not None
    assert job.priority == 9


def test_a_job_that_is_left_alone_still_needs_its_size():
    job = seen(opted_out(JOB), "0@n", steady="opted out")

    assert job is not None
    assert (job.elastic, job.size, job.steady) == (False, 3, "opted out")


def test_a_job_of_one_size_is_nothing_but_fixed_pods():
    plain = pytorch_job("a", 1, 6, 3)
    del plain["spec"]["elasticPolicy"]
    job = seen(plain, "0@n 1@n!")

    assert job is not None
    assert (job.elastic, job.size, [(role.count, role.bound) for role in job.fixed]) == (False, 0, [(3, 1)])


@pytest.mark.parametrize(
    ("job", "cpu"),
    [
        pytest.param(pytorch_job("a", 1, 6, 3), 1000, id="PyTorchJob"),
        pytest.param(volcano_job("a", 1, 6, 3), 1000, id="Volcano Job"),
        pytest.param(training_job("a", 1, 6, 3), 1000, id="TrainingJob"),
    ],
)
def test_every_kind_says_what_a_unit_asks_for(job, cpu):
    value = seen(job)

    assert value is not None
    assert (value.minimum, value.maximum, value.size, value.unit.requests["cpu"]) == (1, 6, 3, cpu)


def test_limits_count_where_there_are_any():
    job = pytorch_job("a", 1, 6, 3)
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2"}}
    value = seen(job)

    assert value is not None
    assert (value.unit.requests["cpu"], value.unit.limits) == (1000, {"cpu": 2000, "memory": 1})


@pytest.mark.parametrize(
    ("gates", "waits"),
    [
        pytest.param([], True, id="a pod without a node wants room"),
        pytest.param(["kueue"], False, id="one that somebody holds back does not yet"),
        pytest.param([GANG_GATE], True, id="one that waits for its gang does"),
        pytest.param(["kueue", GANG_GATE], False, id="unless somebody else holds it back too"),
    ],
)
def test_gates(gates, waits):
    spec = {"containers": [], "schedulingGates": [{"name": name} for name in gates]}

    assert facts({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec}).waits is waits
