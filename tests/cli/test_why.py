"""`tw why` after real runs of one elastic job, scaled and left alone."""

import re
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Tw
from tests.operator.scaling_world import opted_out, volcano_job

from trainwright.core.objects import Object

pytestmark = pytest.mark.e2e


def sleeping(job: Object) -> Object:
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"] = ["sleep", "2"]
    return job


def plain() -> Object:
    job = sleeping(volcano_job("a", 1, 1, 1))
    del job["metadata"]["annotations"], job["spec"]["elasticReplicas"]
    return job


TIME = r"\d\d:\d\d:\d\d"


@pytest.mark.parametrize(
    ("job", "flags", "words"),
    [
        pytest.param(
            sleeping(volcano_job("a", 1, 3, 1)),
            [],
            rf"scaled from 1 to 3 at {TIME} because there is room for it",
            id="a job that was resized",
        ),
        pytest.param(
            sleeping(volcano_job("a", 1, 3, 1)),
            ["--no-autoscale"],
            "Job a was never resized; worker may be 1 to 3",
            id="a run without the autoscaler",
        ),
        pytest.param(
            opted_out(sleeping(volcano_job("a", 1, 3, 1))),
            [],
            'the autoscaler leaves its size alone: its annotation trainwright.dev/autoscale is "false"',
            id="a job that has opted out",
        ),
        pytest.param(plain(), [], "Job a has only one size: it is not elastic", id="a job of one size"),
    ],
)
def test_why(tw: Tw, tmp_path: Path, job: Object, flags: list[str], words: str):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))

    assert tw("run", str(file), "--cpu", "3", *flags).code == 0
    assert re.fullmatch(words, tw("why", "a").out.rstrip("\n"))


def test_status_tells_every_change(tw: Tw, tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(sleeping(volcano_job("a", 1, 3, 1))))

    assert tw("run", str(file), "--cpu", "3").code == 0
    assert re.search(
        rf"^  {TIME}  Scaled: grows from 1 to 3: there is room for it$", tw("status", "a").out, re.MULTILINE
    )
    assert '"to": 3' in tw("why", "a", "-o", "json").out
