"""`tw run` with real processes, and the commands that look at a run afterwards."""

import json
import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import TW, manifest, together

RETRIES = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; echo attempt $n; [ $n = 1 ] || exit 7; printf done"


def test_logs_come_out_whole_with_their_rank_and_our_words_beside_them(run):
    said = run("run", "-", text=manifest(together(2) + "echo hello from $RANK; printf 'no end'", workers=1))

    assert said.code == 0, said.err
    assert sorted(said.out.splitlines()) == [
        "master-0 | hello from 0",
        "master-0 | no end",
        "worker-0 | hello from 1",
        "worker-0 | no end",
    ]
    first, *rest = said.err.splitlines()
    assert re.match(r"isolation \w+: .*; this run is kept in /.*/runs/\d{8}-\d{6}$", first)
    assert "worker-0 succeeded" in rest  # it may have ended before anybody could say that it runs
    assert re.match(r"mnist succeeded in \d", rest[-1])


def test_the_culprit_is_named_with_its_code_its_last_lines_and_its_file(run):
    failing = '[ $RANK = 1 ] && { echo "it broke" >&2; exit 3; }; sleep 60'
    said = run("run", "-", text=manifest(failing, workers=2))

    assert said.code == 3
    assert "mnist failed: mnist-worker-0 exited with code 3" in said.err
    assert "the last line of mnist-worker-0:\n  it broke\n" in said.err
    log = re.search(r"all it printed: (.*)$", said.err, re.MULTILINE)
    assert log
    assert Path(log[1]).read_text() == "it broke\n"
    assert "master-0 and worker-1 did not end within 2s after the job: stopping" in said.err


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        pytest.param("kill -SEGV $$$$", 139, "was killed by SIGSEGV (exit code 139)", id="a signal"),
        pytest.param("kill -KILL $$$$", 137, "was killed by SIGKILL (exit code 137)", id="SIGKILL"),
        pytest.param("exit 200", 200, "exited with code 200", id="a high code"),
    ],
)
def test_the_exit_code_is_the_culprits(run, command, code, words):
    said = run("run", "-", text=manifest(command))

    assert said.code == code
    assert words in said.err


def test_every_incarnation_of_a_restarted_rank_is_heard_then_and_later(run):
    said = run("run", "-", text=manifest(RETRIES, policy="OnFailure"))

    assert said.code == 0, said.err
    assert said.out.splitlines() == [
        "master-0 | attempt 0",
        "master-0 | attempt 1",
        "master-0 | done",
    ]
    assert "master-0 starts again (1 restart): exited with code 7" in said.err
    assert "succeeded" in said.err.splitlines()[-1]
    assert "after 1 restart" in said.err.splitlines()[-1]
    assert run("logs", "mnist").out == "attempt 0\nattempt 1\ndone\n"
    assert run("logs", "mnist/master-0", "-p").out == "attempt 0\n"
    assert run("logs", "mnist", "--tail", "1").out == "done\n"


def test_a_kept_run_can_be_looked_at(run):
    assert run("run", "-", "-n", "team", text=manifest(together(3) + "echo hello $RANK", workers=2)).code == 0

    status = run("status", "mnist").out
    assert status.startswith("PyTorchJob team/mnist: Succeeded")
    assert re.search(r"^ +worker-1 +Succeeded +local +0 +0 +\S+ +hello 2$", status, re.MULTILINE)
    assert json.loads(run("status", "mnist", "-o", "json").out)["metadata"]["name"] == "mnist"
    assert yaml.safe_load(run("status", "mnist/worker-1", "-o", "yaml").out)["metadata"]["name"] == "mnist-worker-1"
    assert sorted(run("logs", "pytorchjob/mnist").out.splitlines()) == [
        "master-0 | hello 0",
        "worker-0 | hello 1",
        "worker-1 | hello 2",
    ]
    assert run("logs", "mnist/2").out == "hello 2\n"
    assert "PyTorchJobSucceeded" in run("events", "mnist").out
    assert json.loads(run("events", "mnist", "-o", "json").out)["items"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["status", "mnits"],
            "there is no job 'mnits' in any run that is kept; did you mean 'mnist'? (there are: mnist)",
        ),
        (["logs", "mnist/wroker-0"], "mnist has no rank 'wroker-0'"),
        (["logs", "mnist", "-c", "pytroch"], "did you mean 'pytorch'?"),
        (["events", "mnist", "-n", "other"], "in namespace 'other' of any run that is kept, but there is one in"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(run, words, sentence):
    run("run", "-", text=manifest())
    said = run(*words)

    assert (said.code, said.out) == (127, "")
    assert sentence in said.err


def test_several_jobs_and_what_they_need_run_together(run):
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}\ndata: {word: from the map}\n"
    env = [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "data", "key": "word"}}}]
    good = manifest('echo "$WORD"', name="good", env=env)
    bad = manifest("exit 4", name="bad")
    said = run("run", "-", text=f"{good}---\n{bad}---\n{config}")

    assert said.code == 4
    assert said.out == "good/master-0 | from the map\n"
    assert "good succeeded" in said.err
    assert "bad failed: bad-master-0 exited with code 4" in said.err


def test_json_prints_the_job_and_sends_the_logs_to_stderr(run):
    said = run("run", "-", "-o", "json", text=manifest("echo hello"))

    job = json.loads(said.out)
    assert [each["type"] for each in job["status"]["conditions"] if each["status"] == "True"][-1] == "Succeeded"
    assert "master-0 | hello" in said.err


def test_quiet_says_errors_only(run):
    assert run("run", "-", "-q", text=manifest("echo hello")).err == ""
    said = run("run", "-", "-q", text=manifest("echo oops; exit 3"))

    assert said.err.splitlines()[:3] == [
        "master-0 failed: exited with code 3",
        "mnist failed: mnist-master-0 exited with code 3",
        "the last line of mnist-master-0:",
    ]


def test_a_job_that_can_never_fit_is_not_waited_for(run):
    text = manifest(together(3), workers=2, resources={"requests": {"cpu": "3"}})
    said = run("run", "-", "--cpu", "8", text=text)

    assert (said.code, said.out) == (125, "")
    assert "3 pods that start together need cpu 9, and 8 is offered; offer more with --cpu 9" in said.err
    assert run("run", "-", "--cpu", "9", text=text).code == 0


def test_a_deadline_of_the_job_itself(run):
    said = run("run", "-", "--set", "spec.runPolicy={activeDeadlineSeconds: 1}", text=manifest("sleep 60"))

    assert said.code == 124
    assert "mnist failed" in said.err


@pytest.mark.e2e
def test_pods_that_outlive_their_job_are_stopped_and_that_is_said(run):
    said = run("run", "-", text=manifest(together(2) + "[ $RANK = 0 ] || sleep 60", workers=1))

    assert said.code == 0
    assert "worker-0 did not end within 5s after the job: stopping" in said.err


def test_a_job_waits_for_another_and_says_what_for(run):
    one = manifest("sleep 1; echo first", name="one", resources={"requests": {"cpu": "1"}})
    two = manifest("echo second", name="two", resources={"requests": {"cpu": "1"}})
    said = run("run", "-", "--cpu", "1", text=f"{one}---\n{two}")

    assert said.code == 0
    assert said.out.splitlines() == ["one/master-0 | first", "two/master-0 | second"]
    assert "two waits: 1st in the queue; one pod needs cpu 1, but 0 of 1 is free (default/one holds 1)" in said.err


@pytest.mark.e2e
def test_a_terminal_gets_a_table_and_colours_unless_they_are_not_wanted(environment, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("echo hello; sleep 1", workers=1))

    def shown(**variables):
        master, slave = pty.openpty()
        words = [TW, "run", "job.yaml"]
        environ = {**environment, "TERM": "xterm", **variables}
        with subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=tmp_path) as process:
            os.close(slave)
            data = b""
            while True:
                try:
                    data += os.read(master, 1 << 16)
                except OSError:  # the other end is closed
                    break
            assert process.wait() == 0
        os.close(master)
        return data.decode()

    coloured = shown()
    plain = shown(NO_COLOR="1")

    assert re.search(r"\x1b\[36m(master|worker)-0 \|\x1b\[0m hello\r\n", coloured)
    assert re.search(r"RANK +PHASE +NODE +RESTARTS +AGE", coloured)
    assert re.search(r"(master|worker)-0 \| hello\r\n", plain)
    assert not re.search(r"\x1b\[3\dm", plain)
    assert re.search(r"mnist succeeded in \S+\x1b\[0m\r\n$", coloured), "the table is gone at the end"


def test_a_run_can_be_followed_while_it_goes_on(start, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("echo begun; while ! [ -e go ]; do sleep 0.05; done; echo over"))
    job = start("run", "job.yaml")
    job.until("begun")
    follower = start("logs", "mnist", "-f")
    follower.until("begun")
    (tmp_path / "go").touch()

    assert follower.wait() == 0
    assert follower.out == ["master-0 | begun", "master-0 | over"]
    assert job.wait() == 0


@pytest.mark.e2e
def test_only_so_many_runs_are_kept(run, tmp_path):
    for _ in range(3):
        assert run("run", "-", text=manifest("true"), TRAINWRIGHT_KEEP_RUNS="2").code == 0

    assert len(list((tmp_path / "state" / "trainwright" / "runs").iterdir())) == 2


def test_a_reader_that_goes_away_ends_the_run_quietly(environment, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("while true; do echo hello; done"))
    start = time.monotonic()
    said = subprocess.run(
        ["bash", "-c", f"{TW} run job.yaml | head -2; echo ${{PIPESTATUS[0]}}"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert said.stdout.splitlines() == ["master-0 | hello", "master-0 | hello", "141"]
    assert "Traceback" not in said.stderr
    assert "stopping" not in said.stderr
    assert time.monotonic() - start < 30
