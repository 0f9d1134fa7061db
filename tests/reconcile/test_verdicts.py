"""Who failed first."""

from datetime import timedelta

import pytest
from tests.reconcile.making import NOON, manifest, pod, read

from trainwright.reconcile.verdicts import culprit, read_culprit

JOB = read(manifest(master=1, workers=3))


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        pytest.param("master-0:Running worker-0:Running", None, id="nobody, when nobody failed"),
        pytest.param("worker-1:Failed=3", "j-worker-1 exited with code 3", id="the only one who failed"),
        pytest.param(
            "worker-0:Failed=1~2 worker-1:Failed=3~9 worker-2:Failed=1~1",
            "j-worker-1 exited with code 3",
            id="the first, not those who died of it",
        ),
        pytest.param(
            "worker-0:Failed=1~5 worker-1:Failed=3~5",
            "j-worker-1 exited with code 3",
            id="of two in one second the less common end",
        ),
        pytest.param(
            "master-0:Failed=1~5 worker-1:Failed=1~5", "j-master-0 exited with code 1", id="of two alike the first rank"
        ),
        pytest.param(
            "worker-0:Failed=143~9! worker-1:Failed=1~5", "j-worker-1 exited with code 1", id="not one told to go"
        ),
        pytest.param(
            "worker-0:Running+1~90 worker-1:Failed=1~5", "j-worker-1 exited with code 1", id="not one that recovered"
        ),
        pytest.param(
            "worker-0:Running+1~9 worker-1:Running+4~5",
            "j-worker-1 exited with code 1",
            id="who restarted most, when nobody ended",
        ),
        pytest.param(
            "worker-0:Failed=139", "j-worker-0 was killed by SIGSEGV (exit code 139)", id="signals have names"
        ),
        pytest.param("worker-0:Failed=255", "j-worker-0 exited with code 255", id="not every large code is a signal"),
        pytest.param("worker-0:Failed", "j-worker-0 failed", id="a pod nobody knows the end of"),
    ],
)
def test_culprit(pods, words):
    found = culprit(JOB, [pod(each) for each in pods.split()])

    assert (str(found) if found else None) == words


def test_out_of_memory_is_said_with_the_limit():
    failed = pod("worker-0:Failed=137")
    failed["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    failed["spec"]["containers"] = [{"name": "pytorch", "resources": {"limits": {"memory": "2Gi"}}}]

    assert str(culprit(JOB, [failed])) == "j-worker-0 exited with code 137 (out of memory: limit 2Gi)"


def test_an_eviction_is_said_in_the_nodes_words():
    evicted = pod("worker-2:Failed", NOON + timedelta(seconds=1))
    evicted["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}

    found = culprit(JOB, [evicted])

    assert str(found) == "j-worker-2 failed (Evicted: The node was low on resource: memory.)"


def test_an_init_container_can_be_the_culprit():
    failed = pod("worker-0:Failed")
    ended = {"exitCode": 1, "finishedAt": "2026-03-01T12:00:00Z"}
    failed["status"]["initContainerStatuses"] = [{"name": "init-pytorch", "state": {"terminated": ended}}]

    found = culprit(JOB, [failed])

    assert found
    assert (found.container, found.code) == ("init-pytorch", 1)


def test_a_culprit_is_kept_and_read_again():
    found = culprit(JOB, [pod("worker-1:Failed=139")])

    assert found
    assert read_culprit(found.as_json()) == found
    assert read_culprit(None) is None
