"""Batch Jobs: the same lives under our controller and under kube-controller-manager."""

from typing import Any

import pytest
from tests.contract.home import ClusterUnderTest
from tests.contract.workload import Play, play, template

from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import BATCH_JOB, POD

FINALIZER = "batch.kubernetes.io/job-tracking"


@pytest.fixture
def controlled(under: ClusterUnderTest) -> ClusterUnderTest:
    if not under.collects_garbage:
        pytest.skip("NOTHING WAS TESTED HERE: the named cluster has no controllers")
    return under


async def sums(under: ClusterUnderTest, pod: Object | None = None, **spec: Any) -> Play:
    given = template(**{"restartPolicy": "Never", **(pod or {})})
    return await play(under, BATCH_JOB, "sums", template=given, **spec)


def held(conditions: list[Object]) -> list[str]:
    return [f"{each['type']} {each['reason']}" for each in conditions if each["status"] == "True"]


async def test_a_pod_carries_the_labels_of_its_job(controlled: ClusterUnderTest):
    started = await sums(controlled)
    [name] = await started.has_active(1)
    meta = (await started.pods())[name]["metadata"]

    assert meta["labels"] == {
        "app": "web",
        "batch.kubernetes.io/controller-uid": started.uid,
        "batch.kubernetes.io/job-name": "sums",
        "controller-uid": started.uid,
        "job-name": "sums",
    }
    assert name.startswith("sums-")
    assert len(name) == len("sums-") + 5
    assert meta["finalizers"] == [FINALIZER]
    assert meta["ownerReferences"] == [owner_reference(await started.get())]


class TestSuccess:
    async def test_one_pod_by_default(self, controlled: ClusterUnderTest):
        started = await sums(controlled)
        [name] = await started.has_active(1)
        await started.ready(name)
        running = (await started.says(active=1, ready=1))["status"]
        await started.ended("Succeeded", name)
        status = (await started.holds("Complete", "CompletionsReached"))["status"]

        assert held(status["conditions"]) == ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
        assert status["startTime"] == running["startTime"]
        assert {key: value for key, value in status.items() if key not in ("conditions", "startTime")} == {
            "succeeded": 1,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "completionTime": status["conditions"][-1]["lastTransitionTime"],
        }
        assert "finalizers" not in (await started.pods())[name]["metadata"]

    async def test_so_many_at_once_until_enough_have_succeeded(self, controlled: ClusterUnderTest):
        started = await sums(controlled, completions=3, parallelism=2)
        first, second = await started.has_active(2)
        await started.ended("Succeeded", first)
        await started.says(active=2, succeeded=1)
        third = next(name for name in await started.has_active(2) if name != second)
        await started.ended("Succeeded", second)
        await started.says(active=1, succeeded=2)
        await started.ended("Succeeded", third)
        await started.holds("Complete", "CompletionsReached")
        await started.says(active=None, succeeded=3, failed=None)
        await started.stays(first, second, third)

    async def test_any_one_when_nobody_says_how_many(self, controlled: ClusterUnderTest):
        started = await sums(controlled, parallelism=2)
        first, second = await started.has_active(2)
        await started.ended("Succeeded", first)
        await started.says(active=1, succeeded=1)
        await started.stays(first, second)
        await started.ended("Succeeded", second)
        await started.holds("Complete", "CompletionsReached")
        await started.says(succeeded=2)

    async def test_none_are_needed(self, controlled: ClusterUnderTest):
        started = await sums(controlled, completions=0)
        await started.holds("Complete", "CompletionsReached")
        await started.stays()

    async def test_what_is_over_never_starts_again(self, controlled: ClusterUnderTest):
        started = await sums(controlled)
        [name] = await started.has_active(1)
        await started.ended("Succeeded", name)
        await started.holds("Complete", "CompletionsReached")
        await started.remove(name)
        await started.stays()
        await started.change(parallelism=2)
        await started.stays()


class TestFailure:
    async def test_a_failed_pod_is_replaced_and_kept(self, controlled: ClusterUnderTest):
        started = await sums(controlled)
        [first] = await started.has_active(1)
        await started.ended("Failed", first)
        await started.says(active=1, failed=1)
        [second] = await started.has_active(1)
        await started.stays(first, second)
        await started.ended("Succeeded", second)
        await started.holds("Complete", "CompletionsReached")
        await started.says(succeeded=1, failed=1)

    @pytest.mark.parametrize("limit", [0, 1])
    async def test_one_failure_more_than_the_limit_is_the_end(self, controlled: ClusterUnderTest, limit: int):
        started = await sums(controlled, backoffLimit=limit)
        for _ in range(limit + 1):
            [name] = await started.has_active(1)
            await started.ended("Failed", name)
        status = (await started.holds("Failed", "BackoffLimitExceeded"))["status"]

        assert held(status["conditions"]) == ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
        assert {key: value for key, value in status.items() if key not in ("conditions", "startTime")} == {
            "failed": limit + 1,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
        await controlled.settle()
        assert await started.active() == []

    async def test_the_others_go_and_count_as_failed(self, controlled: ClusterUnderTest):
        started = await sums(controlled, backoffLimit=0, completions=3, parallelism=3)
        first, second, _ = await started.has_active(3)
        await started.ended("Succeeded", first)
        await started.says(succeeded=1)
        await started.ended("Failed", second)
        await started.holds("Failed", "BackoffLimitExceeded")
        await started.says(active=None, succeeded=1, failed=2)
        await started.stays(first, second)

    @pytest.mark.parametrize(("limit", "restarts"), [(0, 1), (2, 2)])
    async def test_restarts_in_place_count(self, controlled: ClusterUnderTest, limit: int, restarts: int):
        started = await sums(controlled, pod={"restartPolicy": "OnFailure"}, backoffLimit=limit)
        [name] = await started.has_active(1)
        await started.restarted(name, restarts)
        await started.holds("Failed", "BackoffLimitExceeded")
        await started.says(failed=1)
        await started.stays()

    async def test_fewer_restarts_than_the_limit_do_not_matter(self, controlled: ClusterUnderTest):
        started = await sums(controlled, pod={"restartPolicy": "OnFailure"}, backoffLimit=3)
        [name] = await started.has_active(1)
        await started.restarted(name, 2)
        await started.stays(name)
        await started.ended("Succeeded", name)
        await started.holds("Complete", "CompletionsReached")

    async def test_a_job_that_takes_too_long(self, controlled: ClusterUnderTest):
        started = await sums(controlled, activeDeadlineSeconds=1, parallelism=2)
        await started.has_active(2)
        status = (await started.holds("Failed", "DeadlineExceeded"))["status"]
        assert held(status["conditions"]) == ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
        assert status["failed"] == 2
        await started.stays()

    async def test_it_has_failed_only_when_its_pods_have_gone(self, controlled: ClusterUnderTest):
        started = await sums(controlled, pod={"nodeName": "no-such-node"}, backoffLimit=0, completions=2, parallelism=2)
        first, second = await started.has_active(2)
        await started.ended("Failed", first)
        status = (await started.says(terminating=1, failed=2, active=None))["status"]
        assert held(status["conditions"]) == ["FailureTarget BackoffLimitExceeded"]
        await started.remove(second, grace=0)
        await started.holds("Failed", "BackoffLimitExceeded")


class TestLosses:
    async def test_a_deleted_pod_counts_as_failed_and_is_replaced(self, controlled: ClusterUnderTest):
        started = await sums(controlled)
        [first] = await started.has_active(1)
        await started.remove(first)
        await started.says(active=1, failed=1)
        assert await started.has_active(1) != [first]

    async def test_a_pod_that_is_leaving_may_be_waited_for(self, controlled: ClusterUnderTest):
        started = await sums(controlled, pod={"nodeName": "no-such-node"}, podReplacementPolicy="Failed")
        [first] = await started.has_active(1)
        await started.remove(first)
        await started.says(active=None, terminating=1)
        await started.stays(first)
        await started.ended("Failed", first)
        await started.says(active=1, terminating=0, failed=1)

    async def test_fewer_at_once_is_no_failure(self, controlled: ClusterUnderTest):
        started = await sums(controlled, completions=3, parallelism=3)
        await started.has_active(3)
        await started.change(parallelism=1)
        await started.says(active=1, failed=None)
        await started.has_active(1)

    @pytest.mark.parametrize("how", ["Background", "Foreground"])
    async def test_its_pods_go_with_it(self, controlled: ClusterUnderTest, how: Any):
        started = await sums(controlled, completions=2, parallelism=2)
        first, _ = await started.has_active(2)
        await started.ended("Succeeded", first)
        await started.delete(propagation=how)
        await started.is_gone()
        assert await controlled.names(POD) == []


class TestPauses:
    async def test_suspended_from_the_start(self, controlled: ClusterUnderTest):
        started = await sums(controlled, suspend=True)
        await started.holds("Suspended", "JobSuspended")
        await started.says(startTime=None)
        await started.stays()
        await started.change(suspend=False)
        await started.has_active(1)
        status = (await started.says(active=1))["status"]
        assert status["startTime"]
        assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
            ("Suspended", "False", "JobResumed")
        ]

    async def test_suspended_on_the_way_is_no_failure(self, controlled: ClusterUnderTest):
        started = await sums(controlled, completions=2, parallelism=2)
        first, _ = await started.has_active(2)
        await started.ended("Succeeded", first)
        await started.says(succeeded=1)
        await started.change(suspend=True)
        await started.holds("Suspended", "JobSuspended")
        await started.says(active=None, succeeded=1, failed=None, startTime=None)
        await started.stays(first)
        await started.change(suspend=False)
        await started.has_active(1)

    async def test_it_is_deleted_once_its_time_is_up(self, controlled: ClusterUnderTest):
        started = await sums(controlled, ttlSecondsAfterFinished=0)
        [name] = await started.has_active(1)
        await started.ended("Succeeded", name)
        await started.is_gone()
