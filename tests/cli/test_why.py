"""`tw why` after real runs, as a user types it: scaled, failed, interrupted, and torch ranks that never meet."""

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import TW, Tw
from tests.e2e.running import Start
from tests.e2e.situations import torch
from tests.operator.scaling_world import opted_out, volcano_job

from trainwright.core.objects import Object

pytestmark = pytest.mark.e2e

TIME = r"\d\d:\d\d:\d\d"


def sleeping(job: Object) -> Object:
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"] = ["sleep", "2"]
    return job


def plain() -> Object:
    job = sleeping(volcano_job("a", 1, 1, 1))
    del job["metadata"]["annotations"], job["spec"]["elasticReplicas"]
    return job


def written(folder: Path, job: Object) -> str:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


@pytest.mark.parametrize(
    ("job", "flags", "words"),
    [
        pytest.param(
            sleeping(volcano_job("a", 1, 3, 1)),
            [],
            rf"  scaled from 1 to 3 at {TIME} because there is room for it",
            id="a job that was resized",
        ),
        pytest.param(
            sleeping(volcano_job("a", 1, 3, 1)),
            ["--no-autoscale"],
            "  never resized; worker may be 1 to 3",
            id="a run without the autoscaler",
        ),
        pytest.param(
            opted_out(sleeping(volcano_job("a", 1, 3, 1))),
            [],
            '  the autoscaler leaves its size alone: its annotation trainwright.dev/autoscale is "false"',
            id="a job that has opted out",
        ),
        pytest.param(plain(), [], "  1 of 1 pods have succeeded.", id="a job of one size"),
    ],
)
def test_how_a_job_came_to_its_size(tw: Tw, tmp_path: Path, job: Object, flags: list[str], words: str):
    assert tw("run", written(tmp_path, job), "--cpu", "3", *flags).code == 0
    verdict, *evidence, _ = tw("why", "a").out.splitlines()

    assert re.fullmatch(r"a succeeded after \ds: .* ended with success", verdict)
    assert re.fullmatch(words, evidence[-1])


def test_status_tells_every_change(tw: Tw, tmp_path: Path):
    assert tw("run", written(tmp_path, sleeping(volcano_job("a", 1, 3, 1))), "--cpu", "3").code == 0

    assert re.search(
        rf"^  {TIME}  Scaled: grows from 1 to 3: there is room for it$", tw("status", "a").out, re.MULTILINE
    )


def test_the_verdict_for_a_program(tw: Tw, tmp_path: Path):
    assert tw("run", written(tmp_path, torch("bad", "echo no data; exit 3"))).code == 3
    said = json.loads(tw("why", "bad", "-o", "json").out)

    assert (said["situation"], said["sentence"]) == ("exited", "bad failed: bad-master-0 exited with code 3")
    assert said["evidence"][-1] == "| no data"
    assert said["next"] == ["tw logs bad/master-0", "tw retry bad"]
    assert (said["kind"], said["namespace"], said["name"], said["scalings"]) == ("PyTorchJob", "default", "bad", [])


def test_a_terminal_gets_the_same_words_as_a_pipe(run: Tw, environment: dict[str, str], tmp_path: Path):
    assert run("run", written(tmp_path, torch("bad", "echo no data; exit 3"))).code == 3
    master, slave = pty.openpty()
    with subprocess.Popen([TW, "why", "bad"], stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        assert process.wait() == 0
    shown = os.read(master, 1 << 16).decode()
    os.close(master)

    assert shown.replace("\r\n", "\n") == run("why", "bad").out


def test_flags_that_found_the_job_are_in_what_to_type_next(tw: Tw, tmp_path: Path):
    assert tw("run", written(tmp_path, torch("bad", "exit 3"))).code == 3

    assert tw("why", "bad", "-n", "default").out.splitlines()[-1] == "try: tw retry bad -n default"


def test_a_job_that_can_never_fit(tw: Tw, tmp_path: Path):
    job = torch("huge", resources={"requests": {"cpu": "64"}})
    assert tw("run", written(tmp_path, job), "--cpu", "2").code == 125
    verdict, *_, advice = tw("why", "huge").out.splitlines()

    assert verdict.startswith("huge can never start here: huge-master-0 needs 64, and 2 of 2 is free on node local")
    assert advice == "try: tw run FILE --cpu 64"


def test_a_run_that_was_interrupted(start: Start, tmp_path: Path):
    run = start("run", written(tmp_path, torch("cut", "echo begun; sleep 1000")))
    run.until("begun")
    run.until("cut running")
    run.signal(signal.SIGTERM)
    run.wait()

    asked = start("why", "cut", "-o", "json")
    assert asked.wait() == 0
    said = json.loads("".join(asked.out))

    assert said["situation"] == "cut-short"
    assert said["sentence"] == "cut was not finished: the run that held it ended while it was Running"
    assert said["next"] == ["tw logs cut", "tw run FILE"]


@pytest.mark.torch
def test_ranks_of_torch_that_never_meet(start: Start, torch_python: Path, tmp_path: Path):
    joins = (
        "import datetime, torch.distributed as d; d.init_process_group('gloo', timeout=datetime.timedelta(seconds=3))"
    )
    script = f'case "$HOSTNAME" in *worker*) exec sleep 1000;; esac; exec {torch_python} -c "{joins}"'
    assert start("run", written(tmp_path, torch("apart", script, workers=1))).wait() == 1

    said = start("why", "apart")

    assert said.wait() == 0
    assert said.out[0] == "apart failed: its ranks did not all meet, 1 of 2 joined, says apart-master-0"
