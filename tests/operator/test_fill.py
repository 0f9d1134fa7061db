"""Random values that are made once: key pairs that fit, and that a restart or a crash never replaces."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from tests.frameworks import volcano
from tests.reconcile.volcano import manifest
from tests.scenarios.world import World

from trainwright import frameworks
from trainwright.core.actions import Create
from trainwright.core.objects import Object
from trainwright.core.resources import SECRET
from trainwright.frameworks.base import HostNames
from trainwright.operator.fill import FILLS, filled


def secret(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": data}


def files(obj: Object) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in obj["data"].items()}


def are_a_pair(private: bytes, public: bytes) -> bool:
    key: Any = load_pem_private_key(private, None).public_key()
    other: Any = load_ssh_public_key(public)
    return bool(
        key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        == other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    )


async def test_what_asks_for_nothing_stays_as_it_is():
    obj = secret(config="eA==")

    assert await filled(Create(obj)) is obj


async def test_a_key_pair_comes_in_the_files_of_ssh_and_lets_its_owner_in():
    made = files(await filled(Create(secret(config="eA=="), fill="ssh-keys")))

    assert sorted(made) == ["authorized_keys", "config", "id_rsa", "id_rsa.pub"]
    assert are_a_pair(made["id_rsa"], made["id_rsa.pub"])
    assert made["authorized_keys"] == made["id_rsa.pub"]


async def test_a_key_pair_comes_under_the_names_of_an_ssh_auth_secret():
    made = files(await filled(Create(secret(), fill="ssh-auth")))

    assert are_a_pair(made["ssh-privatekey"], made["ssh-publickey"])


async def test_what_the_object_has_already_is_kept_and_the_decision_is_left_alone():
    asked = secret(id_rsa="bWluZQ==")

    made = await filled(Create(asked, fill="ssh-keys"))

    assert files(made)["id_rsa"] == b"mine"
    assert asked == secret(id_rsa="bWluZQ==")


@pytest.mark.parametrize(
    ("flags", "fill"),
    [
        pytest.param([], "ssh-keys", id="keys are asked for"),
        pytest.param(["--ssh-private-key=a", "--ssh-public-key=b"], "", id="unless the user has brought some"),
    ],
)
def test_what_the_ssh_plugin_asks_for_is_known(flags, fill):
    (create,) = frameworks.objects(volcano.job("main:1", ssh=flags), HostNames())

    assert create.fill == fill
    assert not fill or fill in FILLS


SCRIPT = "run worker-0 worker-1\nwait 60\nfail worker-0 3\nrun worker-0 worker-1"


@pytest.mark.parametrize("last", [None, 1, 2, 3, 4], ids=lambda last: f"killed after call {last}" if last else "alive")
async def test_a_job_keeps_its_keys_through_crashes_and_restarts(last):
    world = World(manifest("worker=2", "PodFailed:RestartJob", plugins={"ssh": []}), dies=lambda call: call == last)
    changes = world.cluster.watch(SECRET, since=(await world.cluster.list(SECRET)).version)

    await world.play(SCRIPT)

    there = await world.cluster.get(SECRET, "ns", "j-ssh")
    assert world.deaths == (1 if last else 0)
    assert there == (await anext(changes)).object, "it is as it was made"
    assert are_a_pair(files(there)["id_rsa"], files(there)["id_rsa.pub"])
    assert (await world.outcome())["status"]["retryCount"] == 1, "it was restarted"
