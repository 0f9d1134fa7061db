"""What a job remembers survives being written down."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trainwright.reconcile.record import Fall, Record, RoleRecord, read, write

INDEX = st.integers(0, 20)
ROLES = st.builds(
    RoleRecord,
    restarts=st.integers(0, 9),
    seen=st.dictionaries(INDEX, st.sampled_from(["a", "b"])),
    counted=st.dictionaries(INDEX, st.integers(1, 9)),
    done=st.frozensets(INDEX),
    falls=st.dictionaries(INDEX, st.builds(Fall, st.integers(1, 9), st.just(datetime(2026, 3, 1, 12, tzinfo=UTC)))),
)
RECORDS = st.builds(
    Record,
    version=st.integers(0, 5),
    roles=st.dictionaries(
        st.sampled_from(["Master", "Worker"]), ROLES.filter(lambda role: role != RoleRecord()), max_size=2
    ),
    retired=st.frozensets(st.sampled_from(["x", "y"])),
    cause=st.sampled_from(["", "Failure", "Deadline"]),
    culprit=st.none() | st.just({"pod": "p", "code": 1}),
)


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record):
    assert read({"record": write(record)}) == record


def test_a_new_job_remembers_nothing():
    assert read(None) == read({}) == Record()
    assert write(Record()) == {"version": 0}


def test_the_next_version_keeps_only_the_counts():
    record = Record(3, {"Worker": RoleRecord(5, {0: "a"}, {0: 2}, frozenset({1}))}, frozenset({"x"}))

    assert record.next_version() == Record(4, {"Worker": RoleRecord(5)}, oldest=4)
