"""Which isolation is chosen, and what is said when one does not work."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.plain_user import plain_user_command

from trainwright.core.errors import HomeError
from trainwright.node.base import Trial
from trainwright.node.isolation import _cure, choose, trial, try_net

WORKS = Trial(True)
REFUSED = Trial(False, "user namespace: Operation not permitted (run as root)")


@pytest.mark.parametrize(
    ("asked", "net", "chosen", "sentence"),
    [
        pytest.param("auto", WORKS, "net", "isolation net: each pod has its own address", id="the best that works"),
        pytest.param("net", WORKS, "net", "isolation net: each pod has its own address", id="what was asked for"),
        pytest.param(
            "ports", WORKS, "ports", "isolation ports, as asked: pods share 127.0.0.1", id="also the lesser one"
        ),
        pytest.param(
            "auto",
            Trial(True, limits=("no pid namespace: masked",)),
            "net",
            "host name and files; no pid namespace: masked",
            id="what works less well is said",
        ),
        pytest.param(
            "auto",
            REFUSED,
            "ports",
            "because net does not work here (user namespace: Operation not permitted (run as root))",
            id="the reason for less is said",
        ),
    ],
)
def test_choose(asked, net, chosen, sentence):
    isolation, said = choose(asked, lambda: net)
    assert isolation.name == chosen
    assert sentence in said


def test_an_isolation_that_was_asked_for_and_does_not_work_is_an_error():
    with pytest.raises(HomeError) as raised:
        choose("net", lambda: REFUSED)
    assert str(raised.value) == (
        "isolation net does not work on this machine: user namespace: Operation not permitted (run as root); "
        "or use --isolation ports"
    )


def test_the_trial_ends_soon_and_leaves_nothing():
    before = len(list(Path("/proc/self/fd").iterdir()))
    began = time.monotonic()
    found = trial()
    assert time.monotonic() - began < 2
    assert found["ports"].works
    assert found["net"].works or found["net"].reason
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("step", "number", "files", "cure"),
    [
        pytest.param(
            "user namespace",
            errno.ENOSPC,
            {},
            "the limit user.max_user_namespaces is reached; as root: sysctl -w user.max_user_namespaces=15000",
            id="a limit of zero",
        ),
        pytest.param(
            "user namespace",
            errno.EPERM,
            {"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
            "as root: sysctl -w kernel.unprivileged_userns_clone=1",
            id="Debian's switch",
        ),
        pytest.param(
            "mount",
            errno.EACCES,
            {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
            "AppArmor restricts it; as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            id="Ubuntu lets the namespace pass and refuses what is done in it",
        ),
        pytest.param(
            "user namespace",
            errno.EPERM,
            {".dockerenv": "", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0\n"},
            "a container's seccomp or AppArmor profile refuses it; start that container with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined",
            id="Docker",
        ),
        pytest.param(
            "network namespace",
            errno.EPERM,
            {"proc/self/status": "Name:\tpython\nSeccomp:\t2\n"},
            "a container's seccomp or AppArmor profile refuses it; start that container with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined",
            id="any other seccomp filter",
        ),
        pytest.param(
            "bridge",
            errno.EOPNOTSUPP,
            {},
            "the kernel module is missing; as root: modprobe -a bridge veth",
            id="a kernel without bridges",
        ),
        pytest.param("bridge", errno.EIO, {}, "", id="what we know nothing about"),
    ],
)
def test_what_would_help(tmp_path, step, number, files, cure):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert _cure(step, number, tmp_path / "proc", tmp_path) == cure


LIMITED = """
import json, sys
from trainwright.node import linux
from trainwright.node.isolation import choose, try_net
from trainwright.core.errors import HomeError
linux.enter_user_namespace()
for name in sys.argv[1:]:
    with open(f"/proc/sys/user/max_{name}_namespaces", "w") as file:
        file.write("0")
try:
    choose("net")
except HomeError as error:
    print(json.dumps([str(error), choose("auto")[0].name]))
"""


@pytest.mark.parametrize("name", ["net", "mnt"])
def test_a_machine_that_refuses_says_which_step_and_what_would_help(name):
    """The kernel really refuses here: limits can be set for the namespaces below a user namespace of ours."""
    if not try_net().works:
        pytest.skip("namespaces are refused on this machine")
    done = subprocess.run([sys.executable, "-c", LIMITED, name], capture_output=True, text=True, check=True)
    sentence, fallback = json.loads(done.stdout)
    assert "No space left on device" in sentence
    assert f"as root: sysctl -w user.max_{name}_namespaces=15000" in sentence
    assert fallback == "ports"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mask a path for somebody else")
def test_masked_paths_cost_the_pid_namespace_only(tmp_path):
    code = "from trainwright.node.isolation import try_net; found = try_net(); print(found.works, *found.limits)"
    command = plain_user_command([sys.executable, "-c", code], home=tmp_path, mask=("/proc/fs",))
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("True no pid namespace: /proc has masked paths here")
