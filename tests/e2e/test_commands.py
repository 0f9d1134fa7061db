"""The commands over jobs in the homes of this machine: `tw serve`, and a `tw run` that goes on."""

import signal

import pytest
from tests.cli.conftest import TW
from tests.e2e.commanding import BEGINNING, END, MANIFEST, MIDDLE, OTHER_KINDS, THROUGH, piped, steps_of, tell
from tests.e2e.running import Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def no_cluster(environment, tmp_path):
    """Let no cluster of whoever runs the tests be found."""
    environment["HOME"] = str(tmp_path)
    environment.pop("KUBECONFIG", None)


@pytest.fixture
def manifest(tmp_path):
    file = tmp_path / "lab.yaml"
    file.write_text(MANIFEST)
    return file


@pytest.mark.parametrize("through", THROUGH)
def test_tw_serve_does_what_it_is_told(through, start: Start, environment, manifest):
    serving = start("serve", "--port", "0")
    serving.until("serving this user")

    tell((*BEGINNING, *MIDDLE, *END), through, environment, manifest)


def test_every_kind_is_told_in_its_own_way(start: Start, environment, tmp_path):
    serving = start("serve", "--port", "0")
    serving.until("serving this user")

    for name, (manifest, *_) in OTHER_KINDS.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(manifest)
        tell(steps_of(name), piped, environment, file)


def test_who_watches_sees_every_change_until_the_home_is_gone(start: Start, environment, manifest):
    serving = start("serve", "--port", "0")
    serving.until("serving this user")
    assert piped([TW, "apply", "-f", str(manifest)], environment).code == 0
    watching = start("ps", "-w")
    watching.until("^lab +PyTorchJob +Running +2/2 ")

    assert piped([TW, "suspend", "lab"], environment).code == 0
    watching.until("^lab +PyTorchJob +Suspended +0/2 ")
    seen = len(watching.lines)
    assert piped([TW, "resume", "lab"], environment).code == 0
    watching.until("^lab +PyTorchJob +Running +2/2 ", after=seen)
    serving.signal(signal.SIGTERM)

    assert watching.wait() == 125
    assert watching.err[-1] == "tw: tw serve has stopped"


def test_names_of_jobs_complete_in_every_shell(start: Start, environment, manifest):
    serving = start("serve", "--port", "0")
    serving.until("serving this user")
    assert piped([TW, "apply", "-f", str(manifest)], environment).code == 0

    def completed(shell: str, word: str) -> str:
        given = {"COMP_WORDS": f"tw suspend {word}", "COMP_CWORD": word if shell == "fish" else "2"}
        return piped([TW], {**environment, **given, "_TW_COMPLETE": f"{shell}_complete"}).out

    assert completed("bash", "l") == "plain,lab\n"
    assert completed("zsh", "l").splitlines()[:2] == ["plain", "lab"]
    assert completed("fish", "l") == "plain,lab\n"
    assert completed("bash", "pytorchjob/l") == "plain,pytorchjob/lab\n"
    assert completed("bash", "x").strip() == ""


@pytest.mark.parametrize("through", THROUGH)
def test_a_run_that_goes_on_does_what_it_is_told(through, start: Start, environment, manifest):
    running = start("run", str(manifest))
    running.until("worker-0 running")

    tell(MIDDLE, through, environment, manifest)

    assert running.wait() == 143
    running.until("PyTorchJob lab was cancelled by")
