"""Pods of several users on one node: what each finds, and what none gets of another's."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.node.world import config_map, ended, pod, world

from trainwright.cluster.memory import MemoryCluster
from trainwright.core.errors import BadRequest
from trainwright.core.objects import Object
from trainwright.core.resources import BUILT_IN, POD, ROLE, ROLE_BINDING, SECRET, SUPPORTING
from trainwright.node import environment
from trainwright.node.base import Process, User
from trainwright.node.channel import Received
from trainwright.node.pod_requests import Requests

OTHER = User("daemon", 1, 1, (1,), "/usr/sbin", "/bin/sh")
OWNER = "whose"


def user_of(obj: Object) -> User | None:
    return OTHER if (obj["metadata"].get("labels") or {}).get(OWNER) == "daemon" else None


THEIRS = {"labels": {OWNER: "daemon"}}


def test_what_of_the_callers_variables_another_user_finds():
    caller = {"PATH": "/bin", "LC_ALL": "C", "https_proxy": "x", "NO_PROXY": "y", "TOKEN": "secret", "HOME": "/root"}
    assert environment.of_user(caller, OTHER) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "https_proxy": "x",
        "NO_PROXY": "y",
        "HOME": "/usr/sbin",
        "USER": "daemon",
        "LOGNAME": "daemon",
        "SHELL": "/bin/sh",
    }


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
async def test_a_pod_of_another_user(tmp_path: Path):
    script = "id -u; id -g; pwd; cat /secret/key; touch /scratch/x && echo wrote; grep NoNewPrivs /proc/self/status"
    volumes = [{"name": "s", "secret": {"secretName": "s"}}, {"name": "e", "emptyDir": {}}]
    mounts = [{"name": "s", "mountPath": "/secret"}, {"name": "e", "mountPath": "/scratch"}]
    async with world(tmp_path, "net", user_of=user_of) as here:
        meta = {"name": "s", "namespace": "ns", **THEIRS}
        await here.cluster.create(SECRET, {"metadata": meta, "stringData": {"key": "mine\n"}})
        wanted = pod(script=script, container={"volumeMounts": mounts}, volumes=volumes, meta=THEIRS)
        done = await here.run(wanted)
        assert done["status"]["phase"] == "Succeeded", ended(done)
        assert await here.log("p") == "1\n1\n/usr/sbin\nmine\nwrote\nNoNewPrivs:\t1\n"


@pytest.mark.parametrize(
    ("owner", "good"),
    [
        pytest.param({}, True, id="one's own"),
        pytest.param(THEIRS, False, id="another's"),
    ],
)
async def test_a_pod_gets_secrets_of_its_own_user_only(tmp_path: Path, owner: Object, good: bool):
    variable = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x"}}}
    async with world(tmp_path, "net", user_of=user_of) as here:
        await here.cluster.create(
            SECRET, {"metadata": {"name": "s", "namespace": "ns", **owner}, "data": {"x": "eA=="}}
        )
        done = await here.run(pod(script="echo $X", container={"env": [variable]}))
    assert done["status"]["phase"] == ("Succeeded" if good else "Failed")
    assert good or "belongs to another user" in ended(done)["message"]


async def test_config_maps_are_for_all(tmp_path: Path):
    variable = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "x"}}}
    async with world(tmp_path, "net", user_of=user_of) as here:
        made = config_map("c", x="shared")
        made["metadata"].update(THEIRS)
        await here.cluster.create(next(row for row in BUILT_IN if row.kind == "ConfigMap"), made)
        await here.run(pod(script="echo $X", container={"env": [variable]}))
        assert await here.log("p") == "shared\n"


@pytest.mark.parametrize(
    ("owner", "good"),
    [
        pytest.param({}, True, id="of its own user"),
        pytest.param(THEIRS, False, id="of another user, whatever its Role says"),
    ],
)
async def test_a_pod_runs_commands_in_pods(owner: Object, good: bool):
    cluster = MemoryCluster((*BUILT_IN, *SUPPORTING), now=lambda: datetime.now(UTC))
    asking = await cluster.create(POD, pod("asks", serviceAccountName="any"))
    await cluster.create(POD, pod("target", meta=owner))
    rule = {"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get", "create"]}
    await cluster.create(ROLE, {"metadata": {"name": "r", "namespace": "ns"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "any", "namespace": "ns"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    bound = {"metadata": {"name": "b", "namespace": "ns"}, "roleRef": role, "subjects": [subject]}
    await cluster.create(ROLE_BINDING, bound)

    async def execute(
        namespace: str, pod: str, command: list[str], container: str, stdio: tuple[int | None, int, int]
    ) -> Process:
        del namespace, pod, command, container, stdio
        raise BadRequest("it would run")

    async def gone() -> None: ...

    request = {"verb": "exec", "namespace": "", "pod": "target", "container": "", "command": ["id"], "stdin": False}
    with pytest.raises(BadRequest, match="it would run" if good else "belongs to another user"):
        await Requests(cluster, execute, user_of).answer(asking, Received(request, [0, 1, 2], 0), gone)
