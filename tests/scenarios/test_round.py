"""One round against a cluster: the patch it writes, and what it does when the cluster says no."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reconcile.making import manifest
from tests.scenarios.world import World

from trainwright.cluster.events import Recorder
from trainwright.cluster.metadata import merge
from trainwright.core.errors import Conflict
from trainwright.core.objects import merge_patch
from trainwright.core.resources import POD
from trainwright.desired import KUBERNETES
from trainwright.operator import log as logs
from trainwright.operator.keeping import Keeping
from trainwright.operator.round import observe, reconcile_once

VALUES: Any = st.recursive(
    st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_turns_the_one_into_the_other(before, after):
    assert merge(before, merge_patch(before, after)) == after


@given(OBJECTS)
def test_what_is_the_same_needs_no_patch(same):
    assert merge_patch(same, same) == {}


async def test_nothing_is_done_when_the_job_has_changed_meanwhile():
    world = World(manifest(workers=1))
    await world.cluster.create(world.kind.resource, world.manifest)
    job, seen = await observe(world.cluster, world.kind, "ns", "j")
    await world.cluster.patch(world.kind.resource, "ns", "j", {"metadata": {"labels": {"a": "b"}}})

    with pytest.raises(Conflict):
        await reconcile_once(
            world.cluster,
            world.kind,
            job,
            seen,
            settings=KUBERNETES,
            now=world.now,
            events=Recorder(world.cluster, lambda: world.now),
            keeping=Keeping(world.cluster),
        )

    assert (await world.cluster.list(POD)).items == []


async def test_a_job_that_is_gone_is_not_an_error():
    world = World(manifest(workers=1))
    await world.cluster.create(world.kind.resource, world.manifest)
    job, seen = await observe(world.cluster, world.kind, "ns", "j")
    await world.cluster.delete(world.kind.resource, "ns", "j")

    events = Recorder(world.cluster, lambda: world.now)
    again = await reconcile_once(
        world.cluster,
        world.kind,
        job,
        seen,
        settings=KUBERNETES,
        now=world.now,
        events=events,
        keeping=Keeping(world.cluster),
    )

    assert again is None
    assert (await world.cluster.list(POD)).items == []


@pytest.fixture
def record() -> logging.LogRecord:
    """Return the record of `log.info("pod created", job="a/b", note="two words")`."""
    caught: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = caught.append  # type: ignore[method-assign,assignment]
    plain = logging.getLogger("trainwright.test")
    plain.addHandler(handler)
    plain.setLevel("INFO")
    logs.logger("trainwright.test").bind(job="a/b").info("pod created", note="two words")
    plain.removeHandler(handler)
    return caught[0]


def test_a_line_of_text_has_time_level_sentence_and_fields(record):
    line = logs.TextFormatter().format(record)

    assert line[12:] == ' INFO    pod created job=a/b note="two words"'


def test_a_line_of_json_has_them_too(record):
    line = msgspec.json.decode(logs.JsonFormatter().format(record))

    assert line.pop("time")
    assert line == {
        "level": "info",
        "logger": "trainwright.test",
        "message": "pod created",
        "job": "a/b",
        "note": "two words",
    }
