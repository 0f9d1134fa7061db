"""Who is served, what they may do to whose objects, and whose what they make is."""

import os
from datetime import UTC, datetime

import pytest

from trainwright.api.faces import RESOURCES
from trainwright.cluster.memory import Admit, MemoryCluster
from trainwright.core.errors import ClusterError, Forbidden, NotStored, Unauthorized
from trainwright.core.objects import Object, owner_reference
from trainwright.core.resources import CONFIG_MAP, POD, PRIORITY_CLASS, RESOURCE_QUOTA, SECRET, STATEFUL_SET
from trainwright.server.base import Caller
from trainwright.server.gate import LocalGate
from trainwright.server.users import STAMP, inheritance, owner_of, user_of
from trainwright.web.exchange import Peer, Request

OWN = os.getuid()
ROOT, DAEMON, BIN = Caller("root", 0), Caller("daemon", 1), Caller("bin", 2)
TOKEN = {"host": "127.0.0.1:7447", "authorization": "Bearer secret"}


def store() -> MemoryCluster:
    return MemoryCluster(RESOURCES, now=lambda: datetime.now(UTC))


def thing(name: str = "x", **meta: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **meta}}


def by_socket(uid: int) -> Request:
    return Request("GET", ("api",), {}, {}, Peer(1, uid, uid))


def by_port(**headers: str) -> Request:
    return Request("GET", ("api",), {}, headers)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        pytest.param(by_port(**TOKEN), None, id="who knows the token is the server's user"),
        pytest.param(by_port(**{**TOKEN, "host": "localhost"}), None, id="by a name of this machine"),
        pytest.param(by_port(**{**TOKEN, "host": "[::1]:80"}), None, id="by an address of this machine"),
        pytest.param(by_port(host="127.0.0.1"), Unauthorized, id="without the token"),
        pytest.param(by_port(**{**TOKEN, "authorization": "Bearer other"}), Unauthorized, id="with another token"),
        pytest.param(by_port(**{**TOKEN, "authorization": "Basic secret"}), Unauthorized, id="in another way"),
        pytest.param(by_port(**{**TOKEN, "host": "evil.example:7447"}), Forbidden, id="by a name that leads here"),
        pytest.param(by_port(authorization="Bearer secret"), Forbidden, id="by no name"),
        pytest.param(by_port(**TOKEN, origin="http://evil.example"), Forbidden, id="a page from elsewhere"),
        pytest.param(by_port(**TOKEN, origin="null"), Forbidden, id="a page from nowhere"),
        pytest.param(by_port(**TOKEN, origin="http://127.0.0.1:7447"), None, id="a page of the server's own"),
        pytest.param(by_socket(OWN), None, id="the server's own user by the socket"),
        pytest.param(by_socket(0), None, id="root by the socket"),
        pytest.param(by_socket(OWN + 1), Forbidden, id="another user by the socket"),
    ],
)
def test_a_server_for_one_user(asked: Request, error: type[ClusterError] | None):
    gate = LocalGate(store(), "secret")
    if error is None:
        gate.caller(asked)
        return
    with pytest.raises(error):
        gate.caller(asked)


def test_others_are_told_what_to_do():
    with pytest.raises(Forbidden, match=r"serves only .* start your own with: tw serve"):
        LocalGate(store(), "secret").caller(by_socket(OWN + 1))


def test_a_server_for_all_knows_who_asks():
    gate = LocalGate(store(), "secret", everybody=True)
    assert gate.caller(by_socket(1)) == DAEMON
    with pytest.raises(Forbidden, match="in no user database"):
        gate.caller(by_socket(987654))


@pytest.mark.parametrize(
    ("caller", "verb", "resource", "allowed"),
    [
        pytest.param(DAEMON, "delete", POD, True, id="one's own"),
        pytest.param(BIN, "delete", POD, False, id="another's is not deleted"),
        pytest.param(BIN, "change", CONFIG_MAP, False, id="another's is not changed"),
        pytest.param(BIN, "exec", POD, False, id="another's is not entered"),
        pytest.param(BIN, "log", POD, True, id="another's logs are read"),
        pytest.param(BIN, "get", SECRET, False, id="another's secrets are not read"),
        pytest.param(ROOT, "delete", POD, True, id="root may everything"),
    ],
)
@pytest.mark.skipif(OWN != 0, reason="a server that serves everybody is root's")
def test_whose_objects_who_may_touch(caller, verb, resource, allowed):
    gate = LocalGate(store(), everybody=True)
    obj = thing(annotations={STAMP: "1"})
    if allowed:
        gate.allow(caller, verb, resource, obj)
        return
    with pytest.raises(Forbidden, match=rf"belongs to daemon: {verb} is not for bin"):
        gate.allow(caller, verb, resource, obj)


def test_what_is_submitted_is_stamped_whatever_it_says():
    gate = LocalGate(store(), everybody=True)
    made = gate.admit(DAEMON, CONFIG_MAP, thing(annotations={STAMP: "0", "other": "kept"}), None)
    assert made["metadata"]["annotations"] == {STAMP: "1", "other": "kept"}


@pytest.mark.parametrize("resource", [RESOURCE_QUOTA, PRIORITY_CLASS])
def test_what_others_have_to_keep_to_is_set_by_root(resource):
    gate = LocalGate(store(), everybody=True)

    with pytest.raises(Forbidden, match="ask root"):
        gate.admit(DAEMON, resource, thing(), None)
    gate.admit(ROOT, resource, thing(), None)


def test_a_server_for_one_user_stamps_nothing():
    assert LocalGate(store()).admit(ROOT, CONFIG_MAP, thing(), None) == thing()


def test_nothing_new_is_accepted_while_nothing_can_be_kept():
    gate = LocalGate(store(), trouble=lambda: "store: the disk is full")
    with pytest.raises(NotStored, match="nothing new is accepted, because it could not be kept: store: the disk is"):
        gate.admit(ROOT, CONFIG_MAP, thing(), None)
    assert gate.admit(ROOT, CONFIG_MAP, thing(), thing()) == thing(), "what is there may be changed, and ended"


class TestInheritance:
    """What is made for an object is its owner's, whoever else a template names."""

    def cluster(self) -> MemoryCluster:
        rules: list[Admit] = []
        cluster = MemoryCluster(
            RESOURCES, now=lambda: datetime.now(UTC), admit=lambda row, new, old: rules[0](row, new, old)
        )
        rules.append(inheritance(cluster))
        return cluster

    async def owner(self, cluster: MemoryCluster, uid: str = "1") -> Object:
        meta = {"name": "owner", "namespace": "default", "annotations": {STAMP: uid}}
        return await cluster.create(STATEFUL_SET, {"metadata": meta, "spec": {}})

    async def test_a_child_has_its_owners_stamp(self):
        cluster = self.cluster()
        owner = await self.owner(cluster)
        meta = {"ownerReferences": [owner_reference(owner)], "annotations": {STAMP: "0"}}
        child = await cluster.create(CONFIG_MAP, thing("child", **meta))
        assert owner_of(child) == 1

    async def test_a_stamp_cannot_be_changed_or_taken_away(self):
        cluster = self.cluster()
        await self.owner(cluster)
        for stamp in ("0", None):
            patch = {"metadata": {"annotations": {STAMP: stamp}, "labels": {"x": str(stamp)}}}
            assert owner_of(await cluster.patch(STATEFUL_SET, "default", "owner", patch)) == 1

    @pytest.mark.parametrize(
        ("uid", "good"),
        [
            pytest.param(1, True, id="on one's own object"),
            pytest.param(2, False, id="on somebody else's, to run as that one"),
        ],
    )
    async def test_hanging_an_object(self, uid, good):
        cluster = self.cluster()
        owner = await self.owner(cluster)
        gate = LocalGate(cluster, everybody=True)
        child = thing("child", ownerReferences=[owner_reference(owner)])
        if good:
            assert owner_of(gate.admit(Caller("", uid), CONFIG_MAP, child, None)) == uid
            return
        with pytest.raises(Forbidden, match="is not an object of yours"):
            gate.admit(Caller("", uid), CONFIG_MAP, child, None)


def test_a_pod_runs_as_its_owner():
    assert user_of(thing()) is None
    if OWN == 0:
        user = user_of(thing(annotations={STAMP: "1"}))
        assert user
        assert (user.name, user.uid) == ("daemon", 1)
