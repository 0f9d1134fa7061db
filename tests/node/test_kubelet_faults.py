"""What a node survives: its own end, an API that fails, a full disk, a clock that jumps, floods of output."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.node.world import ASLEEP, conditions, config_map, ended, new_cluster, pod, sleepers, state, world

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import ClusterError, Conflict
from trainwright.core.resources import BUILT_IN, CONFIG_MAP, NODE, POD, SERVICE
from trainwright.node.logs import FileLogs


def service(name, selector, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True, **spec},
    }


@pytest.mark.parametrize("name", ["net", "ports"])
async def test_leaving_kills_everything_and_says_so(tmp_path, name):
    cluster = new_cluster()
    async with world(tmp_path, name, cluster) as here:
        for each in ("a", "b"):
            await cluster.create(POD, pod(each, f"trap '' TERM; echo up; while :; do sleep {ASLEEP}; done"))
            await here.says(each, "up")
        begun = time.monotonic()
    assert time.monotonic() - begun < 10

    for each in ("a", "b"):
        seen = await cluster.get(POD, "ns", each)
        assert (seen["status"]["phase"], seen["status"]["reason"]) == ("Failed", "Terminated")
        assert ended(seen)["exitCode"] == 137
    node = await cluster.get(NODE, "", "here")
    assert node["status"]["conditions"][0]["status"] == "False"
    assert sleepers() == 0
    assert not list((tmp_path / "pods").iterdir())


@pytest.mark.parametrize(
    ("policy", "phase", "restarts"),
    [
        pytest.param("Never", "Failed", 0, id="it is not run again"),
        pytest.param("OnFailure", "Succeeded", 1, id="it is run again"),
    ],
)
async def test_a_pod_that_was_lost_with_its_node_ends_as_its_policy_says(tmp_path, policy, phase, restarts):
    cluster = new_cluster()
    await cluster.create(POD, pod(script="echo again", restartPolicy=policy))
    was = {"name": "main", "image": "", "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}, "restartCount": 0}
    status = {"phase": "Running", "startTime": "2024-01-01T00:00:00Z", "containerStatuses": [was]}
    await cluster.patch(POD, "ns", "p", {"status": status}, subresource="status")

    async with world(tmp_path, "net", cluster) as here:
        done = await here.phase("p", "Succeeded", "Failed")

    assert done["status"]["phase"] == phase
    assert state(done)["restartCount"] == restarts
    lost = state(done)["lastState" if restarts else "state"]["terminated"]
    assert (lost["reason"], lost["exitCode"]) == ("ContainerStatusUnknown", 137)


async def test_a_pod_that_had_ended_is_never_run_again(tmp_path):
    cluster = new_cluster()
    async with world(tmp_path, "net", cluster) as here:
        done = await here.run(pod(script="echo once"))
    async with world(tmp_path, "net", cluster) as here:
        await here.run(pod("later"))
        assert await cluster.get(POD, "ns", "p") == done
        assert await here.log("p", follow=True) == "once\n"
        await cluster.delete(POD, "ns", "p")
        await here.gone("p")
        assert await here.log("p") == "once\n"


async def test_logs_outlive_the_node(tmp_path):
    async with world(tmp_path, "net") as here:
        await here.run(pod(script="echo kept"))

    chunks = [chunk async for chunk in FileLogs(tmp_path).logs("ns", "p")]

    assert b"".join(chunks) == b"kept\n"


class Unreliable(MemoryCluster):
    """Fails two writes of a pod's status in three, in different ways."""

    def __init__(self) -> None:
        super().__init__(BUILT_IN, now=lambda: datetime.now(UTC))
        self.tries = 0

    async def patch(self, resource, namespace, name, patch, *, subresource=""):
        if resource is POD and subresource == "status":
            self.tries += 1
            if self.tries % 3 == 1:
                raise Conflict("read again")
            if self.tries % 3 == 2:
                raise ClusterError("etcd is slow")
        return await super().patch(resource, namespace, name, patch, subresource=subresource)


async def test_a_status_is_written_although_writing_fails(tmp_path):
    async with world(tmp_path, "net", Unreliable()) as here:
        done = await here.run(pod(script="exit 3"))

        assert ended(done)["exitCode"] == 3


class Counting(MemoryCluster):
    def __init__(self) -> None:
        super().__init__(BUILT_IN, now=lambda: datetime.now(UTC))
        self.writes = 0

    async def patch(self, resource, namespace, name, patch, *, subresource=""):
        self.writes += resource is POD
        return await super().patch(resource, namespace, name, patch, subresource=subresource)


async def test_an_idle_pod_costs_no_writes(tmp_path):
    cluster = Counting()
    async with world(tmp_path, "net", cluster, refresh=0.02) as here:
        await cluster.create(CONFIG_MAP, config_map("c", k="v"))
        volume = [{"name": "v", "configMap": {"name": "c"}}]
        asked = tmp_path / "asked"
        probe = {"exec": {"command": ["sh", "-c", f"echo >> {asked}"]}, "periodSeconds": 1}
        await cluster.create(POD, pod(script="sleep 60", container={"readinessProbe": probe}, volumes=volume))
        await here.until("p", lambda seen: conditions(seen)["Ready"] == "True")
        assert cluster.writes <= 5
        before = cluster.writes

        await here.until("p", lambda _: len(asked.read_text()) >= 2)

        assert cluster.writes == before


async def test_a_clock_that_jumps_changes_no_timer(tmp_path):
    offset = [timedelta(0)]
    async with world(tmp_path, "net", now=lambda: datetime.now(UTC) + offset[0]) as here:
        await here.cluster.create(POD, pod("a", "sleep 60", activeDeadlineSeconds=60))
        await here.phase("a", "Running")
        offset[0] = timedelta(days=400)
        await here.cluster.create(POD, pod("b", "sleep 0.3; exit 2", activeDeadlineSeconds=60))
        failed = await here.phase("b", "Failed")
        offset[0] = timedelta(days=-400)
        await here.cluster.create(POD, pod("c", "exit 1", restartPolicy="OnFailure"))
        again = await here.until("c", lambda seen: state(seen)["restartCount"] >= 2)

        assert ended(failed)["exitCode"] == 2
        assert "reason" not in failed["status"]
        assert again["status"]["phase"] == "Running"
        assert (await here.cluster.get(POD, "ns", "a"))["status"]["phase"] == "Running"


async def test_a_log_that_cannot_be_made_is_said_and_survived(tmp_path):
    blocked = tmp_path / "logs"
    blocked.touch()
    async with world(tmp_path, "net", backoff=0.2) as here:
        await here.cluster.create(POD, pod(script="echo fine", restartPolicy="OnFailure"))
        seen = await here.until("p", lambda seen: "terminated" in state(seen)["lastState"])
        assert "cannot be started" in state(seen)["lastState"]["terminated"]["message"]
        assert str(blocked) in state(seen)["lastState"]["terminated"]["message"]

        blocked.unlink()

        await here.phase("p", "Succeeded")
        assert await here.log("p") == "fine\n"


async def test_a_full_disk_is_the_pods_own_trouble(tmp_path):
    cluster = MemoryCluster(BUILT_IN, now=lambda: datetime.now(UTC), uid=iter("0123456789").__next__)
    async with world(tmp_path, "net", cluster) as here:  # the node is object 0, the pod is object 1
        log = tmp_path / "logs" / "ns" / "p_1" / "main" / "0.log"
        log.parent.mkdir(parents=True)
        log.symlink_to("/dev/full")

        done = await here.run(pod(script="echo lost || exit 28"))

        assert ended(done)["exitCode"] == 28


async def test_pods_that_make_no_sense_do_no_harm(tmp_path):
    async with world(tmp_path, "net") as here:
        nonsense = pod("a")
        del nonsense["spec"]["containers"]
        await here.cluster.create(POD, nonsense)
        other = {"name": "other", "command": ["sleep", ASLEEP]}
        bad = {"name": "bad", "command": ["true"], "env": [{"value": "without a name"}]}

        failed = await here.run(pod("b", containers=[other, bad], restartPolicy="Always"))
        fine = await here.run(pod("c"))

        assert await here.reasons("a") == ["FailedValidation"]
        assert failed["status"]["reason"] == "KubeletError"
        assert fine["status"]["phase"] == "Succeeded"
        assert sleepers() == 0


async def test_pods_find_each_other_by_name_and_only_as_on_a_cluster(tmp_path):
    async with world(tmp_path, "net") as here:
        await here.cluster.create(SERVICE, service("job", {"job": "j"}))
        labels = {"labels": {"job": "j"}}
        listen = "import socket; s = socket.create_server(('', 5000)); c, a = s.accept(); c.sendall(b'hi'); print(a[0])"
        server = {"command": ["python3", "-c", listen]}
        await here.cluster.create(POD, pod("a", container=server, meta=labels, hostname="a", subdomain="job"))
        call = """
import socket, time
for _ in range(500):
    try:
        print(socket.create_connection(('a.job', 5000)).recv(9).decode()); break
    except OSError: time.sleep(0.01)
print(socket.gethostname())
print(socket.gethostbyname(socket.gethostname()) == socket.gethostbyname('b.job.ns.svc.cluster.local'))
for name in ('a', 'p', 'a.job.other'):
    try: print(name, socket.gethostbyname(name))
    except OSError: print(name, 'unknown')
"""
        client = {"command": ["python3", "-c", call]}
        b = await here.run(pod("b", container=client, meta=labels, hostname="b", subdomain="job"))

        assert await here.log("b") == "hi\nb\nTrue\na unknown\np unknown\na.job.other unknown\n"
        await here.phase("a", "Succeeded")
        assert await here.log("a") == b["status"]["podIP"] + "\n"


async def test_a_running_pod_sees_a_name_that_comes_later(tmp_path):
    async with world(tmp_path, "net") as here:
        await here.cluster.create(SERVICE, service("late", {"job": "late"}))
        wait = "until grep -q 'late.ns.svc' /etc/hosts; do sleep 0.02; done; echo seen"
        await here.cluster.create(POD, pod("a", f"echo up; {wait}"))
        await here.says("a", "up")

        await here.cluster.create(POD, pod("b", "sleep 60", meta={"labels": {"job": "late"}}))

        await here.phase("a", "Succeeded")


async def test_floods_of_lines_cost_the_agent_nothing_and_none_is_lost(tmp_path):
    lines = 125_000
    script = f"import sys\nfor i in range({lines}): sys.stdout.write(f'line {{i}}\\n')"
    async with world(tmp_path, "net") as here:
        for i in range(8):
            await here.cluster.create(POD, pod(f"p{i}", container={"command": ["python3", "-c", script]}))
        cpu = time.process_time()
        for i in range(8):
            await here.phase(f"p{i}", "Succeeded")
        cpu = time.process_time() - cpu
        expected = "".join(f"line {i}\n" for i in range(lines))
        for i in range(8):
            assert await here.log(f"p{i}", follow=True) == expected
    assert cpu < 5


async def test_a_follower_misses_nothing_of_a_pod_that_exits_at_once(tmp_path):
    async with world(tmp_path, "net") as here:
        for i in range(10):
            await here.cluster.create(POD, pod(f"p{i}", f"echo {i}"))
            seen = here.until(f"p{i}", lambda seen: "startTime" in seen["status"])
            await seen
            assert await here.log(f"p{i}", follow=True) == f"{i}\n"


async def test_a_pod_of_the_same_name_is_another_pod(tmp_path):
    async with world(tmp_path, "net") as here:
        await here.run(pod(script="echo first"))
        await here.cluster.delete(POD, "ns", "p")
        await here.cluster.create(POD, pod(script="echo second; exit 1"))

        done = await here.phase("p", "Failed", "Succeeded")

        assert done["status"]["phase"] == "Failed"
        assert await here.log("p") == "second\n"


async def test_fifty_pods_run_together(tmp_path):
    async with world(tmp_path, "net") as here:
        begun = time.monotonic()
        for i in range(50):
            await here.cluster.create(POD, pod(f"p{i}", "sleep 60"))
        for i in range(50):
            await here.phase(f"p{i}", "Running")
        assert time.monotonic() - begun < 20
