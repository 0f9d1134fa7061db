"""The certificates under which webhooks are served: made, followed by the next one in time, and read from a Secret.

Pure but for the randomness of keys; `trust` carries it out. Every certificate is signed by an authority of its own,
whose key is thrown away at once: nothing that is stored could sign another. A certificate is followed in two steps,
because an API server must trust the next one before anybody shows it:

    a third of its time is left      the next one is made and its authority is trusted besides
    all callers have heard of it     it is the one that is shown; the last one is trusted until it ends
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainwright.core.objects import Object
from trainwright.web.tls import private_pem, subject

CLOCKS_DIFFER = timedelta(minutes=5)
"""A certificate holds from so long before it was made: the API server's clock may be behind ours."""
_PEM = serialization.Encoding.PEM
_CURRENT, _NEXT, _TRUSTED = "tls", "next", "ca.crt"


@dataclass(frozen=True)
class Terms:
    """How long a certificate holds; what else must be known of time follows from that."""

    validity: timedelta = timedelta(days=90)

    @property
    def renewal(self) -> timedelta:
        """Return how much of its time a certificate has left when the next one is made."""
        return self.validity / 3

    @property
    def announcement(self) -> timedelta:
        """Return for how long the next one is trusted before it is shown."""
        return min(self.validity / 12, timedelta(minutes=5))


@dataclass(frozen=True)
class Pair:
    """A key and its certificate, which that of its authority follows; both as PEM."""

    chain: bytes
    key: bytes

    @property
    def pem(self) -> bytes:
        """Return both in one text."""
        return self.key + self.chain

    @cached_property
    def _certificates(self) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates(self.chain)

    @property
    def authority(self) -> bytes:
        """Return the certificate of who signed it."""
        return self._certificates[-1].public_bytes(_PEM)

    @property
    def made(self) -> datetime:
        """Return when it was made."""
        return self._certificates[0].not_valid_before_utc + CLOCKS_DIFFER

    @property
    def ends(self) -> datetime:
        """Return until when it holds."""
        return self._certificates[0].not_valid_after_utc

    def serves(self, hosts: Iterable[str], now: datetime) -> bool:
        """Say whether it holds now, and for all these names."""
        names = self._certificates[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return now < self.ends and all(subject(host) in names for host in hosts)


@dataclass(frozen=True)
class Kept:
    """What the Secret holds: the pair that is shown, the one that will follow it, and who is to be trusted."""

    current: Pair | None = None
    following: Pair | None = None
    trusted: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Return everyone who is to be trusted, in one text."""
        return b"".join(self.trusted)


def turn(kept: Kept, hosts: Iterable[str], terms: Terms, now: datetime, *, announced: bool) -> Kept:
    """Return what shall be kept from now on; `announced`: every caller has been told to trust the following pair."""
    hosts = tuple(hosts)
    current = kept.current if kept.current and kept.current.serves(hosts, now) else None
    following = kept.following if kept.following and kept.following.serves(hosts, now) else None
    if current is None:  # nobody can call any more: there is nothing to be careful about
        current, following = following or make(hosts, terms, now), None
    elif following is None:
        following = make(hosts, terms, now) if now >= current.ends - terms.renewal else None
    elif announced and now >= following.made + terms.announcement:
        current, following = following, None
    pairs = [pair.authority for pair in (current, following) if pair]
    trusted = (each for each in (*kept.trusted, *pairs) if now < _ends(each))
    return Kept(current, following, tuple(dict.fromkeys(trusted)))


def look_again(kept: Kept, terms: Terms, now: datetime) -> datetime | None:
    """Return when time alone makes something due again."""
    if kept.current is None:
        return None
    if kept.following is None:
        return kept.current.ends - terms.renewal
    shown = kept.following.made + terms.announcement
    return shown if now < shown else kept.current.ends  # it is late: callers have not all been told


def make(hosts: Iterable[str], terms: Terms, now: datetime) -> Pair:
    """Return a new pair for these names, signed by an authority of its own."""
    names = x509.SubjectAlternativeName([subject(host) for host in hosts])
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name(f"Trainwright webhooks {now:%Y-%m-%d %H:%M}")
    authority = (
        _begun(authority_name, authority_name, authority_key.public_key(), terms, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _begun(_name("Trainwright webhooks"), authority_name, key.public_key(), terms, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(signer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(_PEM) + authority.public_bytes(_PEM), private_pem(key))


def _begun(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, terms: Terms, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + terms.validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _ends(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# The Secret


def read(secret: Object) -> Kept:
    """Return what a Secret holds; what cannot be used is left out, and so made anew."""
    data = {name: _decoded(value) for name, value in (secret.get("data") or {}).items()}
    current, following = (
        _pair(data.get(f"{name}.crt", b""), data.get(f"{name}.key", b"")) for name in (_CURRENT, _NEXT)
    )
    return Kept(current, following, _split(data.get(_TRUSTED, b"")))


def change(kept: Kept) -> Object:
    """Return the merge patch that has a Secret hold this."""
    data: dict[str, str | None] = {_TRUSTED: _encoded(kept.bundle)}
    for name, pair in ((_CURRENT, kept.current), (_NEXT, kept.following)):
        data[f"{name}.crt"] = _encoded(pair.chain) if pair else None
        data[f"{name}.key"] = _encoded(pair.key) if pair else None
    return {"data": data}


def _pair(chain: bytes, key: bytes) -> Pair | None:
    try:
        certificates = x509.load_pem_x509_certificates(chain)
        public = serialization.load_pem_private_key(key, None).public_key()
        certificates[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return None
    return Pair(chain, key) if len(certificates) > 1 and certificates[0].public_key() == public else None


def _split(bundle: bytes) -> tuple[bytes, ...]:
    try:
        return tuple(each.public_bytes(_PEM) for each in x509.load_pem_x509_certificates(bundle))
    except ValueError:
        return ()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
