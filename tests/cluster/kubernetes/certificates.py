"""Certificates for an afternoon: an authority, a server (127.0.0.1, kubernetes.test) and a client.

They are made anew for every run, so that no key is ever kept and none is ever out of date.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=1)
CLOCKS_DIFFER = timedelta(hours=1)
SERVER_NAMES = (x509.DNSName("kubernetes.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
CA_USAGE = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def make(folder: Path) -> None:
    """Write ca.pem, and server.pem and client.pem with the .key of each."""
    authority = ec.generate_private_key(ec.SECP256R1())
    ca = _unsigned("test authority", authority).add_extension(x509.BasicConstraints(True, None), critical=True)
    _write(folder / "ca.pem", ca.add_extension(CA_USAGE, critical=True), authority)

    for name, usage in (("server", ExtendedKeyUsageOID.SERVER_AUTH), ("client", ExtendedKeyUsageOID.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        issued = _unsigned(name, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if name == "server":
            issued = issued.add_extension(x509.SubjectAlternativeName(SERVER_NAMES), critical=False)
        _write(folder / f"{name}.pem", issued, authority)
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def _unsigned(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named("test authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + VALID)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write(path: Path, unsigned: x509.CertificateBuilder, authority: ec.EllipticCurvePrivateKey) -> None:
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # strict clients ask for it
    signed = unsigned.add_extension(signer, critical=False).sign(authority, hashes.SHA256())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
