"""Whatever happens to a job and whenever its operator is killed, it comes to the same end."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reconcile.making import manifest
from tests.scenarios.world import World

from trainwright.core.errors import NotFound
from trainwright.core.resources import POD

STRETCH = {"minReplicas": 1, "maxReplicas": 4}
JOBS = [
    manifest(master=1, workers=2, backoffLimit=4),
    manifest(workers=3, elastic=STRETCH, backoffLimit=3),
    manifest(workers=2, policy="ExitCode", elastic=STRETCH),
    manifest(workers=2, policy="ExitCode", backoffLimit=3, cleanPodPolicy="Running"),
    manifest(master=1, workers=1, policy="Never", activeDeadlineSeconds=40),
]
PODS = st.sampled_from(["master-0", "worker-0", "worker-1", "worker-2"])
LINES = st.one_of(
    st.just("runall"),
    st.just("runall"),
    st.builds("fail {} {}".format, PODS, st.sampled_from([1, 137])),
    st.builds("restart {} {}".format, PODS, st.sampled_from([1, 137])),
    st.builds("evict {}".format, PODS),
    st.builds("lose {}".format, PODS),
    st.builds("remove {}".format, PODS),
    st.builds("succeed {}".format, PODS),
    st.builds("wait {}".format, st.sampled_from([1, 6, 30])),
    st.builds("scale {}".format, st.integers(1, 4)),
    st.sampled_from(["suspend", "resume"]),
)


class AnyWorld(World):
    """A world where only what can happen does: pods that have ended stay as they are."""

    async def play(self, script: str) -> None:
        await self.cluster.create(self.kind.resource, self.manifest)
        await self.rest()
        for line in script.splitlines():
            verb, *words = line.split()
            if verb == "runall":
                for pod in (await self.cluster.list(POD)).items:
                    if pod["status"]["phase"] == "Pending":
                        await self._run(pod["metadata"]["name"].removeprefix("j-"))
            elif verb not in ("fail", "restart", "evict", "lose", "remove", "succeed") or await self._runs(words[0]):
                await getattr(self, f"_{verb}")(*words)
            await self.rest()

    async def _runs(self, pod: str) -> bool:
        try:
            return bool((await self.cluster.get(POD, "ns", f"j-{pod}"))["status"]["phase"] == "Running")
        except NotFound:
            return False


@pytest.mark.timeout(3600 if os.environ.get("TRAINWRIGHT_SOAK") else 120)
@settings(max_examples=5_000 if os.environ.get("TRAINWRIGHT_SOAK") else 40, deadline=None)
@given(st.sampled_from(JOBS), st.lists(LINES, min_size=2, max_size=12), st.sets(st.integers(1, 60), max_size=12))
async def test_any_life(job, lines, last_calls):
    script = "\n".join(["runall", *lines])
    undisturbed, killed = AnyWorld(job), AnyWorld(job, dies=lambda call: call in last_calls)

    await undisturbed.play(script)
    await killed.play(script)

    assert await killed.outcome() == await undisturbed.outcome()
