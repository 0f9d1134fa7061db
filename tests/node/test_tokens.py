"""Tokens of pods: asked for once, bound to the pod, and asked for again before they end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainwright.core.objects import Object
from trainwright.node.tokens import Tokens, Wish

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POD: Object = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
    "spec": {"serviceAccountName": "launcher", "containers": []},
}


class Server:
    """An API server that counts the tokens it gives, at a time that tests set."""

    def __init__(self, granted: int | None = None) -> None:
        self.now = NOON
        self.asked: list[tuple[str, str, Object]] = []
        self._granted = granted

    async def issue(self, namespace: str, account: str, request: Object) -> Object:
        self.asked.append((namespace, account, request))
        spec = {**request["spec"], "expirationSeconds": self._granted or request["spec"]["expirationSeconds"]}
        return {"spec": spec, "status": {"token": f"token-{len(self.asked)}"}}


async def test_a_token_is_bound_to_the_pod_and_of_its_account():
    server = Server()

    given = await Tokens(server.issue, lambda: NOON).current(POD, [Wish(seconds=3607)])

    assert given == {Wish(seconds=3607): "token-1"}
    namespace, account, request = server.asked[0]
    assert (namespace, account) == ("ns", "launcher")
    assert request["spec"] == {
        "expirationSeconds": 3607,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"},
    }


async def test_another_audience_is_another_token():
    server = Server()

    given = await Tokens(server.issue, lambda: NOON).current(POD, [Wish(), Wish("vault")])

    assert given == {Wish(): "token-1", Wish("vault"): "token-2"}
    assert server.asked[1][2]["spec"]["audiences"] == ["vault"]


@pytest.mark.parametrize(
    ("granted", "minutes", "token"),
    [
        pytest.param(None, 47, "token-1", id="it is kept for four fifths of its life"),
        pytest.param(None, 48, "token-2", id="then another one is asked for"),
        pytest.param(600, 8, "token-2", id="what counts is the life it was given, not the one asked for"),
    ],
)
async def test_a_token_is_renewed_before_it_ends(granted, minutes, token):
    server = Server(granted)
    tokens = Tokens(server.issue, lambda: server.now)
    await tokens.current(POD, [Wish()])

    server.now += timedelta(minutes=minutes)

    assert await tokens.current(POD, [Wish()]) == {Wish(): token}


@pytest.mark.parametrize(
    ("source", "wish"),
    [
        pytest.param({"path": "token"}, Wish("", 3600), id="an hour, for the API server, unless said otherwise"),
        pytest.param({"expirationSeconds": 600, "audience": "vault"}, Wish("vault", 600), id="as said"),
    ],
)
def test_what_a_volume_asks_for(source: dict[str, Any], wish: Wish):
    assert Wish.read(source) == wish
