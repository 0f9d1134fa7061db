"""Crowds on a real API server: large jobs, jobs that end together, and what an operator needs to know of them all.

By default the crowds are small; with TRAINWRIGHT_SOAK=1 they are those of benchmarks/scale.py.
"""

from pathlib import Path

import pytest
from benchmarks.operators import OURS, started
from benchmarks.scale import ENDING, KNOWN, LARGE, LARGE_PODS, crowd, memory
from tests.kube.crashing import SOAK

from trainwright.core.resources import POD

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("programs"), pytest.mark.timeout(900 if SOAK else 180)]

JOBS, PODS = (LARGE, LARGE_PODS) if SOAK else (2, 100)
TOGETHER = ENDING if SOAK else 50
MORE = (KNOWN - LARGE * LARGE_PODS) // LARGE_PODS if SOAK else 0
MEGABYTES = 350 if SOAK else 100


async def test_crowds(tmp_path: Path):
    async with crowd(tmp_path) as found:
        with started(OURS.command(found.plane.kubeconfig), tmp_path / "operator.log"):
            await found.make("large", JOBS, PODS)
            await found.make("together", TOGETHER, 1)
            ended = await found.end("together", TOGETHER)
            await found.make("more", MORE, PODS)

        assert ended.calls["PATCH", "pytorchjobs/status"] == TOGETHER, "each end is written once"
        assert ended.calls["POST", "pods"] == 0
        assert await found.count(POD) == (JOBS + MORE) * PODS + TOGETHER
        assert await memory(found) < MEGABYTES
