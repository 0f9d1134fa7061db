"""Sockets that listen on an address of this machine."""

import os
import socket

from trainwright.core.errors import HomeError


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; no host means all addresses of this machine, port 0 a free port."""
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=everywhere)
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise HomeError(f"cannot listen on {shown}:{port}: {why}; name another address") from error
