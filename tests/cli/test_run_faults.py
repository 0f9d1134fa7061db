"""What goes wrong around `tw run`: each is said or survived, and leaves no process."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import TW, manifest, together

pytestmark = [pytest.mark.e2e, pytest.mark.fault]

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* Adds to the wall clock the seconds that stand in the file $CLOCK_OFFSET; other clocks are left alone. */
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, now);
    const char *path = getenv("CLOCK_OFFSET");
    FILE *file = which == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    long seconds = 0;
    if (file) { if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds; fclose(file); }
    return result;
}
"""


def within_mounts(*commands: str) -> tuple[str, ...]:
    """Return the words that run something after mounting, in mounts of its own; skip where that is refused."""
    own = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount anything")
    return (*own, "sh", "-c", " && ".join([*commands, 'exec "$@"']), "sh")


def until(seen: Callable[[], bool], otherwise: str, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state"
    path.mkdir()
    return path


def test_a_read_only_state_directory_is_said_and_the_job_runs(run, state):
    prefix = within_mounts(f"mount -t tmpfs -o ro,size=1m tmpfs {state}")
    said = run("run", "-", text=manifest("echo hello"), prefix=prefix)

    assert (said.code, said.out) == (0, "master-0 | hello\n")
    place = re.search(r"this run cannot be kept in \S+ \(Read-only file system\).*it is in (\S+) instead", said.err)
    assert place, said.err
    assert "XDG_STATE_HOME" in said.err
    shutil.rmtree(place[1])


def test_a_full_state_directory_is_said_and_the_job_runs(run, state):
    fill = f"(dd if=/dev/zero of={state}/ballast bs=4k 2>/dev/null; true)"
    prefix = within_mounts(f"mount -t tmpfs -o size=64k tmpfs {state}", fill)
    said = run("run", "-", text=manifest("echo hello"), prefix=prefix)

    assert (said.code, said.out) == (0, "master-0 | hello\n")
    place = re.search(r"\(No space left on device\).*it is in (\S+) instead", said.err)
    assert place, said.err
    shutil.rmtree(place[1])


def test_a_disk_that_fills_up_while_the_job_runs_is_said(run, state):
    prefix = within_mounts(f"mount -t tmpfs -o size=1m tmpfs {state}")
    flood = "head -c 4000000 /dev/zero | tr '\\0' x; echo $?; sleep 0.5; exit 5"
    said = run("run", "-", text=manifest(flood), prefix=prefix)

    assert said.code == 5, said.err
    assert "Traceback" not in said.err
    assert re.search("full|No space left", said.err)


def test_a_stdout_that_is_full_stops_the_job_and_is_said(environment, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("while true; do echo hello; sleep 0.1; done"))
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [TW, "run", "job.yaml"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
            text=True,
            timeout=60,
            check=False,
        )

    assert said.returncode == 125
    assert "the logs cannot be written to stdout: No space left on device" in said.stderr


def test_a_pager_nobody_scrolls_holds_up_no_rank_and_a_second_ctrl_c_ends_it(environment, tmp_path):
    flood = "i=0; while [ $i -lt 40000 ]; do echo 'fills the pipe'; i=$((i + 1)); done; touch over; sleep 60"
    (tmp_path / "job.yaml").write_text(manifest(flood))
    read, write = os.pipe()
    with (tmp_path / "words").open("w") as words:
        process = subprocess.Popen([TW, "run", "job.yaml"], stdout=write, stderr=words, env=environment, cwd=tmp_path)
    os.close(write)
    try:
        until((tmp_path / "over").exists, "the rank waits for the reader")
        process.send_signal(signal.SIGINT)
        until(lambda: "master-0 stopped" in (tmp_path / "words").read_text(), "the first Ctrl-C is not heard")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.wait()
        os.close(read)


@pytest.mark.parametrize("offset", [86400, -86400], ids=["a day ahead", "a day back"])
def test_a_clock_that_jumps_is_survived(start, tmp_path, offset):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler to make a clock that jumps")
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    (tmp_path / "offset").write_text("0")
    loop = "n=0; while ! [ -e go ]; do echo tick $n; n=$((n + 1)); sleep 0.05; done; echo over"
    (tmp_path / "job.yaml").write_text(manifest(together(2) + loop, workers=1))

    run = start("run", "job.yaml", "--timeout", "40s", LD_PRELOAD=str(library), CLOCK_OFFSET=str(tmp_path / "offset"))
    run.until(r"worker-0 \| tick")
    (tmp_path / "offset").write_text(str(offset))
    now = subprocess.run(
        [sys.executable, "-c", "import datetime; print(datetime.datetime.now().timestamp())"],
        env={**os.environ, "LD_PRELOAD": str(library), "CLOCK_OFFSET": str(tmp_path / "offset")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert abs(float(now.stdout) - time.time() - offset) < 60, "the clock did not jump at all"
    for _ in range(20):
        run.until(r"worker-0 \| tick", after=len(run.lines))
    (tmp_path / "go").touch()

    assert run.wait(40) == 0, run.tail()
    assert sum("| over" in line for line in run.out) == 2
    assert not any("again" in line for line in run.err), "nothing was restarted because of a clock"
    assert start("status", "mnist").wait() == 0


def test_two_runs_at_once_are_two_runs(start, run, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("echo up; while ! [ -e go ]; do sleep 0.05; done"))
    both = [start("run", "job.yaml") for _ in range(2)]
    for each in both:
        each.until(r"\| up")
    (tmp_path / "go").touch()

    assert [each.wait() for each in both] == [0, 0]
    assert len(list((tmp_path / "state" / "trainwright" / "runs").iterdir())) == 2


def test_a_killed_run_can_still_be_looked_at(start, run, tmp_path):
    (tmp_path / "job.yaml").write_text(manifest("echo up; sleep 600"))
    killed = start("run", "job.yaml")
    killed.until(r"\| up")
    until(lambda: "Running" in run("status", "mnist").out, "the journal does not say that it runs")
    killed.signal(signal.SIGKILL)
    killed.wait()

    said = run("status", "mnist")
    assert said.code == 0
    assert "the run was killed" in said.out
    assert run("logs", "mnist").out == "up\n"
    assert run("run", "-", text=manifest("true"), TRAINWRIGHT_KEEP_RUNS="1").code == 0
    assert len(list((tmp_path / "state" / "trainwright" / "runs").iterdir())) == 1


def test_the_light_demo_keeps_its_promises_in_time(run, root):
    began = time.monotonic()
    said = run("demo", "--light")

    assert said.code == 0, said.err[-2000:]
    assert "4 ranks trained 20 steps together" in said.out
    assert "2 to 3 ranks trained 150 steps, each exactly once" in said.out
    assert "1 restart" in said.out
    assert "the job was disturbed for" in said.out
    assert time.monotonic() - began < 30


def test_a_demo_without_the_examples_says_where_they_are(environment, tmp_path):
    package = tmp_path / "site"
    shutil.copytree(Path(sys.modules["trainwright"].__path__[0]), package / "trainwright")
    said = subprocess.run(
        [sys.executable, "-c", "from trainwright.cli import main; main()", "demo", "--light"],
        env={**environment, "PYTHONPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 125
    assert "clone the repository and run `make demo` there" in said.stderr


def test_ctrl_c_after_the_job_has_ended_hurries_and_changes_nothing_about_it(start, tmp_path):
    stubborn = "[ $RANK = 0 ] || { trap '' TERM; sleep 60 & wait; wait; }"
    (tmp_path / "job.yaml").write_text(manifest(together(2) + stubborn, workers=1))
    run = start("run", "job.yaml")
    run.until("worker-0 did not end within 5s after the job")
    run.interrupt()
    run.until("interrupted")
    run.interrupt()

    assert run.wait(20) == 0, run.tail()
    assert any("mnist succeeded" in line for line in run.err)
