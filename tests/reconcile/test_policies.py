"""Which failures count, of whom, and how long a replica rests after them."""

from datetime import timedelta

import pytest
from tests.reconcile.making import NOON, manifest, pod, read

from trainwright.core.objects import timestamp
from trainwright.reconcile import policies
from trainwright.reconcile import record as records
from trainwright.reconcile.kind import Pod, look
from trainwright.reconcile.record import Fall, Record, RoleRecord


def worker(words: str, lasted: int = 0) -> Pod:
    """Return worker 0 as it is seen after so many seconds."""
    found = pod(words)
    made = timestamp(NOON - timedelta(seconds=lasted))
    return look({**found, "metadata": {**found["metadata"], "creationTimestamp": made}}, ("Worker", 0), "pytorch")


@pytest.mark.parametrize(
    ("failures", "lasted", "rest"),
    [
        pytest.param(1, 0, 0, id="the first failure is followed by a new pod at once"),
        pytest.param(3, 0, 0, id="so are the next two"),
        pytest.param(4, 0, 10, id="then a replica rests"),
        pytest.param(5, 0, 20, id="each time twice as long"),
        pytest.param(60, 0, 300, id="but never longer than five minutes"),
        pytest.param(9, 600, 0, id="what has lasted ten minutes does not fail in a row with what was before"),
    ],
)
def test_how_long_a_replica_rests_after_failures_in_a_row(failures, lasted, rest):
    before = {0: Fall(failures - 1, NOON)} if failures > 1 else {}
    record = Record(roles={"Worker": RoleRecord(falls=before)})

    judged = policies.judge(read(manifest(workers=1)), record, (worker("worker-0:Failed=1", lasted),), NOON)

    assert policies.longest_rest(judged.record, judged.replaced) == timedelta(seconds=rest)


def test_what_happened_under_another_operator_is_not_counted():
    elastic = read(manifest(workers=1, elastic={"minReplicas": 1, "maxReplicas": 2}))
    theirs = records.read({"conditions": [{"type": "Running", "status": "True"}]})

    judged = policies.judge(elastic, theirs, (worker("worker-0:Running+3"),), NOON)

    assert not judged.hub_lost
    assert judged.record.restarts == 0
    again = policies.judge(elastic, judged.record, (worker("worker-0:Running+4"),), NOON)
    assert again.hub_lost, "what happens afterwards is"
