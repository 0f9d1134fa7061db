"""Random values of objects that are made once: a decision only asks for them by name, and who acts puts them in.

The object is created with them or found to be there already; then its own values stand and these are forgotten.
"""

import asyncio
import base64
from typing import TYPE_CHECKING

from trainwright.core.actions import Create
from trainwright.core.objects import Object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_BITS = 2048


async def filled(action: Create) -> Object:
    """Return the object to create, with the values its decision asks for."""
    if not action.fill:
        return action.object
    data = await asyncio.to_thread(FILLS[action.fill])  # finding primes takes a while: the loop goes on meanwhile
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return {**action.object, "data": {**encoded, **(action.object.get("data") or {})}}


def ssh_keys() -> dict[str, bytes]:
    """Return a new key pair in the files that ssh and sshd look for."""
    from cryptography.hazmat.primitives.asymmetric import rsa  # costs 40 ms, which few jobs need to spend

    private, public = _written(rsa.generate_private_key(public_exponent=65537, key_size=_BITS))
    return {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}


def ssh_auth() -> dict[str, bytes]:
    """Return a new key pair under the names of a Secret of type ssh-auth.

    The MPI operator makes keys on the same curve. They take a fraction of a millisecond to make, and RSA takes 70.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    private, public = _written(ec.generate_private_key(ec.SECP521R1()))
    return {"ssh-privatekey": private, "ssh-publickey": public}


def _written(key: "RSAPrivateKey | EllipticCurvePrivateKey") -> tuple[bytes, bytes]:
    """Return a key and its public half as ssh reads them."""
    from cryptography.hazmat.primitives import serialization

    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"


FILLS = {"ssh-keys": ssh_keys, "ssh-auth": ssh_auth}
