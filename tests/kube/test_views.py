"""What is seen of a job on a real cluster: the same views as at home, through the API alone."""

import os
import re

import pytest
import yaml
from tests.cli.conftest import TW
from tests.e2e.commanding import COLOUR, OK, STAMP, THROUGH, Step, piped, tell
from tests.e2e.served import job
from tests.kube.nodes import RunningNode
from tests.kube.running import Kubectl, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

TALKS = "for i in 1 2 3; do echo step $i of rank $RANK; sleep 0.3; done; sleep 600"

STEPS = (
    Step("logs talk", rf"({COLOUR}\S+ +\|{COLOUR} step \d of rank \d\n){{6}}"),
    Step("logs talk/worker-0 --tail 1 --timestamps", rf"{STAMP} step 3 of rank 1\n"),
    Step("logs talk --rank 0 --grep [23]", r"step 2 of rank 0\nstep 3 of rank 0\n"),
    Step("logs talk --since 0s", r""),
    Step(
        "status talk",
        r"PyTorchJob \S+/talk: Running for \S+\n.*RANK +PHASE +NODE +EXIT +RESTARTS +AGE +LAST LINE\n"
        r"  master \(1: 1 running\)\n    master-0 +Running +\S+ +0 +\S+ +step 3 of rank 0\n"
        r"  worker \(1: 1 running\)\n    worker-0 +Running +\S+ +0 +\S+ +step 3 of rank 1\n",
    ),
    Step("events talk", r"TIME +TYPE +ABOUT +REASON +WHAT HAPPENED\n.*pod/talk-worker-0 +Started +.*\n"),
    Step(
        "doctor",
        rf"{OK}trainwright .*{OK}cluster .* Kubernetes v.*{OK}PyTorchJob +known, 1 job\n.*{OK}rights .*\n",
    ),
)


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "120"}


@pytest.mark.parametrize("through", THROUGH)
def test_every_view_of_a_cluster(through, kubectl: Kubectl, node: RunningNode, environment, tmp_path):
    manifest = job("talk", TALKS, workers=1)
    del manifest["metadata"]["namespace"]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
    home = ("--kubeconfig", str(kubectl.kubeconfig), "-n", kubectl.namespace)
    assert piped([TW, "apply", "-f", str(tmp_path / "job.yaml"), *home], environment).code == 0
    until(lambda: piped([TW, "logs", "talk", *home], environment).out.count("step 3") == 2, "both ranks have talked")

    tell(STEPS, through, environment, tmp_path, *home)

    ran = piped([TW, "exec", "talk/1", *home, "--", "printenv", "RANK"], environment)
    assert (ran.code, ran.out) == (0, "1\n")
    top = piped([TW, "top", "talk", *home], environment)
    assert re.search(r"^talk +master-0 +\S+ +3 +[\d.]+$", top.out, re.MULTILINE), top
    assert "nobody measures CPU and memory" in top.err
