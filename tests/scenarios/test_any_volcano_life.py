"""Whatever happens to a Volcano Job and whenever its operator is killed, it comes to the same end."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconcile.volcano import manifest
from tests.scenarios.test_any_life import AnyWorld

JOBS = [
    manifest("master=1 worker=2", "PodFailed:RestartPod PodEvicted:RestartJob TaskCompleted:CompleteJob"),
    manifest("worker=3/2", "*:RestartTask", maxRetry=4),
    manifest("ps=1 worker=2", "=3:AbortJob PodFailed:RestartTask@5", after={"worker": {"name": ["ps"]}}),
    manifest("worker=3", "PodPending:RestartPod@30 PodEvicted:RestartJob@6 TaskFailed:TerminateJob", minSuccess=2),
    manifest("ps=1 worker=2/1", "PodFailed:AbortJob", ttlSecondsAfterFinished=30),
]
PODS = st.sampled_from(["master-0", "ps-0", "worker-0", "worker-1", "worker-2"])
LINES = st.one_of(
    st.just("runall"),
    st.just("runall"),
    st.builds("fail {} {}".format, PODS, st.sampled_from([1, 3])),
    st.builds("restart {}".format, PODS),
    st.builds("evict {}".format, PODS),
    st.builds("lose {}".format, PODS),
    st.builds("remove {}".format, PODS),
    st.builds("succeed {}".format, PODS),
    st.builds("wait {}".format, st.sampled_from([1, 6, 30])),
    st.builds(
        "command {}Job".format, st.sampled_from(["Abort", "Resume", "Resume", "Restart", "Terminate", "Complete"])
    ),
)


class VolcanoWorld(AnyWorld):
    """A world where nobody commands a job that is gone."""

    async def _command(self, action: str) -> None:
        if await self.outcome() != {"job": "gone"}:
            await super()._command(action)


@pytest.mark.timeout(3600 if os.environ.get("TRAINWRIGHT_SOAK") else 120)
@settings(max_examples=5_000 if os.environ.get("TRAINWRIGHT_SOAK") else 40, deadline=None)
@given(st.sampled_from(JOBS), st.lists(LINES, min_size=2, max_size=12), st.sets(st.integers(1, 60), max_size=12))
async def test_any_volcano_life(job, lines, last_calls):
    script = "\n".join(["runall", *lines])
    undisturbed, killed = VolcanoWorld(job), VolcanoWorld(job, dies=lambda call: call in last_calls)

    await undisturbed.play(script)
    await killed.play(script)

    assert await killed.outcome() == await undisturbed.outcome()
