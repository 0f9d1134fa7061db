"""`tw serve` as people meet it: jobs that outlive it, several users, a disk that fills up, pages from elsewhere."""

import asyncio
import contextlib
import http.client
import json
import os
import pwd
import signal
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e import processes
from tests.e2e.running import AsPlainUser, Start
from tests.e2e.served import JOBS, Served, client, finished, job, lines, pods, said
from tests.plain_user import ROOT

from trainwright.cluster.kubernetes import KubernetesCluster
from trainwright.core.errors import AlreadyExists, NotStored
from trainwright.core.objects import Object
from trainwright.core.resources import CONFIG_MAP, SECRET
from trainwright.node import linux

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture
def server(start: Start, tmp_path: Path) -> Served:
    return Served(start, tmp_path / "serve").start()


async def test_stopped_in_good_order_its_jobs_go_on_at_the_next_start(server: Served, tmp_path: Path):
    ran, mark = tmp_path / "ran", server.process.mark
    script = f"trap 'echo ended >> {ran}; exit 1' TERM; echo began >> {ran}; sleep 60 & wait"
    async with server.client() as cluster:
        await cluster.create(JOBS, job("long", script))
        await cluster.create(JOBS, job("short", f"echo short >> {ran}"))
        await finished(cluster, ["short"])
        await said_began(ran)
    assert await asyncio.to_thread(server.stop) == 0
    assert processes.left(mark) == []
    assert sorted(lines(ran)) == ["began", "ended", "short"]

    await asyncio.to_thread(server.start)

    await said_began(ran, times=2)
    async with server.client() as cluster:
        assert lines(ran).count("short") == 1, "what had finished is not run again"
        await cluster.delete(JOBS, "default", "long")


def launched(name: str, script: str) -> Object:
    """Return an MPIJob without MPI: workers that a StatefulSet owns, and a launcher that a Job owns."""
    container = {"name": "mpi", "image": "none", "command": ["sh", "-c", script]}
    meta = {"name": name, "namespace": "default"}
    spec = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": meta, "spec": spec}


async def test_pods_of_other_owners_are_made_again_too(server: Served, tmp_path: Path):
    ran = tmp_path / "ran"
    made = launched("mpi", f"echo began >> {ran}; test $(grep -c began {ran}) = 2 || sleep 60")
    async with server.client() as cluster:
        await cluster.rest.request("POST", "/apis/kubeflow.org/v1alpha1/namespaces/default/mpijobs", body=made)
        await said_began(ran)
    began = time.monotonic()
    assert await asyncio.to_thread(server.stop) == 0
    assert time.monotonic() - began < 20, "nobody waits for a controller that has stopped"

    await asyncio.to_thread(server.start)

    await said_began(ran, times=2)


async def said_began(ran: Path, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while lines(ran).count("began") < times:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("isolation", ["net", "ports"])
async def test_killed_it_leaves_nothing_running_and_restart_policies_apply(
    start: Start, tmp_path: Path, isolation: str
):
    server = Served(start, tmp_path / "serve", "--isolation", isolation).start()
    ran = tmp_path / "ran"
    async with server.client() as cluster:
        await cluster.create(JOBS, job("never", f"echo never >> {ran}; sleep 60"))
        await cluster.create(
            JOBS, job("again", f"echo again >> {ran}; test $(grep -c again {ran}) = 2", policy="Always")
        )
        slow = f"echo slow >> {ran}; test $(grep -c slow {ran}) = 2 || setsid sleep 60"
        await cluster.create(JOBS, job("slow", slow, policy="OnFailure"))
        async with asyncio.timeout(60):
            while {"never", "slow"} - {*lines(ran)}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    await asyncio.to_thread(server.kill)
    assert processes.left(server.process.mark) == []

    await asyncio.to_thread(server.start)

    async with server.client() as cluster:
        outcomes = await finished(cluster, ["never", "slow"])
    assert outcomes == {"never": "Failed", "slow": "Succeeded"}
    assert lines(ran).count("never") == 1


async def test_a_second_server_says_who_is_there(server: Served, start: Start):
    second = start("serve", "--state", str(server.folder), "--port", "0")
    assert second.wait() == 125
    assert f"is held by a server, process {server.process.process.pid}" in second.tail()


async def test_everything_can_be_taken_elsewhere(server: Served, start: Start, tmp_path: Path):
    ran = tmp_path / "ran"
    async with server.client() as cluster:
        await cluster.create(JOBS, job("done", f"echo done >> {ran}"))
        before = await finished(cluster, ["done"])
    file = str(tmp_path / "all.json")
    assert start("serve", "--state", str(server.folder), "--export", file).wait() == 0
    await asyncio.to_thread(server.stop)

    other = await asyncio.to_thread(Served(start, tmp_path / "other", "--import", file).start)

    async with other.client() as cluster:
        assert await finished(cluster, ["done"]) == before
    assert lines(ran) == ["done"]


# Users


def ask(server: Served, path: str = "/api/v1/nodes", **headers: str) -> tuple[int, str]:
    """Ask the TCP port as a browser or a program might, and return code and words."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    token = config["users"][0]["user"]["token"]
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, context=context)) as connection:
        given = {"Authorization": f"Bearer {token}", **headers}
        connection.request("GET", path, headers={name: value for name, value in given.items() if value})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("message", "")


@pytest.mark.parametrize(
    ("headers", "code", "words"),
    [
        pytest.param({}, 200, "", id="with the token of its file"),
        pytest.param({"Authorization": ""}, 401, "token of this server's kubeconfig", id="without it"),
        pytest.param({"Host": "rebound.example"}, 403, "not a name of this server", id="under a name that leads here"),
        pytest.param({"Origin": "https://page.example"}, 403, "is another site", id="a page from elsewhere"),
    ],
)
def test_who_asks_over_tcp(server: Served, headers: dict[str, str], code: int, words: str):
    status, message = ask(server, **headers)
    assert status == code
    assert words in message


def test_nobody_else_can_read_how_it_is_asked(server: Served):
    for name in ("kubeconfig", "token", "store.sqlite", "api.sock"):
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600


def test_a_plain_user_serves_itself(start: Start, as_plain_user: AsPlainUser):
    process = start("serve", "--port", "0", wrap=as_plain_user())
    process.until(r"^serving this user on ")
    kubeconfig = process.until(r"kubectl: (\S+)")[1]
    kubectl = ["kubectl", "--kubeconfig", kubeconfig, "get", "--raw", "/readyz"]
    answer = subprocess.run(kubectl, capture_output=True, text=True, check=False)
    assert answer.stdout == "ok", answer.stderr
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_a_plain_user_cannot_serve_everybody(start: Start, as_plain_user: AsPlainUser):
    process = start("serve", "--users", "all", wrap=as_plain_user())
    assert process.wait() == 125
    assert "--users all needs root" in process.tail()


DAEMON = 1
ASK = """
import asyncio, json, os, sys
from pathlib import Path
from tests.e2e.served import JOBS, client, finished
from trainwright.core.errors import ClusterError
from trainwright.core.resources import CONFIG_MAP, POD, SECRET

async def main():
    async with client(Path(sys.argv[1])) as cluster:
        try:
            print(eval(sys.argv[3], globals(), {"result": await eval(sys.argv[2])}))
        except ClusterError as error:
            print(error.reason, error)

os.setgroups([]); os.setresgid(1, 1, 1); os.setresuid(1, 1, 1)
asyncio.run(main())
"""


class Shared(Served):
    """A server for everybody, and a folder that everybody can reach."""

    def __init__(self, start: Start, folder: Path, public: Path) -> None:
        self.public = public
        self.socket = public / "api.sock"
        super().__init__(start, folder, "--users", "all", "--socket", str(self.socket))

    def daemon(self, action: str, show: str = "'done'") -> str:
        """Do something with the API as another user, and return what it says."""
        command = [sys.executable, "-c", ASK, str(self.socket), action, show]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip() or done.stderr


@pytest.fixture
def shared(start: Start, tmp_path: Path) -> Iterator[Shared]:
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o777)
        yield Shared(start, tmp_path / "serve", Path(public)).start()  # type: ignore[misc]


@ROOT_ONLY
async def test_jobs_run_as_whoever_submitted_them(shared: Shared):
    wanted = job("mine", "id -u; id -G; echo $HOME; test -e /root/.bashrc; echo root $?; sudo -n true; echo done")
    assert shared.daemon(f"cluster.create(JOBS, {wanted!r})") == "done"
    forged = job("forged", "id -u")
    template = forged["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    template["metadata"] = {"annotations": {"trainwright.dev/user": "0"}}
    forged["metadata"]["annotations"] = {"trainwright.dev/user": "0"}
    assert shared.daemon(f"cluster.create(JOBS, {forged!r})") == "done"
    async with client(shared.socket) as cluster:
        await cluster.create(JOBS, job("roots", "id -u"))
        await finished(cluster, ["mine", "forged", "roots"])
        printed = {name: await text(cluster, f"{name}-master-0") for name in ("mine", "forged", "roots")}
    known = pwd.getpwuid(DAEMON)
    assert printed["mine"].splitlines()[:4] == ["1", "1", known.pw_dir, "root 1"]
    assert (printed["forged"], printed["roots"]) == ("1\n", "0\n")


async def text(cluster: KubernetesCluster, pod: str) -> str:
    return b"".join([chunk async for chunk in cluster.logs("default", pod)]).decode()


@ROOT_ONLY
async def test_what_is_others_is_left_alone(shared: Shared):
    async with client(shared.socket) as cluster:
        await cluster.create(JOBS, job("roots", "sleep 60"))
        await cluster.create(SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"x": "eA=="}})
        await said(shared.folder, "roots-master-0", "", seconds=30)
        for action, words in {
            'cluster.delete(JOBS, "default", "roots")': "Forbidden",
            'cluster.patch(JOBS, "default", "roots", {"metadata": {"labels": {"x": "y"}}})': "Forbidden",
            'cluster.exec("default", "roots-master-0", ["id"])': "Forbidden",
            'cluster.get(SECRET, "default", "s")': "Forbidden",
            'cluster.get(JOBS, "default", "roots")': "done",
        }.items():
            assert words in shared.daemon(action), action
        assert shared.daemon('cluster.list(SECRET, "default")', "result.items") == "[]"
        await cluster.delete(JOBS, "default", "roots")


def with_secret(name: str) -> Object:
    """Return a job that prints another user's Secret, if it can."""
    made = job(name, "echo $PASSWORD")
    container = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x"}}}]
    return made


def with_host_path(name: str) -> Object:
    """Return a job that looks at root's folder, if it can."""
    made = job(name, "ls /mine")
    spec = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    spec["volumes"] = [{"name": "v", "hostPath": {"path": "/root"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/mine"}]
    return made


@ROOT_ONLY
@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(with_secret("thief"), "belongs to another user", id="by a variable from another's Secret"),
        pytest.param(with_host_path("thief"), "only for jobs of the server's own user", id="by mounting a folder"),
    ],
)
async def test_what_others_have_is_not_reached_by_a_pod_either(shared: Shared, made: Object, words: str):
    async with client(shared.socket) as cluster:
        await cluster.create(SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"x": "eA=="}})
        assert shared.daemon(f"cluster.create(JOBS, {made!r})") == "done"
        assert await finished(cluster, ["thief"]) == {"thief": "Failed"}
        assert words in str((await pods(cluster))["thief-master-0"]["status"])


# A disk that fills up


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Return a folder on a file system of 3 MB."""
    with tempfile.TemporaryDirectory() as folder:
        linux.mount("tmpfs", folder, "tmpfs", data="size=3m,mode=700")
        yield Path(folder)
        linux.unmount(folder)


@ROOT_ONLY
async def test_a_full_disk_refuses_new_jobs_and_keeps_running_ones_alive(
    start: Start, small_disk: Path, tmp_path: Path
):
    server = Served(start, small_disk / "serve").start()
    ran = tmp_path / "ran"
    async with server.client() as cluster:
        await cluster.create(JOBS, job("running", f"until test -e {ran}; do sleep 0.05; done"))
        await until_running(cluster, "running-master-0")
        ballast = small_disk / "ballast"
        await asyncio.to_thread(fill, ballast)
        with pytest.raises(NotStored, match="the disk is full"):
            await fill_up(cluster)
        with pytest.raises(NotStored, match="nothing new is accepted, because it could not be kept"):
            await cluster.create(JOBS, job("refused", "true"))

        await asyncio.to_thread(ran.touch)
        assert await finished(cluster, ["running"]) == {"running": "Succeeded"}
        await asyncio.to_thread(ballast.unlink)
        await until_accepted(cluster, job("accepted", "true"))
        assert await finished(cluster, ["accepted"]) == {"accepted": "Succeeded"}
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    async with server.client() as cluster:
        outcomes = await finished(cluster, ["running", "accepted"])
    assert outcomes == {"running": "Succeeded", "accepted": "Succeeded"}


async def fill_up(cluster: KubernetesCluster) -> None:
    for number in range(2000):
        meta = {"name": f"c-{number}", "namespace": "default"}
        await cluster.create(CONFIG_MAP, {"metadata": meta, "data": {"x": "x" * 1000}})


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


async def until_accepted(cluster: KubernetesCluster, wanted: Object) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NotStored, AlreadyExists):
                await cluster.create(JOBS, wanted)
                return
            await asyncio.sleep(0.1)


async def until_running(cluster: KubernetesCluster, name: str) -> None:
    async with asyncio.timeout(60):
        while (await pods(cluster)).get(name, {}).get("status", {}).get("phase") != "Running":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
