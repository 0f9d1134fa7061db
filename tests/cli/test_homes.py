"""Where a command finds its jobs, and what it says where there are none: the homes that need no process."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from trainwright.api.faces import PYTORCH_JOB, RESOURCES
from trainwright.cli import homes, runs
from trainwright.cli.homes import Where
from trainwright.cli.kept import GONE
from trainwright.cluster.journal import JOURNAL, Journal
from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import HomeError, NotFound
from trainwright.core.objects import Object
from trainwright.core.resources import POD

RUNNING = {"conditions": [{"type": "Running", "status": "True"}], "active": "1/1"}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "it broke"}]}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Let nothing of whoever runs the tests be found."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def job(name: str, namespace: str = "default") -> Object:
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": namespace}}


async def keep(name: str, status: Object, *, namespace: str = "default", outcome: str = "", file: str = "") -> None:
    """Leave behind what a run of one job leaves."""
    with runs.new_run(runs.state(), datetime.now(UTC)) as folder:
        folder.note(jobs=[{"kind": "PyTorchJob", "namespace": namespace, "name": name}], outcome=outcome, file=file)
        with Journal.open(folder.path / JOURNAL, on_error=pytest.fail) as journal:
            cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC), journal=journal)
            await cluster.create(PYTORCH_JOB.resource, job(name, namespace))
            await cluster.patch(PYTORCH_JOB.resource, namespace, name, {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(None, "no tw serve is running and there is no kubeconfig; run a job with: tw run", id="no job"),
        pytest.param("mnist", "there is no job 'mnist' in any run that is kept; there are no jobs, and", id="a job"),
    ],
)
async def test_where_there_is_no_home_it_is_said_what_would_be_one(words, sentence):
    with pytest.raises((HomeError, NotFound), match=sentence):
        async with homes.opened(Where(), words):
            pass


async def test_a_named_job_is_found_in_the_newest_run_that_has_it():
    for name, status in (("mnist", FAILED), ("mnist", RUNNING), ("other", FAILED)):
        await keep(name, status)

    async with homes.opened(Where(), "mnist") as home:
        kind, found = await homes.find(home, "pytorchjob/mnist")

        assert (home.kind, kind.name) == ("kept", "PyTorchJob")
        assert found["status"]["active"] == "1/1"


async def test_a_misspelt_job_is_met_with_what_there_is():
    await keep("mnist", FAILED)

    with pytest.raises(NotFound, match=r"'mnits' in any run that is kept; did you mean 'mnist'\? \(there are: mnist\)"):
        async with homes.opened(Where(), "mnits"):
            pass


async def test_a_job_of_another_namespace_is_told_of():
    await keep("mnist", FAILED, namespace="team")

    with pytest.raises(NotFound, match=r"in namespace 'other' of any run that is kept, but there is one in team"):
        async with homes.opened(Where(namespace="other"), "mnist"):
            pass


async def test_the_same_name_in_two_namespaces_has_to_be_told_apart():
    with runs.new_run(runs.state(), datetime.now(UTC)) as folder:
        facts = [{"kind": "PyTorchJob", "namespace": place, "name": "mnist"} for place in ("a", "b")]
        folder.note(jobs=facts)
        with Journal.open(folder.path / JOURNAL, on_error=pytest.fail) as journal:
            cluster = MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC), journal=journal)
            for place in ("a", "b"):
                await cluster.create(PYTORCH_JOB.resource, job("mnist", place))

    async with homes.opened(Where(), "mnist") as home:
        with pytest.raises(NotFound, match=r"write one of pytorchjob/mnist -n a and pytorchjob/mnist -n b"):
            await homes.find(home, "mnist")
    async with homes.opened(Where(namespace="b"), "mnist") as home:
        assert (await homes.find(home, "mnist"))[1]["metadata"]["namespace"] == "b"


async def test_what_was_kept_has_also_what_had_gone_and_its_logs():
    await keep("mnist", FAILED)
    (run,) = runs.kept(runs.state())
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mnist-master-0", "namespace": "default", "uid": "u"},
    }
    (run.path / GONE).write_text(json.dumps(pod) + "\n")
    log = run.path / "logs" / "default" / "mnist-master-0_u" / "pytorch" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_text("hello\n")

    async with homes.opened(Where(), "mnist") as home:
        gone = await home.cluster.get(POD, "default", "mnist-master-0")
        said = b"".join([piece async for piece in home.cluster.logs("default", "mnist-master-0")])

    assert (gone["metadata"]["uid"], said) == ("u", b"hello\n")


async def test_what_was_kept_cannot_be_changed():
    await keep("mnist", RUNNING)

    async with homes.opened(Where(), "mnist") as home:
        with pytest.raises(HomeError, match=r"is over, and what was kept of it cannot be changed"):
            await home.cluster.patch(PYTORCH_JOB.resource, "default", "mnist", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(HomeError, match="is over"):
            await home.cluster.delete(PYTORCH_JOB.resource, "default", "mnist")


@pytest.mark.parametrize(
    ("where", "job", "home"),
    [
        pytest.param(Where(context="lab"), "mnist", "cluster 'lab'", id="by --context"),
        pytest.param(Where(kubeconfig="config"), "mnist", "cluster 'lab'", id="by --kubeconfig"),
        pytest.param(Where(), None, "cluster 'lab'", id="by KUBECONFIG"),
        pytest.param(Where(), "other", "cluster 'lab'", id="by KUBECONFIG, a job that no run has"),
        pytest.param(
            Where(),
            "mnist",
            "the run",
            id="by KUBECONFIG, but only a run has the job",
            marks=pytest.mark.e2e,  # a cluster that does not answer is asked for two seconds
        ),
    ],
)
async def test_a_cluster_that_is_named_is_asked_first(where, job, home, monkeypatch, tmp_path):
    await keep("mnist", FAILED)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "contexts": [{"name": "lab", "context": {"cluster": "c", "namespace": "team"}}],
                "current-context": "lab",
            }
        )
    )
    if not where.kubeconfig:
        monkeypatch.setenv("KUBECONFIG", "config")

    async with homes.opened(where, job) as found:
        assert found.name.startswith(home)
        assert (found.kind, found.namespace) in (("cluster", "team"), ("kept", ""))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        pytest.param(
            "ps", 0, "there are no unfinished jobs on this machine; tw ps --all shows those that have ended\n", id="ps"
        ),
        pytest.param("wait mnist", 1, "mnist is Failed\n", id="a failed job gives its exit code"),
        pytest.param(
            "wait mnist --for phase=Running", 1, "mnist is Failed; it will not be Running any more\n", id="wait"
        ),
        pytest.param(
            "retry mnist", 1, "tw: mnist was run by tw run; run it once more with: tw run job.yaml\n", id="retry"
        ),
        pytest.param("suspend mnist", 1, "tw: mnist is Failed already; there is nothing to suspend\n", id="suspend"),
        pytest.param("scale mnist 2", 1, "tw: mnist is Failed already; there is nothing to scale\n", id="scale"),
        pytest.param("apply -f .", 125, "tw: no tw serve is running and there is no kubeconfig; *", id="apply"),
    ],
)
async def test_commands_say_what_a_run_that_is_over_cannot_do(words, code, says, run, tmp_path):
    (tmp_path / "job.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
    await keep("mnist", FAILED, file="job.yaml")

    said = run(*words.split(), HOME=str(tmp_path))

    start, star, _ = says.partition("*")
    assert (said.out + said.err).startswith(start)
    assert star or said.out + said.err == says
    assert said.code == code


async def test_a_job_that_a_run_left_unfinished_shows_how_the_run_ended(run, tmp_path):
    await keep("mnist", RUNNING, outcome="Interrupted")

    said = run("ps", "--all", "--no-headers", HOME=str(tmp_path))

    assert said.out.split()[:3] == ["mnist", "PyTorchJob", "Interrupted"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_names_complete_also_of_what_was_kept(shell, run, tmp_path):
    await keep("mnist", FAILED)
    words = {"COMP_WORDS": "tw wait mn", "COMP_CWORD": "mn" if shell == "fish" else "2"}

    said = run(**words, _TW_COMPLETE=f"{shell}_complete", HOME=str(tmp_path))

    assert "mnist" in said.out


async def test_a_home_that_does_not_answer_completes_to_nothing_in_silence(run, tmp_path):
    (tmp_path / "config").write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], current-context: x, "
        "contexts: [{name: x, context: {cluster: c}}]}"
    )
    words = {"COMP_WORDS": "tw suspend ", "COMP_CWORD": "2", "_TW_COMPLETE": "bash_complete"}

    said = run(**words, KUBECONFIG=str(tmp_path / "config"))

    assert (said.code, said.out.strip(), said.err) == (0, "", "")


async def test_where_an_error_comes_from_is_shown_only_when_asked_for(run, tmp_path):
    plain = run("ps", "--kubeconfig", "nowhere", HOME=str(tmp_path))
    debugged = run("--debug", "ps", "--kubeconfig", "nowhere", HOME=str(tmp_path))

    assert plain.err == "tw: there is no kubeconfig at nowhere\n"
    assert "Traceback" in debugged.err
    assert debugged.err.endswith(plain.err)
