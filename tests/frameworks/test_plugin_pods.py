"""What plugins make of pods that have something of their own already, and what Volcano's users know to find there."""

import base64

import pytest
from tests.frameworks.volcano import manifest

from trainwright.core.objects import Object
from trainwright.desired import KUBERNETES, render
from trainwright.kinds import VOLCANO_JOB


def made(obj: Object) -> dict[str, Object]:
    """Return every object of a job by kind and name."""
    desired = VOLCANO_JOB.build(VOLCANO_JOB.read(VOLCANO_JOB.default(obj)), KUBERNETES, 0)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in render(desired)}


def with_template(obj: Object, task: str, metadata: Object | None = None, **spec: object) -> Object:
    """Return the job with more in the template of one task."""
    for each in obj["spec"]["tasks"]:
        if each["name"] == task:
            each["template"] = {"metadata": metadata or {}, "spec": {**each["template"]["spec"], **spec}}
    return obj


def test_a_port_that_is_open_already_is_not_opened_twice():
    own = [{"name": "mine", "containerPort": 23456}]
    container = {"name": "main", "image": "x", "command": ["train"], "ports": own}
    plain = made(manifest("master:1 worker:1", pytorch=[]))["Pod/j-master-0"]["spec"]["containers"][0]

    opened = made(with_template(manifest("master:1 worker:1", pytorch=[]), "master", containers=[container]))

    found = opened["Pod/j-master-0"]["spec"]["containers"][0]
    assert found["ports"] == own
    assert found["env"] == plain["env"]


def test_a_wait_step_of_the_users_own_is_left_alone():
    own = [{"name": "wait-for-master", "image": "mine", "command": ["my-wait"]}]
    obj = with_template(
        manifest("master:1 worker:1", pytorch=["--wait-master-enabled=true"]), "worker", initContainers=own
    )

    (step,) = made(obj)["Pod/j-worker-0"]["spec"]["initContainers"]

    assert (step["name"], step["image"], step["command"]) == ("wait-for-master", "mine", ["my-wait"])


@pytest.mark.parametrize(
    ("pod", "own", "rank"),
    [
        pytest.param("master-1", {}, "1", id="a master has its index"),
        pytest.param("worker-1", {}, "3", id="workers come after the masters"),
        pytest.param("worker-1", {"hccl/rankIndex": "7"}, "7", id="what the user wrote is kept"),
        pytest.param("other-0", {}, None, id="others have none"),
    ],
)
def test_hcclrank(pod, own, rank):
    obj = manifest("master:2 worker:2 other:1", hcclrank=[])
    for task in ("master", "worker", "other"):
        with_template(obj, task, {"annotations": own})

    assert made(obj)[f"Pod/j-{pod}"]["metadata"]["annotations"].get("hccl/rankIndex") == rank


@pytest.mark.parametrize(
    ("flags", "path", "port"),
    [
        pytest.param([], "/root/.ssh", 22, id="root's own folder, and the usual port"),
        pytest.param(["--ssh-key-file-path=/a/b"], "/a/b", 22, id="another folder"),
        pytest.param(["--ssh-port=2026"], "/root/.ssh", 2026, id="another port"),
        pytest.param(["--ssh-port=-10"], "/root/.ssh", 22, id="a port that cannot be one is the usual one"),
        pytest.param(["--no-root"], "/etc/volcano-ssh", 22, id="a folder for everybody"),
    ],
)
def test_ssh(flags, path, port):
    objects = made(manifest("main:1", svc=[], ssh=flags))

    mounts = objects["Pod/j-main-0"]["spec"]["containers"][0]["volumeMounts"]
    assert [each["mountPath"] for each in mounts if each["name"] == "j-ssh"] == [path]
    config = base64.b64decode(objects["Secret/j-ssh"]["data"]["config"]).decode()
    assert f"Host j-main-0\n  HostName j-main-0.j\n  Port {port}\n" in config
