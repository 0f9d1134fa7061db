"""TLS, the server's side: what serves HTTPS with a key and its certificate, and what makers of certificates share."""

import contextlib
import ipaddress
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def server_context(pem: bytes) -> ssl.SSLContext:
    """Return what serves HTTPS with a key and its certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _as_file(pem) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Yield a path under which ssl, which reads files only, finds data; on Linux no disk ever sees it."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(data)
            file.flush()
            yield file.name


def subject(host: str) -> x509.GeneralName:
    """Return a host as certificates name it: an address, or a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM, for our own eyes only."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
