"""A node whose pods are processes, registered at a real API server and looked at with the real kubectl."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime

import pytest
from tests.kube.nodes import ACCOUNT, Nodes, RunningNode, container_state, pod, started
from tests.kube.running import Kubectl, Refusal, calls, until
from tools.kube import ControlPlane

from trainwright.core.resources import LEASE
from trainwright.node.rights import LEASE_RIGHTS, RIGHTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def run(kubectl: Kubectl, node: RunningNode):
    """Return what starts a pod on the node and waits until it is as said."""

    def started_pod(name: str, script: str, condition: str = "condition=Ready", **spec) -> str:
        kubectl.apply(pod(name, script, node=spec.pop("on", node.name), **spec))
        kubectl.wait(f"pod/{name}", condition)
        return name

    return started_pod


def test_a_node_says_what_it_offers_and_that_it_lives(admin: Kubectl, node: RunningNode):
    seen = admin.get("node", node.name)

    assert {each["type"]: each["status"] for each in seen["status"]["conditions"]} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert seen["status"]["capacity"]["cpu"] == "8"
    assert seen["metadata"]["labels"]["kubernetes.io/os"] == "linux"

    def renewed() -> str:
        return str(admin.get("lease", node.name, "-n", "kube-node-lease")["spec"]["renewTime"])

    first = renewed()
    until(lambda: renewed() > first, "the lease is renewed")


# Logs


def test_logs_are_followed_to_the_end(kubectl, run):
    run("talks", "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; echo last >&2")

    assert kubectl("logs", "-f", "talks").split("\n") == [*(f"line {i}" for i in range(1, 6)), "last", ""]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param([], "a\nb\nc\n", id="all of it"),
        pytest.param(["--tail=2"], "b\nc\n", id="the last lines"),
        pytest.param(["--tail=0"], "", id="none"),
        pytest.param(["--since=5m"], "a\nb\nc\n", id="what was printed lately"),
        pytest.param(["--tail=9"], "a\nb\nc\n", id="more than there are"),
        pytest.param(["--limit-bytes=3"], "a\nb", id="no more than so many bytes"),
        pytest.param(["-c", "main", "--follow"], "a\nb\nc\n", id="following what has ended ends"),
    ],
)
def test_a_part_of_a_log(kubectl, run, flags, text):
    run("abc", r"printf 'a\nb\nc\n'", "jsonpath={.status.phase}=Succeeded")

    assert kubectl("logs", "abc", *flags) == text


def test_logs_of_the_run_before(kubectl, run):
    script = "if [ -e $HOME/again ]; then echo second; sleep 300; fi; touch $HOME/again; echo first; exit 1"
    home = {"env": [{"name": "HOME", "value": "/scratch"}], "volumeMounts": [{"name": "s", "mountPath": "/scratch"}]}
    run("twice", script, container=home, volumes=[{"name": "s", "emptyDir": {}}], restartPolicy="OnFailure")
    until(lambda: container_state(kubectl, "twice")["restartCount"] == 1, "it runs again")

    assert kubectl("logs", "--previous", "twice") == "first\n"
    until(lambda: kubectl("logs", "twice") == "second\n", "only the last run is shown")


def test_logs_of_a_run_that_never_was_cannot_be_had(kubectl, run):
    run("once", "echo x; sleep 300")

    with pytest.raises(Refusal, match=re.escape("previous terminated container 'main' in pod 'once' not found")):
        kubectl("logs", "once", "--previous")


def test_logs_tell_when_a_line_was_printed(kubectl, run):
    run("slow", "echo early; sleep 2; echo late", "jsonpath={.status.phase}=Succeeded")

    early, late = (
        datetime.fromisoformat(line.split()[0]) for line in kubectl("logs", "slow", "--timestamps").splitlines()
    )

    assert 1.5 < (late - early).total_seconds() < 2.5
    assert kubectl("logs", "slow", f"--since-time={late.isoformat()}") == "late\n"


# Exec, attach, port-forward


@pytest.mark.parametrize(
    ("script", "given", "code", "out", "err"),
    [
        pytest.param("hostname", "", 0, "busy\n", "", id="it runs inside the pod"),
        pytest.param("echo a; echo b >&2; exit 3", "", 3, "a\n", "b\n", id="its exit code and both its outputs"),
        pytest.param("kill -9 $$", "", 137, "", "", id="a signal is 128 more than its number"),
        pytest.param("cat; echo end", "x\ny\n", 0, "x\ny\nend\n", "", id="its input, to the end"),
        pytest.param("wc -c", "z" * 300_000, 0, "300000\n", "", id="more than a pipe holds"),
        pytest.param("head -c 300000 /dev/zero | tr '\\0' o", "", 0, "o" * 300_000, "", id="and as much output"),
    ],
)
def test_exec(kubectl, run, script, given, code, out, err):
    run("busy", "sleep 300")

    done = started(
        kubectl, "exec", "-i", "busy", "--", "sh", "-c", script, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    printed, said = done.communicate(given, timeout=30)

    assert (printed, said.replace(f"command terminated with exit code {code}\n", ""), done.returncode) == (
        out,
        err,
        code,
    )


def test_exec_on_a_terminal(kubectl, run):
    run("busy", "sleep 300")
    ours, theirs = pty.openpty()
    words = ["exec", "-it", "busy", "--", "sh", "-c", "test -t 0 && stty size; read line; echo got:$line; sleep 300"]
    shell = started(kubectl, *words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)

    os.write(ours, b"word\n")
    _read_until(ours, b"got:word")
    os.write(ours, b"\x03")  # Ctrl-C goes to the command, not to kubectl

    assert shell.wait(30) == 130
    os.close(ours)


def test_exec_of_what_is_not_there_says_so(kubectl, run):
    run("busy", "sleep 300")

    with pytest.raises(Refusal, match="command not found: 'nosuch' is in no folder of PATH"):
        kubectl("exec", "busy", "--", "nosuch")


def test_a_client_that_goes_ends_its_command(kubectl, run):
    run("busy", "sleep 300")
    client = started(kubectl, "exec", "busy", "--", "sh", "-c", "echo up; exec sleep 3210")
    assert client.stdout
    assert client.stdout.readline() == "up\n"
    client.kill()
    client.wait()
    client.stdout.close()

    until(lambda: "sleep 3210" not in kubectl("exec", "busy", "--", "ps", "-ef"), "the command has ended")


def test_attach_shows_what_comes(kubectl, run):
    run("busy", "sleep 1; echo news; sleep 2")

    assert "news\n" in kubectl("attach", "busy")


def test_attach_has_no_input(kubectl, run):
    run("busy", "sleep 300")

    with pytest.raises(Refusal, match="has no standard input to attach to"):
        kubectl("attach", "-i", "busy")


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, name: str, port: int) -> Iterator[int]:
    forwarding = started(kubectl, "port-forward", f"pod/{name}", f":{port}", "--address=127.0.0.1")
    assert forwarding.stdout
    line = forwarding.stdout.readline()
    found = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert found, line
    try:
        yield int(found[1])
    finally:
        forwarding.kill()
        forwarding.communicate()


def test_port_forward_reaches_what_listens_on_the_pods_localhost(kubectl, run, root):
    probe = {"exec": {"command": ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))"]}}
    server = {"command": ["python3", "-m", "http.server", "8000", "--bind=127.0.0.1"], "workingDir": str(root)}
    run("web", "", container={**server, "readinessProbe": {**probe, "periodSeconds": 1}})
    pyproject = (root / "pyproject.toml").read_bytes()

    with forwarded(kubectl, "web", 8000) as port:
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/pyproject.toml", timeout=10) as answer:
                assert answer.read() == pyproject


def test_port_forward_says_that_nobody_listens(kubectl, run):
    run("busy", "sleep 300")

    forwarding = started(kubectl, "port-forward", "pod/busy", ":9", "--address=127.0.0.1")
    assert forwarding.stdout
    port = int(forwarding.stdout.readline().partition("127.0.0.1:")[2].split()[0])
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        assert client.recv(1) == b""
    said, _ = forwarding.communicate(timeout=30)

    assert "port 9 of the pod cannot be reached" in said


def test_only_the_api_server_may_ask_a_node(admin: Kubectl, plane: ControlPlane, node: RunningNode):
    port = admin.get("node", node.name)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    stranger = ssl._create_unverified_context()
    api_server = ssl._create_unverified_context()
    api_server.load_cert_chain(plane.node_client, plane.node_client.with_suffix(".key"))

    with pytest.raises(OSError):  # noqa: PT011 - the connection ends in one of several ways
        urllib.request.urlopen(f"https://127.0.0.1:{port}/pods", context=stranger, timeout=10).read()
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/pods", context=api_server, timeout=10) as answer:
        assert json.load(answer)["kind"] == "PodList"


# Pods


def test_a_pod_gets_its_init_step_its_files_and_its_environment(kubectl, run):
    kubectl("create", "configmap", "settings", "--from-literal=mode=fast", "--from-literal=text=hello")
    kubectl("create", "secret", "generic", "key", "--from-literal=token=s3cret")
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("settings", "key", "made")]
    mode = {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}
    init = {"name": "first", "image": "any", "command": ["sh", "-c", "echo made > /made/file"], "volumeMounts": mounts}

    run(
        "whole",
        "cat /settings/text /key/token /made/file; echo $MODE",
        "jsonpath={.status.phase}=Succeeded",
        container={"volumeMounts": mounts, "env": [mode]},
        initContainers=[init],
        volumes=[
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "key", "secret": {"secretName": "key"}},
            {"name": "made", "emptyDir": {}},
        ],
    )

    assert kubectl("logs", "whole") == "hellos3cretmade\nfast\n"


def test_a_pod_waits_for_what_it_mounts(kubectl, node):
    volume = {"name": "late", "configMap": {"name": "late"}}
    kubectl.apply(pod("waits", "true", node=node.name, volumes=[volume]))
    until(lambda: "there is no ConfigMap 'late'" in kubectl("describe", "pod", "waits"), "it says what it waits for")
    time.sleep(1)  # long enough for the same to be said again: it is counted then

    kubectl("create", "configmap", "late", "--from-literal=a=b")

    kubectl.wait("pod/waits", "jsonpath={.status.phase}=Succeeded")


def test_a_pod_is_known_to_the_api_server_by_a_token_of_its_own(kubectl, run):
    ask = "KUBECONFIG=/dev/null kubectl auth whoami -o json"
    done = "jsonpath={.status.phase}=Succeeded"
    run("asks", f"{ask}; ls $folder", done, container={"env": [{"name": "folder", "value": TOKEN_FOLDER}]})

    answer, _, files = kubectl("logs", "asks").rpartition("}")
    known = json.loads(answer + "}")["status"]["userInfo"]
    assert known["username"] == f"system:serviceaccount:{kubectl.namespace}:default"
    assert known["extra"]["authentication.kubernetes.io/pod-name"] == ["asks"]
    assert files.split() == ["ca.crt", "namespace", "token"]


def test_a_pod_that_wants_no_token_has_none(kubectl, run):
    done = "jsonpath={.status.phase}=Succeeded"
    run("quiet", f"test ! -e {TOKEN_FOLDER}/token", done, automountServiceAccountToken=False)


def test_deletion_leaves_time_to_end(kubectl, run):
    run("slow", "trap 'echo bye; sleep 1; echo done; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    following = started(kubectl, "logs", "-f", "slow")

    kubectl("delete", "pod", "slow")

    printed, _ = following.communicate(timeout=30)
    assert printed == "up\nbye\ndone\n"


def test_service_names_resolve_as_cluster_dns_would(kubectl, run):
    listening = "python3 -m http.server 8000"
    run("web", listening)
    kubectl("expose", "pod", "web", "--port=8000", "--cluster-ip=None")
    names = ("web", f"web.{kubectl.namespace}", f"web.{kubectl.namespace}.svc.cluster.local")

    run("asks", "sleep 300")
    for name in names:
        until(lambda name=name: kubectl("exec", "asks", "--", "getent", "hosts", name).split()[1:], f"{name} is known")
    with pytest.raises(Refusal, match="exit code 2"):
        kubectl("exec", "asks", "--", "getent", "hosts", "asks-no-service")


# Nodes that come and go


def test_two_nodes_share_a_network_that_outlives_the_first(kubectl, run, nodes):
    with nodes.running("early") as early, nodes.running("late"):
        run("server", "python3 -m http.server 8000", on="late")
        run("first", "sleep 300", on="early")
        run("second", "sleep 300", on="late")
        kubectl("expose", "pod", "server", "--port=8000", "--cluster-ip=None")
        fetch = [
            "python3",
            "-c",
            "import urllib.request as u; print(u.urlopen('http://server:8000', timeout=5).status)",
        ]

        def reaches(name: str) -> bool:
            with contextlib.suppress(Refusal):
                return bool(kubectl("exec", name, "--", *fetch) == "200\n")
            return False

        until(lambda: reaches("first"), "a pod reaches one of another node")
        early.stop(signal.SIGKILL)

        assert reaches("second")
        with nodes.running("third"):
            run("newcomer", "sleep 300", on="third")
            until(lambda: reaches("newcomer"), "a node that comes later is in the same network")


def test_what_ran_on_a_node_that_died_is_known_when_it_comes_back(kubectl, run, nodes):
    with nodes.running("frail") as frail:
        run("gives-up", "sleep 300", on="frail")
        run("goes-on", "sleep 300", on="frail", restartPolicy="OnFailure")
        frail.stop(signal.SIGKILL)
    with nodes.running("frail"):
        kubectl.wait("pod/gives-up", "jsonpath={.status.phase}=Failed")
        kubectl.wait("pod/goes-on", "condition=Ready")

        lost = container_state(kubectl, "gives-up")["state"]["terminated"]
        assert (lost["exitCode"], lost["reason"]) == (137, "ContainerStatusUnknown")
        again = container_state(kubectl, "goes-on")
        assert again["restartCount"] == 1
        assert again["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_node_that_is_asked_to_end_lets_its_pods_end(kubectl, admin, run, nodes):
    with nodes.running("polite") as polite:
        admin("label", "node", "polite", "keep=this")
        admin("cordon", "polite")
        admin("uncordon", "polite")
        run("ends", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done", on="polite")
        admin("cordon", "polite")
        assert polite.stop() == 0

    assert admin("get", "node", "polite", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].reason}") == (
        "KubeletStopped"
    )
    status = kubectl.get("pod", "ends")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    with nodes.running("polite"):
        admin("wait", "node/polite", "--for=condition=Ready", "--timeout=30s")
        seen = admin.get("node", "polite")
        assert seen["spec"]["unschedulable"], "a node that was cordoned still is"
        assert seen["metadata"]["labels"]["keep"] == "this"
        assert kubectl("logs", "ends") == "up\nbye\n", "logs are kept"


def test_a_node_object_that_was_deleted_comes_back(admin, nodes):
    with nodes.running("deleted"):
        admin("delete", "node", "deleted")

        admin("wait", "node/deleted", "--for=create", "--timeout=30s")
        admin("wait", "node/deleted", "--for=condition=Ready", "--timeout=30s")


def test_every_right_was_needed(plane: ControlPlane, nodes: Nodes):
    """Runs last in this file: the tests above have done everything a node does."""
    used = {(call.group, call.resource, call.verb) for call, _, _ in calls(plane, ACCOUNT)}
    granted = {
        (resource.group, "/".join(filter(None, (resource.plural, part))), verb)
        for (resource, part), verbs in {**RIGHTS, (LEASE, ""): LEASE_RIGHTS}.items()
        for verb in verbs
    }

    assert used == granted


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 4096)
    return seen
