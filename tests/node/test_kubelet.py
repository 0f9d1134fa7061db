"""The life of pods, with real processes."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.node.world import ASLEEP, World, conditions, config_map, ended, pod, sleepers, state, world

from trainwright.core.errors import BadRequest, NotFound
from trainwright.core.resources import CONFIG_MAP, NODE, POD


@pytest.fixture(params=["net", "ports"])
async def here(request, tmp_path):
    async with world(tmp_path, request.param) as made:
        yield made


@pytest.fixture
async def net(tmp_path):
    async with world(tmp_path, "net") as made:
        yield made


async def test_a_node_says_what_it_offers(net: World):
    node = await net.cluster.get(NODE, "", "here")

    assert node["status"]["allocatable"] == {"pods": "1000", "cpu": "4", "memory": "8Gi"}
    assert node["status"]["conditions"][0]["status"] == "True"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "here"


async def test_a_pod_that_ends_well_has_succeeded(here: World):
    done = await here.run(pod(script="echo hello; echo oops >&2"))

    assert done["status"]["phase"] == "Succeeded"
    assert ended(done)["exitCode"] == 0
    assert ended(done)["reason"] == "Completed"
    assert ended(done)["startedAt"] <= ended(done)["finishedAt"]
    assert await here.log("p") == "hello\noops\n"
    assert conditions(done) == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
    }


async def test_a_running_pod_is_ready_and_has_an_address(here: World):
    await here.cluster.create(POD, pod(script="sleep 60"))

    seen = await here.phase("p", "Running")
    seen = await here.until("p", lambda seen: conditions(seen)["Ready"] == "True")

    assert seen["status"]["podIP"] == seen["status"]["podIPs"][0]["ip"]
    assert seen["status"]["hostIP"] == "127.0.0.1"
    assert seen["status"]["qosClass"] == "BestEffort"
    assert state(seen)["ready"] is True
    assert state(seen)["started"] is True
    assert state(seen)["restartCount"] == 0
    assert state(seen)["containerID"].startswith("process://")


async def test_a_failure_keeps_its_code_and_signal(here: World):
    failed = await here.run(pod("a", "exit 3"))
    killed = await here.run(pod("b", "kill -9 $$$$"))

    assert failed["status"]["phase"] == "Failed"
    assert (ended(failed)["exitCode"], ended(failed)["reason"]) == (3, "Error")
    assert (ended(killed)["exitCode"], ended(killed)["signal"]) == (137, 9)


async def test_a_command_that_does_not_exist_is_a_start_error(here: World):
    failed = await here.run(pod(container={"command": ["no-such-program"]}))

    assert failed["status"]["phase"] == "Failed"
    assert ended(failed)["reason"] == "StartError"
    assert ended(failed)["exitCode"] == 128
    assert "no-such-program" in ended(failed)["message"]


async def test_a_container_without_command_says_what_to_write(net: World):
    failed = await net.run(pod(container={"command": None}))

    assert ended(failed)["message"] == (
        "spec.containers[0]: no command; images are not run here, so write the command the image would run"
    )


async def test_a_missing_working_directory_is_said(net: World):
    failed = await net.run(pod(container={"workingDir": "/no/such/folder"}))

    assert "spec.containers[0].workingDir: there is no folder '/no/such/folder'" in ended(failed)["message"]


async def test_on_failure_restarts_until_it_works(here: World, tmp_path: Path):
    script = f"echo run >> {tmp_path}/count; [ $(wc -l < {tmp_path}/count) -ge 3 ]"

    done = await here.run(pod(script=script + " || { echo bad; exit 7; }", restartPolicy="OnFailure"))

    assert done["status"]["phase"] == "Succeeded"
    assert state(done)["restartCount"] == 2
    assert state(done)["lastState"]["terminated"]["exitCode"] == 7
    assert await here.log("p") == "bad\nbad\n"
    assert await here.log("p", restart=-1) == ""
    assert "BackOff" in await here.reasons("p")


async def test_always_restarts_what_ends_well(net: World):
    await net.cluster.create(POD, pod(script="true", restartPolicy="Always"))

    seen = await net.until("p", lambda seen: state(seen)["restartCount"] >= 2)

    assert seen["status"]["phase"] == "Running"


async def test_a_crash_loop_says_how_long_it_waits(tmp_path: Path):
    async with world(tmp_path, "net", backoff=30) as here:
        await here.cluster.create(POD, pod(script="exit 1", restartPolicy="Always"))

        seen = await here.until("p", lambda seen: "waiting" in state(seen)["state"] and state(seen)["lastState"])

        assert state(seen)["restartCount"] == 1
        waiting = state(seen)["state"]["waiting"]
        assert waiting["reason"] == "CrashLoopBackOff"
        assert waiting["message"] == "main ended with code 1; runs again in 30 s"


async def test_init_containers_run_in_order_before_the_others(net: World, tmp_path: Path):
    def step(name: str) -> dict[str, object]:
        return {"name": name, "command": ["sh", "-c", f"echo {name} >> {tmp_path}/order"]}

    done = await net.run(pod(script=f"echo main >> {tmp_path}/order", initContainers=[step("one"), step("two")]))

    assert (tmp_path / "order").read_text() == "one\ntwo\nmain\n"
    assert ended(done, "two", "initContainerStatuses")["exitCode"] == 0


async def test_a_failed_init_container_fails_the_pod(net: World):
    broken = {"name": "init", "command": ["sh", "-c", "exit 4"]}

    done = await net.run(pod(initContainers=[broken]))

    assert done["status"]["phase"] == "Failed"
    assert ended(done, "init", "initContainerStatuses")["exitCode"] == 4
    assert state(done)["state"]["waiting"]["reason"] == "PodInitializing"
    assert conditions(done)["Initialized"] == "False"


async def test_a_sidecar_runs_beside_the_others_and_is_ended_after_them(net: World, tmp_path: Path):
    script = f"trap 'echo stopped >> {tmp_path}/s; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done"
    sidecar = {
        "name": "side",
        "restartPolicy": "Always",
        "command": ["sh", "-c", script],
        "startupProbe": {"exec": {"command": ["test", "-e", f"{tmp_path}/up"]}, "periodSeconds": 1},
    }

    done = await net.run(pod(script=f"test -e {tmp_path}/up; echo main >> {tmp_path}/s", initContainers=[sidecar]))

    assert done["status"]["phase"] == "Succeeded"
    assert (tmp_path / "s").read_text() == "main\nstopped\n"


async def test_two_containers_share_the_address_and_both_count(net: World):
    serve = "import socket; s = socket.create_server(('', 4000)); s.accept(); print('called')"
    again = "import socket\nwhile True:\n  try: socket.create_connection(('127.0.0.1', 4000)); break"
    call = f"{again}\n  except OSError: pass"
    done = await net.run(
        pod(
            containers=[
                {"name": "a", "command": ["python3", "-c", serve]},
                {"name": "b", "command": ["python3", "-c", call + "\nraise SystemExit(5)"]},
            ]
        )
    )

    assert done["status"]["phase"] == "Failed"
    assert (ended(done, "a")["exitCode"], ended(done, "b")["exitCode"]) == (0, 5)
    assert await net.log("p", "a") == "called\n"


async def test_env_from_everywhere_reaches_the_process(net: World):
    await net.cluster.create(CONFIG_MAP, config_map("conf", LEVEL="high"))
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(LEVEL)-$$(A)-$(NOPE)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    script = 'echo "$B $HOSTNAME $LANG"; hostname -i 2>/dev/null; echo "$IP"'

    done = await net.run(
        pod(
            script=script,
            container={"env": env, "envFrom": [{"configMapRef": {"name": "conf"}}], "args": []},
            hostname="here-i-am",
        )
    )

    lines = (await net.log("p")).splitlines()
    assert lines[0] == "1-high-$(A)-$(NOPE) here-i-am C.UTF-8"
    assert lines[-1] == done["status"]["podIP"]


async def test_a_missing_config_map_is_waited_for(net: World):
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]
    await net.cluster.create(POD, pod(script='echo "$X"', container={"env": env}))
    waiting = await net.until("p", lambda seen: "message" in state(seen)["state"].get("waiting", {}))
    assert state(waiting)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": "there is no ConfigMap 'late'",
    }

    await net.cluster.create(CONFIG_MAP, config_map("late", x="here"))

    await net.phase("p", "Succeeded")
    assert await net.log("p") == "here\n"


async def test_volumes_are_where_the_manifest_says(net: World, tmp_path: Path):
    await net.cluster.create(CONFIG_MAP, config_map("conf", **{"a.txt": "alpha"}))
    (tmp_path / "data").mkdir()
    volumes = [
        {"name": "conf", "configMap": {"name": "conf"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "data", "hostPath": {"path": f"{tmp_path}/data", "type": "Directory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "kept"}},
    ]
    mounts = [
        {"name": "conf", "mountPath": "/etc/conf"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "data", "mountPath": "/data"},
        {"name": "claim", "mountPath": "/claim"},
        {"name": "conf", "mountPath": "/etc/one.txt", "subPath": "a.txt"},
    ]
    script = """cat /etc/conf/a.txt /etc/one.txt; echo; touch /etc/conf/no 2>/dev/null || echo read-only
    echo s > /scratch/s && cat /scratch/s; echo d > /data/d; echo c > /claim/c"""

    done = await net.run(pod(script=script, container={"volumeMounts": mounts}, volumes=volumes))

    assert done["status"]["phase"] == "Succeeded", await net.log("p")
    assert await net.log("p") == "alphaalpha\nread-only\ns\n"
    assert (tmp_path / "data" / "d").read_text() == "d\n"
    assert (tmp_path / "claims" / "ns" / "kept" / "c").read_text() == "c\n"
    assert "scratch" not in os.listdir("/")  # noqa: PTH208


async def test_a_volume_that_cannot_be_mounted_fails_the_pod_by_name(net: World):
    done = await net.run(pod(volumes=[{"name": "far", "nfs": {"server": "x", "path": "/"}}]))

    assert done["status"]["phase"] == "Failed"
    assert done["status"]["message"].startswith("spec.volumes[0] (far): nfs volumes are not mounted here")


async def test_a_missing_volume_is_waited_for_and_said(net: World):
    volumes = [{"name": "v", "configMap": {"name": "late"}}]
    container = {"volumeMounts": [{"name": "v", "mountPath": "/etc/late"}]}
    await net.cluster.create(POD, pod(script="cat /etc/late/k", container=container, volumes=volumes))
    seen = await net.until("p", lambda seen: "message" in (state(seen)["state"].get("waiting") or {}))
    assert state(seen)["state"]["waiting"]["message"] == "there is no ConfigMap 'late'"
    assert "FailedMount" in await net.reasons("p")

    await net.cluster.create(CONFIG_MAP, config_map("late", k="v"))

    await net.phase("p", "Succeeded")
    assert await net.log("p") == "v"


async def test_a_changed_config_map_is_seen_by_a_running_pod(tmp_path: Path):
    async with world(tmp_path, "net", refresh=0.05) as here:
        await here.cluster.create(CONFIG_MAP, config_map("conf", k="old"))
        script = "cat /etc/conf/k; until grep -q new /etc/conf/k; do sleep 0.02; done; cat /etc/conf/k"
        container = {"volumeMounts": [{"name": "v", "mountPath": "/etc/conf"}]}
        volumes = [{"name": "v", "configMap": {"name": "conf"}}]
        await here.cluster.create(POD, pod(script=script, container=container, volumes=volumes))
        await here.says("p", "old")

        await here.cluster.patch(CONFIG_MAP, "ns", "conf", {"data": {"k": "new"}})

        await here.phase("p", "Succeeded")
        assert await here.log("p") == "oldnew"


async def test_deletion_gives_a_pod_its_grace(here: World):
    await here.cluster.create(POD, pod(script="trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    await here.says("p", "up")
    follower = asyncio.create_task(here.log("p", follow=True))

    await here.cluster.delete(POD, "ns", "p")

    await here.gone("p")
    assert await follower == "up\nbye\n"


async def test_who_ignores_sigterm_is_killed_after_the_grace(here: World):
    await here.cluster.create(POD, pod(script="trap '' TERM; echo up; while :; do sleep 1; done"))
    await here.says("p", "up")
    begun = time.monotonic()

    await here.cluster.delete(POD, "ns", "p", grace=1)
    await here.gone("p")

    assert 0.9 < time.monotonic() - begun < 5


async def test_a_shorter_grace_asked_for_later_counts(net: World):
    await net.cluster.create(POD, pod(script="trap '' TERM; echo up; while :; do sleep 1; done"))
    await net.says("p", "up")
    await net.cluster.delete(POD, "ns", "p", grace=60)
    await net.told("p", "Killing")
    begun = time.monotonic()

    await net.cluster.delete(POD, "ns", "p", grace=1)

    await net.gone("p")
    assert time.monotonic() - begun < 10


async def test_a_pod_removed_by_force_is_killed_at_once(here: World):
    await here.cluster.create(POD, pod(script=f"trap '' TERM; sleep {ASLEEP} & echo up; while :; do wait; done"))
    await here.says("p", "up")
    follower = asyncio.create_task(here.log("p", follow=True))
    await asyncio.wait({follower}, timeout=0)

    await here.cluster.delete(POD, "ns", "p", grace=0)

    assert await asyncio.wait_for(follower, 10) == "up\n"
    assert sleepers() == 0


async def test_a_pre_stop_hook_runs_before_sigterm(net: World, tmp_path: Path):
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {tmp_path}/order"]}}}
    script = f"trap 'echo term >> {tmp_path}/order; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    await net.cluster.create(POD, pod(script=script, container={"lifecycle": hook}))
    await net.says("p", "up")

    await net.cluster.delete(POD, "ns", "p")
    await net.gone("p")

    assert (tmp_path / "order").read_text() == "hook\nterm\n"


async def test_a_daemon_dies_with_its_container(here: World, tmp_path: Path):
    daemon = (
        f"(setsid sh -c 'echo $$$$ > {tmp_path}/pid; exec sleep {ASLEEP}' &) ; until test -s {tmp_path}/pid; do :; done"
    )

    await here.run(pod(script=daemon))

    assert sleepers() == 0


async def test_a_deadline_ends_the_pod(net: World):
    done = await net.run(pod(script="sleep 60", activeDeadlineSeconds=1, terminationGracePeriodSeconds=1))

    assert done["status"]["phase"] == "Failed"
    assert done["status"]["reason"] == "DeadlineExceeded"
    assert ended(done)["reason"] == "DeadlineExceeded"
    assert ended(done)["exitCode"] == 143


async def test_a_readiness_probe_decides_about_ready(net: World, tmp_path: Path):
    probe = {"exec": {"command": ["test", "-e", f"{tmp_path}/ready"]}, "periodSeconds": 1}
    await net.cluster.create(POD, pod(script="sleep 60", container={"readinessProbe": probe}))
    seen = await net.until("p", lambda seen: "running" in state(seen)["state"])
    assert conditions(seen)["Ready"] == "False"

    (tmp_path / "ready").touch()

    await net.until("p", lambda seen: conditions(seen)["Ready"] == "True")


async def test_a_liveness_probe_restarts_the_container(net: World):
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    container = {"livenessProbe": probe}
    await net.cluster.create(POD, pod(script="exec sleep 60", container=container, restartPolicy="Always"))

    seen = await net.until("p", lambda seen: state(seen)["restartCount"] == 1)

    assert state(seen)["lastState"]["terminated"]["exitCode"] == 143
    assert {"Unhealthy", "Killing"} <= set(await net.reasons("p"))


async def test_an_http_probe_reaches_into_the_pod(net: World):
    probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1}
    container = {
        "command": ["python3", "-m", "http.server", "8000"],
        "ports": [{"name": "web", "containerPort": 8000}],
        "readinessProbe": probe,
    }
    await net.cluster.create(POD, pod(container=container))

    await net.until("p", lambda seen: conditions(seen)["Ready"] == "True")


async def test_a_grpc_probe_is_refused_with_a_sentence(net: World):
    done = await net.run(pod(container={"livenessProbe": {"grpc": {"port": 1}}}))

    assert ended(done)["message"].startswith("spec.containers[0].livenessProbe.grpc: gRPC probes are not asked here")


@pytest.mark.parametrize("groups", [True, False], ids=["control group", "polled"])
async def test_too_much_memory_is_oom_killed(tmp_path: Path, groups: bool):
    async with world(tmp_path, "net", control_groups=groups) as here:
        script = "x = bytearray(400 << 20)\nimport time\ntime.sleep(30)"
        limits = {"resources": {"limits": {"memory": "100Mi"}}}

        done = await here.run(pod(container={"command": ["python3", "-c", script], **limits}))

        assert ended(done)["reason"] == "OOMKilled"
        assert ended(done)["exitCode"] == 137


async def test_a_child_that_takes_too_much_takes_the_container_with_it(tmp_path: Path):
    async with world(tmp_path, "net") as here:
        limits = {"resources": {"limits": {"memory": "100Mi"}}}
        script = "python3 -c 'x = bytearray(400 << 20); import time; time.sleep(30)' & wait; sleep 30"

        done = await here.run(pod(script=script, container=limits))

        assert ended(done)["reason"] == "OOMKilled"


async def test_gpus_are_handed_out_and_come_back(tmp_path: Path):
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    async with world(tmp_path, "net", capacity={"cpu": "4", "nvidia.com/gpu": "2"}) as here:
        show = "echo gpu=$CUDA_VISIBLE_DEVICES"
        await here.cluster.create(POD, pod("a", f"{show}; sleep 60", container=gpu))
        await here.says("a", "gpu=")
        await here.run(pod("b", show, container=gpu))
        await here.run(pod("c", show))
        await here.run(pod("d", show, container={"resources": {"limits": {"nvidia.com/gpu": "2"}}}))

        assert [await here.log(name) for name in "abc"] == ["gpu=0\n", "gpu=1\n", "gpu=\n"]
        failed = await here.cluster.get(POD, "ns", "d")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"


async def test_exec_has_pipes_and_an_exit_code(here: World):
    await here.cluster.create(POD, pod(script="sleep 60", container={"env": [{"name": "A", "value": "b"}]}))
    await here.until("p", lambda seen: "running" in state(seen)["state"])

    session = await here.cluster.exec("ns", "p", ["sh", "-c", 'read x; echo "$x $A"; echo err >&2; exit 6'], stdin=True)
    await session.write(b"in\n")
    await session.close_input()
    got = {"stdout": b"", "stderr": b""}
    async for stream, chunk in session.output():
        got[stream] += chunk

    assert got == {"stdout": b"in b\n", "stderr": b"err\n"}
    assert await session.wait() == 6


async def test_killing_an_exec_ends_what_it_started(here: World):
    await here.cluster.create(POD, pod(script="sleep 60"))
    await here.until("p", lambda seen: "running" in state(seen)["state"])
    session = await here.cluster.exec("ns", "p", ["sh", "-c", f"sleep {ASLEEP} & echo up; sleep {ASLEEP}"])
    assert await anext(aiter(session.output())) == ("stdout", b"up\n")

    await session.kill()

    assert await session.wait() == 137
    assert sleepers() == 0


async def test_exec_into_what_does_not_run_is_refused(net: World):
    await net.run(pod())

    with pytest.raises(BadRequest, match="not running"):
        await net.cluster.exec("ns", "p", ["true"])
    with pytest.raises(NotFound):
        await net.cluster.exec("ns", "nobody", ["true"])


async def test_a_termination_message_is_read(here: World):
    path = "/dev/termination-log" if here.isolation == "net" else "$TRAINWRIGHT_TERMINATION_LOG"

    done = await here.run(pod(script=f'echo why > "{path}"; exit 1'))

    assert ended(done)["message"] == "why\n"


async def test_the_log_stands_in_for_a_missing_message(net: World):
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}

    done = await net.run(pod(script="echo one; echo two >&2; exit 1", container=policy))

    assert ended(done)["message"] == "one\ntwo"


async def test_a_post_start_hook_that_fails_ends_the_container(net: World):
    hook = {"postStart": {"exec": {"command": ["false"]}}}

    done = await net.run(pod(script="sleep 60", container={"lifecycle": hook}))

    assert ended(done)["exitCode"] == 143
    assert "FailedPostStartHook" in await net.reasons("p")


async def test_what_is_ignored_is_said_once(net: World):
    await net.run(pod(securityContext={"runAsUser": os.getuid() + 1}, hostNetwork=True))

    said = [event["message"] for event in await net.events("p") if event["reason"] == "Unsupported"]
    assert len(said) == 1
    assert "runAsUser" in said[0]
    assert "hostNetwork" in said[0]


async def test_a_pod_that_waits_for_a_volume_can_be_deleted(net: World):
    await net.cluster.create(POD, pod(volumes=[{"name": "v", "configMap": {"name": "never"}}]))
    await net.until("p", lambda seen: "message" in (state(seen)["state"].get("waiting") or {}))

    await net.cluster.delete(POD, "ns", "p")

    await asyncio.wait_for(net.gone("p"), 5)


async def test_a_pre_stop_hook_of_a_sidecar_runs_once(net: World, tmp_path: Path):
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {tmp_path}/hooks"]}}}
    sidecar = {"name": "side", "restartPolicy": "Always", "command": ["sleep", "60"], "lifecycle": hook}
    await net.cluster.create(POD, pod(script="echo up; exec sleep 60", initContainers=[sidecar]))
    await net.says("p", "up")

    await net.cluster.delete(POD, "ns", "p")
    await net.gone("p")

    assert (tmp_path / "hooks").read_text() == "hook\n"


async def test_following_one_run_ends_with_it(net: World):
    await net.cluster.create(POD, pod(script="echo run; sleep 0.1; exit 1", restartPolicy="Always"))
    await net.says("p", "run")

    assert await net.log("p", follow=True, restart=0) == "run\n"


@pytest.mark.parametrize("name", ["net", "ports"])
async def test_more_shared_memory_is_the_pods_own(tmp_path: Path, name: str):
    async with world(tmp_path, name) as here:
        volume = {"name": "shm", "emptyDir": {"medium": "Memory"}}
        mount = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}

        await here.run(pod(script="stat -f -c %T /dev/shm", container=mount, volumes=[volume]))

        assert await here.log("p") == "tmpfs\n"
