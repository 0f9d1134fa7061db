"""Random values of objects that are made once: a decision only asks for them by name, and who acts puts them in.

The object is created with them or found to be there already; then its own values stand and these are forgotten.
"""

import asyncio
import base64

from trainwright.core.actions import Create
from trainwright.core.objects import Object

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
    private, public = _key_pair()
    return {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}


def ssh_auth() -> dict[str, bytes]:
    """Return a new key pair under the names of a Secret of type ssh-auth."""
    private, public = _key_pair()
    return {"ssh-privatekey": private, "ssh-publickey": public}


def _key_pair() -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives import serialization  # costs 40 ms, which few jobs need to spend
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"


FILLS = {"ssh-keys": ssh_keys, "ssh-auth": ssh_auth}
