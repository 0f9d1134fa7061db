"""The node's own certificate for HTTPS, and who may ask it: the API server, known by the certificate it shows.

An API server does not check a kubelet's certificate unless it is told to, so a self-signed one, made anew at each
start, will do. The other way round it matters: whoever may ask a node may run commands in its pods.
"""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trainwright.core.errors import HomeError
from trainwright.web import tls

_VALID = timedelta(days=3650)
_CLOCKS_DIFFER = timedelta(hours=1)


def server_context(node: str, address: str, clients: Path | None) -> ssl.SSLContext:
    """Return what serves HTTPS as `node`; with `clients`, only to those who show a certificate from that file."""
    context = tls.server_context(self_signed(node, address))
    if clients is None:
        return context
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the client's own certificate will do, not only its issuer's
    try:
        context.load_verify_locations(clients)
    except (ssl.SSLError, FileNotFoundError) as error:
        raise HomeError(
            f"{clients} is no certificate: {error}; give the file that the API server has as "
            "--kubelet-client-certificate, or that of its issuer"
        ) from error
    return context


def self_signed(node: str, address: str) -> bytes:
    """Return a new key and a certificate for it, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"[:64]),
        ]
    )
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(node), tls.subject(address)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return tls.private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)
