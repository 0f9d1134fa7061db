"""Certificates: when the next one is made, when it is shown, and for how long each is trusted."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from trainwright.core.objects import Object
from trainwright.operator.certificates import (
    Kept,
    Pair,
    Terms,
    change,
    look_again,
    make,
    read,
    turn,
)
from trainwright.web.tls import server_context

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTS = ("trainwright.system.svc", "127.0.0.1")
TERMS = Terms(timedelta(days=90))
FIRST = turn(Kept(), HOSTS, TERMS, NOON, announced=False)


def at(kept: Kept, days: float, *, announced: bool = True, hosts: tuple[str, ...] = HOSTS) -> Kept:
    """Return what is kept so many days after the first certificate was made."""
    return turn(kept, hosts, TERMS, NOON + timedelta(days=days), announced=announced)


def told(kept: Kept, *known: Pair) -> str:
    """Return what is kept in words: the pairs by their place among the known ones, and how many are trusted."""
    names = {pair: f"#{number}" for number, pair in enumerate(known, 1)}
    current, following = (names.get(pair, "new") if pair else "none" for pair in (kept.current, kept.following))
    return f"{current}, then {following}, {len(kept.trusted)} trusted"


def current(kept: Kept) -> Pair:
    assert kept.current
    return kept.current


SECOND = at(FIRST, 61)
"""The next one is made, and not shown yet."""
THIRD = at(SECOND, 61.1)
"""It is shown."""
NEXT = current(THIRD)


@pytest.mark.parametrize(
    ("kept", "days", "announced", "said"),
    [
        pytest.param(Kept(), 0, False, "new, then none, 1 trusted", id="without one, one is made"),
        pytest.param(FIRST, 0, False, "#1, then none, 1 trusted", id="a new one stays"),
        pytest.param(FIRST, 59.9, False, "#1, then none, 1 trusted", id="for two thirds of its time"),
        pytest.param(FIRST, 60, False, "#1, then new, 2 trusted", id="then the next is trusted, but not shown"),
        pytest.param(SECOND, 61.001, True, "#1, then #2, 2 trusted", id="nor at once, for callers hear of it late"),
        pytest.param(SECOND, 62, False, "#1, then #2, 2 trusted", id="nor before all callers were told"),
        pytest.param(SECOND, 61.1, True, "#2, then none, 2 trusted", id="then it is shown, and both are trusted"),
        pytest.param(THIRD, 89.9, True, "#2, then none, 2 trusted", id="as long as the first holds"),
        pytest.param(THIRD, 90.1, True, "#2, then none, 1 trusted", id="who has ended is not trusted any more"),
        pytest.param(SECOND, 90.1, False, "#2, then none, 1 trusted", id="the next one steps in for one that ended"),
        pytest.param(FIRST, 90.1, False, "new, then none, 1 trusted", id="all ended: there is a new one at once"),
        pytest.param(Kept(FIRST.current), 1, False, "#1, then none, 1 trusted", id="trust that was lost comes back"),
    ],
)
def test_turn(kept, days, announced, said):
    assert told(at(kept, days, announced=announced), current(FIRST), NEXT) == said


def test_a_certificate_for_other_names_is_replaced_at_once():
    moved = at(FIRST, 1, hosts=("trainwright.elsewhere.svc",))

    assert told(moved, current(FIRST)) == "new, then none, 2 trusted"
    assert at(moved, 1, hosts=("trainwright.elsewhere.svc",)) == moved


@pytest.mark.parametrize(
    ("kept", "now", "days"),
    [
        pytest.param(FIRST, 0, 60, id="when the next one is to be made"),
        pytest.param(SECOND, 61, 61 + 5 / 1440, id="when it is to be shown"),
        pytest.param(SECOND, 62, 90, id="if callers know too little of it, when it must be"),
        pytest.param(THIRD, 61.1, 121, id="and so on"),
        pytest.param(Kept(), 0, None, id="never for nothing"),
    ],
)
def test_look_again(kept, now, days):
    found = look_again(kept, TERMS, NOON + timedelta(days=now))

    assert found == (None if days is None else NOON + timedelta(days=days))


def secret(kept: Kept, **data: str) -> Object:
    """Return the Secret that keeps it, or has other texts in some places."""
    written = {name: value for name, value in change(kept)["data"].items() if value is not None}
    return {"data": {**written, **{name: base64.b64encode(text.encode()).decode() for name, text in data.items()}}}


@pytest.mark.parametrize("kept", [FIRST, SECOND, THIRD])
def test_a_secret_keeps_it(kept):
    assert read(secret(kept)) == kept


def test_what_was_announced_is_removed_once_it_is_shown():
    assert change(SECOND)["data"]["next.key"]
    assert change(THIRD)["data"]["next.key"] is None


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"data": None}, id="no data"),
        pytest.param(secret(FIRST, **{"tls.crt": "x"}), id="no certificate"),
        pytest.param(secret(FIRST, **{"tls.key": "x"}), id="no key"),
        pytest.param(secret(FIRST, **{"tls.key": NEXT.key.decode()}), id="another's key"),
    ],
)
def test_what_cannot_be_used_is_as_good_as_nothing(found):
    assert read(found).current is None


def test_a_bundle_that_cannot_be_read_is_made_anew():
    assert at(read(secret(FIRST, **{"ca.crt": "x"})), 1).trusted == FIRST.trusted


def test_nothing_that_is_kept_could_sign_another():
    leaf, authority = x509.load_pem_x509_certificates(current(FIRST).chain)

    leaf.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert b"PRIVATE KEY" not in current(FIRST).chain + FIRST.bundle
    assert authority.public_key() != load_pem_private_key(current(FIRST).key, None).public_key()


@pytest.mark.parametrize(
    ("host", "trusted", "fault"),
    [
        pytest.param("trainwright.system.svc", FIRST, "", id="who trusts its authority talks to it"),
        pytest.param("127.0.0.1", FIRST, "", id="by address too"),
        pytest.param("127.0.0.1", SECOND, "", id="and beside another"),
        pytest.param("other.system.svc", FIRST, "mismatch", id="not under another name"),
        pytest.param("127.0.0.1", Kept(trusted=(NEXT.authority,)), "verify failed", id="not with another authority"),
    ],
)
def test_a_handshake(host, trusted, fault):
    fresh = make(HOSTS, TERMS, datetime.now(UTC))
    bundle = trusted.bundle.replace(current(FIRST).authority, fresh.authority)
    client = ssl.create_default_context(cadata=bundle.decode())

    said = shaken(server_context(fresh.pem), client, host)

    assert fault in said
    assert bool(fault) == bool(said), said


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Return why two sides cannot talk to each other; nothing if they can."""
    sides = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    (to_server, from_server), (to_client, from_client) = sides
    ours = server.wrap_bio(to_server, from_server, server_side=True)
    theirs = client.wrap_bio(to_client, from_client, server_hostname=host)
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return str(error).lower()
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    return "" if theirs.getpeercert() else "no certificate was shown"
