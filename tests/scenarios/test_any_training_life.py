"""Whatever happens to a TrainingJob and whenever its operator is killed: it comes to the same end."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scenarios.test_any_life import AnyWorld
from tests.scenarios.test_training_lives import plain, tolerant

JOBS = [plain(2), plain(2, pservers=2, master={}), tolerant(2), tolerant(1, 3), tolerant(2, 4)]
PODS = st.sampled_from(["master-0", "pserver-0", "pserver-1", "trainer-0", "trainer-1", "trainer-2"])
LINES = st.one_of(
    st.just("runall"),
    st.just("runall"),
    st.builds("fail {} {}".format, PODS, st.sampled_from([1, 137])),
    st.builds("restart {}".format, PODS),
    st.builds("evict {}".format, PODS),
    st.builds("lose {}".format, PODS),
    st.builds("remove {}".format, PODS),
    st.builds("succeed {}".format, PODS),
    st.builds("wait {}".format, st.sampled_from([1, 30])),
    st.builds("scale {}".format, st.integers(2, 3)),
)


class TrainingWorld(AnyWorld):
    """A world where only jobs that scale are scaled."""

    async def _scale(self, replicas: str) -> None:
        if self.kind.read(self.manifest).elastic is not None:
            await super()._scale(replicas)


@pytest.mark.timeout(3600 if os.environ.get("TRAINWRIGHT_SOAK") else 120)
@settings(max_examples=5_000 if os.environ.get("TRAINWRIGHT_SOAK") else 40, deadline=None)
@given(st.sampled_from(JOBS), st.lists(LINES, min_size=2, max_size=12), st.sets(st.integers(1, 60), max_size=12))
async def test_any_training_life(job, lines, last_calls):
    script = "\n".join([*3 * ["runall"], *lines])
    undisturbed, killed = TrainingWorld(job), TrainingWorld(job, dies=lambda call: call in last_calls)

    await undisturbed.play(script)
    await killed.play(script)

    outcome = await undisturbed.outcome()
    assert await killed.outcome() == outcome
    left = {(kind, phase) for kind, _, _, phase in outcome["children"]}
    if outcome["status"]["phase"] in ("succeeded", "failed"):
        assert left <= {("Pod", "Succeeded"), ("Pod", "Failed")}
    else:
        assert outcome["status"]["phase"] in ("creating", "running")
