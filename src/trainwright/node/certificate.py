"""The node's own certificate for HTTPS, and who may ask it: the API server, known by the certificate it shows.

An API server does not check a kubelet's certificate unless it is told to, so a self-signed one, made anew at each
start, will do. The other way round it matters: whoever may ask a node may run commands in its pods.
"""

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trainwright.core.errors import HomeError

_VALID = timedelta(days=3650)
_CLOCKS_DIFFER = timedelta(hours=1)


def server_context(node: str, address: str, clients: Path | None) -> ssl.SSLContext:
    """Return what serves HTTPS as `node`; with `clients`, only to those who show a certificate from that file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # ssl reads certificates from files only
        file.write(self_signed(node, address))
        file.flush()
        context.load_cert_chain(file.name)
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
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(node), _general(address)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
